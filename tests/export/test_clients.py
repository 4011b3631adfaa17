"""Clients read the answers of models, and show them."""

import types

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.export.clients import scoring
from electra_tf.export.clients import text_models
from electra_tf.modeling import networks
from tests.export import conftest


def scored(text, probabilities):
    """A scored text whose words are separated by single blanks."""
    words, start = [], 0
    for word, probability in zip(text.split(" "), probabilities, strict=True):
        end = start + len(word.encode())
        words.append(scoring.ScoredWord(word, start, end, probability))
        start = end + 1
    return scoring.ScoredText(text.encode(), tuple(words), 0)


@pytest.fixture(scope="module")
def build(tiny_run):
    """A model of the run's discriminator that gives such answers."""
    return lambda answer: text_models.InMemoryModel(
        conftest.build_module(tiny_run, answer=answer)
    )


class StubExport(text_models.TextModel):
    """An export of a fine-tuned model that gives these answers."""

    folder = "folder"

    def __init__(self, signature, rows=(), **metadata):
        defaults = {"labels": (), "scores": None, "qa_na_threshold": -1.0,
                    "threshold": None, "task": "own"}  # fmt: skip
        self.metadata = types.SimpleNamespace(
            signatures=(signature,), **(defaults | metadata)
        )
        self.rows = rows

    def predict(self, signature, **columns):
        assert signature in self.metadata.signatures
        texts = ([text.encode() for text in c] for c in columns.values())
        return zip(zip(*texts, strict=True), self.rows, strict=True)


def describe(export, **inputs):
    return list(export.describe(inputs))


def test_texts_of_like_length_go_together_and_come_back_in_order(build):
    detector = build(networks.Answer.REPLACED)
    texts = ["the cat sat on the mat", "dog"] * 40
    answered = list(detector.predict("score_text", texts=texts))
    assert [data.decode() for (data,), _ in answered] == texts
    counts = [int(row["num_tokens"]) for _, row in answered]
    assert counts == [8, 3] * 40
    # The first 32 of the short ones were padded to no more than themselves.
    widths = [row["input_ids"].size for _, row in answered[1:64:2]]
    assert widths == [3] * 32
    wanted = ("num_tokens",)
    rows = detector.predict("score_text", outputs=wanted, texts=texts[:3])
    assert [list(row) for _, row in rows] == [["num_tokens"]] * 3


def test_swap_exchanges_the_first_whole_word():
    swap = scoring.swap_word("Über at, atlas at", "at:on top of")
    assert swap.data.decode() == "Über on top of, atlas at"
    assert (swap.start, swap.old_end) == (6, 8)
    assert swap.data[swap.start : swap.new_end] == b"on top of"


def test_likelihoods_of_words_add_up_to_the_sentence(build):
    texts = ["Unaffable cats sat.", "", "the cat " * 20]
    result, empty, long = build(networks.Answer.ENERGY).score(texts)
    assert [w.text for w in result.words] == ["Unaffable", "cats", "sat", "."]
    total = sum(word.log_likelihood for word in result.words)
    assert result.pseudo_log_likelihood == pytest.approx(total, rel=1e-5)
    assert result.pseudo_log_likelihood != 0
    worst = min(result.words, key=lambda word: word.log_likelihood)
    assert result.most_suspicious() == (worst,)
    assert (empty.words, empty.pseudo_log_likelihood) == ((), 0.0)
    assert (len(long.words), long.num_truncated) == (22, 18)


def test_text_cannot_steer_the_terminal(capsys):
    sentence = scored("evil\x1b[31m\n\u202eword [red]x[/red]", [0.9, 0.1])
    scoring.print_scored([sentence])
    text = capsys.readouterr().out
    assert "[red]x[/red]" in text and not {"\x1b", "\u202e"} & {*text}


def test_texts_are_printed_with_tables_marks_and_what_was_cut(capsys):
    cut = scored("the banana sat", [0.0, 0.5, 0.1])._replace(num_truncated=7)
    scoring.print_scored([cut, scored("c d", [0.9, 0.1])])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["word", "replaced"],
        ["the", "0.000"],
        ["banana", "0.500", "#" * 15, "<--", "most", "suspicious"],
        ["sat", "0.100", "###"],
    ]
    marked = [line for line in lines if ">>" in line]
    assert marked == ["the >>banana<< sat", ">>c<< d"]
    assert len([line for line in lines if line.startswith("(7 tokens")]) == 1


