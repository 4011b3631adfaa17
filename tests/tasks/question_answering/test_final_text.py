"""From pieces back to the text."""

import pytest

from electra_tf.tasks.question_answering import final_text
from electra_tf.text import vocabulary as vocabulary_lib


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (["steve", "smith", "##son", "'", "s"], "steve smithson ' s"),
        (["##son", "a"], "son a"),
        (["a", "#", "#", "b"], "a # # b"),
        ([], ""),
    ],
)
def test_pieces_become_words(tokens, text):
    assert final_text.join_pieces(tokens) == text


@pytest.mark.parametrize(
    ("predicted", "original", "expected"),
    [
        ("steve smith", "Steve Smith's", "Steve Smith"),
        ("1895", "(1895-1943).", "1895"),
        ("1895 - 1943", "(1895-1943).", "1895-1943"),
        ("uber alles", "\u00dcber  alles!", "\u00dcber  alles"),
        # The first occurrence counts, also inside a word.
        ("ssi", "Mississippi ssi", "ssi"),
        ("a b", "x A B", "A B"),
    ],
)
def test_a_prediction_is_cut_out_of_the_original(predicted, original, expected):
    (normalized,) = final_text.normalize(
        [original], vocabulary_lib.TokenizerSettings()
    )
    start, end = final_text.project(predicted, normalized, original)
    assert original[start:end] == expected


@pytest.mark.parametrize(
    ("predicted", "normalized", "original"),
    [
        # Not there; of another length; nothing; cut at a blank.
        ("cat", "a dog", "a dog"),
        ("istanbul", "istanbul", "\u0130\u0307stanbul"),
        ("", "a", "A"),
        ("a ", "a b", "A B"),
        (" b", "a b", "A B"),
        ("x", "", ""),
    ],
)
def test_what_does_not_line_up_has_no_place(predicted, normalized, original):
    assert final_text.project(predicted, normalized, original) is None


def test_texts_are_normalised_by_the_settings_of_the_tokenizer():
    texts = ["Caf\u00e9,  X", "", "a-\u6e2fb", "\u200b"] * 2
    lower = vocabulary_lib.TokenizerSettings()
    cased = vocabulary_lib.TokenizerSettings(do_lower_case=False)
    expected = ["cafe , x", "", "a - \u6e2f b", ""] * 2
    assert final_text.normalize(texts, lower) == expected
    assert final_text.normalize(texts, cased)[0] == "Caf\u00e9 , X"
