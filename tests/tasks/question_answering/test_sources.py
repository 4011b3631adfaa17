"""Folders of published question answering data."""

import json

import pytest

from electra_tf import errors
from electra_tf.tasks import tfds_source
from electra_tf.tasks.question_answering import sources
from tests.tasks.question_answering.conftest import CONTEXT
from tests.tasks.question_answering.conftest import squad_file
from tests.tasks.question_answering.conftest import squad_question

SQUAD = squad_file([squad_question()])
MRQA = json.dumps(
    {"context": "a b", "qas": [{"qid": "m1", "question": "c", "answers": []}]}
)


@pytest.mark.parametrize(
    ("task", "split", "name"),
    [
        ("squad1", "train", "train-v1.1.json"),
        ("squad1", "dev", "any/where/dev-v1.1.json"),
        ("squad1", "dev", "squadv1/dev.json"),
        ("squad2", "train", "SQuAD/train-v2.0.json"),
        ("squad2", "dev", "finetuning_data/squad/dev.json"),
        ("newsqa", "dev", "newsqa/dev.jsonl"),
        ("newsqa", "dev", "mrqa/dev/NewsQA.jsonl"),
    ],
)
def test_a_file_is_found_where_its_publisher_or_the_original_has_it(
    write, tmp_path, task, split, name
):
    path = write(name, MRQA if task == "newsqa" else SQUAD)
    source = sources.SOURCES[task]
    assert source.find(str(tmp_path), split) == path
    assert len(source.read(str(tmp_path), split)) == 1


def test_what_is_missing_is_named(write, tmp_path):
    source = sources.SOURCES["squad2"]
    with pytest.raises(FileNotFoundError, match="train-v2.0.json"):
        source.find(str(tmp_path), "train")
    with pytest.raises(FileNotFoundError, match="task.data_dir"):
        source.read("", "train")


def test_another_number_of_questions_is_a_warning(write, tmp_path, caplog):
    write("dev-v1.1.json", SQUAD)
    with caplog.at_level("WARNING"):
        sources.SOURCES["squad1"].read(str(tmp_path), "dev")
    assert "holds 1 examples, the official file 10570" in caplog.text


def test_the_counts_are_those_of_the_published_files():
    found = {
        name: tuple(source.num_questions.values())
        for name, source in sources.SOURCES.items()
    }
    assert found["squad1"] == (87_599, 10_570)
    assert found["squad2"] == (130_319, 11_873)
    # The shared task's 516,819 and 58,221 are these and two more of each.
    mrqa = [found[n] for n in ("newsqa", "naturalqs", "triviaqa", "searchqa")]
    train, dev = map(sum, zip(*mrqa, strict=True))
    assert train == 516_819 - 86_588 - 72_928
    assert dev == 58_221 - 10_507 - 5_901


def test_training_questions_without_their_answer_are_left_out(
    write, tmp_path, caplog
):
    wrong = [{"text": "cats", "answer_start": 0}]
    questions = [squad_question(), squad_question(id="q2", answers=wrong)]
    for split in sources.SPLITS:
        write(f"{split}-v1.1.json", squad_file(questions))
    source = sources.SOURCES["squad1"]
    assert len(source.read(str(tmp_path), "train")) == 1
    assert "q2" in caplog.text
    assert len(source.read(str(tmp_path), "dev")) == 2


def test_tfds_is_asked_for_the_split_by_its_name_there(monkeypatch):
    asked = []

    def read(name, split):
        asked.append((name, split))
        start = CONTEXT.index("mat")
        return [
            {
                "id": "q1",
                "question": "where",
                "context": CONTEXT,
                "answers": {"text": ["mat"], "answer_start": [start]},
            }
        ]

    monkeypatch.setattr(tfds_source, "read", read)
    (example,) = sources.SOURCES["squad1"].read("tfds", "dev")
    assert example.golds == ("mat",)
    sources.SOURCES["squad2"].read("tfds", "train")
    assert asked == [("squad/v1.1", "validation"), ("squad/v2.0", "train")]
    with pytest.raises(errors.DataError, match="newsqa is not read from"):
        sources.SOURCES["newsqa"].read("tfds", "dev")
