"""Answers from fed outputs, and their scores, against the original's."""

import math
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra_tf import finetuning_config
from electra_tf.tasks.question_answering import answers
from electra_tf.tasks.question_answering import final_text
from electra_tf.tasks.question_answering import records
from electra_tf.tasks.question_answering import sources
from electra_tf.tasks.question_answering import squad_scores
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.verification import comparison
from electra_tf.verification import finetuning_qa_rows
from electra_tf.verification import reference
from electra_tf.verification.finetuning_qa_rows import KIND
from electra_tf.verification.report import CheckResult

_TOLERANCE = 1e-5
_SCORE_TOLERANCE = 1e-9
_OPTIONS = (
    "n_best_size",
    "max_answer_length",
    "beam_size",
    "joint_prediction",
    "answerable_classifier",
)


def check_postprocessing(folder: Path, tag: str) -> list[CheckResult]:
    """Answers, n-best lists and null odds from fed outputs.

    Args:
        folder: of the reference.
        tag: of the run.
    """
    settings = reference.read_json(folder / f"postprocess_{tag}.json")
    outputs = reference.read_arrays(folder / f"postprocess_{tag}.npz")
    examples = finetuning_qa_rows.read_records(folder, settings["task"])
    rows = finetuning_qa_rows.build_rows(folder, examples, settings, False)
    texts = comparison.Comparison(KIND, f"qa, postprocess_{tag}, texts")
    eid = finetuning_qa_rows.number_rows(rows)
    texts.add("eid", comparison.count_unequal(eid, outputs.pop("eid")))
    if not settings["answerable_classifier"]:
        outputs.pop("answerable_logit", None)
    predictions = answers.decode(
        rows,
        {name: list(array) for name, array in outputs.items()},
        finetuning_config.QuestionAnsweringConfig(
            **{name: settings[name] for name in _OPTIONS}
        ),
        finetuning_qa_rows.form_of(settings["task"]) == sources.SQUAD2,
    )
    texts.add(
        "predictions",
        _count_different(predictions.texts, settings["predictions"]),
    )
    numbers = comparison.Comparison(
        KIND, f"qa, postprocess_{tag}, numbers", _TOLERANCE
    )
    numbers.add(
        "null_odds",
        _compare_numbers(predictions.null_odds, settings["null_odds"] or {}),
    )
    _compare_nbest(predictions.nbest, settings["nbest"], texts, numbers)
    return [texts.result(), numbers.result()]


def check_postprocessing_scores(folder: Path) -> CheckResult:
    """Official scores of the reference's own predictions."""
    found = comparison.Comparison(
        KIND, "qa, postprocess_scores", _SCORE_TOLERANCE
    )
    expected = reference.read_json(folder / "postprocess_scores.json")
    for tag, scores in expected.items():
        run = reference.read_json(folder / f"postprocess_{tag}.json")
        form = finetuning_qa_rows.form_of(run["task"])
        golds = _golds(finetuning_qa_rows.read_records(folder, run["task"]))
        if form == sources.SQUAD2:
            ours = squad_scores.compute_squad2_scores(
                golds,
                run["predictions"],
                run["null_odds"],
                finetuning_config.QuestionAnsweringConfig.qa_na_threshold,
            )
        elif form == sources.SQUAD1:
            ours = squad_scores.compute_squad1_scores(golds, run["predictions"])
        else:
            ours = squad_scores.compute_mrqa_scores(golds, run["predictions"])
        found.add(tag, _compare_numbers(ours, scores))
    return found.result()


def check_final_text(folder: Path) -> CheckResult:
    """Predicted strings projected to their original texts."""
    found = comparison.Comparison(KIND, "qa, final_text")
    cases = reference.read_json(folder / "final_text.json")
    for do_lower_case in (True, False):
        chosen = [c for c in cases if c["do_lower_case"] == do_lower_case]
        originals = [case["orig_text"] for case in chosen]
        settings = vocabulary_lib.TokenizerSettings(do_lower_case=do_lower_case)
        normalized = final_text.normalize(originals, settings)
        for case, plain in zip(chosen, normalized, strict=True):
            place = final_text.project(
                case["pred_text"], plain, case["orig_text"]
            )
            ours = case["orig_text"][slice(*place or (None,))]
            name = f"{case['pred_text']!r} in {case['orig_text']!r}, "
            found.add(f"{name}{do_lower_case}", ours != case["result"])
    return found.result()


def check_evaluation(folder: Path) -> CheckResult:
    """Raw scores, and the official ones of the three scripts."""
    found = comparison.Comparison(KIND, "qa, evaluation", _SCORE_TOLERANCE)
    expected = reference.read_json(folder / "evaluation.json")
    golds = _golds(records.read_squad(folder / "evaluation_gold.json"))
    predictions = expected["predictions"]
    raw = squad_scores.compute_raw_scores(golds, predictions)
    found.add("raw_exact", _compare_numbers(raw.exact, expected["raw_exact"]))
    found.add("raw_f1", _compare_numbers(raw.f1, expected["raw_f1"]))
    for threshold, results in expected["results_v2"].items():
        ours = squad_scores.compute_squad2_scores(
            golds, predictions, expected["null_odds"], float(threshold)
        )
        found.add(f"v2 {threshold}", _compare_numbers(ours, results))
    answered = {key: texts for key, texts in golds.items() if texts}
    given = {
        key: text
        for key, text in predictions.items()
        if key not in expected["missing_in_v1"]
    }
    for name, ours in (
        ("v1", squad_scores.compute_squad1_scores(answered, given)),
        ("mrqa_skip", squad_scores.compute_mrqa_scores(answered, given, True)),
        (
            "mrqa_noskip",
            squad_scores.compute_mrqa_scores(answered, given, False),
        ),
    ):
        found.add(name, _compare_numbers(ours, expected[f"results_{name}"]))
    return found.result()


def check_normalized_answers(folder: Path) -> CheckResult:
    """What is compared of answers."""
    found = comparison.Comparison(KIND, "qa, normalized_answers")
    for case in reference.read_json(folder / "normalized_answers.json"):
        ours = squad_scores.normalize_answer(case["text"])
        found.add(repr(case["text"]), ours != case["normalized"])
    return found.result()


def _golds(examples: Sequence[records.Example]) -> dict[str, Sequence[str]]:
    return {example.id: example.golds or () for example in examples}


def _compare_nbest(
    ours: Mapping[str, Sequence[Mapping[str, Any]]],
    theirs: Mapping[str, Sequence[Mapping[str, Any]]],
    texts: comparison.Comparison,
    numbers: comparison.Comparison,
) -> None:
    """Texts in their order, and the numbers of each."""
    for identity, entries in theirs.items():
        own = ours.get(identity, [])
        is_same = [e["text"] for e in own] == [e["text"] for e in entries]
        texts.add(f"nbest of {identity}", not is_same)
        for name in ("probability", "start_logit", "end_logit"):
            numbers.add(
                f"{name} of {identity}",
                comparison.compute_error(
                    [entry[name] for entry in own],
                    [entry[name] for entry in entries],
                ),
            )


def _count_different(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> int:
    """Keys that only one has, or whose values differ."""
    keys = ours.keys() | theirs.keys()
    return sum(ours.get(key) != theirs.get(key) for key in keys)


def _compare_numbers(
    ours: Mapping[str, float], theirs: Mapping[str, float]
) -> float:
    """The largest error of any key; infinite if the keys differ."""
    if ours.keys() != theirs.keys():
        return math.inf
    return comparison.compute_error(
        [ours[key] for key in theirs], list(theirs.values())
    )
