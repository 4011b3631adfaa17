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
    tokens = electra.vocabulary.tokens
    return [tokens[place] for place in best], probabilities[best]


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
        found, values = zip(*row, strict=True)
        expected, probabilities = _expected(electra, ids, position, 4)
        assert list(found) == expected
        np.testing.assert_allclose(values, probabilities, rtol=1e-5)


def test_many_texts_keep_their_order_and_their_answers(electra):
    texts = [
        " ".join(["cat"] * (number % 7) + ["[MASK]"] * (1 + number % 3))
        for number in range(70)
    ]
    together = electra.fill_masks(texts, 3)
    counts = [text.count("[MASK]") for text in texts]
    assert [len(masks) for masks in together] == counts
    for number in (0, 6, 33, 69):
        (alone,) = electra.fill_masks([texts[number]], 3)
        for first, second in zip(alone, together[number], strict=True):
            tokens, values = zip(*first, strict=True)
            others, found = zip(*second, strict=True)
            assert tokens == others
            np.testing.assert_allclose(found, values, rtol=1e-4)


def test_a_long_text_is_cut_behind_its_masks(electra):
    assert len(electra.fill_masks(["[MASK] " + "cat " * 40])[0]) == 1
    # The last place before [SEP] is still seen, the next is not.
    assert electra.fill_masks(["cat " * 13 + "[MASK]"])


@pytest.mark.parametrize(
    ("texts", "top_k", "message"),
    [
        (["[MASK]", "cat " * 14 + "[MASK]"], 1, "16 tokens.*text 1 .*token 15"),
        (["[MASK]", "[mask]"], 1, r"hold \[MASK\].*text 1 .*with none"),
        *((["[MASK]"], k, "int, 1 to 24") for k in (0, 25, 2.0, None)),
    ],
)
def test_what_cannot_be_filled_is_told(electra, texts, top_k, message):
    with pytest.raises(ValueError, match=message):
        electra.fill_masks(texts, top_k)
