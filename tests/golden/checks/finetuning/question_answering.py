"""Question answering: windows, heads, decoding and scores.

A folder holds records, the features that the original made of them, heads with
fed hidden states, and post-processing with fed head outputs; sizes and
settings are in its files.
"""

import functools
import math
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf.finetuning import rows as rows_lib
from electra_tf.finetuning.question_answering import decoding
from electra_tf.finetuning.question_answering import final_text
from electra_tf.finetuning.question_answering import records
from electra_tf.finetuning.question_answering import sources
from electra_tf.finetuning.question_answering import squad_scores
from electra_tf.finetuning.question_answering import windows as windows_lib
from electra_tf.finetuning_config import QuestionAnsweringConfig
from electra_tf.modeling.question_answering_head import QuestionAnsweringHead
from electra_tf.text.vocabulary import TokenizerSettings
from tests.golden import comparison
from tests.golden import loading
from tests.golden.comparison import Line

_TOLERANCE = 1e-5
_SCORE_TOLERANCE = 1e-9
# Log probabilities below this are of positions that are no candidates; -1000
# leaves so little of their order in float32 that it is not compared.
_NO_CANDIDATE = -500.0
# The original's names of the SQuAD tasks; all others are of MRQA.
_FORMS = {"squad": sources.SQUAD2, "squadv1": sources.SQUAD1}
_RECORDS = {
    sources.SQUAD1: "squad_v1_style.json",
    sources.SQUAD2: "squad_v2_style.json",
    sources.MRQA: "mrqa_style.jsonl",
}
_HEAD_OPTIONS = (
    "joint_prediction",
    "beam_size",
    "answerable_classifier",
    "answerable_uses_start_logits",
    "answerable_weight",
)
_DECODING_OPTIONS = (
    "n_best_size",
    "max_answer_length",
    "beam_size",
    "joint_prediction",
    "answerable_classifier",
)


def list_cases(folder: Path) -> Iterator[tuple[str, Any]]:
    """The cases of a folder `finetuning/qa`.

    What there is follows from the names of the files: one of a pair is enough
    for a case, which then misses the other.
    """
    for task in _tags(
        folder,
        "features_*.json",
        "features_train_*.npz",
        "features_eval_*.npz",
    ):
        for split, check in (
            ("train", _check_training_features),
            ("eval", _check_evaluation_features),
        ):
            name = f"features_{split}_{task}"
            yield name, functools.partial(check, folder, task)
    for tag in _tags(folder, "head_*.npz"):
        yield f"head_{tag}", functools.partial(_check_head, folder, tag)
    for tag in _tags(folder, "postprocess_*.npz", "postprocess_*.json"):
        if tag != "scores":
            name = f"postprocess_{tag}"
            yield name, functools.partial(_check_postprocessing, folder, tag)
    for name, check_file in (
        ("postprocess_scores", _check_postprocessing_scores),
        ("final_text", _check_final_text),
        ("evaluation", _check_evaluation),
        ("normalized_answers", _check_normalized_answers),
    ):
        if (folder / f"{name}.json").is_file():
            yield name, functools.partial(check_file, folder)


def _tags(folder: Path, *patterns: str) -> list[str]:
    """What the star stands for in the names of files, sorted."""
    tags = set()
    for pattern in patterns:
        before, after = pattern.split("*")
        for path in folder.glob(pattern):
            tags.add(path.name[len(before) : -len(after)])
    return sorted(tags)


def _read_records(folder: Path, task: str) -> list[records.Example]:
    """The questions of the folder in the form of a task of the original."""
    form = _FORMS.get(task, sources.MRQA)
    path = folder / _RECORDS[form]
    if form == sources.MRQA:
        return records.read_mrqa(path)
    return records.read_squad(path, form == sources.SQUAD2)


def _build_rows(
    folder: Path,
    examples: Sequence[records.Example],
    settings: Mapping[str, Any],
    is_training: bool,
) -> rows_lib.Rows:
    """The windows of questions by the settings of a file."""
    do_lower_case = settings.get("do_lower_case", True)
    return windows_lib.build_windows(
        examples,
        loading.load_tokenizer(
            folder, TokenizerSettings(do_lower_case=do_lower_case)
        ),
        settings["max_seq_length"],
        settings["max_query_length"],
        settings["doc_stride"],
        is_training,
    )


