import functools

import numpy as np
import pytest

from electra_tf.export.clients import loaded_export
from electra_tf.export.clients import scoring


def scored(text, probabilities):
    """A scored text whose words are separated by single blanks."""
    words, start = [], 0
    for word, probability in zip(text.split(" "), probabilities, strict=True):
        end = start + len(word.encode())
        words.append(scoring.ScoredWord(word, start, end, probability))
        start = end + 1
    return scoring.ScoredText(text.encode(), tuple(words), 0)


@pytest.fixture(scope="module")
def scorer(exported):
    export = loaded_export.LoadedExport(exported)
    return functools.partial(scoring.score, export)


def test_pieces_of_a_word_are_joined_and_the_worst_one_counts():
    # [CLS] un ##aff ##able cat [SEP] [PAD]
    words = scoring.group_words(
        b"Unaffable cat",
        np.array([-1, 0, 0, 0, 10, -1, -1]),
        np.array([-1, 9, 9, 9, 13, -1, -1]),
        np.array([0.99, 0.25, 0.75, 0.5, 0.125, 0.99, 0.0]),
    )
    assert words == (
        scoring.ScoredWord("Unaffable", 0, 9, 0.75),
        scoring.ScoredWord("cat", 10, 13, 0.125),
    )


def test_equal_words_at_two_places_stay_two_words():
    words = scoring.group_words(
        b"the the",
        np.array([0, 4]),
        np.array([3, 7]),
        np.array([0.5, 0.25]),
    )
    assert [word.start for word in words] == [0, 4]


def test_most_suspicious_words_come_largest_first():
    sentence = scored("a b c", [0.2, 0.9, 0.4])
    assert [w.text for w in sentence.most_suspicious()] == ["b"]
    assert [w.text for w in sentence.most_suspicious(9)] == ["b", "c", "a"]
    assert scored("x", [0.1])._replace(words=()).most_suspicious() == ()


def test_swap_exchanges_the_first_whole_word():
    swap = scoring.swap_word("Über at, atlas at", "at:on top of")
    assert swap.data.decode() == "Über on top of, atlas at"
    assert (swap.start, swap.old_end) == (6, 8)
    assert swap.data[swap.start : swap.new_end] == b"on top of"


@pytest.mark.parametrize("swap", ["cat", "cat:", ":dog", ""])
def test_swap_of_another_form_is_refused(swap):
    with pytest.raises(ValueError, match="WORD:REPLACEMENT"):
        scoring.swap_word("the cat", swap)


def test_swap_of_an_absent_word_is_refused():
    with pytest.raises(ValueError, match="'cat' for 'concatenate'"):
        scoring.swap_word("concatenate", "cat:dog")


def test_suspect_is_the_worst_word_that_touches_a_part():
    # Bytes 2 to 5 are "b c".
    sentence = scored("x b c z", [0.1, 0.2, 0.6, 0.8])
    assert scoring.find_suspect(sentence, 2, 5) == (2, sentence.words[2])
    assert scoring.find_suspect(sentence, 0, 2) == (4, sentence.words[0])
    cut = sentence._replace(words=sentence.words[:1])
    assert scoring.find_suspect(cut, 2, 5) is None


def test_exported_model_scores_words(scorer):
    text = "Unaffable cats sat."
    (result,) = scorer([text])
    assert [word.text for word in result.words] == [
        "Unaffable",
        "cats",
        "sat",
        ".",
    ]
    assert result.num_truncated == 0
    for word in result.words:
        assert result.data[word.start : word.end].decode() == word.text
        assert 0 < word.replaced_probability < 1


def test_many_texts_are_answered_in_their_order(scorer):
    texts = [f"the {'cat ' * (n % 5)}" for n in range(70)]
    results = scorer(texts)
    assert [len(r.words) for r in results] == [1 + n % 5 for n in range(70)]
    (alone,) = scorer([texts[69]])
    for word, expected in zip(results[69].words, alone.words, strict=True):
        assert word.replaced_probability == pytest.approx(
            expected.replaced_probability, abs=1e-5
        )
    assert scorer([]) == []


def test_truncated_and_invalid_texts_are_scored_as_far_as_they_go(scorer):
    long, invalid = scorer(["the cat " * 20, b"\xff the\xff"])
    assert len(long.words) == 22
    assert long.num_truncated == 18
    assert len(invalid.words) == 1