SHARES, SCORE = np.float32([0.3, 0.7]), np.float32(1.25)
ROWS = {
    "classify_text": {"probabilities": SHARES, "num_truncated": 2},
    "label_text": {"probabilities": SHARES, "num_truncated": 0},
    "compare_pair_text": {"choice_score": SCORE, "num_truncated": 0},
    "regress_pair_text": {"score": SCORE, "num_truncated": 0},
    "tag_text": {
        "words": np.array(["é".encode(), b"cats", b"sat", b"on", b""]),
        "num_words": 4,
        "tags": np.array([b"O", b"B-NP", b"I-NP", b"B-VP", b""]),
        "tag_probabilities": np.float32([0.5, 0.25, 0.125, 0, 0]),
        "tagged_starts": np.int32([0, 3, 8, 13, -1]),
        "tagged_ends": np.int32([2, 7, 11, 15, -1]),
        "num_truncated": 1,
    },
}


@pytest.mark.parametrize(
    ("signature", "metadata", "inputs", "lines"),
    [
        ("classify_text", {"kind": "classification", "labels": ("poor", "ok")},
         {"texts": ["evil\x1b[31m"]},
         ["evil [31m", f"  ok    0.700  {'#' * 21}",
          f"  poor  0.300  {'#' * 9}"]),
        ("regress_pair_text",
         {"kind": "regression", "min_value": 0.0, "max_value": 5.0},
         {"texts": ["the cat"], "text_pairs": ["the dog"]},
         ["the cat", "the dog", "  1.250 (trained on 0 to 5)"]),
        ("label_text",
         {"kind": "multilabel", "labels": ("new", "ok"), "threshold": 0.5},
         {"texts": ["a"]},
         ["a", f"  ok   0.700  {'#' * 21} <-- 0.5 or more",
          f"  new  0.300  {'#' * 9}"]),
        ("label_text",
         {"kind": "multilabel", "labels": ("a", "b"), "threshold": 0.8},
         {"texts": ["a"]},
         ["a", f"  b  0.700  {'#' * 21}", f"  a  0.300  {'#' * 9}",
          "  (none of 0.8 or more)"]),
        ("compare_pair_text", {"kind": "ranking"},
         {"texts": ["why?"], "text_pairs": ["dog"]},
         ["why?", "  1.000     1.250  dog"]),
        ("tag_text", {"kind": "tagging"}, {"texts": ["é cats sat  on"]},
         ["é cats sat  on", "  é     O         0.500",
          "  cats  B-NP      0.250", "  sat   I-NP      0.125",
          "  on    B-VP      0.000"]),
    ],
)  # fmt: skip
def test_predictions_stand_below_their_texts(
    signature, metadata, inputs, lines
):
    export = StubExport(signature, [ROWS[signature]], **metadata)
    (text,) = describe(export, **inputs)
    assert text.splitlines() == lines


def predict(signature, text, metadata, rows=None):
    export = StubExport(signature, rows or [ROWS[signature]], **metadata)
    names = ("questions", "contexts") if rows else ("texts",)
    inputs = dict.fromkeys(names, [text])
    ((_, found),) = export.answer(inputs)
    return found


def test_words_and_spans_count_characters():
    text = "é cats sat  on"
    tags = {"kind": "tagging", "labels": ("O", "B-NP", "I-NP", "B-VP")}
    found = predict("tag_text", text, tags)
    assert found.words[0] == ("é", 0, 1, "O", 0.5)
    assert [text[w.start : w.end] for w in found.words] == text.split()
    # The least sure of its words says how sure a span is.
    assert found.spans == (
        ("cats sat", 2, 10, "NP", 0.125),
        ("on", 12, 14, "VP", 0.0),
    )
    tags["labels"] = ("DET", "NOUN")
    assert predict("tag_text", text, tags).spans == ()


