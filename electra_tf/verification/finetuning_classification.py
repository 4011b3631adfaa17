"""Sentence tasks against the original's: examples, rows, heads and metrics.

The original's F1 counts gold positives among the predicted ones alone; its
numbers are compared with that rule, and the correct ones with ours.
"""

import functools
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf import finetuning_config
from electra_tf.modeling import task_heads
from electra_tf.tasks import catalog
from electra_tf.tasks import files
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.sentences import glue
from electra_tf.tasks.sentences import glue_source
from electra_tf.tasks.sentences import scores
from electra_tf.tasks.sentences import text_task
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.verification import comparison
from electra_tf.verification import reference
from electra_tf.verification.report import CheckResult

KIND = "finetuning"
HYPERPARAMETERS = "default_hyperparameters.json"
_TOLERANCE = 1e-5
# The original's names of splits that are called otherwise here.
_SPLITS = {("mnli", "dev"): "dev_matched", ("mnli", "diagnostic"): "ax"}

Case = tuple[str, Callable[[], CheckResult | list[CheckResult]]]
Numbers = dict[str, float]
Settings = finetuning_config.FinetuningConfig


def list_cases(folder: Path) -> Iterator[Case]:
    """The cases of a folder `finetuning/classification`, and how to check them.

    Args:
        folder: is there.
    """
    content = reference.read_json(folder / "examples.json")
    yield "epochs", functools.partial(_check_epochs, content["tasks"])
    for name, task in content["tasks"].items():
        for split, expected in task["splits"].items():
            yield (
                f"{name} {split}",
                functools.partial(
                    check_split,
                    folder,
                    name,
                    split,
                    expected,
                    content["max_seq_length"],
                ),
            )
    for path in sorted(folder.glob("head_*.npz")):
        yield path.stem, functools.partial(check_head, path)
    yield "metrics", functools.partial(check_metrics, folder)
    yield (
        HYPERPARAMETERS,
        functools.partial(check_defaults, folder.parent / HYPERPARAMETERS),
    )


def check_split(
    folder: Path,
    name: str,
    split: str,
    expected: Mapping[str, Any],
    max_seq_length: int,
) -> CheckResult:
    """Examples and left-out lines of a split, and its rows, padded.

    Args:
        folder: of the reference.
        name: the original's of the task.
        split: the original's name of it.
        expected: of `examples.json`.
        max_seq_length: tokens of a row.
    """
    task, content = _read(folder, name, split)
    rows = task.build_rows(
        content.examples,
        _tokenizer(folder),
        max_seq_length,
        is_training=split == "train",
    )
    examples, order = content.examples, np.arange(rows.num_rows)
    if rows.num_rows > len(examples):
        # Of both orders of a pair, the original has all swapped ones last.
        order = np.concatenate([order[::2], order[1::2]])
        both = text_task.add_swapped(examples)
        examples = [both[place] for place in order]
    line = comparison.Comparison(KIND, f"{name} {split}")
    line.add("bad lines", abs(len(content.bad_lines) - expected["n_bad_lines"]))
    _compare_examples(line, task, examples, expected)
    theirs = reference.read_arrays(folder / f"{name}_{split}.npz")
    (labels,) = rows.columns.values()
    eids = [example.eid for example in examples]
    line.add("eid", comparison.count_unequal(eids, theirs["eid"]))
    for key, array in (_pad(rows, max_seq_length) | {"labels": labels}).items():
        line.add(key, comparison.count_unequal(array[order], theirs[key]))
    return line.result()


