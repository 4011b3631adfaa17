"""Exports of fine-tuned models answer as their trainer does."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.export import export_metadata
from electra_tf.export import saved_model
from electra_tf.tasks.question_answering import answers
from electra_tf.tasks.question_answering import records
from electra_tf.tasks.question_answering import spans as spans_lib
from electra_tf.tasks.sentences.text_task import Example
from electra_tf.tasks.tagging import conll
from electra_tf.text import tokenizer as tokenizer_lib
from tests.export import finetuned_tiny
from tests.export.conftest import as_ids
from tests.export.conftest import encode

TEXTS = [
    "The cat sat on the mat.",
    "",
    "Unaffable cats, in a CAFÉ… 東京!",
    "the number of items in the table of the cat on the mat " * 3,
    "  where\tis the dog?",
]
PAIRS = [
    "a dog sat", "the table", "", "who? " * 20,
    "the cat of the dog in the café of smithson, unaffable " * 4,
]  # fmt: skip
WORDS = [
    "The cat sat on the mat .",
    "",
    " \n Unaffable   cats, in\ta\u00a0CAFÉ… (東京)! 京東 \u3000",
    "[CLS] the [SEP] cat [cls] \x00[SEP]\u200b [MASK] \x01 \u00ad dog \x02",
    "the smithson " * 12,
    "the cat sat on the mat of the " + "smithson's" * 5,
    "the cat of the unaffable " + "un" * 150 + " ΑΣ 東Σ ά ά 125",
]
_LONG = (
    "The cat of the café sat on (the) mat… Smithson's dog, unaffable, sat in "
    "a CAFÉ of 東京 where items returns. "
)
QUESTIONS = [
    ("Where sat the cat?", "The cat sat on the mat."),
    ("Who sat?", _LONG),
    ("What of the dog in the unaffable cafes of smithson's cats?", _LONG * 3),
    ("", "  Ünaffable   cats\n\nsat, 東京東京 \U0001f600 in 1255 cafés. "),
    ("Who?", "dog"),
    ("Who was in the café?", ("(the cat) 125 'smithson' " * 40)),
]
IDS = finetuned_tiny.VOCABULARY.id_of


def run_eagerly(trial, name=""):
    module = saved_model.load_task(trial.folder, name).module

    def run(signature, **inputs):
        assert signature in module.signature_names
        outputs = module.run(
            signature, **{k: tf.constant(v) for k, v in inputs.items()}
        )
        return {key: value.numpy() for key, value in outputs.items()}

    return run


@pytest.fixture(scope="module")
def load(tiny_trial):
    """Exports compute the same, which the check of each of them proves."""
    return functools.cache(lambda name: run_eagerly(tiny_trial, name))


def examples(texts, pairs):
    rows = enumerate(zip(texts, pairs, strict=True))
    return [Example(number, text, pair) for number, (text, pair) in rows]


def ask(call, pairs):
    asked, contexts = (encode(*texts) for texts in zip(*pairs, strict=True))
    return call("answer_text", questions=asked, contexts=contexts)


def require_labels(answer, expected, labels):
    found, wanted = answer["probabilities"], expected.probabilities
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert np.ptp(wanted[:, 0]) > 0.05
    np.testing.assert_array_equal(answer["label_index"], expected.classes)
    names = [labels[number].encode() for number in expected.classes]
    assert answer["label"].tolist() == names


def test_texts_are_packed_cut_and_labelled_as_in_training(load, tiny_trial):
    tasks, texts = tiny_trial.prepared.tasks, {"texts": encode(*TEXTS)}
    answer = load("sst2")("classify_text", **texts)
    expected = tiny_trial.decode("sst2", examples(TEXTS, [None] * len(TEXTS)))
    require_labels(answer, expected, tasks["sst2"].labels)
    inputs = texts | {"text_pairs": encode(*PAIRS)}
    answer = load("mrpc")("classify_pair_text", **inputs)
    expected = tiny_trial.decode("mrpc", examples(TEXTS, PAIRS))
    require_labels(answer, expected, tasks["mrpc"].labels)
    assert answer["num_tokens"].max() == finetuned_tiny.LENGTH
    assert answer["num_truncated"][0] == 0 < answer["num_truncated"][3]
    scores = load("stsb")("regress_pair_text", **inputs)["score"]
    expected = tiny_trial.decode("stsb", examples(TEXTS, PAIRS))
    np.testing.assert_allclose(scores, expected, atol=1e-4)
    assert np.ptp(expected) > 0.1


def read_tagged(answer, texts):
    """Words with their tags, after a look at offsets and at the padding."""
    names = ("words", "tags", "tagged_starts", "tagged_ends")
    for number, text in enumerate(texts):
        columns = (answer[name][number].tolist() for name in names)
        words = list(zip(*columns, strict=True))
        count = answer["num_words"][number]
        assert set(words[count:]) <= {(b"", b"", -1, -1)}
        assert all(text[start:end] == w for w, _, start, end in words[:count])
        yield [(word.decode(), tag.decode()) for word, tag, *_ in words[:count]]


def decode_tags(trial, name, texts):
    """Words and the trainer's tags, None for what it does not see."""
    sentences = [conll.Sentence(tuple(text.split()), None) for text in texts]
    rows = iter(trial.decode(name, [s for s in sentences if s.words]))
    for sentence in sentences:
        tags = next(rows) if sentence.words else []
        yield list(zip(sentence.words, tags, strict=True))


