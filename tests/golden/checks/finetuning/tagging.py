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

import operator

import numpy as np
import tensorflow as tf

from electra_tf.modeling.task_heads import TaggingHead
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.tagging import conll
from electra_tf.tasks.tagging import spans
from electra_tf.tasks.tagging import words as words_lib
from tests.golden import comparison
from tests.golden import loading
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
    """Spans of tag sequences, and the tags in other schemes, exactly."""
    cases, entries = loading.read_json(folder / "spans.json"), []
    for number, case in enumerate(cases):
        own = [list(span) for span in spans.find_spans(case["tags"])]
        entries.append((f"spans of {number}", own, case["spans"]))
        for scheme in ("BIO", "BIEO", "BIOES"):
            ours = spans.reencode(case["tags"], scheme)
            theirs = case[scheme.lower()]
            entries.append((f"{scheme} of {number}", ours, theirs))
    yield _compare_exactly(f"{len(cases)} tag sequences", entries)


def _check_label_mapping(path):
    """Numbers of the classes, as the original over all splits."""
    info = loading.read_json(path)
    sentences = [s for split in info["n_examples"] for s in _read(path, split)]
    tags = [sentence.tags or () for sentence in sentences]
    listed, line = spans.list_classes(tags, "BIO"), Line("tagging, labels")
    ours = dict(zip(listed, range(len(listed)), strict=True))
    line.compare_all(ours, info["label_mapping"])
    yield line


def _check_alignment(path):
    """Pieces of every word of some sentences."""
    cases, entries = loading.read_json(path)["alignment"], []
    for number, case in enumerate(cases):
        settings = {"do_lower_case": not case.get("cased", False)}
        tokenizer = loading.load_tokenizer(path.parent, **settings)
        builder = words_lib.WordRowBuilder(tokenizer, 0, cuts_early=False)
        words = tf.constant(case["words"])
        pieces = rows_lib.Ragged.join([builder.split(words)[0]])
        tokens = tokenizer.vocabulary.tokens
        ours = [[tokens[piece] for piece in row] for row in _rows(pieces)]
        # The reference puts [CLS] and [SEP] around.
        entries.append((f"case {number}", ours, case["pieces"][1:-1]))
    yield _compare_exactly(f"pieces, {len(cases)} cases", entries)


def _check_examples(path):
    """Words and classes of every sentence."""
    info, entries = loading.read_json(path), []
    for split, count in info["n_examples"].items():
        entries.append((f"number in {split}", len(_read(path, split)), count))
    for split, cases in info["examples"].items():
        own = _read(path, split)
        entries.append((f"{split}: number", len(own), len(cases)))
        for number, (ours, case) in enumerate(zip(own, cases, strict=False)):
            title = f"{split} {number}"
            entries += [
                (f"{title}: words", list(ours.words), case["words"]),
                (f"{title}: labels", _labels(ours, info), case["labels"]),
            ]
    yield _compare_exactly("sentences", entries)


def _compare_exactly(title, entries):
    title = f"tagging, {title}"
    return comparison.compare(title, entries, measure=operator.ne)


def _check_features(path, info_path):
    info, split = loading.read_json(info_path), path.stem[len("features_") :]
    length, sentences = info["max_seq_length"], _read(info_path, split)
    words = [sentence.words for sentence in sentences]
    tokenizer = loading.load_tokenizer(path.parent)
    rows = words_lib.build_rows(words, tokenizer, length)
    ids = _rows(rows.ids)
    ones = [np.ones(len(row)) for row in ids]
    ours = dict.fromkeys(("input_mask", "segment_ids"), ones) | {
        "input_ids": ids,
        "labels": [_labels(row, info)[:length] for row in sentences],
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
    rows = loading.read_arrays(path.with_name("features_dev.npz"))
    positions = rows["labeled_positions"]
    is_tagged = arrays["out/labels_mask"] > 0
    features = {
        "word_positions": tf.constant(positions[: len(hidden)], tf.int32),
        "tags": tf.constant(arrays["out/labels"], tf.int32),
        "tag_weights": tf.constant(arrays["out/labels_mask"], tf.float32),
    }
    options = {"num_labels": arrays["out/logits"].shape[-1]}
    head = loading.build_head(TaggingHead, arrays, **options)
    logits = head.predict(hidden, features)["logits"]
    loss = head.compute_losses(hidden, features, None)
    ours, theirs = np.argmax(logits, -1), arrays["out/predictions"]
    entries = (
        ("logits", logits, arrays["out/logits"]),
        ("loss", loss, arrays["out/loss"]),
        ("predictions", ours[is_tagged], theirs[is_tagged]),
    )
    yield comparison.compare(f"tagging, {path.stem}", entries, _TOLERANCE)


def _check_scores(path):
    info = loading.read_json(path)
    features = loading.read_arrays(path.with_name("features_dev.npz"))
    fed = loading.read_arrays(path.with_name("scorer_inputs.npz"))
    expected = info["dev_scores"]
    names = {number: tag for tag, number in info["label_mapping"].items()}
    num_words = np.rint(features["labels_mask"].sum(1)).astype(int)

    def decode(rows):
        counted = zip(rows.tolist(), num_words, strict=True)
        return [[names[n] for n in row[:count]] for row, count in counted]

    gold, predicted = decode(features["labels"]), decode(fed["predictions"])
    total, count = float(fed["loss"].sum()), int(sum(num_words))
    loss = {"loss": 2 * total / max(1, count)}
    accuracy = {"accuracy": spans.compute_accuracy(gold, predicted)} | loss
    scores = spans.compute_span_scores(gold, predicted) | loss
    theirs = expected["entity_f1"], expected["accuracy"]
    entries = (
        *((f"entity_f1, {n}", scores[n], theirs[0][n]) for n in scores),
        *((f"accuracy, {n}", accuracy[n], theirs[1][n]) for n in accuracy),
        ("words", count, expected["number_of_words"]),
        ("sum of losses", total, expected["sum_of_losses"]),
    )
    yield comparison.compare("tagging, dev scores", entries, _SCORE_TOLERANCE)


def _read(info_path, split):
    (path,) = info_path.parent.glob(f"*/{split}.txt")
    return conll.read_columns(path)


def _labels(sentence, info):
    tags = spans.reencode(sentence.tags or (), "BIOES", "BIO")
    return [info["label_mapping"].get(tag) for tag in tags]


def _rows(ragged):
    return [ragged[row].tolist() for row in range(len(ragged))]
