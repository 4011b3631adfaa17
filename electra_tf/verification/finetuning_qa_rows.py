"""Windows of questions against the original's features."""

import functools
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.tasks import blanks
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.question_answering import questions
from electra_tf.tasks.question_answering import records
from electra_tf.tasks.question_answering import sources
from electra_tf.tasks.question_answering import spans
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.verification import comparison
from electra_tf.verification import reference
from electra_tf.verification.report import CheckResult

KIND = "finetuning"
# The original's names of the SQuAD tasks; all others are of MRQA.
_FORMS = {"squad": sources.SQUAD2, "squadv1": sources.SQUAD1}
_RECORDS = {
    sources.SQUAD1: "squad_v1_style.json",
    sources.SQUAD2: "squad_v2_style.json",
    sources.MRQA: "mrqa_style.jsonl",
}
_LABELS = {
    "start_positions": "start_position",
    "end_positions": "end_position",
    "is_impossible": "is_impossible",
}
"""The reference's name of each column, and ours."""


def form_of(task: str) -> str:
    """The form of a task of the original (`sources`)."""
    return _FORMS.get(task, sources.MRQA)


def read_records(folder: Path, task: str) -> list[records.Example]:
    """The questions of the folder in the form of a task of the original."""
    form = form_of(task)
    path = folder / _RECORDS[form]
    if form == sources.MRQA:
        return records.read_mrqa(path)
    return records.read_squad(path, form == sources.SQUAD2)


def build_rows(
    folder: Path,
    examples: Sequence[records.Example],
    settings: Mapping[str, Any],
    is_training: bool,
) -> rows_lib.Rows:
    """The windows of questions by the settings of a file."""
    has_own = (folder / "vocab.txt").is_file()
    vocabulary = reference.load_vocabulary(
        folder if has_own else folder.parent,
        vocabulary_lib.TokenizerSettings(
            do_lower_case=settings.get("do_lower_case", True)
        ),
    )
    return questions.build_rows(
        examples,
        _build_tokenizer(vocabulary),
        settings["max_seq_length"],
        settings["max_query_length"],
        settings["doc_stride"],
        is_training,
    )


@functools.lru_cache(maxsize=2)
def _build_tokenizer(
    vocabulary: vocabulary_lib.Vocabulary,
) -> tokenizer_lib.Tokenizer:
    # Compiling a vocabulary takes longer than a case.
    return tokenizer_lib.Tokenizer(vocabulary)


def check_training_features(folder: Path, task: str) -> CheckResult:
    """What is learned from: examples, words of answers, rows; exactly.

    Args:
        folder: of the reference.
        task: the original's name.
    """
    settings = reference.read_json(folder / f"features_{task}.json")
    name = f"features_train_{task}"
    found = comparison.Comparison(KIND, f"qa, {name}")
    everything = read_records(folder, task)
    dropped = records.find_unanswered(everything, folder)
    examples = [e for e in everything if e.id not in dropped]
    found.add("n_records", len(everything) != settings["n_records"])
    found.add("n_examples", len(examples) != settings["n_examples"])
    found.add("n_failures", len(dropped) != settings["n_failures"])
    found.add("dropped_ids", dropped != settings["dropped_ids"])
    rows = build_rows(folder, examples, settings, True)
    found.add("n_features", rows.num_rows != settings["n_features"])
    ours = _describe_examples(examples, rows)
    found.add("examples", float(_count_unequal(ours, settings["examples"])))
    arrays = _describe_rows(rows, settings["max_seq_length"])
    for theirs, column in _LABELS.items():
        arrays[theirs] = rows.columns[column]
    _compare_arrays(arrays, folder / f"{name}.npz", found)
    return found.result()


def check_evaluation_features(folder: Path, task: str) -> CheckResult:
    """What is predicted from: rows, words of their tokens; exactly.

    Args:
        folder: of the reference.
        task: the original's name.
    """
    settings = reference.read_json(folder / f"features_{task}.json")
    name = f"features_eval_{task}"
    found = comparison.Comparison(KIND, f"qa, {name}")
    examples = read_records(folder, task)
    rows = build_rows(folder, examples, settings, False)
    found.add("n_eval_features", rows.num_rows != settings["n_eval_features"])
    ours = [
        {
            "id": examples[example].id,
            "doc_span_index": int(number),
            "n_tokens": int(length),
            "first_token": int(start),
        }
        for example, number, length, start in zip(
            rows.examples,
            _numbers(rows),
            rows.lengths,
            rows.segment_starts,
            strict=True,
        )
    ]
    found.add(
        "eval_features", float(_count_unequal(ours, settings["eval_features"]))
    )
    arrays = _describe_rows(rows, settings["max_seq_length"])
    arrays |= _describe_tokens(rows, settings["max_seq_length"])
    _compare_arrays(arrays, folder / f"{name}.npz", found)
    return found.result()


