"""Sentence tasks: examples, rows, heads and metrics.

The original's F1 counts gold positives among the predicted ones alone; its
numbers are compared with that rule, and the correct ones with ours.
"""

import functools
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.finetuning import scores
from electra_tf.finetuning.tasks import catalog
from electra_tf.finetuning.tasks import files
from electra_tf.finetuning.tasks import glue
from electra_tf.finetuning.tasks import glue_source
from electra_tf.finetuning.tasks import text_task
from electra_tf.finetuning_config import FinetuningConfig
from electra_tf.modeling import task_heads
from tests.golden import comparison
from tests.golden import loading
from tests.golden.comparison import Line

DEFAULTS = "default_hyperparameters.json"
_TOLERANCE = 1e-5
# The original's names of splits that are called otherwise here.
_SPLITS = {("mnli", "dev"): "dev_matched", ("mnli", "diagnostic"): "ax"}


def list_cases(folder: Path) -> Iterator[tuple[str, Any]]:
    """The cases of a folder `finetuning/classification`."""
    content = loading.read_json(folder / "examples.json")
    yield "epochs", functools.partial(_check_epochs, content["tasks"])
    length = content["max_seq_length"]
    for task, expected in content["tasks"].items():
        for split in expected["splits"]:
            yield (
                f"{task} {split}",
                functools.partial(
                    _check_split,
                    folder,
                    task,
                    split,
                    expected["splits"][split],
                    length,
                ),
            )
    for path in sorted(folder.glob("head_*.npz")):
        yield path.stem, functools.partial(_check_head, path)
    yield "metrics", functools.partial(_check_metrics, folder)


def check_defaults(path: Path) -> Iterator[Line]:
    """Epochs and lengths that tasks know, whatever the size of the model."""
    line = Line(DEFAULTS, 1e-9)
    for key, expected in loading.read_json(path).items():
        task = catalog.build_task(key.partition("/")[0], FinetuningConfig())
        for name in ("num_train_epochs", "max_seq_length"):
            error = comparison.relative_error(
                getattr(task, name), expected[name]
            )
            line.add(f"{key}, {name}", error)
    yield line


def _check_epochs(tasks: Mapping[str, Any]) -> Iterator[Line]:
    line = Line("epochs")
    for name, expected in tasks.items():
        epochs = catalog.build_task(name, FinetuningConfig()).num_train_epochs
        line.add(name, abs(epochs - expected["num_train_epochs"]))
    yield line


def _check_split(
    folder: Path,
    name: str,
    split: str,
    expected: Mapping[str, Any],
    length: int,
) -> Iterator[Line]:
    """Examples and left-out lines of a split, and its rows, padded."""
    task, content = _read(folder, name, split)
    rows = task.build_rows(
        content.examples,
        loading.load_tokenizer(folder),
        length,
        is_training=split == "train",
    )
    examples, order = content.examples, np.arange(rows.num_rows)
    if rows.num_rows > len(examples):
        # Of both orders of a pair, the original has all swapped ones last.
        order = np.concatenate([order[::2], order[1::2]])
        both = text_task.add_swapped(examples)
        examples = [both[place] for place in order]
    line = Line(f"{name} {split}")
    line.compare("bad lines", len(content.bad_lines), expected["n_bad_lines"])
    _compare_examples(line, task, examples, expected)
    columns = np.arange(length)
    mask = columns < rows.lengths[:, np.newaxis]
    ids = np.zeros(mask.shape, np.int32)
    ids[mask] = rows.ids.values
    (labels,) = rows.columns.values()
    theirs = loading.read_arrays(folder / f"{name}_{split}.npz")
    line.compare("eid", [example.eid for example in examples], theirs["eid"])
    for key, array in (
        ("input_ids", ids),
        ("input_mask", mask),
        ("segment_ids", mask & (columns >= rows.segment_starts[:, np.newaxis])),
        ("labels", labels),
    ):
        line.compare(key, array[order], theirs[key])
    yield line


def _read(
    folder: Path, name: str, split: str
) -> tuple[text_task.TextTask, glue_source.FileContent]:
    """A task with the original's defaults, and what is in one of its files."""
    known = catalog.ALIASES.get(name, name)
    if known not in glue.TASKS:
        raise ValueError(
            f"Expected tasks of GLUE in {folder / 'examples.json'}. Received: "
            f"{name!r}."
        )
    spec = glue.TASKS[known]
    file = spec.splits[_SPLITS.get((name, split), split)]
    path = files.find_file(
        folder / "tsv", spec.folders, file.file_names, f"{name} {split}"
    )
    task = glue_source.build_task(known, FinetuningConfig())
    return task, glue_source.read_file(spec, file.columns, path)


