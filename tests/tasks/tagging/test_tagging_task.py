"""The whole task: files to rows, outputs to tags, scores and files."""

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.tasks.tagging import tagging_task
from tests.tasks.conftest import build_own
from tests.tasks.conftest import own_settings
from tests.tasks.conftest import settings_of

CHUNKS = """\
The DT B-NP
cats NNS I-NP
sat VBD B-VP

On IN O
the DT B-NP
"""


def _chunking(data_dir):
    settings = settings_of(names="chunking", data_dir=str(data_dir))
    return tagging_task.build_chunking(settings)


def _build(**fields):
    return tagging_task.TaggingTask.build_own(
        own_settings(kind="tagging", **fields)
    )


def _own(folder, text, name="train.conll", **fields):
    return build_own(folder, text, name, kind="tagging", **fields)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "conll2000"
    folder.mkdir()
    (folder / "train.txt").write_text(CHUNKS)
    (folder / "test.txt").write_text("Cats NNS B-PP\n\nsat VBD B-VP\n")
    return folder


def _outputs(task, tags):
    """Logits that speak for some tags."""
    return {
        "logits": [
            np.array([[tag == name for name in task.labels] for tag in row])
            for row in tags
        ]
    }


def test_predictions_are_tags_of_words(folder, tokenizer):
    task = _chunking(folder)
    examples = task.read_split("train")
    rows = task.build_rows(examples, tokenizer, 16, False)
    right = [["B-NP", "E-NP", "S-VP"], ["O", "S-NP"]]
    predictions = task.decode(examples, rows, _outputs(task, right))
    assert predictions == right
    scores = task.score(examples, predictions)
    assert set(scores.values()) == {100} and task.metric in scores
    assert {"precision", "accuracy", "seqeval_strict_f1"} < scores.keys()
    assert not task.is_degenerate(examples, predictions)
    assert task.is_degenerate(examples, [["O"] * 3, ["O", None]])


def test_tags_that_only_dev_has_count_as_errors(folder, caplog, tokenizer):
    task = _chunking(folder)
    examples = task.read_split("dev")
    rows = task.build_rows(examples, tokenizer, 16, False)
    assert rows.ragged["tag_weights"].values.tolist() == [0, 1]
    predictions = task.decode(
        examples, rows, _outputs(task, [["S-NP"], ["S-VP"]])
    )
    scores = task.score(examples, predictions)
    assert scores["f1"] == scores["accuracy"] == 50
    assert "lack the tags S-PP" in caplog.text


def test_words_beyond_the_row_are_told_and_wrong(folder, caplog, tokenizer):
    task = _chunking(folder)
    examples = task.read_split("train")
    # Before a word: 3 words, 2 ends, the tokens so far, and one more.
    rows = task.build_rows(examples, tokenizer, 8, False)
    assert "1 of 5 words" in caplog.text
    predictions = task.decode(
        examples, rows, _outputs(task, [["B-NP", "E-NP"], ["O", "S-NP"]])
    )
    assert predictions[0] == ["B-NP", "E-NP", None]
    scores = task.score(examples, predictions)
    assert scores["accuracy"] == 80
    assert scores["recall"] == pytest.approx(200 / 3)


def test_predict_only_needs_no_tags(tmp_path, tokenizer):
    (tmp_path / "test.conll").write_text("cats\nsat\n")
    test_file = str(tmp_path / "test.conll")
    task = _build(test_file=test_file, labels="B-X,I-X,O")
    examples = task.read_split("test")
    assert not task.has_labels(examples)
    assert (task.splits, task.dev_splits) == (("test",), ())
    rows = task.build_rows(examples, tokenizer, 16, False)
    assert rows.ragged["tag_weights"].values.tolist() == [0, 0]
    predictions = task.decode(examples, rows, _outputs(task, [["B-X", "E-X"]]))
    (path,) = task.write_predictions(tmp_path, "test", examples, predictions)
    assert path.read_text() == "cats\tB-X\nsat\tI-X\n\n"


def test_tags_of_words_are_scored_by_accuracy(tmp_path):
    task = _own(tmp_path, "the DT\ncats NNS\nsat VBD\n")
    assert not task.conventions.scheme
    assert task.labels == ("DT", "NNS", "VBD")
    examples = task.read_split("train")
    scores = task.score(examples, [["DT", "NNS", None]])
    assert task.metric == "accuracy"
    assert scores == {"accuracy": pytest.approx(200 / 3)}
    (path,) = task.write_predictions(
        tmp_path, "dev", examples, [["DT", "NNS", None]]
    )
    assert path.read_text().splitlines()[2] == "sat\tVBD\t_"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"test_file": "x.conll"}, "no labels"),
        ({"test_file": "x.conll", "labels": "B-X,NN,O"}, "own.labels"),
        ({"train_file": "x.conll", "metric": "mcc"}, "one of f1, acc.*'mcc'"),
        ({"train_file": __file__}, "ends with one of.*'.py'"),
        ({"test_file": "x.conll", "labels": "X", "metric": "f1"}, "own.labels"),
    ],
)
def test_settings_that_mean_nothing_are_refused(fields, expected):
    with pytest.raises(ValueError, match=expected):
        _build(**fields).read_split("train")


