"""Exported readers find the answers that the trainer's decoding finds."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.export.finetuned import trial as trial_export
from electra_tf.tasks.question_answering import answers
from electra_tf.tasks.question_answering import questions as questions_lib
from electra_tf.tasks.question_answering import records
from electra_tf.tasks.question_answering import spans as spans_lib
from electra_tf.text import tokenizer as tokenizer_lib
from tests.export import conftest
from tests.export import finetuned_tiny

LONG = (
    "The cat of the café sat on (the) mat… Smithson's dog, unaffable, sat in "
    "a CAFÉ of 東京 where items returns. "
)
PAIRS = [
    ("Where sat the cat?", "The cat sat on the mat."),
    ("Who sat?", LONG),
    ("What of the dog in the unaffable cafes of smithson's cats?", LONG * 3),
    ("", "  Ünaffable   cats\n\nsat, 東京東京 \U0001f600 in 1255 cafés. "),
    ("Who?", "dog"),
    ("Who was in the café?", ("(the cat) 125 'smithson' " * 40)),
]


@pytest.fixture(scope="module")
def call(task_exports):
    return conftest.load(task_exports("squad2"))


def _encode(texts):
    return np.array([text.encode() for text in texts], object)


def _ask(call, pairs):
    questions, contexts = zip(*pairs, strict=True)
    return call(
        "answer_text",
        questions=_encode(questions),
        contexts=_encode(contexts),
    )


def _examples(pairs):
    return [
        records.Example(str(number), question, context)
        for number, (question, context) in enumerate(pairs)
    ]


def _check(answer, pairs, predictions, atol=1e-4):
    """Answers are the decoding's, and offsets give exactly their text."""
    for number, (_, context) in enumerate(pairs):
        best = predictions.nbest[str(number)][0]
        text = answer["answers"][number].decode()
        start, end = (
            answer[f"answer_{name}"][number] for name in ("starts", "ends")
        )
        assert context[start:end] == text
        first, last = (
            answer[f"answer_byte_{name}"][number] for name in ("starts", "ends")
        )
        assert context.encode()[first:last].decode() == text
        # The decoding joins words by single blanks.
        assert " ".join(text.split()) == predictions.texts[str(number)]
        assert best["text"] == predictions.texts[str(number)]
        np.testing.assert_allclose(
            answer["answer_scores"][number],
            best["start_logit"] + best["end_logit"],
            atol=atol,
        )
        np.testing.assert_allclose(
            answer["null_odds"][number],
            predictions.null_odds[str(number)],
            atol=atol,
        )


def test_answers_of_all_windows_are_the_trainers(call, tiny_trial):
    answer = _ask(call, PAIRS)
    predictions = tiny_trial.decode("squad2", _examples(PAIRS))
    _check(answer, PAIRS, predictions)
    assert answer["num_windows"].max() > 32
    assert answer["num_windows"][4] == 1
    assert answer["num_question_truncated"][2] > 0
    assert len(set(answer["answers"])) > 3


def test_one_question_alone_is_answered_as_in_a_batch(call):
    together = _ask(call, PAIRS)
    for number in (0, 2, 3):
        alone = _ask(call, PAIRS[number : number + 1])
        for name, values in alone.items():
            if values.dtype.kind == "f":
                np.testing.assert_allclose(
                    values[0], together[name][number], 2e-6, 1e-5
                )
            else:
                assert values[0] == together[name][number]


def test_contexts_without_words_have_no_answer(call):
    answer = _ask(call, [("Who?", ""), ("Who?", " \n"), ("", "the cat")])
    assert answer["answers"][:2].tolist() == [b"", b""]
    assert answer["answer_scores"][:2].tolist() == [-10000, -10000]
    assert answer["null_odds"][:2].tolist() == [1e6, 1e6]
    assert answer["num_windows"].tolist() == [0, 0, 1]
    assert answer["answers"][2] != b""
    assert answer["null_odds"][2] < 1e5
    none = np.array([], np.bytes_)
    empty = call("answer_text", questions=none, contexts=none)
    assert {values.shape for values in empty.values()} == {(0,)}


