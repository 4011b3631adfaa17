"""Exported taggers give the words of raw text the trainer's tags."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.tasks.tagging import conll
from tests.export import conftest
from tests.export import finetuned_tiny

TEXTS = [
    "The cat sat on the mat .",
    "",
    " \n Unaffable   cats, in\ta\u00a0CAFÉ… (東京)! 京東 \u3000",
    "[CLS] the [SEP] cat [cls] \x00[SEP]\u200b [MASK] \x01 \u00ad dog \x02",
    "the smithson " * 12,
    "the cat sat on the mat of the " + "smithson's" * 5,
    "the cat of the unaffable " + "un" * 150 + " ΑΣ 東Σ ά ά 125",
]


@pytest.fixture(scope="module")
def call(task_exports):
    return conftest.load(task_exports("chunking"))


def _encode(texts):
    return np.array([text.encode() for text in texts], object)


def test_words_and_tags_are_those_of_the_trainer(call, tiny_trial):
    answer = call("tag_text", texts=_encode(TEXTS))
    sentences = [conll.Sentence(tuple(text.split()), None) for text in TEXTS]
    kept = [s for s in sentences if s.words]
    expected = iter(tiny_trial.decode("chunking", kept))
    seen = set()
    for number, sentence in enumerate(sentences):
        count = len(sentence.words)
        assert answer["num_words"][number] == count
        words = [word.decode() for word in answer["words"][number]]
        assert words[:count] == list(sentence.words)
        tags = [tag.decode() for tag in answer["tags"][number]]
        wanted = next(expected) if count else []
        assert tags[:count] == ["O" if t is None else t for t in wanted]
        assert set(words[count:]) | set(tags[count:]) <= {""}
        is_seen = np.array([tag is not None for tag in wanted], bool)
        probabilities = answer["tag_probabilities"][number]
        np.testing.assert_array_equal(probabilities[:count] > 0, is_seen)
        assert not probabilities[count:].any()
        seen |= {tag for tag in wanted if tag}
    assert len(seen) > 2
    assert answer["num_truncated"][4] > 0


def test_offsets_slice_the_words_out_of_the_text(call):
    data = [*_encode(TEXTS), b"the \xffcat\xc3 sat \xe6\x9d"]
    answer = call("tag_text", texts=np.array(data, object))
    for number, text in enumerate(data):
        for word, start, end in zip(
            answer["words"][number],
            answer["tagged_starts"][number],
            answer["tagged_ends"][number],
            strict=True,
        ):
            assert (start < 0) == (word == b"")
            assert start < 0 or text[start:end] == word


def test_one_text_alone_is_tagged_as_in_a_batch(call):
    together = call("tag_text", texts=_encode(TEXTS))
    for number, text in enumerate(TEXTS[:4]):
        alone = call("tag_text", texts=_encode([text]))
        count = alone["num_words"][0]
        np.testing.assert_array_equal(
            alone["tags"][0], together["tags"][number, :count]
        )
        np.testing.assert_allclose(
            alone["tag_probabilities"][0],
            together["tag_probabilities"][number, :count],
            atol=1e-5,
        )


def test_ids_with_positions_are_tagged_as_their_text(call):
    text = call("tag_text", texts=_encode(["the cat sat"]))
    vocabulary = finetuned_tiny.VOCABULARY
    row = [2, *map(vocabulary.id_of, ("the", "cat", "sat")), 3, 0, 0]
    answer = call(
        "tag_ids",
        input_ids=np.int32([row]),
        input_mask=np.int32([[1] * 5 + [0] * 2]),
        segment_ids=np.int32([[1] * 5 + [0] * 2]),
        word_positions=np.int32([[1, 2, 3, 0]]),
    )
    np.testing.assert_array_equal(answer["tags"][:, :3], text["tags"])
    np.testing.assert_allclose(
        answer["tag_probabilities"][:, :3],
        text["tag_probabilities"],
        atol=1e-5,
    )
    assert answer["tags"][0, 3] == b""
    assert answer["tag_logits"].shape == (1, 4, 6)
    assert not answer["tag_logits"][0, 3].any()


def test_no_texts_have_no_words(call):
    answer = call("tag_text", texts=np.array([], np.bytes_))
    assert answer["words"].shape == (0, 0)
    blank = call("tag_text", texts=_encode([" ", "\n"]))
    assert blank["tags"].shape == (2, 0)
    np.testing.assert_array_equal(blank["num_tokens"], [2, 2])


@pytest.mark.parametrize("position", [-1, 5])
def test_positions_outside_the_row_are_refused(call, position):
    ids = np.full([1, 5], 7, np.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="word_positions"):
        call("tag_ids", input_ids=ids, input_mask=ids * 0, segment_ids=ids * 0,
             word_positions=np.int32([[position]]))  # fmt: skip
