"""Official files are read as they are published, or refused by line."""

import logging
import pathlib
import shutil

import pytest

from electra_tf.finetuning import tasks

COLA, SST2, CHUNKING = (tasks.TASKS[n] for n in ("cola", "sst2", "chunking"))


def _folder(path: pathlib.Path, task: tasks.Task, text: str) -> pathlib.Path:
    folder = path / task.folder
    folder.mkdir(parents=True)
    for name in task.files.values():
        (folder / name).write_bytes(text.encode())
    return path


def test_cola_has_no_header_and_its_sentence_last(tmp_path):
    text = "gj04\t1\t\tThe car honked.\nad03\t0\t*\tWhat all you get?"
    examples = COLA.read(_folder(tmp_path, COLA, text), "train")
    assert examples.texts == (("The car honked.",), ("What all you get?",))
    assert examples.labels == ((1,), (0,))


def test_sst2_has_a_header_and_its_sentence_first(tmp_path):
    text = "sentence\tlabel\nhide secretions \t0\ncharming . \t1\n"
    examples = SST2.read(_folder(tmp_path, SST2, text), "dev")
    assert examples.texts == (("hide secretions ",), ("charming . ",))
    assert examples.labels == ((0,), (1,))


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\n \n\n"])
def test_chunking_has_a_word_per_line_and_blank_lines_between(tmp_path, end):
    text = "He PRP B-NP\nran VBD B-VP\n\nYes UH B-INTJ\n. . O" + end
    examples = CHUNKING.read(_folder(tmp_path, CHUNKING, text), "train")
    assert examples.texts == (("He", "ran"), ("Yes", "."))
    names = [[CHUNKING.labels[i] for i in row] for row in examples.labels]
    assert names == [["B-NP", "B-VP"], ["B-INTJ", "O"]]


def test_dev_and_train_are_different_files(tmp_path):
    _folder(tmp_path, CHUNKING, "a X O\n")
    (tmp_path / "conll2000" / "test.txt").write_text("b X O\n")
    assert CHUNKING.read(tmp_path, "train").texts == (("a",),)
    assert CHUNKING.read(tmp_path, "dev").texts == (("b",),)


def test_quotes_and_rare_line_ends_are_text(tmp_path):
    text = '\ufeffsentence\tlabel\r\n"un\u2028paired\x85 \t0\r\nb "" \t1\r\n'
    examples = SST2.read(_folder(tmp_path, SST2, text), "train")
    assert examples.texts == (('"un\u2028paired\x85 ',), ('b "" ',))


@pytest.mark.parametrize(
    ("task", "text", "expected"),
    [
        (COLA, "a\t1\t\tx\nb\t1\tx\n", r"line 2: expected 4 .*Received 3"),
        (COLA, "a\t1\t\tx\n\nb\t1\t\tx\n", r"line 2: expected 4 .*Received 1"),
        (COLA, "a\t1\t\tx\ty\n", r"line 1: .*Received 5"),
        (COLA, "a\t1\t\t \n", r"line 1: expected a sentence"),
        (COLA, "a\t2\t\tx\n", r"line 1: .* out of 0, 1\. Received: '2'"),
        (SST2, "x\t1\n", r"line 1: .*header sentence, label.*'x\\t1'"),
        (SST2, "", r"line 1: .*header.*None"),
        (SST2, "sentence\tlabel\n", r"Received: none"),
        (SST2, "sentence\tlabel\nx\t1\ny\tone\n", r"line 3: .*'one'"),
        (CHUNKING, "a X O\n\nb O\n", r"line 3: expected 3 .*Received 2"),
        (CHUNKING, "a X Q-NP\n", r"line 1: .*Received: 'Q-NP'"),
        (CHUNKING, "\n\n", r"Received: none"),
    ],
)
def test_a_malformed_line_is_one_error(tmp_path, task, text, expected):
    folder = _folder(tmp_path, task, text)
    with pytest.raises(ValueError, match=expected) as error:
        task.read(folder, "train")
    assert str(folder / task.folder / task.files["train"]) in str(error.value)


def test_text_in_another_encoding_is_refused(tmp_path):
    folder = _folder(tmp_path, COLA, "")
    (folder / "CoLA" / "train.tsv").write_bytes(b"a\t1\t\tx\na\t1\t\tcaf\xe9\n")
    with pytest.raises(ValueError, match="line 2: expected UTF-8"):
        COLA.read(folder, "train")


@pytest.mark.parametrize("place", ["CoLA", "cola", "a/COLA", "a/b/CoLA"])
def test_a_task_is_found_by_its_folder_in_any_case(tmp_path, place):
    made = _folder(tmp_path / "made", COLA, "a\t1\t\tx\n") / "CoLA"
    (tmp_path / "top" / place).parent.mkdir(parents=True)
    made.rename(tmp_path / "top" / place)
    found = COLA.find_folder(tmp_path / "top")
    assert found == tmp_path / "top" / place
    assert COLA.find_folder(found) == found


def test_the_nearest_complete_folder_counts(tmp_path):
    _folder(tmp_path / "a", COLA, "")
    (tmp_path / "CoLA").mkdir()
    assert COLA.find_folder(tmp_path) == tmp_path / "a" / "CoLA"
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with pytest.raises(ValueError, match="must hold one CoLA"):
        COLA.find_folder(tmp_path)


def test_a_missing_task_names_folder_and_files(tmp_path):
    _folder(tmp_path / "1/2/3/4", COLA, "")
    with pytest.raises(FileNotFoundError) as error:
        COLA.find_folder(tmp_path)
    for part in (str(tmp_path), "CoLA/", "train.tsv, dev.tsv", "no folder"):
        assert part in str(error.value)
    (tmp_path / "CoLA").mkdir()
    (tmp_path / "CoLA" / "train.tsv").touch()
    with pytest.raises(FileNotFoundError, match="without all of them"):
        COLA.find_folder(tmp_path)
    with pytest.raises(FileNotFoundError, match="no folder there"):
        COLA.find_folder(tmp_path / "nowhere")


def test_another_number_of_sentences_than_published_is_noticed(
    tmp_path, caplog
):
    folder = _folder(tmp_path, COLA, "a\t1\t\tx\n" * 1_043)
    with caplog.at_level(logging.WARNING, logger="absl"):
        COLA.read(folder, "dev")
    assert caplog.text == ""
    with caplog.at_level(logging.WARNING, logger="absl"):
        COLA.read(folder, "train")
    assert "1043 sentences, the official file 8551" in caplog.text


def test_chunk_labels_are_the_official_twenty_three():
    assert len(set(CHUNKING.labels)) == len(CHUNKING.labels) == 23
    assert {"O", "B-NP", "I-UCP", "B-LST"} <= set(CHUNKING.labels)


def test_tasks_are_selected_by_name():
    assert tasks.select_tasks(["sst2", "cola"]) == [SST2, COLA]
    with pytest.raises(ValueError, match=r"cola, sst2.*'mrpc'"):
        tasks.select_tasks(["cola", "mrpc"])
    with pytest.raises(ValueError, match="none"):
        tasks.select_tasks([])
