import numpy as np
import pytest
import tensorflow as tf

from electra_tf.export import signatures
from electra_tf.export.pretrained import serving_module
from electra_tf.export.pretrained import tower_answers
from electra_tf.text import tokenizer as tokenizer_lib

MAX_LENGTH = 24
TEXTS = (
    "The cat sat on the mat.",
    "",
    "Unaffable  cats, in a CAFÉ… 東京!",
    "returns the number of items",
)


def as_texts(*texts):
    return np.array(
        [t if isinstance(t, bytes) else t.encode() for t in texts], object
    )


def as_ids(rows, length=None):
    """Rows of ids as the three inputs, padded to `length`."""
    length = length or max(map(len, rows))
    ids = np.zeros([len(rows), length], np.int32)
    mask = np.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
        mask[number, : len(row)] = 1
    return {
        "input_ids": ids,
        "input_mask": mask,
        "segment_ids": np.zeros_like(ids),
    }


def test_text_is_framed_and_scored_like_its_ids(loaded, tiny_run):
    text = loaded("score_text", texts=as_texts(*TEXTS))
    ids = loaded(
        "score_ids",
        input_ids=text["input_ids"],
        input_mask=text["input_mask"],
        segment_ids=np.zeros_like(text["input_ids"]),
    )
    np.testing.assert_allclose(
        text["replaced_probability"], ids["replaced_probability"], atol=1e-6
    )
    tokens = [
        [tiny_run.vocabulary.tokens[i] for i in row[:count]]
        for row, count in zip(
            text["input_ids"], text["num_tokens"], strict=True
        )
    ]
    assert tokens[0] == [
        "[CLS]",
        "the",
        "cat",
        "sat",
        "on",
        "the",
        "mat",
        ".",
        "[SEP]",
    ]
    assert tokens[1] == ["[CLS]", "[SEP]"]
    assert text["input_ids"].shape[1] == max(map(len, tokens))
    np.testing.assert_array_equal(text["input_mask"].sum(1), text["num_tokens"])
    is_padding = text["input_mask"] == 0
    assert is_padding.any()
    assert (text["input_ids"][is_padding] == 0).all()
    assert (text["replaced_probability"][is_padding] == 0).all()


def test_serving_default_scores_text(loaded):
    default = loaded("serving_default", texts=as_texts(*TEXTS))
    named = loaded("score_text", texts=as_texts(*TEXTS))
    assert set(default) == set(named)
    for name, value in default.items():
        np.testing.assert_array_equal(value, named[name])


def test_offsets_slice_the_words_out_of_the_input(loaded, tiny_run):
    texts = as_texts(TEXTS[0], TEXTS[2])
    rows = loaded("score_text", texts=texts)
    words = [
        [
            (tiny_run.vocabulary.tokens[token], data[start:end].decode())
            for token, start, end in zip(
                rows["input_ids"][number],
                rows["word_starts"][number],
                rows["word_ends"][number],
                strict=True,
            )
            if start >= 0
        ]
        for number, data in enumerate(texts)
    ]
    assert [word for _, word in words[0]] == [
        "The",
        "cat",
        "sat",
        "on",
        "the",
        "mat",
        ".",
    ]
    assert words[1] == [
        ("un", "Unaffable"),
        ("##aff", "Unaffable"),
        ("##able", "Unaffable"),
        ("cat", "cats"),
        ("##s", "cats"),
        (",", ","),
        ("in", "in"),
        ("a", "a"),
        ("cafe", "CAFÉ"),
        ("…", "…"),
        ("東", "東"),
        ("京", "京"),
        ("!", "!"),
    ]


def test_special_tokens_and_padding_come_from_no_word(loaded):
    rows = loaded("score_text", texts=as_texts("the cat", ""))
    for name in ("word_starts", "word_ends"):
        has_word = rows[name] >= 0
        np.testing.assert_array_equal(
            has_word, [[False, True, True, False], [False] * 4]
        )
        assert (rows[name][~has_word] == -1).all()


def test_one_text_alone_is_scored_as_in_a_batch(loaded):
    together = loaded("features_text", texts=as_texts(*TEXTS))
    scores = loaded("score_text", texts=as_texts(*TEXTS))
    for number, text in enumerate(TEXTS):
        alone = loaded("features_text", texts=as_texts(text))
        score = loaded("score_text", texts=as_texts(text))
        length = alone["num_tokens"][0]
        np.testing.assert_allclose(
            score["replaced_probability"][0],
            scores["replaced_probability"][number, :length],
            atol=1e-5,
        )
        for name in ("token_features", "sentence_features"):
            row = together[name][number]
            row = row[:length] if name == "token_features" else row
            np.testing.assert_allclose(alone[name][0], row, atol=1e-5)


