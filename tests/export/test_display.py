import os
import pathlib
import subprocess
import sys

import pytest
from rich import console as rich_console

from electra_tf.export.clients import display
from electra_tf.export.clients import scoring

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def scored(text, probabilities):
    """A scored text whose words are separated by single blanks."""
    words, start = [], 0
    for word, probability in zip(text.split(" "), probabilities, strict=True):
        end = start + len(word.encode())
        words.append(scoring.ScoredWord(word, start, end, probability))
        start = end + 1
    return scoring.ScoredText(text.encode(), tuple(words), 0)


def printed(renderable, **options):
    console = rich_console.Console(highlight=False, width=80, **options)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def test_marked_sentence_shows_words_between_marks():
    sentence = scored("Die Größe über alles", [0.1, 0.9, 0.8, 0.0])
    marked = display.mark_words(sentence, sentence.most_suspicious(2))
    assert marked.plain == "Die >>Größe<< >>über<< alles"


def test_colours_appear_on_terminals_only(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    sentence = scored("a b", [0.1, 0.9])
    marked = display.mark_words(sentence, sentence.most_suspicious())
    assert printed(marked, force_terminal=False) == "a >>b<<\n"
    assert "\x1b[1;31m>>b<<\x1b[0m" in printed(
        marked, force_terminal=True, color_system="standard"
    )


def test_text_cannot_steer_the_terminal():
    sentence = scored("evil\x1b[31m\n\u202eword [red]x[/red]", [0.9, 0.1])
    marked = display.mark_words(sentence, sentence.most_suspicious())
    text = printed(marked) + printed(
        display.build_table(sentence, sentence.most_suspicious())
    )
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[red]x[/red]" in text


def test_table_has_a_line_for_every_word():
    sentence = scored("the banana sat", [0.0, 0.5, 0.1])
    lines = printed(
        display.build_table(sentence, sentence.most_suspicious())
    ).splitlines()
    assert [line.split() for line in lines] == [
        ["word", "replaced"],
        ["the", "0.000"],
        ["banana", "0.500", "#" * 15, "<--", "most", "suspicious"],
        ["sat", "0.100", "###"],
    ]


def test_swap_is_described_before_and_after():
    swap = scoring.swap_word("the cat sat", "cat:big dog")
    before = scored("the cat sat", [0.1, 0.2, 0.3])
    after = scored("the big dog sat", [0.1, 0.25, 0.5, 0.75])
    sentence = display.describe_swap(before, after, swap)
    assert "number 2 of 4 by suspicion, with 0.500" in sentence
    assert "original word had 0.200" in sentence
    cut = after._replace(words=after.words[:1])
    assert "not scored" in display.describe_swap(before, cut, swap)


def test_texts_are_printed_with_marks_and_what_was_cut(capsys):
    cut = scored("a b", [0.1, 0.9])._replace(num_truncated=7)
    display.print_scored([cut, scored("c d", [0.9, 0.1])])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if ">>" in line] == ["a >>b<<", ">>c<< d"]
    assert [line for line in lines if line.startswith("(7 pieces")]


def test_likelihoods_are_printed_with_marks_and_sums(capsys):
    words = (
        scoring.LikelyWord(0, 3, -1.5),
        scoring.LikelyWord(4, 10, -4.25),
    )
    text = scoring.LikelyText(b"the banana", words, -5.75, 3)
    display.print_likelihoods([text])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["word", "log", "likelihood"],
        ["the", "-1.500"],
        ["banana", "-4.250", "<--", "least", "likely"],
    ]
    assert lines[4] == "the >>banana<<"
    assert lines[5].startswith("(3 pieces")
    assert lines[6] == "pseudo-log-likelihood -5.750 (lower: less likely)"


@pytest.mark.parametrize(
    ("after", "words"),
    [(-7.0, "less likely"), (-2.0, "more likely"), (-5.0, "equally likely")],
)
def test_swap_is_described_by_likelihoods(after, words):
    texts = [scoring.LikelyText(b"", (), value, 0) for value in (-5.0, after)]
    sentence = display.describe_likelihood_swap(*texts)
    assert words in sentence
    assert f"{after:.3f}" in sentence


def run_script(folder, *arguments):
    return subprocess.run(
        [sys.executable, "scripts/score_text.py", f"--saved_model={folder}",
         *arguments],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip


def test_script_prints_likelihoods_of_an_energy_model(objective_exports):
    finished = run_script(
        objective_exports("electric").folder,
        "--text=The cat sat on the mat.",
        "--swap=mat:table",
    )
    assert finished.returncode == 0, finished.stderr
    first, second = finished.stdout.split("With mat:table:")
    for part in (first, second):
        assert part.count("pseudo-log-likelihood") == 1
    value = first.split("pseudo-log-likelihood ")[1].split()[0]
    assert "likely than the original" in second
    assert f"against {value}." in second


def test_script_says_what_an_export_offers_instead(objective_exports):
    finished = run_script(objective_exports("mlm").folder, "--text=the cat")
    assert finished.returncode == 1
    assert "objective 'mlm'" in finished.stderr
    assert "predict_ids" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_script_prints_a_table_and_the_marked_sentence(exported):
    finished = run_script(
        exported, "--text=The cat sat on the mat.", "--swap=mat:table"
    )
    assert finished.returncode == 0, finished.stderr
    first, second = finished.stdout.split("With mat:table:")
    for part, last in ((first, "mat"), (second, "table")):
        words = [line.split()[0] for line in part.splitlines() if line.split()]
        assert last in words
        marked = [line for line in part.splitlines() if ">>" in line]
        plain = marked[0].replace(">>", "").replace("<<", "")
        assert plain == f"The cat sat on the {last}."
    assert "The swapped word is number" in second
    assert "\x1b" not in finished.stdout