def test_a_window_of_ids_is_answered_as_its_text(call):
    text = _ask(call, [("who", "the cat sat on the mat")])
    words = ["the", "cat", "sat", "on", "the", "mat"]
    vocabulary = finetuned_tiny.VOCABULARY
    row = [2, vocabulary.id_of("who"), 3, *map(vocabulary.id_of, words), 3]
    for length in (10, 17):
        ids = np.zeros([1, length], np.int32)
        ids[0, :10] = row
        places = np.arange(length)
        answer = call(
            "answer_ids",
            input_ids=ids,
            input_mask=np.int32([places < 10]),
            segment_ids=np.int32([(places > 2) & (places < 10)]),
        )
        first, last = (
            answer[f"{side}_positions"][0] - 3 for side in ("start", "end")
        )
        assert " ".join(words[first : last + 1]).encode() == text["answers"][0]
        for name in ("answer_scores", "null_odds"):
            np.testing.assert_allclose(answer[name], text[name], atol=1e-5)


def test_a_window_without_document_has_no_answer(call):
    ids = np.int32([[2, 5, 3, 0]])
    answer = call(
        "answer_ids",
        input_ids=ids,
        input_mask=np.int32([[1, 1, 1, 0]]),
        segment_ids=np.zeros_like(ids),
    )
    assert answer["start_positions"][0] == answer["end_positions"][0] == 0
    assert answer["answer_scores"][0] == -10000


def test_as_many_contexts_as_questions_are_needed(call):
    with pytest.raises(tf.errors.InvalidArgumentError, match="`contexts`"):
        call("answer_text", questions=_encode(["a", "b"]),
             contexts=_encode(["a"]))  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {"joint_prediction": False},
        {"answerable_classifier": False},
        {"joint_prediction": False, "answerable_classifier": False},
        {"doc_stride": 1, "answerable_uses_start_logits": False},
    ],
    ids=str,
)
def test_every_form_of_the_head_is_read_as_in_training(tmp_path, options):
    trial = finetuned_tiny.write_trial(
        tmp_path / "trial",
        finetuned_tiny.build_settings(**options),
        seed=4,
    )
    module = trial_export.load_task(trial.folder, "squad2").module

    def run(signature, **inputs):
        outputs = module.answer(
            signature, **{k: tf.constant(v) for k, v in inputs.items()}
        )
        return {name: value.numpy() for name, value in outputs.items()}

    pairs = PAIRS[:3]
    predictions = trial.decode("squad2", _examples(pairs))
    _check(_ask(run, pairs), pairs, predictions, atol=1e-3)


def test_windows_must_have_room_for_a_context(tiny_trial):
    with pytest.raises(ValueError, match="more than 9 tokens. Received: 9"):
        trial_export.load_task(tiny_trial.folder, "squad2", max_length=9)


def test_spans_end_inside_words_where_their_pieces_do():
    tokenizer = tokenizer_lib.Tokenizer(finetuned_tiny.VOCABULARY)
    finder = spans_lib.SpanFinder(tokenizer)
    cases = [
        ("Smithson's", 0, 0, "Smith"),
        ("Smithson's", 1, 3, "son's"),
        ("a CAFÉ", 1, 1, "CAFÉ"),
        # A letter that is two characters: the word stays whole.
        ("a cafe\u0301s", 1, 1, "cafe\u0301s"),
        ("(東京)", 1, 1, "東"),
        ("the xyz.", 1, 1, "xyz"),
        ("\U0001f600 cats\u200b sat", 1, 2, "cats"),
        ("1255 cat", 1, 2, "25"),
    ]
    contexts = tf.constant([case[0] for case in cases])
    places = finder.find(
        contexts,
        questions_lib.build_contexts(tokenizer, contexts),
        tf.constant([case[1] for case in cases], tf.int64),
        tf.constant([case[2] for case in cases], tf.int64),
        tf.ones([len(cases)], tf.bool),
    )
    for number, (context, _, _, expected) in enumerate(cases):
        start, end = places.starts[number], places.ends[number]
        assert context[start:end] == expected
        assert places.texts[number].numpy().decode() == expected
    assert answers.project("smith", "smithson ' s", "Smithson's") == (0, 5)
