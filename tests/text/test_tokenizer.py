"""Ids equal to the original's, wherever the tokenizer runs."""

import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import SPECIAL_TOKENS
from electra_tf.text.vocabulary import TokenizerSettings
from electra_tf.text.vocabulary import Vocabulary


def _tokenizer(*tokens: str, **settings) -> Tokenizer:
    return Tokenizer(
        Vocabulary(SPECIAL_TOKENS + tokens, TokenizerSettings(**settings))
    )


def _pieces(tokenizer: Tokenizer, text: str | bytes) -> list[str]:
    """Tokens of one text; both ways of asking for them must agree."""
    texts = tf.constant([text])
    ids = tokenizer.tokenize(texts).to_list()
    assert tokenizer.tokenize_with_offsets(texts)[0].to_list() == ids
    return [tokenizer.vocabulary.tokens[i] for i in ids[0]]


def test_the_limit_of_a_word_counts_normalised_characters():
    letters = "a\xdf\u1112\u1161\u11abi"
    continued = [f"##{letter}" for letter in letters]
    tokenizer = _tokenizer(*letters, *continued, ".", "##.")
    for word, is_known in [
        ("a" * 200, True),
        ("a" * 201, False),
        # 400 bytes of 200 characters, which stay ...
        ("\xdf" * 200, True),
        ("\xdf" * 201, False),
        # ... or shrink to 200 bytes, as accents go,
        ("\xe1" * 200, True),
        ("\xe1" * 201, False),
        ("a\u0301" * 200, True),
        ("a\u200b" * 200, True),
        # or grow to three times as many characters.
        ("\ud55c" * 66, True),
        ("\ud55c" * 67, False),
        ("\u0130" * 200, True),
    ]:
        for text in (word, f"a.{word}.a", f"{word} \u03a3"):
            first_pieces = _pieces(tokenizer, text)[:3]
            assert ("[UNK]" not in first_pieces) == is_known, text[:5]


def test_tokens_that_no_word_can_hold_do_no_harm():
    # The library drops the word "aa" if "a b" is a token, and refuses "\0"
    # and tokens of more than 256 bytes.
    odd = ["a b", "\0", "##\0", "##", "don't", "..", "##.", "\u4e2d\u6587"]
    odd += ["[X]", "[12]", "###", "\u200b", "b\u200b", "x" * 300, "##\u4e2d"]
    tokenizer = _tokenizer("a", "##a", "b", ".", "#", *odd)
    assert _pieces(tokenizer, "aa a b ## .. \u4e2d") == (
        ["a", "##a", "a", "b", "#", "#", ".", ".", "[UNK]"]
    )


def test_tokens_that_the_library_cannot_use_are_refused():
    with pytest.raises(errors.DataError, match="line 6.*256 bytes"):
        _tokenizer("\u0436" * 129)
    with pytest.raises(errors.DataError, match="5 tokens.*cut off"):
        _tokenizer()


def test_a_dataset_and_a_function_give_the_same_ids():
    tokenizer = _tokenizer("caf", "##e", "\u0436", "##\u0436")
    texts = ["Caf\xe9", "\u0436\u0416", ""] * 5
    expected = tokenizer.tokenize(tf.constant(texts)).to_list()
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(4)
    rows = []
    for ids in dataset.map(tokenizer.tokenize, num_parallel_calls=2):
        rows += ids.to_list()
    assert rows == expected
    # A method keeps its tokenizer alive.
    dataset = tf.data.Dataset.from_tensors(["a a"])
    dataset = dataset.map(_tokenizer("a").tokenize)
    assert next(iter(dataset)).to_list() == [[5, 5]]
    function = tf.function(
        lambda t: tokenizer.tokenize(t).to_tensor(-1), autograph=False
    )
    padded = function(tf.constant(texts)).numpy().tolist()
    assert [[i for i in row if i >= 0] for row in padded] == expected
