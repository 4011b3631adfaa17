"""Gaps, swaps, and what a model that knows nothing makes of them."""

import numpy as np
import pytest
from analyses import word_tests

from tests import script_modules
from tests import tiny_electra

SWAPS = script_modules.ROOT / "data" / "python_docs" / "swapped_words.tsv"
WORDS = [word for word in tiny_electra.WORDS.split() if word.isalpha()]


def _sentences(count=300, seed=0):
    """Sentences of eight known words, which mean nothing."""
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(WORDS, 8)) + "." for _ in range(count)]


@pytest.fixture(scope="module")
def electra():
    return tiny_electra.build()


def test_sentences_of_eight_to_thirty_words_are_read_once(tmp_path):
    kept = "This line is a sentence of exactly eight words."
    also = "And here is another one of the same length."
    file = tmp_path / "text.txt"
    long = " ".join(["Word"] * 31)
    file.write_text(f"Too short. {kept} {also}\n\n{kept}\n{long}\n")
    found = word_tests.read_sentences(str(tmp_path), 9, 1)
    assert sorted(found) == [also, kept]
    assert len(word_tests.read_sentences(str(file), 1, 1)) == 1
    file.write_text("Too short.\n")
    with pytest.raises(ValueError, match="8 to 30 words. Received: .*text"):
        word_tests.read_sentences(str(file), 5, 1)


def test_an_ideograph_is_a_word(tmp_path, electra):
    file = tmp_path / "text.txt"
    file.write_text("他出生于美国纽约市。她喜欢「看书。」太短。\n")
    sentences = word_tests.read_sentences(str(file), 9, 1)
    assert sentences == ["他出生于美国纽约市。"]
    (swap,) = word_tests.draw_swaps([*sentences, "北京"], 1)[:1]
    assert len(swap.word) == 1 and swap.word in sentences[0]
    file.write_text("ไม่มีช่องว่างระหว่างคำ\n")
    with pytest.raises(ValueError, match="8 to 30 words"):
        word_tests.read_sentences(str(file), 5, 1)


def test_random_weights_are_no_better_than_the_baselines(electra):
    result = word_tests.run(electra, _sentences(), seed=1)
    assert result == word_tests.run(electra, _sentences(), seed=1)
    other = word_tests.run(electra, _sentences(), seed=2)
    assert result.gaps != other.gaps and result.swaps != other.swaps
    found = result.compute()
    assert found["num_gaps"] == found["num_swaps"] == 300
    assert found["gaps_filled"] < found["gaps_constant"] + 0.05
    assert found["swaps_chance"] == pytest.approx(1 / 9)
    # Four standard errors.
    assert found["swaps_first"] == pytest.approx(1 / 9, abs=0.075)
    assert found["swaps_auc"] == pytest.approx(0.5, abs=0.075)
    places = [place for _, place, _ in result.swaps]
    assert found["swaps_first"] == np.mean([place == 1 for place in places])
    is_right = [guess == word for _, word, guess, _ in result.gaps]
    assert found["gaps_filled"] == np.mean(is_right)


def test_gaps_are_single_pieces_and_masked_once(electra):
    sentences = ["unable (cat) s-s, Mat.", "unable cats."]
    gaps = [word_tests.fill_gaps(electra, sentences, i) for i in range(9)]
    # No word of the second sentence is a single piece.
    assert {len(row) for row in gaps} == {1}
    # Words are compared as the tokenizer has them.
    assert {row[0][1] for row in gaps} == {"cat", "mat"}
    assert {row[0][0].count("[MASK]") for row in gaps} == {1}


def test_the_script_prints_numbers_beside_baselines(tmp_path):
    tiny_electra.write_run(tmp_path / "run")
    (tmp_path / "text.txt").write_text("\n".join(_sentences(30)))
    sources = f"--sentences={tmp_path / 'text.txt'}", f"--swaps={SWAPS}"
    model, text = f"--model={tmp_path / 'run'}", "--text=The [MASK] sat."
    shown = script_modules.run("evaluate_words", model, *sources, text)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("0.500 (chance)") == 2
    assert "always" in shown.stdout and "by suspicion" in shown.stdout
    # All embedded swaps find their words.
    assert " of 20 " in shown.stdout
    assert "The [MASK] sat.\n    " in shown.stdout
