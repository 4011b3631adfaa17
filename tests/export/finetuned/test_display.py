import pathlib
import re
import subprocess
import sys

import pytest

from electra_tf.export.clients import loaded_export
from electra_tf.export.finetuned import display

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def describe(task_exports):
    def call(task, **inputs):
        export = loaded_export.LoadedExport(task_exports(task))
        return list(display.describe(export, inputs))

    return call


def test_labels_stand_with_their_probabilities(describe):
    first, second = describe("sst2", texts=["the cat sat", "evil\x1b[31m"])
    lines = first.splitlines()
    assert lines[0] == "the cat sat"
    found = [
        re.fullmatch(r"  ([01])  (0\.\d{3})( +#*)?", line) for line in lines[1:]
    ]
    assert {match[1] for match in found} == {"0", "1"}
    shares = [float(match[2]) for match in found]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1.0, abs=0.002)
    assert "\x1b" not in second


def test_pairs_have_a_score(describe):
    (text,) = describe("stsb", texts=["the cat"], text_pairs=["the dog"])
    assert re.fullmatch(
        r"the cat\nthe dog\n  -?\d+\.\d{3} \(trained on 0 to 5\)", text
    )


def test_words_stand_with_their_tags(describe):
    (text,) = describe("chunking", texts=["the cats sat"])
    lines = text.splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["the", "cats", "sat"]
    assert all(
        re.search(r" (O|[BIES]-\w\w) +0\.\d{3}$", line) for line in lines
    )


def test_answers_are_marked_in_their_context(describe):
    texts = describe(
        "squad2", questions=["who?", "where?"], contexts=["Ä the cat sat"]
    )
    assert len(texts) == 2
    for text in texts:
        question, answer, place, marked = text.splitlines()
        assert question in ("who?", "where?")
        start, end = map(int, re.findall(r"\d+", place)[:2])
        context = "Ä the cat sat"
        assert answer.strip() == context[start:end]
        assert marked.strip() == (
            f"{context[:start]}>>{context[start:end]}<<{context[end:]}"
        )


def test_inputs_that_the_model_does_not_take_are_refused(describe):
    with pytest.raises(ValueError, match="questions and contexts. Received: "):
        describe("squad2", texts=["a"])
    with pytest.raises(ValueError, match="3 questions and 4 of another|"
                       "as many of all inputs"):  # fmt: skip
        describe("squad2", questions=["a"] * 3, contexts=["b"] * 4)


def test_a_pre_trained_export_is_refused(exported):
    export = loaded_export.LoadedExport(exported)
    with pytest.raises(ValueError, match="score_text.py is for pre-trained"):
        list(display.describe(export, {"texts": ["a"]}))


@pytest.mark.slow
def test_script_prints_answers(task_exports):
    command = [
        sys.executable,
        "scripts/predict_text.py",
        f"--saved_model={task_exports('mrpc')}",
        "--text=the cat",
        "--text_pair=the dog",
    ]
    finished = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert finished.stdout.startswith("the cat\nthe dog\n  ")