def test_words_and_tags_are_those_of_the_trainer(load, tiny_trial):
    answer = load("chunking")("tag_text", texts=encode(*WORDS))
    found = list(read_tagged(answer, encode(*WORDS)))
    expected = list(decode_tags(tiny_trial, "chunking", WORDS))
    columns = found, expected, answer["tag_probabilities"]
    for row, wanted, shares in zip(*columns, strict=True):
        assert row == [(w, "O" if tag is None else tag) for w, tag in wanted]
        is_seen = np.array([tag is not None for _, tag in wanted], bool)
        np.testing.assert_array_equal(shares[: len(wanted)] > 0, is_seen)
        assert not shares[len(wanted) :].any()
    assert len({tag for row in expected for _, tag in row if tag}) > 2
    assert answer["num_truncated"][4] > 0


def check_answers(trial, call, pairs, atol=1e-4):
    """Answers are the trainer's, and offsets give exactly their text."""
    examples = [
        records.Example(str(number), question, context)
        for number, (question, context) in enumerate(pairs)
    ]
    predictions = trial.decode("squad2", examples)
    answer = ask(call, pairs)
    for number, (_, context) in enumerate(pairs):
        row = {name: values[number] for name, values in answer.items()}
        best = predictions.nbest[str(number)][0]
        data = row["answers"]
        characters = slice(row["answer_starts"], row["answer_ends"])
        assert context[characters] == data.decode()
        places = slice(row["answer_byte_starts"], row["answer_byte_ends"])
        assert context.encode()[places] == data
        # The decoding joins words by single blanks.
        assert " ".join(data.decode().split()) == best["text"]
        assert best["text"] == predictions.texts[str(number)]
        score = best["start_logit"] + best["end_logit"]
        np.testing.assert_allclose(
            [row["answer_scores"], row["null_odds"]],
            [score, predictions.null_odds[str(number)]],
            atol=atol,
        )
    return answer


def test_answers_of_all_windows_are_the_trainers(load, tiny_trial):
    answer = check_answers(tiny_trial, load("squad2"), QUESTIONS)
    assert answer["num_windows"].max() > 32
    assert answer["num_windows"][4] == 1
    assert answer["num_question_truncated"][2] > 0
    assert len(set(answer["answers"])) > 3


