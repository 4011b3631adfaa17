"""Question answering against the original's numbers.

Windows, heads, decoding and scores. A folder holds records, the features that
the original made of them, heads with fed hidden states, and post-processing
with fed head outputs; sizes and settings are in its files.
"""

import functools
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path

from electra_tf.verification import finetuning_qa_answers as answers
from electra_tf.verification import finetuning_qa_heads as heads
from electra_tf.verification import finetuning_qa_rows as rows
from electra_tf.verification.report import CheckResult

Case = tuple[str, Callable[[], CheckResult | list[CheckResult]]]

_FEATURES = {
    "train": rows.check_training_features,
    "eval": rows.check_evaluation_features,
}
_SCORES = "scores"
_SINGLE_FILES = {
    f"postprocess_{_SCORES}": answers.check_postprocessing_scores,
    "final_text": answers.check_final_text,
    "evaluation": answers.check_evaluation,
    "normalized_answers": answers.check_normalized_answers,
}


def list_cases(folder: Path) -> Iterator[Case]:
    """The cases of a folder `finetuning/qa`, and how to check them.

    What there is follows from the names of the files: one of a pair is enough
    for a case, which then misses the other.

    Args:
        folder: is there.
    """
    tasks = _tags(folder, "features_*.json", "features_train_*.npz",
                  "features_eval_*.npz")  # fmt: skip
    for task in tasks:
        for split, check in _FEATURES.items():
            name = f"features_{split}_{task}"
            yield name, functools.partial(check, folder, task)
    for tag in _tags(folder, "head_*.npz"):
        yield f"head_{tag}", functools.partial(heads.check_head, folder, tag)
    for tag in _tags(folder, "postprocess_*.npz", "postprocess_*.json"):
        if tag != _SCORES:
            yield (
                f"postprocess_{tag}",
                functools.partial(answers.check_postprocessing, folder, tag),
            )
    for name, check_file in _SINGLE_FILES.items():
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
