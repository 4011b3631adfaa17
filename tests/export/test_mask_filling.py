"""Masks in raw text, filled."""

import numpy as np
import pytest
import tensorflow as tf

from tests import tiny_electra


@pytest.fixture(scope="module")
def electra():
    return tiny_electra.build()


def _expected(electra, ids, position, top_k):
    """Tokens and probabilities for one row, from the Keras model."""
    rows = {
        "input_ids": np.array([ids], np.int32),
        "input_mask": np.ones([1, len(ids)], np.int32),
        "segment_ids": np.zeros([1, len(ids)], np.int32),
    }
    probabilities = tf.nn.softmax(electra.generator(rows)[0, position]).numpy()
    best = np.argsort(-probabilities, kind="stable")[:top_k]
    return [
        (electra.vocabulary.tokens[token], probabilities[token])
        for token in best
    ]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("the [MASK] sat .", "[CLS] the [MASK] sat . [SEP]"),
        ("[MASK]", "[CLS] [MASK] [SEP]"),
        ("The cats([MASK])!", "[CLS] the cat ##s ( [MASK] ) ! [SEP]"),
        ("un[MASK]able", "[CLS] un [MASK] [UNK] [SEP]"),
        ("[MASK][MASK] cat", "[CLS] [MASK] [MASK] cat [SEP]"),
        ("[mask] [MASK]", "[CLS] [UNK] [UNK] [UNK] [MASK] [SEP]"),
    ],
)
def test_fillings_are_the_generators_for_the_row(electra, text, tokens):
    ids = [electra.vocabulary.id_of(token) for token in tokens.split()]
    mask_id = electra.vocabulary.mask_id
    filled = electra.fill_masks([text], top_k=4)[0]
    positions = [place for place, id in enumerate(ids) if id == mask_id]
    assert len(filled) == len(positions)
    for row, position in zip(filled, positions, strict=True):
        expected = _expected(electra, ids, position, 4)
        assert [filling.token for filling in row] == [e[0] for e in expected]
        np.testing.assert_allclose(
            [filling.probability for filling in row],
            [e[1] for e in expected],
            rtol=1e-5,
        )


def test_many_texts_keep_their_order_and_their_answers(electra):
    texts = [
        " ".join(["cat"] * (number % 7) + ["[MASK]"] * (1 + number % 3))
        for number in range(70)
    ]
    together = electra.fill_masks(texts, 3)
    assert [len(masks) for masks in together] == [
        text.count("[MASK]") for text in texts
    ]
    for number in (0, 6, 33, 69):
        alone = electra.fill_masks([texts[number]], 3)[0]
        for first, second in zip(alone, together[number], strict=True):
            assert [f.token for f in first] == [f.token for f in second]
            np.testing.assert_allclose(
                [f.probability for f in first],
                [f.probability for f in second],
                rtol=1e-4,
            )


def test_a_long_text_is_cut_behind_its_masks(electra):
    filled = electra.fill_masks(["[MASK] " + "cat " * 40])
    assert len(filled[0]) == 1
    with pytest.raises(ValueError, match="text 1 .* at token 20"):
        electra.fill_masks(["[MASK]", "cat " * 19 + "[MASK]"])
    # The last place before [SEP] is still seen, the next is not.
    assert electra.fill_masks(["cat " * 13 + "[MASK]"])
    with pytest.raises(ValueError, match="within the 16 tokens"):
        electra.fill_masks(["cat " * 14 + "[MASK]"])


def test_a_text_without_a_mask_is_an_error(electra):
    with pytest.raises(ValueError, match=r"hold \[MASK\].*text 1"):
        electra.fill_masks(["[MASK]", "[mask]"])


@pytest.mark.parametrize("top_k", [0, -1, 25, 2.5, 2.0, "3", None])
def test_top_k_must_be_possible(electra, top_k):
    assert electra.vocabulary.size == 24
    with pytest.raises(ValueError, match="`top_k` must be an int, 1 to 24"):
        electra.fill_masks(["[MASK]"], top_k)
