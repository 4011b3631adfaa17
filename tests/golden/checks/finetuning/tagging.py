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

import numpy as np
import tensorflow as tf

from electra_tf.modeling.task_heads import TaggingHead
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.tagging import conll
from electra_tf.tasks.tagging import spans
from electra_tf.tasks.tagging import words as words_lib
from tests.golden import loading
from tests.golden.checks.finetuning.heads import build_head
from tests.golden.comparison import Line

_TOLERANCE = 1e-5  # of logits and losses, absolute and relative
_SCORE_TOLERANCE = 1e-9


def list_cases(folder):
    yield "tagging, spans", _check_spans, folder
    info = folder / "tagging.json"
    yield "tagging, label mapping", _check_label_mapping, info
    yield "tagging, alignment", _check_alignment, info
    yield "tagging, examples", _check_examples, info
    yield "tagging, scores", _check_scores, info
    for path in sorted(folder.glob("features_*.npz")):
        yield f"tagging, {path.stem}", _check_features, path, info
    for path in sorted(folder.glob("head_*.npz")):
        yield f"tagging, {path.stem}", _check_head, path


def _check_spans(folder):
    """Spans of tag sequences, and the tags in other encodings, exactly."""
    cases = loading.read_json(folder / "spans.json")
    line = Line(f"tagging, {len(cases)} tag sequences")
    for number, case in enumerate(cases):
        found = [list(span) for span in spans.find_spans(case["tags"])]
        line.add(f"spans of {number}", found != case["spans"])
        for encoding in spans.ENCODINGS:
            ours = spans.reencode(case["tags"], encoding)
            line.add(f"{encoding} of {number}", ours != case[encoding.lower()])
    yield line


def _check_label_mapping(path):
    """Numbers of the classes, exactly; as the original, over all splits."""
    info = loading.read_json(path)
    sentences = [s for split in info["n_examples"] for s in _read(path, split)]
    tags = [sentence.tags or () for sentence in sentences]
    listed = spans.list_classes(tags, has_spans=True)
    ours = {tag: number for number, tag in enumerate(listed)}
    line = Line("tagging, label mapping")
    line.compare_all(ours, info["label_mapping"])
    yield line


def _check_alignment(path):
    """Pieces of every word of some sentences, exactly."""
    cases = loading.read_json(path)["alignment"]
    line = Line(f"tagging, pieces, {len(cases)} cases")
    for number, case in enumerate(cases):
        do_lower_case = not case.get("cased", False)
        tokenizer = loading.load_tokenizer(
            path.parent, do_lower_case=do_lower_case
        )
        builder = words_lib.WordRowBuilder(tokenizer, 0, cuts_early=False)
        words = tf.constant(case["words"])
        pieces = rows_lib.Ragged.join([builder.split(words)[0]])
        tokens = tokenizer.vocabulary.tokens
        ours = [[tokens[piece] for piece in row] for row in _rows(pieces)]
        # The reference puts [CLS] and [SEP] around.
        line.add(f"case {number}", ours != case["pieces"][1:-1])
    yield line


def _check_examples(path):
    """Words and classes of every sentence, exactly."""
    info = loading.read_json(path)
    line = Line("tagging, sentences")
    sentences = {split: _read(path, split) for split in info["n_examples"]}
    for split, count in info["n_examples"].items():
        line.add(f"number in {split}", abs(len(sentences[split]) - count))
    for split, cases in info["examples"].items():
        line.add(f"{split}: number", abs(len(sentences[split]) - len(cases)))
        for number, (ours, theirs) in enumerate(
            zip(sentences[split], cases, strict=False)
        ):
            name = f"{split} {number}"
            line.add(f"{name}: words", list(ours.words) != theirs["words"])
            labels = _labels(ours, info["label_mapping"])
            line.add(f"{name}: labels", labels != theirs["labels"])
    yield line