def _compare_examples(
    line: Line,
    task: text_task.TextTask,
    examples: list[text_task.Example],
    expected: Mapping[str, Any],
) -> None:
    line.compare("count", len(examples), expected["n_examples"])
    line.compare("listed", len(examples), len(expected["examples"]))
    # What the original has where the label is not told.
    no_label = task.labels[0] if task.labels else 0.0
    for place, (ours, theirs) in enumerate(
        zip(examples, expected["examples"], strict=False)
    ):
        label = no_label if ours.label is None else ours.label
        # The original keeps the string of a score.
        their_label = theirs["label"]
        if isinstance(label, float):
            their_label = float(their_label)
        pairs = (
            (ours.eid, theirs["eid"]),
            (ours.text, theirs["text_a"]),
            (ours.pair, theirs["text_b"]),
            (label, their_label),
        )
        line.add(f"example {place}", sum(own != one for own, one in pairs))


def _check_head(path: Path) -> Iterator[Line]:
    """Outputs and losses of a head with given weights and hidden states."""
    arrays = loading.read_arrays(path)
    expected = loading.with_prefix(arrays, "out/")
    weights = {
        name.rpartition("/")[2]: array
        for name, array in loading.with_prefix(arrays, "weights/").items()
    }
    hidden = tf.constant(arrays["final_hidden"])
    head: task_heads.TaskHead
    if "logits" in expected:
        head = task_heads.ClassificationHead(weights["kernel"].shape[1], 0)
        features = {"label": tf.constant(expected["label_ids"])}
    else:
        head = task_heads.RegressionHead(0)
        features = {"target": tf.constant(expected["targets"])}
    head.build(hidden.shape)
    for variable in head.trainable_variables:
        variable.assign(weights[variable.name])
    outputs = head.predict(hidden, features)
    if "logits" in expected:
        outputs["predictions"] = tf.argmax(outputs["logits"], axis=-1)
    else:
        outputs["predictions"] = outputs.pop("prediction")
    outputs["loss"] = head.compute_losses(hidden, features, None)
    line = Line(path.stem, _TOLERANCE)
    for name, output in outputs.items():
        line.compare(name, output, expected[name])
    yield line


def _check_metrics(folder: Path) -> Iterator[Line]:
    """All metrics of given labels and predictions.

    The losses beside them are means of what was fed and not compared.
    """
    path = folder / "metrics.json"
    ours = _compute_metrics(loading.read_arrays(folder / "metrics_inputs.npz"))
    line = Line("metrics", _TOLERANCE)
    for group, numbers in loading.read_json(path).items():
        if group not in ours:
            raise ValueError(
                f"Expected groups {', '.join(ours)} in {path}. Received: "
                f"{group!r}."
            )
        for name in numbers.keys() - {"loss"}:
            line.compare(f"{group}, {name}", ours[group][name], numbers[name])
    yield line


def _compute_metrics(arrays: loading.Arrays) -> dict[str, dict[str, float]]:
    labels, predictions = arrays["labels"], arrays["predictions"]
    three = arrays["labels_three"], arrays["predictions_three"]
    numbers = arrays["targets"], arrays["target_predictions"]
    num_right = np.sum((labels == 1) & (predictions == 1))
    precision = 100 * float(num_right / max(1, np.sum(predictions == 1)))
    recall = 100 * float(num_right / max(1, np.sum(labels == 1)))
    accuracy, mcc = scores.compute_accuracy, scores.compute_mcc
    return {
        "accuracy_binary": {"accuracy": accuracy(labels, predictions)},
        "accuracy_three": {"accuracy": accuracy(*three)},
        "f1_binary_as_in_original": dict.fromkeys(
            ("precision", "recall", "f1"), precision
        ),
        "mcc": {"mcc": mcc(labels, predictions)},
        "mcc_constant_prediction": {
            "mcc": mcc(labels, np.ones_like(predictions))
        },
        "regression": scores.compute_scores(
            scores.REGRESSION_METRICS, scores.REGRESSION_METRICS, *numbers
        ),
        "extra_not_from_original": {
            "f1_standard": scores.compute_f1(labels, predictions),
            "precision": precision,
            "recall": recall,
            "mcc_three": mcc(*three),
        },
    }