def test_a_window_of_ids_is_answered_as_its_text(load):
    call = load("squad2")
    text = ask(call, [("who", "the cat sat on the mat")])
    words = ["the", "cat", "sat", "on", "the", "mat"]
    row = [2, IDS("who"), 3, *map(IDS, words), 3]
    for length in (10, 17):
        rows = as_ids([row], length)
        segments = rows["input_mask"] * (np.arange(length) > 2)
        answer = call("answer_ids", **rows | {"segment_ids": segments})
        sides = (answer[f"{side}_positions"][0] for side in ("start", "end"))
        first, last = (side - 3 for side in sides)
        assert " ".join(words[first : last + 1]).encode() == text["answers"][0]
        for name in ("answer_scores", "null_odds"):
            np.testing.assert_allclose(answer[name], text[name], atol=1e-5)
    nothing = call("answer_ids", **as_ids([[2, 5, 3]], 4))
    assert nothing["start_positions"][0] == nothing["end_positions"][0] == 0
    assert nothing["answer_scores"][0] == -10000


@pytest.mark.parametrize(
    ("task", "signature", "inputs", "message"),
    [
        ("sst2", "classify_ids", {"input_ids": [[999, 3]]}, "`input_ids`"),
        ("chunking", "tag_ids", {"word_positions": [[-1]]}, "word_positions"),
        ("chunking", "tag_ids", {"word_positions": [[2]]}, "word_positions"),
        ("chunking", "tag_ids", {"word_positions": [[1]] * 2}, "as many rows"),
        ("mrpc", "classify_pair_text",
         {"texts": ["a", "b"], "text_pairs": ["a"]}, "`text_pairs`"),
        ("squad2", "answer_text",
         {"questions": ["a", "b"], "contexts": ["a"]}, "`contexts`"),
    ],
)  # fmt: skip
def test_inputs_that_cannot_be_are_refused(
    load, task, signature, inputs, message
):
    if signature.endswith("_ids"):
        ids = np.int32(inputs.get("input_ids", [[7, 7]]))
        rows = {"input_ids": ids, "input_mask": ids * 0, "segment_ids": ids * 0}
        inputs = rows | {name: np.int32(rows) for name, rows in inputs.items()}
    else:
        inputs = {name: encode(*texts) for name, texts in inputs.items()}
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        load(task)(signature, **inputs)


@pytest.mark.parametrize(
    "options",
    [
        {"answerable_classifier": False},
        {"joint_prediction": False, "answerable_classifier": False},
        {"doc_stride": 1, "answerable_uses_start_logits": False},
    ],
    ids=str,
)
def test_every_form_of_the_head_is_read_as_in_training(tmp_path, options):
    settings = finetuned_tiny.build_settings(**options)
    trial = finetuned_tiny.write_trial(tmp_path / "trial", settings, seed=4)
    call = run_eagerly(trial, "squad2")
    check_answers(trial, call, QUESTIONS[:3], atol=1e-3)


def test_spans_end_inside_words_where_their_pieces_do():
    tokenizer = tokenizer_lib.Tokenizer(finetuned_tiny.VOCABULARY)
    cases = [
        ("Smithson's", 0, 0, "Smith"),
        ("Smithson's", 1, 3, "son's"),
        ("a CAFÉ", 1, 1, "CAFÉ"),
        # A letter that is two characters.
        ("a cafe\u0301s", 1, 1, "cafe\u0301"),
        ("(東京)", 1, 1, "東"),
        ("the xyz.", 1, 1, "xyz"),
        ("\U0001f600 cats\u200b sat", 1, 2, "cats"),
        ("1255 cat", 1, 2, "25"),
    ]
    texts, firsts, lasts, _ = zip(*cases, strict=True)
    places = spans_lib.find_places(
        tokenizer,
        tf.constant(texts),
        tf.constant(firsts, tf.int64),
        tf.constant(lasts, tf.int64),
        tf.ones([len(cases)], tf.bool),
    )
    for number, (context, _, _, expected) in enumerate(cases):
        start, end = places.starts[number], places.ends[number]
        assert context[start:end] == expected
        assert places.texts[number].numpy().decode() == expected
    assert answers.project("smith", "smithson ' s", "Smithson's") == (0, 5)