def check_head(path: Path) -> CheckResult:
    """Outputs and losses of a head with given weights and hidden states.

    Args:
        path: `head_<task>.npz`; a classifier's has `out/logits`.
    """
    arrays = reference.read_arrays(path)
    weights = {
        name.rpartition("/")[2]: array
        for name, array in arrays.items()
        if name.startswith("weights/")
    }
    hidden = tf.constant(arrays["final_hidden"])
    is_classifier = "out/logits" in arrays
    head: task_heads.TaskHead
    if is_classifier:
        head = task_heads.ClassificationHead(weights["kernel"].shape[1], 0)
        features = {"label": tf.constant(arrays["out/label_ids"])}
    else:
        head = task_heads.RegressionHead(0)
        features = {"target": tf.constant(arrays["out/targets"])}
    head.build(hidden.shape)
    for variable in head.trainable_variables:
        variable.assign(weights[variable.name])
    line = comparison.Comparison(KIND, path.stem, _TOLERANCE)
    outputs = head.predict(hidden, features)
    outputs["loss"] = head.compute_losses(hidden, features, None)
    if is_classifier:
        outputs["predictions"] = tf.argmax(outputs["logits"], axis=-1)
    else:
        outputs["predictions"] = outputs.pop("prediction")
    for name, output in outputs.items():
        line.add(
            name,
            comparison.compute_error(output.numpy(), arrays[f"out/{name}"]),
        )
    return line.result()


def check_metrics(folder: Path) -> CheckResult:
    """All metrics of given labels and predictions.

    The losses beside them are means of what was fed and not compared.

    Args:
        folder: of the reference.
    """
    expected = reference.read_json(folder / "metrics.json")
    ours = _compute_metrics(
        reference.read_arrays(folder / "metrics_inputs.npz")
    )
    line = comparison.Comparison(KIND, "metrics", _TOLERANCE)
    for group, numbers in expected.items():
        if group not in ours:
            raise reference.ReferenceFileError(
                f"Expected groups {', '.join(ours)} in "
                f"{folder / 'metrics.json'}. Received: {group!r}."
            )
        for name, number in numbers.items():
            if name != "loss":
                error = comparison.compute_error(ours[group][name], number)
                line.add(f"{group}, {name}", error)
    return line.result()


def check_defaults(
    path: Path, settings_by_size: Mapping[str, Settings] | None = None
) -> CheckResult:
    """Epochs and lengths of all tasks; with settings, what else they say.

    Args:
        path: `default_hyperparameters.json`.
        settings_by_size: `small`, `base` and `large` to the settings of that
            size; None to look at what tasks know, whatever the size.
    """
    expected = reference.read_json(path)
    line = comparison.Comparison(KIND, HYPERPARAMETERS, 1e-9)
    for key, numbers in expected.items():
        name, _, size = key.partition("/")
        settings = (settings_by_size or {}).get(size, Settings())
        task = catalog.build_task(name, settings)
        training, optimizer = settings.training, settings.optimizer
        ours: dict[str, float] = {
            "num_train_epochs": training.num_train_epochs
            or task.num_train_epochs,
            "max_seq_length": settings.task.max_seq_length
            or task.max_seq_length,
        }
        if settings_by_size is not None:
            ours["train_batch_size"] = training.train_batch_size
            for field in (
                "learning_rate",
                "layerwise_lr_decay",
                "warmup_proportion",
                "weight_decay_rate",
            ):
                ours[field] = getattr(optimizer, field)
        for field, number in ours.items():
            error = comparison.compute_relative_error(number, numbers[field])
            line.add(f"{key}, {field}", error)
    return line.result()


def _check_epochs(tasks: Mapping[str, Any]) -> CheckResult:
    line = comparison.Comparison(KIND, "epochs")
    for name, expected in tasks.items():
        epochs = catalog.build_task(name, Settings()).num_train_epochs
        line.add(name, abs(epochs - expected["num_train_epochs"]))
    return line.result()