def number_rows(rows: rows_lib.Rows) -> np.ndarray:
    """The original's number of each row."""
    return 1000 * rows.examples + _numbers(rows)


def _numbers(rows: rows_lib.Rows) -> np.ndarray:
    """Each row's number among those of its question."""
    firsts = np.searchsorted(rows.examples, rows.examples)
    return np.arange(rows.num_rows) - firsts


def _describe_examples(
    examples: Sequence[records.Example], rows: rows_lib.Rows
) -> list[dict[str, Any]]:
    """What the reference says of each example."""
    described = []
    for number, example in enumerate(examples):
        found = None
        if not example.is_impossible:
            found = records.find_answer(example)
        begin, end = found or (0, 0)
        first, last = (
            _count_words(example.context[:place]) for place in (begin, end)
        )
        described.append(
            {
                "eid": number,
                "id": example.id,
                "start_word": first if found else -1,
                "end_word": last - 1,
                "is_impossible": example.is_impossible,
                "answer": example.answer.text
                if found and example.answer
                else "",
                "n_words": _count_words(example.context),
                "n_features": int(np.sum(rows.examples == number)),
            }
        )
    return described


def _count_words(text: str) -> int:
    data = questions.encode([text])
    words = blanks.split(data, blanks.QUESTION_BLANKS).words
    return int(words.values.shape[0])


def _describe_rows(rows: rows_lib.Rows, length: int) -> dict[str, np.ndarray]:
    """Padded tokens, and the original's number of each row."""
    shape = (rows.num_rows, length)
    arrays = {
        name: np.zeros(shape, np.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    for row in range(rows.num_rows):
        ids = rows.ids[row]
        arrays["input_ids"][row, : len(ids)] = ids
        arrays["input_mask"][row, : len(ids)] = 1
        arrays["segment_ids"][row, rows.segment_starts[row] : len(ids)] = 1
    arrays["eid"] = number_rows(rows)
    return arrays


def _describe_tokens(rows: rows_lib.Rows, length: int) -> dict[str, np.ndarray]:
    """Word and context of every token, -1 outside the document."""
    words = np.full((rows.num_rows, length), -1)
    is_max_context = words.copy()
    row = 0
    for chunk in rows.details:
        windows = chunk.rows.windows
        pieces = chunk.contexts.pieces
        splits = chunk.contexts.starts.row_splits.numpy()
        begins = chunk.contexts.ids.row_starts().numpy()
        owners = pieces.value_rowids().numpy()
        for number in range(len(windows.texts)):
            context = chunk.context_of_example[windows.texts[number]]
            count = int(windows.lengths[number])
            begin = begins[context] + int(windows.starts[number])
            places = rows.segment_starts[row] + np.arange(count)
            words[row, places] = owners[begin : begin + count] - splits[context]
            candidates = spans.Candidates(
                tf.range(count, dtype=tf.int64)[tf.newaxis], *[tf.zeros(0)] * 3
            )
            is_max_context[row, places] = spans.have_most_context(
                candidates, windows, [number]
            )[0]
            row += 1
    return {"word_of_token": words, "is_max_context": is_max_context}


def _compare_arrays(
    ours: Mapping[str, np.ndarray], path: Path, found: comparison.Comparison
) -> None:
    for name, theirs in reference.read_arrays(path).items():
        found.add(name, comparison.count_unequal(ours[name], theirs))


def _count_unequal(
    ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]
) -> int:
    """Records that differ in a field that the reference has."""
    longest = max(len(ours), len(theirs))
    same = sum(
        all(ours_one.get(key) == value for key, value in theirs_one.items())
        for ours_one, theirs_one in zip(ours, theirs, strict=False)
    )
    return longest - same
