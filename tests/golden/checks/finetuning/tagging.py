"""Tagging: spans, rows, head, scores.

Everything is compared with what the original makes, except where that stops or
goes wrong:

- The original stops at sentences whose last word has too many pieces
  (`examples_that_overflow`); ours are only checked to fit.
- After a word `[CLS]` or `[SEP]`, which is not tagged, the original pairs
  every position with the tag of the word before. Here tags stay with their
  words, so positions and tags are compared each on its own.
- Its `loss` adds every example's loss twice; the reference is halved.
- Its scores leave out words that were cut off, where ours count them as
  wrong. They are compared on the words that are left.
"""

import functools
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.finetuning import rows as rows_lib
from electra_tf.finetuning.tagging import alignment
from electra_tf.finetuning.tagging import classes
from electra_tf.finetuning.tagging import conll
from electra_tf.finetuning.tagging import scores
from electra_tf.finetuning.tagging import spans
from electra_tf.finetuning.tagging import word_pieces
from electra_tf.modeling import task_heads
from electra_tf.text.vocabulary import TokenizerSettings
from tests.golden import loading
from tests.golden.comparison import Line

_TOLERANCE = 1e-5  # of logits and losses, absolute and relative
_SCORE_TOLERANCE = 1e-9


def list_cases(folder: Path) -> Iterator[tuple[str, Any]]:
    """The cases of a folder `finetuning/tagging`."""
    for name, check in (
        ("spans", _check_spans),
        ("label mapping", _check_label_mapping),
        ("alignment", _check_alignment),
        ("examples", _check_examples),
        ("scores", _check_scores),
    ):
        yield f"tagging, {name}", functools.partial(check, folder)
    for pattern, check in (
        ("features_*.npz", _check_features),
        ("head_*.npz", _check_head),
    ):
        for path in sorted(folder.glob(pattern)):
            yield f"tagging, {path.stem}", functools.partial(check, path)


def _check_spans(folder: Path) -> Iterator[Line]:
    """Spans of tag sequences, and the tags in other encodings, exactly."""
    cases = loading.read_json(folder / "spans.json")
    line = Line(f"tagging, {len(cases)} tag sequences")
    for number, case in enumerate(cases):
        found = [list(span) for span in spans.find_spans(case["tags"])]
        line.add(f"spans of {number}", found != case["spans"])
        for encoding in spans.ENCODINGS:
            ours = spans.reencode(case["tags"], encoding)
            theirs = case[encoding.lower()]
            line.add(f"{encoding} of {number}", ours != theirs)
    yield line


def _check_label_mapping(folder: Path) -> Iterator[Line]:
    """Numbers of the classes, exactly; as the original, over all splits."""
    info = _read_info(folder)
    tags = [
        sentence.tags or ()
        for split in info["n_examples"]
        for sentence in _read(folder, split)
    ]
    listed = classes.list_classes(tags, has_spans=True)
    ours = {tag: number for number, tag in enumerate(listed)}
    line = Line("tagging, label mapping")
    line.compare_all(ours, info["label_mapping"])
    yield line


def _check_alignment(folder: Path) -> Iterator[Line]:
    """Pieces of every word of some sentences, exactly."""
    cases = _read_info(folder)["alignment"]
    line = Line(f"tagging, pieces, {len(cases)} cases")
    for number, case in enumerate(cases):
        is_cased = case.get("cased", False)
        tokenizer = loading.load_tokenizer(
            folder, TokenizerSettings(do_lower_case=not is_cased)
        )
        pieces = word_pieces.split_words(case["words"], tokenizer).pieces
        tokens = tokenizer.vocabulary.tokens
        ours = [[tokens[i] for i in row.tolist()] for row in _rows(pieces)]
        # The reference puts [CLS] and [SEP] around.
        line.add(f"case {number}", ours != case["pieces"][1:-1])
    yield line


def _check_examples(folder: Path) -> Iterator[Line]:
    """Words and classes of every sentence, exactly."""
    info = _read_info(folder)
    line = Line("tagging, sentences")
    sentences = {split: _read(folder, split) for split in info["n_examples"]}
    for split, count in info["n_examples"].items():
        line.compare(f"number in {split}", len(sentences[split]), count)
    for split, cases in info["examples"].items():
        line.compare(f"{split}: number", len(sentences[split]), len(cases))
        for number, (ours, theirs) in enumerate(
            zip(sentences[split], cases, strict=False)
        ):
            name = f"{split} {number}"
            line.add(f"{name}: words", list(ours.words) != theirs["words"])
            labels = _labels(ours, info["label_mapping"])
            line.add(f"{name}: labels", labels != theirs["labels"])
    yield line


