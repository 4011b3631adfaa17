"""Sentence tasks: examples, rows, heads and metrics.

The original's F1 counts gold positives among the predicted ones alone; its
numbers are compared with that rule, and the correct ones with ours.
"""

import operator

import numpy as np
import tensorflow as tf

from electra_tf.config.finetuning import FinetuningConfig
from electra_tf.modeling.task_heads import ClassificationHead
from electra_tf.modeling.task_heads import RegressionHead
from electra_tf.tasks import catalog
from electra_tf.tasks import files
from electra_tf.tasks.sentences import classification
from electra_tf.tasks.sentences import glue
from electra_tf.tasks.sentences import regression
from electra_tf.tasks.sentences.text_task import add_swapped
from tests.golden import comparison
from tests.golden import loading
from tests.golden.comparison import Line

DEFAULTS = "default_hyperparameters.json"
_TOLERANCE = 1e-5
# The original's names of splits that are called otherwise here.
_SPLITS = {("mnli", "dev"): "dev_matched", ("mnli", "diagnostic"): "ax"}


def list_cases(folder):
    tasks = loading.read_json(folder / "examples.json")["tasks"]
    yield "epochs", _check_epochs, tasks
    for task, content in tasks.items():
        for split in content["splits"]:
            yield f"{task} {split}", _check_split, folder, task, split
    for path in sorted(folder.glob("head_*.npz")):
        yield path.stem, _check_head, path
    yield "metrics", _check_metrics, folder


def check_defaults(path):
    """Epochs and lengths that tasks know, whatever the size of the model."""
    entries = (
        (f"{key}, {name}", getattr(_build_task(key), name), expected[name])
        for key, expected in loading.read_json(path).items()
        for name in ("num_train_epochs", "max_seq_length")
    )
    relative = comparison.relative_error
    yield comparison.compare(DEFAULTS, entries, 1e-9, relative)


def _check_epochs(tasks):
    line = Line("epochs")
    for task, expected in tasks.items():
        ours = _build_task(task).num_train_epochs
        line.compare(task, ours, expected["num_train_epochs"])
    yield line


def _build_task(key):
    return catalog.build_task(key.partition("/")[0], FinetuningConfig())


def _check_split(folder, name, split):
    """Examples and left-out lines of a split, and its rows, padded."""
    content = loading.read_json(folder / "examples.json")
    expected = content["tasks"][name]["splits"][split]
    task, (examples, bad_lines) = _read(folder, name, split)
    tokenizer = loading.load_tokenizer(folder)
    length, is_training = content["max_seq_length"], split == "train"
    rows = task.build_rows(examples, tokenizer, length, is_training)
    order = np.arange(rows.num_rows)
    if rows.num_rows > len(examples):
        # Of both orders of a pair, the original has all swapped ones last.
        order = np.concatenate([order[::2], order[1::2]])
        both = add_swapped(examples)
        examples = [both[place] for place in order]
    line = Line(f"{name} {split}")
    line.compare("bad lines", len(bad_lines), expected["n_bad_lines"])
    _compare_examples(line, task, examples, expected)
    (labels,) = rows.columns.values()
    ours = pad(rows, length) | {"labels": labels}
    theirs = loading.read_arrays(folder / f"{name}_{split}.npz")
    line.compare("eid", [example.eid for example in examples], theirs["eid"])
    for key, array in ours.items():
        line.compare(key, array[order], theirs[key])
    yield line


def pad(rows, length):
    """Rows as the original's arrays, `[n, length]`."""
    columns = np.arange(length)
    mask = columns < rows.lengths[:, np.newaxis]
    ids = np.zeros(mask.shape, np.int32)
    ids[mask] = rows.ids.values
    segments = mask & (columns >= rows.segment_starts[:, np.newaxis])
    return {"input_ids": ids, "input_mask": mask, "segment_ids": segments}


def _read(folder, name, split):
    """A task with the original's defaults, and what is in one of its files."""
    known = catalog.ALIASES.get(name, name)
    spec = glue.TASKS[known]
    file = spec.splits[_SPLITS.get((name, split), split)]
    places = file.folders, file.file_names, f"{name} {split}"
    path = files.find_file(folder / "tsv", *places)
    task = glue.build_task(known, FinetuningConfig())
    return task, glue.read_file(spec, file.columns, path)


def _compare_examples(line, task, examples, expected):
    line.compare("count", len(examples), expected["n_examples"])
    line.compare("listed", len(examples), len(expected["examples"]))
    # What the original has where the label is not told.
    no_label = task.labels[0] if task.labels else 0.0
    pairs = zip(examples, expected["examples"], strict=False)
    for place, (ours, theirs) in enumerate(pairs):
        label = no_label if ours.label is None else ours.label
        own = (ours.eid, ours.text, ours.pair, label)
        listed = [theirs[name] for name in ("eid", "text_a", "text_b")]
        # The original keeps the string of a score.
        listed.append(type(label)(theirs["label"]))
        line.add(f"example {place}", sum(map(operator.ne, own, listed)))


def _check_head(path):
    arrays = loading.read_arrays(path)
    hidden = tf.constant(arrays["final_hidden"])
    if "out/logits" in arrays:
        options = {"num_labels": arrays["out/logits"].shape[1]}
        head = loading.build_head(ClassificationHead, arrays, **options)
        features = {"label": tf.constant(arrays["out/label_ids"])}
        outputs = head.predict(hidden, features)
        outputs["predictions"] = tf.argmax(outputs["logits"], axis=-1)
    else:
        head = loading.build_head(RegressionHead, arrays)
        features = {"target": tf.constant(arrays["out/targets"])}
        outputs = {"predictions": head.predict(hidden, features)["prediction"]}
    outputs["loss"] = head.compute_losses(hidden, features, None)
    entries = ((name, outputs[name], arrays[f"out/{name}"]) for name in outputs)
    yield comparison.compare(path.stem, entries, _TOLERANCE)


def _check_metrics(folder):
    ours = _compute_metrics(loading.read_arrays(folder / "metrics_inputs.npz"))
    entries = (
        (f"{group}, {name}", ours[group][name], theirs)
        for group, numbers in loading.read_json(folder / "metrics.json").items()
        for name, theirs in numbers.items()
        if name != "loss"
    )
    yield comparison.compare("metrics", entries, _TOLERANCE)


def _compute_metrics(arrays):
    labels, predictions = arrays["labels"], arrays["predictions"]
    three = arrays["labels_three"], arrays["predictions_three"]
    num_right = np.sum((labels == 1) & (predictions == 1))
    precision = 100 * num_right / max(1, np.sum(predictions == 1))
    recall = 100 * num_right / max(1, np.sum(labels == 1))
    classes = classification.METRICS
    accuracy, mcc = classes["accuracy"], classes["mcc"]
    original = "precision", "recall", "f1"
    return {
        "accuracy_binary": {"accuracy": accuracy(labels, predictions)},
        "accuracy_three": {"accuracy": accuracy(*three)},
        "f1_binary_as_in_original": dict.fromkeys(original, precision),
        "mcc": {"mcc": mcc(labels, predictions)},
        "mcc_constant_prediction": {"mcc": mcc(labels, labels * 0 + 1)},
        "regression": {
            name: score(arrays["targets"], arrays["target_predictions"])
            for name, score in regression.METRICS.items()
        },
        "extra_not_from_original": {
            "f1_standard": classes["f1"](labels, predictions),
            "precision": precision,
            "recall": recall,
            "mcc_three": mcc(*three),
        },
    }