def test_an_answer_is_believed_up_to_the_threshold():
    qa = {"kind": "question_answering"}
    row = answer("the cat", 2, 9, 3, 10) | {"null_odds": -1.5}
    context = "Ä the cat sat"
    found = predict("answer_text", context, qa, [row])
    assert context[found.start : found.end] == found.text == "the cat"
    assert (found.score, found.null_odds) == (1.5, -1.5)
    assert found.is_answerable
    # The best one on dev counts more than the setting.
    known = qa | {"scores": {"dev": {"best_f1_thresh": -1.75}}}
    assert not predict("answer_text", context, known, [row]).is_answerable
    none = answer("", 0, 0, 0, 0) | {"null_odds": -5.0}
    assert not predict("answer_text", context, qa, [none]).is_answerable


def answer(text, *places):
    names = ("answer_starts", "answer_ends",
             "answer_byte_starts", "answer_byte_ends")  # fmt: skip
    found = {"answers": np.bytes_(text), "answer_scores": 1.5}
    return found | {"null_odds": -2.0} | dict(zip(names, places, strict=True))


def test_answers_are_marked_in_their_context():
    rows = [answer("the cat", 2, 9, 3, 10), answer("", 0, 0, 0, 0)]
    export = StubExport("answer_text", rows, kind="question_answering")
    found, none = describe(
        export, questions=["who?", "what?"], contexts=["Ä the cat sat"]
    )
    assert found.splitlines() == [
        "who?",
        "  the cat",
        "  characters 2 to 9, score 1.500, null odds -2.000",
        "  Ä >>the cat<< sat",
    ]
    assert none.splitlines()[1] == "  (none)"
    assert none.splitlines()[3] == "  Ä the cat sat"
    # Of a long context 200 bytes are shown on either side.
    export.rows = [answer("cat", 300, 303, 300, 303)]
    context = "x" * 300 + "cat" + "y" * 300
    (text,) = describe(export, questions=["who?"], contexts=[context])
    assert text.splitlines()[3] == f"  {'x' * 200}>>cat<<{'y' * 200}"


MASKED = {
    "the [MASK] sat .": "[CLS] the [MASK] sat . [SEP]",
    "[MASK]": "[CLS] [MASK] [SEP]",
    "The cats([MASK])!": "[CLS] the cat ##s ( [MASK] ) ! [SEP]",
    "un[MASK]able": "[CLS] un [MASK] [UNK] [SEP]",
    "[MASK][MASK] cat": "[CLS] [MASK] [MASK] cat [SEP]",
    "[mask] [MASK]": "[CLS] [UNK] [UNK] [UNK] [MASK] [SEP]",
}


def test_fillings_are_the_generators_for_each_row_whatever_the_others(electra):
    vocabulary = electra.vocabulary
    together = electra.fill_masks([*MASKED], top_k=4)
    for filled, tokens in zip(together, MASKED.values(), strict=True):
        ids = [vocabulary.id_of(token) for token in tokens.split()]
        places = [n for n, id in enumerate(ids) if id == vocabulary.mask_id]
        alone = conftest.as_ids([ids])
        alone["segment_ids"] = np.zeros_like(alone["input_ids"])
        probabilities = tf.nn.softmax(electra.generator(alone)[0]).numpy()
        for row, position in zip(filled, places, strict=True):
            found, values = zip(*row, strict=True)
            expected = probabilities[position]
            best = np.argsort(-expected, kind="stable")[:4]
            assert list(found) == [vocabulary.tokens[id] for id in best]
            np.testing.assert_allclose(values, expected[best], rtol=1e-5)


def test_what_cannot_be_filled_is_told(electra):
    for texts, top_k, message in (
        (["[MASK]", "cat " * 14 + "[MASK]"], 1, "16 tokens.*text 1 .*token 15"),
        (["[MASK]", "[mask]"], 1, r"hold \[MASK\].*text 1 .*with none"),
        *((["[MASK]"], k, "int, 1 to 24") for k in (0, 25, 2.0, None)),
    ):
        with pytest.raises(ValueError, match=message):
            electra.fill_masks(texts, top_k)