def _check_training_features(folder: Path, task: str) -> Iterator[Line]:
    """What is learned from: examples, words of answers, rows; exactly."""
    settings = loading.read_json(folder / f"features_{task}.json")
    everything = _read_records(folder, task)
    dropped = records.find_unanswered(everything, folder)
    examples = [e for e in everything if e.id not in dropped]
    rows = _build_rows(folder, examples, settings, True)
    line = Line(f"qa, features_train_{task}")
    for name, ours in (
        ("n_records", len(everything)),
        ("n_examples", len(examples)),
        ("n_failures", len(dropped)),
        ("dropped_ids", dropped),
        ("n_features", rows.num_rows),
    ):
        line.add(name, ours != settings[name])
    described = _describe_examples(examples, rows.details)
    line.add("examples", _count_unequal(described, settings["examples"]))
    arrays = _describe_rows(rows, settings["max_seq_length"]) | {
        "start_positions": rows.columns["start_position"],
        "end_positions": rows.columns["end_position"],
        "is_impossible": rows.columns["is_impossible"],
    }
    path = folder / f"features_train_{task}.npz"
    for name, theirs in loading.read_arrays(path).items():
        line.compare(name, arrays[name], theirs)
    yield line


def _check_evaluation_features(folder: Path, task: str) -> Iterator[Line]:
    """What is predicted from: rows, words of their tokens; exactly."""
    settings = loading.read_json(folder / f"features_{task}.json")
    length = settings["max_seq_length"]
    examples = _read_records(folder, task)
    rows = _build_rows(folder, examples, settings, False)
    line = Line(f"qa, features_eval_{task}")
    line.compare("n_eval_features", rows.num_rows, settings["n_eval_features"])
    described = [
        {
            "id": examples[rows.examples[row]].id,
            "doc_span_index": rows.details.numbers[row],
            "n_tokens": rows.lengths[row],
            "first_token": rows.segment_starts[row],
        }
        for row in range(rows.num_rows)
    ]
    line.add(
        "eval_features", _count_unequal(described, settings["eval_features"])
    )
    arrays = _describe_rows(rows, length) | _describe_tokens(rows, length)
    path = folder / f"features_eval_{task}.npz"
    for name, theirs in loading.read_arrays(path).items():
        line.compare(name, arrays[name], theirs)
    yield line


def _describe_examples(
    examples: Sequence[records.Example], windows: windows_lib.Windows
) -> list[dict[str, Any]]:
    """What the reference says of each example."""
    num_words = windows.documents.words.lengths[windows.document_of_example]
    return [
        {
            "eid": number,
            "id": example.id,
            "start_word": (words or (-1, -1))[0],
            "end_word": (words or (-1, -1))[1],
            "is_impossible": example.is_impossible,
            "answer": example.answer.text if words and example.answer else "",
            "n_words": num_words[number],
            "n_features": windows.num_windows[number],
        }
        for number, (example, words) in enumerate(
            zip(examples, records.locate_answers(examples), strict=True)
        )
    ]


def _describe_rows(rows: rows_lib.Rows, length: int) -> loading.Arrays:
    """Padded tokens, and the original's number of each row."""
    columns = np.arange(length)
    mask = columns < rows.lengths[:, np.newaxis]
    ids = np.zeros(mask.shape, np.int32)
    ids[mask] = rows.ids.values
    return {
        "input_ids": ids,
        "input_mask": mask,
        "segment_ids": mask & (columns >= rows.segment_starts[:, np.newaxis]),
        "eid": 1000 * rows.examples + rows.details.numbers,
    }


def _describe_tokens(rows: rows_lib.Rows, length: int) -> loading.Arrays:
    """Word and context of every token, -1 outside the document."""
    windows: windows_lib.Windows = rows.details
    words = np.full((rows.num_rows, length), -1)
    is_max_context = words.copy()
    for row, example in enumerate(rows.examples):
        pieces = windows.starts[row] + np.arange(windows.lengths[row])
        places = rows.segment_starts[row] + np.arange(len(pieces))
        document = windows.document_of_example[example]
        words[row, places] = windows.documents.word_of_piece[document][pieces]
        is_max_context[row, places] = windows.is_max_context(
            np.full(len(pieces), example),
            np.full(len(pieces), windows.numbers[row]),
            pieces,
        )
    return {"word_of_token": words, "is_max_context": is_max_context}


def _count_unequal(
    ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]
) -> int:
    """Records that differ in a field that the reference has."""
    same = sum(
        all(own.get(key) == value for key, value in one.items())
        for own, one in zip(ours, theirs, strict=False)
    )
    return max(len(ours), len(theirs)) - same