def _check_features(path, info_path):
    """Rows of a split, exactly."""
    info, split = loading.read_json(info_path), path.stem[len("features_") :]
    length, sentences = info["max_seq_length"], _read(info_path, split)
    rows = words_lib.build_rows(
        [sentence.words for sentence in sentences],
        loading.load_tokenizer(path.parent),
        length,
    )
    ids, mapping = _rows(rows.ids), info["label_mapping"]
    ones = [np.ones(len(row)) for row in ids]
    ours = {
        "input_ids": ids,
        "input_mask": ones,
        "segment_ids": ones,
        "labels": [_labels(row, mapping)[:length] for row in sentences],
        "labels_mask": [np.ones(len(row)) for row in _rows(rows.details)],
        "labeled_positions": _rows(rows.ragged["word_positions"]),
    }
    overflowing = info["examples_that_overflow"].get(split, [])
    left = [row for row in range(len(ids)) if row not in overflowing]
    padded = {name: np.zeros((len(left), length)) for name in ours}
    for name, rows in ours.items():
        for target, row in zip(padded[name], left, strict=True):
            target[: len(rows[row])] = rows[row]
    line = Line(f"tagging, {split}, {len(ids)} rows")
    line.compare_all(padded, loading.read_arrays(path))
    for row in overflowing:
        line.compare(f"row {row}, which overflows", len(ids[row]), length)
    yield line


def _check_head(path):
    """Logits and losses from fed states, the first rows of the dev split."""
    arrays = loading.read_arrays(path)
    hidden = tf.constant(arrays["final_hidden"])
    positions = loading.read_arrays(path.parent / "features_dev.npz")[
        "labeled_positions"
    ]
    is_tagged = arrays["out/labels_mask"] > 0
    features = {
        "word_positions": tf.constant(positions[: len(hidden)], tf.int32),
        "tags": tf.constant(arrays["out/labels"], tf.int32),
        "tag_weights": tf.constant(arrays["out/labels_mask"], tf.float32),
    }
    num_labels = arrays["out/logits"].shape[-1]
    head = build_head(TaggingHead, arrays, num_labels=num_labels)
    logits = head.predict(hidden, features)["logits"]
    loss = head.compute_losses(hidden, features, None)
    predictions, theirs = np.argmax(logits, -1), arrays["out/predictions"]
    line = Line(f"tagging, {path.stem}", _TOLERANCE)
    line.compare("logits", logits, arrays["out/logits"])
    line.compare("loss", loss, arrays["out/loss"])
    line.compare("predictions", predictions[is_tagged], theirs[is_tagged])
    yield line


def _check_scores(path):
    """Span scores, accuracy and mean loss of fed predictions."""
    info, folder = loading.read_json(path), path.parent
    features = loading.read_arrays(folder / "features_dev.npz")
    fed = loading.read_arrays(folder / "scorer_inputs.npz")
    expected = info["dev_scores"]
    names = {number: tag for tag, number in info["label_mapping"].items()}
    num_words = np.rint(features["labels_mask"].sum(1)).astype(int)

    def decode(rows):
        counted = zip(rows.tolist(), num_words, strict=True)
        return [[names[n] for n in row[:count]] for row, count in counted]

    gold, predicted = decode(features["labels"]), decode(fed["predictions"])
    total, count = float(fed["loss"].sum()), int(sum(num_words))
    accuracy = spans.compute_accuracy(gold, predicted)
    line = Line("tagging, dev scores", _SCORE_TOLERANCE)
    for group, numbers in (
        ("entity_f1", spans.compute_span_scores(gold, predicted)),
        ("accuracy", {"accuracy": accuracy}),
    ):
        numbers = numbers | {"loss": 2 * total / max(1, count)}
        for name, number in numbers.items():
            line.compare(f"{group}, {name}", number, expected[group][name])
    line.compare("words", count, expected["number_of_words"])
    line.compare("sum of losses", total, expected["sum_of_losses"])
    yield line


def _read(info_path, split):
    (path,) = info_path.parent.glob(f"*/{split}.txt")
    return conll.read_columns(path)


def _labels(sentence, mapping):
    tags = spans.encode_tags(sentence.tags or (), has_spans=True)
    return [mapping.get(tag) for tag in tags]


def _rows(ragged):
    return [ragged[row].tolist() for row in range(len(ragged))]