def _read(
    folder: Path, name: str, split: str
) -> tuple[text_task.TextTask, glue_source.FileContent]:
    """A task with the original's defaults, and what is in one of its files."""
    known = catalog.ALIASES.get(name, name)
    if known not in glue.TASKS:
        raise reference.ReferenceFileError(
            f"Expected tasks of GLUE in {folder / 'examples.json'}. Received: "
            f"{name!r}."
        )
    spec = glue.TASKS[known]
    file = spec.splits[_SPLITS.get((name, split), split)]
    path = files.find_file(
        folder / "tsv", spec.folders, file.file_names, f"{name} {split}"
    )
    task = glue_source.build_task(known, Settings())
    return task, glue_source.read_file(spec, file.columns, path)


def _compare_examples(
    line: comparison.Comparison,
    task: text_task.TextTask,
    examples: list[text_task.Example],
    expected: Mapping[str, Any],
) -> None:
    line.add("count", abs(len(examples) - expected["n_examples"]))
    line.add("listed", abs(len(examples) - len(expected["examples"])))
    both = zip(examples, expected["examples"], strict=False)
    for place, (ours, theirs) in enumerate(both):
        pairs = (
            (ours.eid, theirs["eid"]),
            (ours.text, theirs["text_a"]),
            (ours.pair, theirs["text_b"]),
            (_label(task, ours), theirs["label"]),
        )
        wrong = sum(not _is_same(left, right) for left, right in pairs)
        line.add(f"example {place}", wrong)


def _label(task: text_task.TextTask, example: text_task.Example) -> str | float:
    """The label, or the one that the original has where it is not told."""
    if example.label is not None:
        return example.label
    return task.labels[0] if task.labels else 0.0


def _is_same(ours: Any, theirs: Any) -> bool:
    # The original keeps the score's string.
    if isinstance(ours, float):
        return ours == float(theirs)
    return bool(ours == theirs)


def _tokenizer(folder: Path) -> tokenizer_lib.Tokenizer:
    """Of the folder's own vocabulary, or of the one that all kinds share."""
    has_own = (folder / "vocab.txt").is_file()
    return _build_tokenizer(
        reference.load_vocabulary(folder if has_own else folder.parent)
    )


@functools.cache
def _build_tokenizer(
    vocabulary: vocabulary_lib.Vocabulary,
) -> tokenizer_lib.Tokenizer:
    return tokenizer_lib.Tokenizer(vocabulary)


def _pad(rows: rows_lib.Rows, length: int) -> dict[str, np.ndarray]:
    columns = np.arange(length)
    mask = columns < rows.lengths[:, None]
    ids = np.zeros(mask.shape, np.int32)
    ids[mask] = rows.ids.values
    segments = mask & (columns >= rows.segment_starts[:, None])
    return {"input_ids": ids, "input_mask": mask, "segment_ids": segments}


def _compute_metrics(arrays: reference.Arrays) -> dict[str, Numbers]:
    labels, predictions = arrays["labels"], arrays["predictions"]
    three = arrays["labels_three"], arrays["predictions_three"]
    numbers = arrays["targets"], arrays["target_predictions"]
    num_right = np.sum((labels == 1) & (predictions == 1))
    precision = 100 * float(num_right / max(1, np.sum(predictions == 1)))
    recall = 100 * float(num_right / max(1, np.sum(labels == 1)))
    constant = np.ones_like(predictions)
    return {
        "accuracy_binary": {
            "accuracy": scores.compute_accuracy(labels, predictions)
        },
        "accuracy_three": {"accuracy": scores.compute_accuracy(*three)},
        "f1_binary_as_in_original": dict.fromkeys(
            ("precision", "recall", "f1"), precision
        ),
        "mcc": {"mcc": scores.compute_mcc(labels, predictions)},
        "mcc_constant_prediction": {
            "mcc": scores.compute_mcc(labels, constant)
        },
        "regression": scores.compute_scores(
            scores.REGRESSION_METRICS, scores.REGRESSION_METRICS, *numbers
        ),
        "extra_not_from_original": {
            "f1_standard": scores.compute_f1(labels, predictions),
            "precision": precision,
            "recall": recall,
            "mcc_three": scores.compute_mcc(*three),
        },
    }