def _check_head(folder: Path, tag: str) -> Iterator[Line]:
    """Losses, logits and the best starts and ends of a head."""
    (options,) = (
        entry
        for entry in loading.read_json(folder / "heads.json")
        if entry["tag"] == tag
    )
    arrays = loading.read_arrays(folder / f"head_{tag}.npz")
    expected = loading.with_prefix(arrays, "out/")
    head = _build_head(options, arrays)
    ours = _compute_outputs(head, options["is_training"], arrays)
    line = Line(f"qa, head_{tag}", _TOLERANCE)
    for name, output in ours.items():
        if not name.endswith("_index"):
            line.compare(name, output, expected[name])
            continue
        log_probs = expected[name.replace("index", "log_probs")]
        is_candidate = log_probs > _NO_CANDIDATE
        line.compare(
            name,
            np.where(is_candidate, output, 0),
            np.where(is_candidate, expected[name], 0),
            comparison.count_unequal,
        )
    yield line


def _build_head(
    options: Mapping[str, Any], arrays: loading.Arrays
) -> QuestionAnsweringHead:
    """The head with the reference's weights."""
    weights = loading.with_prefix(arrays, "weights/")
    stage, task, *_ = next(iter(weights)).split("/")
    with keras.name_scope(stage):
        head = QuestionAnsweringHead(
            seed=1,
            name=task,
            **{name: options[name] for name in _HEAD_OPTIONS},
        )
        head.build((None, None, arrays["final_hidden"].shape[-1]))
    paths = {variable.path for variable in head.weights}
    if paths != set(weights):
        raise ValueError(
            f"Expected the variables {sorted(paths)}. Received: "
            f"{sorted(weights)}."
        )
    for variable in head.weights:
        variable.assign(weights[variable.path])
    return head


def _compute_outputs(
    head: QuestionAnsweringHead, is_training: bool, arrays: loading.Arrays
) -> dict[str, tf.Tensor]:
    """What the reference has of a mode, by its names.

    In joint mode the original's prediction has zeros for end logits, and still
    a loss: the end then costs the logarithm of the row's length. Our head has
    no use for that number; it is made here.
    """
    features = {
        "input_mask": tf.constant(arrays["input_mask"]),
        "segment_ids": tf.constant(arrays["segment_ids"]),
        "start_position": tf.constant(arrays["start_positions_in"]),
        "end_position": tf.constant(arrays["end_positions_in"]),
        "is_impossible": tf.constant(arrays["is_impossible"]),
    }
    hidden = tf.constant(arrays["final_hidden"])
    outputs = head.predict(hidden, features)
    if is_training or not head.joint_prediction:
        outputs["loss"] = head.compute_losses(hidden, features, None)
        outputs["end_logits"] = head.compute_end_logits(
            hidden, features, features["start_position"]
        )
        # Ends of all starts are made in prediction alone.
        return {
            name: tensor
            for name, tensor in outputs.items()
            if not name.startswith("end_top")
        }
    start_losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        features["start_position"], outputs["start_logits"]
    )
    length = outputs["start_logits"].shape[1]
    outputs["loss"] = (start_losses + math.log(length)) / 2
    if head.answerable_classifier:
        outputs["loss"] += head.answerable_weight * (
            tf.nn.sigmoid_cross_entropy_with_logits(
                tf.cast(features["is_impossible"], tf.float32),
                outputs["answerable_logit"],
            )
        )
    return outputs


def _check_postprocessing(folder: Path, tag: str) -> Iterator[Line]:
    """Answers, n-best lists and null odds from fed outputs."""
    settings = loading.read_json(folder / f"postprocess_{tag}.json")
    outputs = loading.read_arrays(folder / f"postprocess_{tag}.npz")
    examples = _read_records(folder, settings["task"])
    rows = _build_rows(folder, examples, settings, False)
    texts = Line(f"qa, postprocess_{tag}, texts")
    numbers = Line(f"qa, postprocess_{tag}, numbers", _TOLERANCE)
    eid = 1000 * rows.examples + rows.details.numbers
    texts.compare("eid", eid, outputs.pop("eid"))
    if not settings["answerable_classifier"]:
        outputs.pop("answerable_logit", None)
    found = decoding.decode(
        examples,
        rows,
        {name: list(array) for name, array in outputs.items()},
        QuestionAnsweringConfig(
            **{name: settings[name] for name in _DECODING_OPTIONS}
        ),
        _FORMS.get(settings["task"]) == sources.SQUAD2,
    )
    texts.add(
        "predictions",
        len(
            dict(found.texts).items() ^ dict(settings["predictions"]).items()
        ),
    )
    numbers.add(
        "null_odds", _errors(found.null_odds, settings["null_odds"] or {})
    )
    for identity, entries in settings["nbest"].items():
        own = found.nbest.get(identity, [])
        is_same = [e["text"] for e in own] == [e["text"] for e in entries]
        texts.add(f"nbest of {identity}", not is_same)
        for name in ("probability", "start_logit", "end_logit"):
            numbers.compare(
                f"{name} of {identity}",
                [entry[name] for entry in own],
                [entry[name] for entry in entries],
            )
    yield from (texts, numbers)