def _check_features(path: Path) -> Iterator[Line]:
    """Rows of a split, exactly."""
    folder, split = path.parent, path.stem.removeprefix("features_")
    info = _read_info(folder)
    rows = _build_rows(folder, split, info)
    overflowing = info["examples_that_overflow"].get(split, [])
    length, num_rows = info["max_seq_length"], len(rows["input_ids"])
    line = Line(f"tagging, {split}, {num_rows} rows")
    ours = {}
    for name, lists in rows.items():
        left = [row for i, row in enumerate(lists) if i not in overflowing]
        ours[name] = np.zeros((len(left), length))
        for row, values in zip(ours[name], left, strict=True):
            row[: len(values)] = values
    line.compare_all(ours, loading.read_arrays(path))
    for number in overflowing:
        num_pieces = len(rows["input_ids"][number])
        line.compare(f"row {number}, which overflows", num_pieces, length)
    yield line


def _check_head(path: Path) -> Iterator[Line]:
    """Logits and losses from fed states, the first rows of the dev split."""
    arrays = loading.read_arrays(path)
    expected = loading.with_prefix(arrays, "out/")
    weights = loading.with_prefix(arrays, "weights/")
    hidden = tf.constant(arrays["final_hidden"], tf.float32)
    features = loading.read_arrays(path.parent / "features_dev.npz")
    (kernel,), (bias,) = (
        [weights[name] for name in weights if name.endswith(f"/dense/{part}")]
        for part in ("kernel", "bias")
    )
    head = task_heads.TaggingHead(len(bias), seed=0)
    head.build(hidden.shape)
    head.dense.kernel.assign(kernel)
    head.dense.bias.assign(bias)
    positions = features["labeled_positions"][: len(hidden)]
    fed = {
        "word_positions": tf.constant(positions, tf.int32),
        "tags": tf.constant(expected["labels"], tf.int32),
        "tag_weights": tf.constant(expected["labels_mask"], tf.float32),
    }
    logits = head.predict(hidden, fed)["logits"].numpy()
    is_tagged = expected["labels_mask"] > 0
    line = Line(f"tagging, {path.stem}", _TOLERANCE)
    line.compare("logits", logits, expected["logits"])
    loss = head.compute_losses(hidden, fed, None)
    line.compare("loss", loss, expected["loss"])
    line.compare(
        "predictions",
        np.argmax(logits, -1)[is_tagged],
        expected["predictions"][is_tagged],
    )
    yield line


def _check_scores(folder: Path) -> Iterator[Line]:
    """Span scores, accuracy and mean loss of fed predictions."""
    info = _read_info(folder)
    features = loading.read_arrays(folder / "features_dev.npz")
    fed = loading.read_arrays(folder / "scorer_inputs.npz")
    expected = info["dev_scores"]
    names = {number: tag for tag, number in info["label_mapping"].items()}
    num_words = np.rint(features["labels_mask"].sum(1)).astype(int).tolist()
    gold, predicted = (
        [
            [names[number] for number in row[:count].tolist()]
            for row, count in zip(rows, num_words, strict=True)
        ]
        for rows in (features["labels"], fed["predictions"])
    )
    total = float(fed["loss"].sum())
    mean = total / max(1, sum(num_words))
    line = Line("tagging, dev scores", _SCORE_TOLERANCE)
    for group, numbers in (
        ("entity_f1", scores.compute_span_scores(gold, predicted)),
        ("accuracy", {"accuracy": scores.compute_accuracy(gold, predicted)}),
    ):
        for name, number in (numbers | {"loss": 2 * mean}).items():
            line.compare(f"{group}, {name}", number, expected[group][name])
    line.compare("words", sum(num_words), expected["number_of_words"])
    line.compare("sum of losses", total, expected["sum_of_losses"])
    yield line


def _read_info(folder: Path) -> dict[str, Any]:
    return loading.read_json(folder / "tagging.json")


def _read(folder: Path, split: str) -> list[conll.Sentence]:
    paths = sorted(folder.glob(f"*/{split}.txt"))
    if len(paths) != 1:
        raise FileNotFoundError(
            f"Expected {split}.txt in one folder of {folder}. Received: "
            f"{[str(path) for path in paths]}."
        )
    return conll.read_columns(paths[0])


def _build_rows(
    folder: Path, split: str, info: Mapping[str, Any]
) -> dict[str, list[Any]]:
    """Our rows under the reference's names, unpadded."""
    length = info["max_seq_length"]
    sentences = _read(folder, split)
    aligned = alignment.align(
        [sentence.words for sentence in sentences],
        loading.load_tokenizer(folder),
        length,
    )
    ids = _rows(aligned.ids)
    mapping = info["label_mapping"]
    return {
        "input_ids": ids,
        "input_mask": [np.ones(len(row)) for row in ids],
        "segment_ids": [np.ones(len(row)) for row in ids],
        "labels": [_labels(row, mapping)[:length] for row in sentences],
        "labels_mask": [np.ones(len(row)) for row in _rows(aligned.words)],
        "labeled_positions": _rows(aligned.positions),
    }


def _labels(
    sentence: conll.Sentence, mapping: Mapping[str, int]
) -> list[int | None]:
    tags = classes.encode_tags(sentence.tags or (), has_spans=True)
    return [mapping.get(tag) for tag in tags]


def _rows(ragged: rows_lib.Ragged) -> Sequence[np.ndarray]:
    return [ragged[row] for row in range(len(ragged))]
