"""Tagging against references: spans, rows, head, scores.

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
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf.modeling import task_heads
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.tagging import conll
from electra_tf.tasks.tagging import scores
from electra_tf.tasks.tagging import spans
from electra_tf.tasks.tagging import words as words_lib
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.verification import comparison
from electra_tf.verification import reference
from electra_tf.verification.report import CheckResult

KIND = "finetuning"
TOLERANCE = 1e-5  # of logits and losses, absolute and relative
SCORE_TOLERANCE = 1e-9
_INFO = "tagging.json"
_CASED = vocabulary_lib.TokenizerSettings(do_lower_case=False)
_UNCASED = vocabulary_lib.TokenizerSettings()

Check = Callable[[], CheckResult | list[CheckResult]]


def list_cases(folder: Path) -> Iterator[tuple[str, Check]]:
    """The cases of a reference folder, and what checks each.

    Args:
        folder: with `spans.json`, `tagging.json`, a folder of CoNLL files,
            `features_<split>.npz`, `head_<task>.npz`, `scorer_inputs.npz`.
    """
    for name, check in (
        ("spans", check_spans),
        ("label mapping", check_label_mapping),
        ("alignment", check_alignment),
        ("examples", check_examples),
        ("scores", check_scores),
    ):
        yield f"tagging, {name}", functools.partial(check, folder)
    for path in sorted(folder.glob("features_*.npz")):
        yield f"tagging, {path.stem}", functools.partial(check_features, path)
    for path in sorted(folder.glob("head_*.npz")):
        yield f"tagging, {path.stem}", functools.partial(check_head, path)


def check_spans(folder: Path) -> CheckResult:
    """Spans of tag sequences, and the tags in other encodings, exactly."""
    cases = reference.read_json(folder / "spans.json")
    line = comparison.Comparison(KIND, f"tagging, {len(cases)} tag sequences")
    for number, case in enumerate(cases):
        found = [list(span) for span in spans.find_spans(case["tags"])]
        line.add(f"spans of {number}", found != case["spans"])
        for encoding in spans.ENCODINGS:
            ours = spans.reencode(case["tags"], encoding)
            theirs = case[encoding.lower()]
            line.add(f"{encoding} of {number}", ours != theirs)
    return line.result()


def check_label_mapping(folder: Path) -> CheckResult:
    """Numbers of the classes, exactly; as the original, over all splits."""
    expected = reference.read_json(folder / _INFO)["label_mapping"]
    ours = {tag: number for number, tag in enumerate(_classes(folder))}
    line = comparison.Comparison(KIND, "tagging, label mapping")
    for tag in sorted({*ours, *expected}):
        line.add(tag, ours.get(tag) != expected.get(tag))
    return line.result()


def check_alignment(folder: Path) -> CheckResult:
    """Pieces of every word of some sentences, exactly."""
    cases = reference.read_json(folder / _INFO)["alignment"]
    line = comparison.Comparison(KIND, f"tagging, pieces, {len(cases)} cases")
    for is_cased, settings in ((False, _UNCASED), (True, _CASED)):
        chosen = [c for c in cases if c.get("cased", False) == is_cased]
        if not chosen:
            continue
        tokenizer = _tokenizer(folder, settings)
        words = [word for case in chosen for word in case["words"]]
        pieces = iter(_name_pieces(words, tokenizer))
        for number, case in enumerate(chosen):
            ours = [next(pieces) for _ in case["words"]]
            # The reference puts [CLS] and [SEP] around.
            theirs = case["pieces"][1:-1]
            line.add(f"case {number}, cased: {is_cased}", ours != theirs)
    return line.result()


def check_examples(folder: Path) -> CheckResult:
    """Words and classes of every sentence, exactly."""
    info = reference.read_json(folder / _INFO)
    line = comparison.Comparison(KIND, "tagging, sentences")
    sentences = {split: _read(folder, split) for split in info["n_examples"]}
    for split, count in info["n_examples"].items():
        line.add(f"number in {split}", abs(len(sentences[split]) - count))
    for split, cases in info["examples"].items():
        line.add(f"{split}: number", abs(len(sentences[split]) - len(cases)))
        for number, (ours, theirs) in enumerate(
            zip(sentences[split], cases, strict=False)
        ):
            words, labels = theirs["words"], theirs["labels"]
            name = f"{split} {number}"
            line.add(f"{name}: words", list(ours.words) != words)
            numbers = _labels(ours, info["label_mapping"])
            line.add(f"{name}: labels", numbers != labels)
    return line.result()


def check_features(path: Path) -> CheckResult:
    """Rows of a split, exactly.

    Args:
        path: `features_<split>.npz`, beside `tagging.json`.
    """
    folder, split = path.parent, path.stem.removeprefix("features_")
    info = reference.read_json(folder / _INFO)
    expected = reference.read_arrays(path)
    length = info["max_seq_length"]
    rows = _build_rows(folder, split, info)
    overflowing = info["examples_that_overflow"].get(split, [])
    num_rows = len(rows["input_ids"])
    line = comparison.Comparison(KIND, f"tagging, {split}, {num_rows} rows")
    for name, lists in rows.items():
        left = [row for i, row in enumerate(lists) if i not in overflowing]
        theirs = expected.pop(name)
        line.add(name, comparison.count_unequal(_pad(left, length), theirs))
    for name in expected:
        line.add(f"{name} unknown here", np.inf)
    for number in overflowing:
        is_full = len(rows["input_ids"][number]) == length
        line.add(f"row {number}, which overflows", not is_full)
    return line.result()


def check_head(path: Path) -> CheckResult:
    """Logits and losses from fed states.

    Args:
        path: `head_<task>.npz`; its rows are the first of the dev split.
    """
    arrays = reference.read_arrays(path)
    hidden = arrays["final_hidden"]
    features = reference.read_arrays(path.parent / "features_dev.npz")
    kernel, bias = (
        _find(arrays, f"/dense/{name}") for name in ("kernel", "bias")
    )
    head = task_heads.TaggingHead(len(bias), seed=0)
    with keras.name_scope("task_specific"), keras.name_scope("tagging"):
        head.build((None, None, hidden.shape[-1]))
    head.dense.kernel.assign(kernel)
    head.dense.bias.assign(bias)
    positions = features["labeled_positions"][: len(hidden)]
    fed = {
        "word_positions": tf.constant(positions, tf.int32),
        "tags": tf.constant(arrays["out/labels"], tf.int32),
        "tag_weights": tf.constant(arrays["out/labels_mask"], tf.float32),
    }
    states = tf.constant(hidden, tf.float32)
    logits = head.predict(states, fed)["logits"].numpy()
    losses = head.compute_losses(states, fed, None).numpy()
    is_tagged = arrays["out/labels_mask"] > 0
    line = comparison.Comparison(KIND, f"tagging, {path.stem}", TOLERANCE)
    for name, ours in (("logits", logits), ("loss", losses)):
        theirs = arrays[f"out/{name}"]
        line.add(name, comparison.compute_error(ours, theirs))
    line.add(
        "predictions",
        comparison.count_unequal(
            np.argmax(logits, -1)[is_tagged],
            arrays["out/predictions"][is_tagged],
        ),
    )
    return line.result()


def check_scores(folder: Path) -> CheckResult:
    """Span scores, accuracy and mean loss of fed predictions."""
    info = reference.read_json(folder / _INFO)
    features = reference.read_arrays(folder / "features_dev.npz")
    fed = reference.read_arrays(folder / "scorer_inputs.npz")
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
    ours = {
        "entity_f1": scores.compute_span_scores(gold, predicted),
        "accuracy": {"accuracy": scores.compute_accuracy(gold, predicted)},
    }
    line = comparison.Comparison(KIND, "tagging, dev scores", SCORE_TOLERANCE)
    for group, numbers in ours.items():
        for name, number in (numbers | {"loss": 2 * mean}).items():
            error = comparison.compute_error(number, expected[group][name])
            line.add(f"{group}, {name}", error)
    line.add("words", abs(sum(num_words) - expected["number_of_words"]))
    error = comparison.compute_error(total, expected["sum_of_losses"])
    line.add("sum of losses", error)
    return line.result()


def _read(folder: Path, split: str) -> list[conll.Sentence]:
    paths = sorted(folder.glob(f"*/{split}.txt"))
    if len(paths) != 1:
        raise FileNotFoundError(
            f"Expected {split}.txt in one folder of {folder}. Received: "
            f"{[str(path) for path in paths]}."
        )
    return conll.read_columns(paths[0])


def _classes(folder: Path) -> tuple[str, ...]:
    splits = reference.read_json(folder / _INFO)["n_examples"]
    tags = [row.tags or () for s in splits for row in _read(folder, s)]
    return spans.list_classes(tags, has_spans=True)


def _build_rows(
    folder: Path, split: str, info: Mapping[str, Any]
) -> dict[str, list[Any]]:
    """Our rows under the reference's names, unpadded."""
    length = info["max_seq_length"]
    sentences = _read(folder, split)
    aligned = words_lib.align(
        [sentence.words for sentence in sentences],
        _tokenizer(folder, _UNCASED),
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
    tags = spans.encode_tags(sentence.tags or (), has_spans=True)
    return [mapping.get(tag) for tag in tags]


@functools.lru_cache(maxsize=4)
def _tokenizer(
    folder: Path, settings: vocabulary_lib.TokenizerSettings
) -> tokenizer_lib.Tokenizer:
    has_own = (folder / "vocab.txt").is_file()
    vocabulary = reference.load_vocabulary(
        folder if has_own else folder.parent, settings
    )
    return tokenizer_lib.Tokenizer(vocabulary)


def _name_pieces(
    words: Sequence[str], tokenizer: tokenizer_lib.Tokenizer
) -> list[list[str]]:
    builder = words_lib.WordRowBuilder(tokenizer, 0, cuts_early=False)
    pieces = rows_lib.Ragged.join([builder.split(tf.constant(words))[0]])
    tokens = tokenizer.vocabulary.tokens
    return [[tokens[i] for i in row.tolist()] for row in _rows(pieces)]


def _rows(ragged: rows_lib.Ragged) -> list[np.ndarray]:
    return [ragged[row] for row in range(len(ragged))]


def _pad(lists: Sequence[Any], length: int) -> np.ndarray:
    padded = np.zeros((len(lists), length), np.float64)
    for row, values in zip(padded, lists, strict=True):
        row[: len(values)] = values
    return padded


def _find(arrays: reference.Arrays, ending: str) -> np.ndarray:
    names = [
        name for name in arrays
        if name.startswith("weights/") and name.endswith(ending)
    ]  # fmt: skip
    if len(names) != 1:
        raise reference.ReferenceFileError(
            f"Expected one array weights/...{ending}. Received: {names}."
        )
    return arrays[names[0]]
