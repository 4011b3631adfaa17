"""Characters of spans, in the graph."""

import pytest
import tensorflow as tf

from electra_tf.finetuning.question_answering import offsets
from tests.finetuning.question_answering.conftest import CONTEXT


def _find(tokenizer, contexts, first, last):
    function = tf.function(
        lambda *tensors: offsets.find_characters(tokenizer, *tensors)
    )
    starts, ends = function(
        tf.constant(contexts), tf.constant(first), tf.constant(last)
    )
    return starts.numpy().tolist(), ends.numpy().tolist()


@pytest.mark.parametrize(
    ("context", "first", "last", "text"),
    [
        (CONTEXT, 0, 2, "The old cat"),
        (CONTEXT, 4, 7, "1895-18"),
        # All of a word, whichever of its pieces.
        (CONTEXT, 5, 5, "1895"),
        (CONTEXT, 11, 11, "cats"),
        (CONTEXT, 14, 16, "on  the mat"),
        ("\u6e2f \u00e9\u00e9 the cat", 2, 3, "the cat"),
    ],
)
def test_a_span_is_found_by_its_characters(
    tokenizer, context, first, last, text
):
    (start,), (end,) = _find(tokenizer, [context], [first], [last])
    assert context[start:end] == text
    cut = offsets.cut(
        tf.constant([context]), tf.constant([start]), tf.constant([end])
    )
    assert cut.numpy()[0].decode() == text


def test_what_is_not_there_is_empty(tokenizer):
    contexts = ["the cat"] * 4 + ["", "the cat"]
    starts, ends = _find(
        tokenizer, contexts, [0, -1, 1, 2, 0, 0], [2, 0, 0, 2, 0, 1]
    )
    assert starts == [0] * 6
    assert ends == [0] * 5 + [7]