def test_long_own_texts_are_tagged_to_the_end(tmp_path):
    labels = ("DET", "NOUN", "VERB")
    settings = finetuned_tiny.build_own_settings(20, kind="tagging")
    trial = finetuned_tiny.write_trial(tmp_path, settings, {"own": labels})
    texts = ["the cat sat " * 30, "", "sat", "the unaffable cat " * 11]
    run = run_eagerly(trial)
    answer = run("tag_text", texts=texts)
    found = list(read_tagged(answer, encode(*texts)))
    assert found == list(decode_tags(trial, "own", texts))
    assert {tag for row in found for _, tag in row} <= set(labels)
    np.testing.assert_array_equal(answer["num_truncated"], 0)
    np.testing.assert_array_equal(answer["num_tokens"], [92, 2, 3, 57])
    # Tags that mark no spans are empty where no token is looked at.
    first, middle, last = run("tag_text", texts=["the [CLS] cat"])["tags"][0]
    assert middle == b""
    assert b"" not in (first, last)


def test_words_and_tags_are_written_as_in_the_training_file(tmp_path):
    labels = ("B-X", "I-X", "E-X", "S-X", "S-Y", "O")
    settings = finetuned_tiny.build_own_settings(32, kind="tagging")
    conventions = {"own": {"scheme": "IOB1", "splits_punctuation": True}}
    trial = finetuned_tiny.write_trial(
        tmp_path, settings, {"own": labels}, conventions=conventions
    )
    texts = ["The cat, (東京) sat... on table!", "", "the " * 12 + "mat."]
    parts = ["The cat , ( 東京 ) sat ... on table !", "", "the " * 12 + "mat ."]
    answer = run_eagerly(trial)("tag_text", texts=encode(*texts))
    seen = set()
    found_tags = read_tagged(answer, encode(*texts))
    expected_tags = decode_tags(trial, "own", parts)
    for found, wanted in zip(found_tags, expected_tags, strict=True):
        before, expected = "O", []
        for word, tag in wanted:
            follows = tag[0] in "BS" and tag[1:] == before[1:]
            place = "O" if tag == "O" else "B" if follows else "I"
            expected.append((word, place + tag[1:]))
            before = tag
        assert found == expected
        seen |= {tag for _, tag in wanted}
    assert len(seen) > 2


def test_several_labels_are_those_of_the_trainer(tmp_path):
    own = {"labels": "a,b,c", "threshold": 0.4, "text_pair_column": "pair"}
    settings = finetuned_tiny.build_own_settings(kind="multilabel", **own)
    labels = {"own": ("a", "b", "c")}
    trial = finetuned_tiny.write_trial(tmp_path, settings, labels)
    trained = saved_model.load_task(tmp_path)
    assert set(trained.module.signature_names) < set(export_metadata.SIGNATURES)
    assert trained.metadata.threshold == 0.4
    inputs = {"texts": encode(*TEXTS[:3]), "text_pairs": encode(*PAIRS[:3])}
    found = run_eagerly(trial)(trained.module.signature_names[0], **inputs)
    expected = trial.decode("own", examples(TEXTS[:3], PAIRS[:3]))
    probabilities = found["probabilities"]
    np.testing.assert_allclose(probabilities, expected.probabilities, atol=1e-5)
    names = np.where(expected.classes > 0, [b"a", b"b", b"c"], b"")
    assert found["labels"].tolist() == names.tolist()
    # Both happen, and one between the threshold and the usual one.
    assert 0 < expected.classes.sum() < names.size
    np.testing.assert_array_equal(expected.classes, probabilities >= 0.4)