def _check_postprocessing_scores(folder: Path) -> Iterator[Line]:
    """Official scores of the reference's own predictions."""
    line = Line("qa, postprocess_scores", _SCORE_TOLERANCE)
    threshold = QuestionAnsweringConfig.qa_na_threshold
    for tag, expected in loading.read_json(
        folder / "postprocess_scores.json"
    ).items():
        run = loading.read_json(folder / f"postprocess_{tag}.json")
        form = _FORMS.get(run["task"], sources.MRQA)
        given = _golds(_read_records(folder, run["task"])), run["predictions"]
        if form == sources.SQUAD2:
            ours = squad_scores.compute_squad2_scores(
                *given, run["null_odds"], threshold
            )
        elif form == sources.SQUAD1:
            ours = squad_scores.compute_squad1_scores(*given)
        else:
            ours = squad_scores.compute_mrqa_scores(*given)
        line.add(tag, _errors(ours, expected))
    yield line


def _check_final_text(folder: Path) -> Iterator[Line]:
    """Predicted strings projected to their original texts."""
    line = Line("qa, final_text")
    for case in loading.read_json(folder / "final_text.json"):
        original, do_lower_case = case["orig_text"], case["do_lower_case"]
        (plain,) = final_text.normalize(
            [original], TokenizerSettings(do_lower_case=do_lower_case)
        )
        place = final_text.project(case["pred_text"], plain, original)
        ours = original[slice(*place or (None,))]
        name = f"{case['pred_text']!r} in {original!r}, {do_lower_case}"
        line.add(name, ours != case["result"])
    yield line


def _check_evaluation(folder: Path) -> Iterator[Line]:
    """Raw scores, and the official ones of the three scripts."""
    line = Line("qa, evaluation", _SCORE_TOLERANCE)
    expected = loading.read_json(folder / "evaluation.json")
    golds = _golds(records.read_squad(folder / "evaluation_gold.json"))
    predictions = expected["predictions"]
    raw = squad_scores.compute_raw_scores(golds, predictions)
    line.add("raw_exact", _errors(raw.exact, expected["raw_exact"]))
    line.add("raw_f1", _errors(raw.f1, expected["raw_f1"]))
    for threshold, results in expected["results_v2"].items():
        ours = squad_scores.compute_squad2_scores(
            golds, predictions, expected["null_odds"], float(threshold)
        )
        line.add(f"v2 {threshold}", _errors(ours, results))
    answered = {key: texts for key, texts in golds.items() if texts}
    missing = expected["missing_in_v1"]
    given = {key: predictions[key] for key in predictions if key not in missing}
    mrqa = squad_scores.compute_mrqa_scores
    for name, ours in (
        ("v1", squad_scores.compute_squad1_scores(answered, given)),
        ("mrqa_skip", mrqa(answered, given, True)),
        ("mrqa_noskip", mrqa(answered, given, False)),
    ):
        line.add(name, _errors(ours, expected[f"results_{name}"]))
    yield line


def _check_normalized_answers(folder: Path) -> Iterator[Line]:
    """What is compared of answers."""
    line = Line("qa, normalized_answers")
    for case in loading.read_json(folder / "normalized_answers.json"):
        ours = squad_scores.normalize_answer(case["text"])
        line.add(repr(case["text"]), ours != case["normalized"])
    yield line


def _golds(examples: Sequence[records.Example]) -> dict[str, Sequence[str]]:
    return {example.id: example.golds or () for example in examples}


def _errors(ours: Mapping[str, float], theirs: Mapping[str, float]) -> float:
    """The largest error of any key; infinite if the keys differ."""
    if ours.keys() != theirs.keys():
        return math.inf
    return comparison.allclose_error(
        [ours[key] for key in theirs], list(theirs.values())
    )