@pytest.mark.parametrize("length", [5, 6, 17, MAX_LENGTH])
def test_padding_of_ids_changes_no_answer(loaded, length):
    short = loaded("score_ids", **as_ids([[2, 5, 6, 7, 3]]))
    padded = loaded("score_ids", **as_ids([[2, 5, 6, 7, 3]], length))
    assert padded["replaced_probability"].shape == (1, length)
    np.testing.assert_allclose(
        padded["replaced_probability"][:, :5],
        short["replaced_probability"],
        atol=1e-5,
    )
    assert (padded["replaced_probability"][:, 5:] == 0).all()
    assert (padded["replaced_logits"][:, 5:] == signatures.PADDING_LOGIT).all()


def test_features_are_zero_at_padding_and_cls_comes_first(loaded):
    rows = loaded("features_text", texts=as_texts(*TEXTS))
    assert rows["sentence_features"].shape == (4, 32)
    np.testing.assert_array_equal(
        rows["sentence_features"], rows["token_features"][:, 0]
    )
    is_padding = rows["input_mask"] == 0
    assert (rows["token_features"][is_padding] == 0).all()
    assert (np.abs(rows["token_features"][~is_padding]).max(-1) > 0).all()


def test_long_text_is_cut_and_says_how_much(loaded):
    rows = loaded("score_text", texts=as_texts("the cat " * 20, "the cat"))
    np.testing.assert_array_equal(rows["num_tokens"], [MAX_LENGTH, 4])
    np.testing.assert_array_equal(
        rows["num_truncated"], [40 - (MAX_LENGTH - 2), 0]
    )
    assert rows["input_ids"].shape == (2, MAX_LENGTH)
    assert rows["input_ids"][0, -1] == 3
    assert (rows["word_ends"][0, 1:-1] > 0).all()


def test_empty_batch_gives_empty_answers(loaded):
    texts = np.array([], dtype=np.bytes_)
    rows = loaded("score_text", texts=texts)
    assert rows["replaced_probability"].shape[0] == 0
    assert rows["num_tokens"].shape == (0,)
    features = loaded("features_text", texts=texts)
    assert features["sentence_features"].shape == (0, 32)
    ids = {name: np.zeros([0, 7], np.int32) for name in as_ids([[2]])}
    assert loaded("score_ids", **ids)["replaced_logits"].shape == (0, 7)


def test_invalid_utf8_is_dropped_and_offsets_stay_in_the_input(loaded):
    data = b"the \xffcat\xc3 sat \xe6\x9d"
    rows = loaded("score_text", texts=as_texts(data, "the cat sat"))
    np.testing.assert_array_equal(rows["input_ids"][0], rows["input_ids"][1])
    np.testing.assert_allclose(
        rows["replaced_probability"][0],
        rows["replaced_probability"][1],
        atol=1e-5,
    )
    spans = zip(rows["word_starts"][0], rows["word_ends"][0], strict=True)
    words = [data[start:end] for start, end in spans if start >= 0]
    assert [
        word.decode("ascii", "ignore").strip() for word in words
    ] == ["the", "cat", "sat"]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ids: as_ids([[2] * (MAX_LENGTH + 1)]), "24 positions"),
        (lambda ids: ids | {"input_ids": ids["input_ids"] + 500}, "input_ids"),
        (lambda ids: ids | {"input_ids": ids["input_ids"] - 9}, "input_ids"),
        (lambda ids: ids | {"segment_ids": ids["input_ids"]}, "segment_ids"),
        (lambda ids: ids | {"input_mask": ids["input_ids"]}, "input_mask"),
        (
            lambda ids: ids | {"input_mask": ids["input_mask"][:, :2]},
            "`input_mask` must have the shape",
        ),
    ],
)
@pytest.mark.parametrize("signature", ["score_ids", "features_ids"])
def test_ids_that_cannot_be_are_refused(loaded, signature, change, message):
    ids = change(as_ids([[2, 5, 6, 7, 3]]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        loaded(signature, **ids)


@pytest.mark.parametrize("max_length", [-1, 2, MAX_LENGTH + 1])
def test_max_length_beyond_the_positions_is_refused(tiny_run, max_length):
    with pytest.raises(ValueError, match="`max_length` must be 3 to 24"):
        serving_module.ServingModule(
            tower_answers.Detector(tiny_run.discriminator),
            tokenizer_lib.Tokenizer(tiny_run.vocabulary),
            max_length,
        )


def test_shorter_max_length_cuts_text_but_not_ids(tiny_run):
    module = serving_module.ServingModule(
        tower_answers.Detector(tiny_run.discriminator),
        tokenizer_lib.Tokenizer(tiny_run.vocabulary),
        max_length=4,
    )
    rows = module.answer("score_text", texts=tf.constant(["the cat sat on"]))
    np.testing.assert_array_equal(rows["input_ids"], [[2, 5, 6, 3]])
    np.testing.assert_array_equal(rows["num_truncated"], [2])
    ids = as_ids([[2] * MAX_LENGTH])
    scores = module.answer(
        "score_ids", **{name: tf.constant(v) for name, v in ids.items()}
    )
    assert scores["replaced_logits"].shape == (1, MAX_LENGTH)
