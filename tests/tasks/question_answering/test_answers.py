"""Answers from made-up outputs of a head."""

import dataclasses
import re

import numpy as np
import tensorflow as tf

from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.question_answering import answers
from electra_tf.tasks.question_answering import questions
from tests.tasks.question_answering.conftest import CONTEXT
from tests.tasks.question_answering.conftest import example_of

# Pieces: The old cat ( 18 ##95 - 18 ) . The cat ##s sat on the mat .
#         0   1   2   3 4  5    6 7  8 9 10  11  12  13  14 15  16  17
QUESTION_PIECES = 2
FIRST = QUESTION_PIECES + 2
INDEPENDENT = finetuning_config.QuestionAnsweringConfig(
    joint_prediction=False, answerable_classifier=False, max_answer_length=4
)
JOINT = dataclasses.replace(INDEPENDENT, joint_prediction=True)


def _rows(tokenizer, examples, length=64, stride=3):
    settings = questions.Settings(max_query_length=8, doc_stride=stride)
    return questions.build_rows(examples, tokenizer, length, settings, False)


def _logits(rows, scores):
    """Row by row: -9, but what is given by (row, position in the row)."""
    logits = [np.full(n, -9.0, np.float32) for n in rows.lengths]
    for (row, place), score in scores.items():
        logits[row][place] = score
    return logits


def _decode(tokenizer, starts, ends, settings=INDEPENDENT, null=False):
    """One question in one row; scores by pieces of the document."""
    rows = _rows(tokenizer, [example_of()])
    outputs = {
        name: _logits(rows, {(0, FIRST + p): s for p, s in scores.items()})
        for name, scores in (("start_logits", starts), ("end_logits", ends))
    }
    return answers.decode(rows, outputs, settings, null)


def test_the_best_span_is_the_answer_in_the_texts_own_words(tokenizer):
    found = _decode(tokenizer, {0: 3.0}, {2: 2.0})
    assert found.texts == {"q1": "The old cat"}
    best = found.nbest["q1"][0]
    assert (best["start_logit"], best["end_logit"]) == (3.0, 2.0)
    assert CONTEXT[best["start"] : best["end"]] == "The old cat"
    assert found.null_odds == {}


def test_spans_that_are_too_long_or_turned_round_do_not_count(tokenizer):
    settings = dataclasses.replace(INDEPENDENT, n_best_size=1)
    for start, end in ((0, 4), (5, 4)):
        found = _decode(tokenizer, {start: 3.0}, {end: 3.0}, settings)
        assert found.texts["q1"] == answers.NO_ANSWER_FOUND
        (entry,) = found.nbest["q1"]
        assert entry["start"] is None and entry["probability"] == 1
    assert _decode(tokenizer, {0: 3.0}, {3: 3.0}, settings).texts["q1"] == (
        "The old cat ("
    )


def test_an_answer_counts_where_it_has_most_context(tokenizer):
    rows = _rows(tokenizer, [example_of()], length=14)
    (chunk,) = rows.details
    windows = chunk.rows.windows
    starts, lengths = windows.starts.numpy(), windows.lengths.numpy()
    assert rows.num_rows > 2
    piece = 9
    inside = np.flatnonzero((starts <= piece) & (piece < starts + lengths))
    places = tf.constant([piece], tf.int64)
    best = rows_lib.find_best_window(windows, [0], places)
    assert len(inside) > 1
    settings = dataclasses.replace(INDEPENDENT, n_best_size=1)
    for row in inside:
        place = FIRST + piece - int(starts[row])
        scores = _logits(rows, {(row, place): 5.0})
        outputs = {"start_logits": scores, "end_logits": scores}
        found = answers.decode(rows, outputs, settings, False)
        assert (found.texts["q1"] == ".") == (row == int(best[0]))


def _joint_outputs(num_rows):
    row = {
        "start_top_index": [FIRST, FIRST + 10],
        "start_top_log_probs": np.float32([-0.1, -2]),
        "end_top_index": [[FIRST + 11, FIRST + 2], [FIRST + 11, FIRST + 12]],
        "end_top_log_probs": np.float32([[-0.1, -3], [-0.5, -0.6]]),
    }
    return {name: [np.array(value)] * num_rows for name, value in row.items()}


def test_null_odds_are_the_least_of_the_windows(tokenizer):
    examples = [example_of(), example_of(None, "cat", name="q2")]
    rows = _rows(tokenizer, examples, length=14)
    num_first = int(np.sum(rows.examples == 0))
    outputs = _joint_outputs(rows.num_rows) | {
        "answerable_logit": np.arange(rows.num_rows, 0, -1).astype(np.float32)
    }
    settings = dataclasses.replace(JOINT, answerable_classifier=True)
    found = answers.decode(rows, outputs, settings, True)
    least = rows.num_rows - num_first + 1
    assert found.null_odds == {"q1": least, "q2": 1.0}


def test_a_document_without_pieces_has_no_answer(tokenizer):
    example = example_of(None, " ")
    rows = _rows(tokenizer, [example])
    for settings in (INDEPENDENT, JOINT):
        found = answers.decode(rows, {}, settings, True)
        assert found.texts["q1"] == answers.NO_ANSWER_FOUND
        assert found.null_odds["q1"] == 1_000_000


def test_every_text_is_what_stands_at_its_offsets(tokenizer):
    others = "Caf\u00e9\tcat,\n the\u00a0mats", "CAT  \u6e2f\u533a."
    examples = [
        example_of(None, context, name=str(number))
        for number, context in enumerate((CONTEXT * 2, *others))
    ]
    rows = _rows(tokenizer, examples, length=20)
    generator = np.random.default_rng(3)
    outputs = {
        name: [generator.normal(size=n) for n in rows.lengths]
        for name in ("start_logits", "end_logits")
    }
    found = answers.decode(rows, outputs, INDEPENDENT, False)
    for example in examples:
        assert len(found.nbest[example.id]) > 2
        for entry in found.nbest[example.id]:
            there = example.context[entry["start"] : entry["end"]]
            assert re.sub("[ \t\r\n]+", " ", there) == entry["text"]