@pytest.mark.parametrize(
    ("train", "dev", "message"),
    [
        # A tag that is not like the others would switch spans off.
        ("a B-X\nb I-X\nc O\nd PER\n", "", "train.* word 4 .*'PER'.*accuracy"),
        ("a B-X\nb O\n", "b O\n\nc B-Y\n",
         r"dev.conll, line 3: .* word 1 .*training file \(X\).*'B-Y'.*labels"),
        ("a NN\nb VB\n", "b NN\nc JJ\n", "dev.* word 2 .*NN, VB.*'JJ'"),
        ("a B-X\nb O\n", "b NN\n", "dev.* word 1 .*a span"),
        ("B-X Ann\nO ran\n", "", "line 1: .*'B-X'.*own.text_column"),
        ("a; O\nb; B-X\n", "", "line 1: .*without signs between.*'a;'"),
        ("a O\nb O\n", "", "two or more different tags.*own.label_column"),
    ],
)  # fmt: skip
def test_tags_that_do_not_fit_are_refused(tmp_path, train, dev, message):
    dev_file = tmp_path / "dev.conll"
    dev_file.write_text(dev)
    task = _own(tmp_path, train, dev_file=str(dev_file))
    with pytest.raises(errors.DataError, match=message):
        task.read_split("train" if not dev else "dev")


def test_what_was_understood_is_told(tmp_path):
    task = _own(tmp_path, "a b_X\nb i_X\n\nc O\nd 0\ne o\n")
    examples = {"train": task.read_split("train")}
    assert task.describe_labels(examples) == [
        "train: tags are read and predicted in one style: b_X (1) as B-X, "
        "i_X (1) as I-X, 0 (1) as O, o (1) as O.",
        "Tags mark spans, in the scheme BIO: X (1). "
        "F1 of whole spans ranks trials.",
        "The first sentence: a/B-X b/I-X",
    ]
    # A dev file in another scheme.
    dev_file = tmp_path / "dev.conll"
    dev_file.write_text("a I-X\nb O\n")
    task = _own(tmp_path, "a B-X\nb O\n", dev_file=str(dev_file))
    examples = {split: task.read_split(split) for split in ("train", "dev")}
    assert (
        "Spans of dev look like IOB1, but are read as BIO."
        in task.describe_labels(examples)
    )
    task = _own(tmp_path, "# x\nthe DT\ncat NN\nsat O\n")
    notes = task.describe_labels({"train": task.read_split("train")})
    assert "train.conll: words in column 0" in notes[0]
    assert "Tags mark no spans: DT (1), NN (1), O" in notes[1]
    assert "Accuracy ranks trials: not all tags are O or" in notes[1]


def test_labels_of_a_model_make_no_new_demands_on_files(tmp_path):
    dev_file = tmp_path / "dev.txt"
    dev_file.write_text("cats VB\ncat NN\n\n")
    text = "the DT\ncat NN\n\n"
    task = _own(tmp_path, text, dev_file=str(dev_file), labels="DT,NN")
    with pytest.raises(ValueError, match="'VB'"):
        task.read_split("dev")
    task.use_labels(("DT", "NN"))
    assert task.read_split("dev")[0].tags == ("VB", "NN")
    assert task.labels == ("DT", "NN")


@pytest.mark.parametrize(
    ("tags", "labels"),
    [
        ("B-X I-X O B-X", "B-X E-X O S-X"),
        ("I-X I-X O I-X", "B-X E-X O S-X"),
        ("B-X E-X O S-X", "B-X E-X O S-X"),
        ("B-X L-X O U-X", "B-X E-X O S-X"),
        ("DT NN VB NN", "DT NN VB NN"),
        # In other styles.
        ("B_X I_X O B_X", "B-X E-X O S-X"),
        ("X-B X-I O X-B", "B-X E-X O S-X"),
        ("b-x i-x o b-x", "B-x E-x O S-x"),
        ("X/B X/L o X/U", "B-X E-X O S-X"),
        ("B I O B", "B-SPAN E-SPAN O S-SPAN"),
        ("B E S O", "B-SPAN E-SPAN S-SPAN O"),
    ],
)
def test_predictions_have_the_scheme_of_the_file(tmp_path, tags, labels):
    words, expected = ["the", "cats", "sat", "on"], labels.split()
    lines = map(" ".join, zip(words, tags.split(), strict=True))
    task = _own(tmp_path, "\n".join(lines))
    (example,) = task.read_split("train")
    assert task.labels == tuple(sorted(set(expected)))
    assert task.list_predictions([example], [expected]) == [[*example.tags]]
    assert task.score([example], [expected])["accuracy"] == 100
    # A trained model knows without the file.
    loaded = _build(test_file=str(tmp_path / "train.conll"), labels="0,1")
    loaded.use_labels(task.labels)
    loaded.use_conventions(vars(task.conventions) | {"style": "X_b o"})
    assert loaded.read_split("test") == [example]
    assert loaded.list_predictions([example], [expected]) == [[*example.tags]]
    assert loaded.metric == task.metric
