"""What a study is: a few arms that differ in a few fields, at equal cost.

A file of `configs/studies/` returns a `Study`; `study_plan` gives its arms
their numbers of steps.
"""

import dataclasses
import difflib
import importlib.util
import pathlib
import re
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from electra_tf import config
from electra_tf import errors

BUDGETS = ("steps", "flops")

UNTRAINED = "untrained"
"""The arm of random weights, which stands beside those that are trained."""

BLIMP = "blimp"
"""Among a study's tasks: the minimal pairs of `analysis.blimp`."""

_SET_BY_THE_STUDY = (
    ("training", "num_train_steps"),
    ("training", "seed"),
    ("data", "dataset_dir"),
)

Overrides = Mapping[str, Mapping[str, Any]]

# BERT beside arms that have a generator and sample from it: what the base
# says about both has no effect on it, so it goes back to the defaults.
MASKED_LM_ARM: Overrides = {
    "objective": {"name": "mlm", "temperature": 1.0},
    "generator": dataclasses.asdict(config.GeneratorConfig()),
}


@dataclasses.dataclass(frozen=True)
class Study:
    """Arms, seeds and measures of a comparison.

    Attributes:
        name: of the study.
        question: what it asks, in a sentence.
        base: settings that the arms share.
        arms: name to what differs from `base`: section to field to value.
            Fields that count steps are meant for `base`'s number of steps.
        budget: `steps` (all arms train as long) or `flops` (all arms cost as
            much as the reference arm).
        reference_arm: the arm that takes `base.training.num_train_steps`.
        seeds: of the runs, one run per arm, budget and seed.
        tasks: what the models are measured on: classification and tagging
            tasks by their names, and `BLIMP`; may be empty.
        tasks_dir: folder under which their official files lie; empty if it is
            given when the study runs.
        finetune_steps: length of the short fine-tune; 0 is none.
        max_examples: most training examples of a task; 0 is all.
        budget_fractions: the whole comparison is made at each of these parts
            of the budget.
    """

    name: str
    question: str
    base: config.ExperimentConfig
    arms: Mapping[str, Overrides]
    budget: str
    reference_arm: str
    seeds: tuple[int, ...] = (1, 2, 3)
    tasks: tuple[str, ...] = ()
    tasks_dir: str = ""
    finetune_steps: int = 0
    max_examples: int = 0
    budget_fractions: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        for name in (self.name, *self.arms):
            require(
                re.fullmatch(r"[A-Za-z0-9_.-]+", name) is not None,
                "Names of studies and arms become names of folders: letters, "
                f"digits, '_', '.' and '-'. Received: {name!r}.",
            )
        require(
            self.budget in BUDGETS,
            f"`budget` must be one of {', '.join(BUDGETS)}. Received: "
            f"{self.budget!r}.",
        )
        require(
            UNTRAINED not in self.arms,
            f"No arm may be called {UNTRAINED!r}: a study measures random "
            "weights under that name. Rename it.",
        )
        require_arm("`reference_arm`", self.reference_arm, self.arms)
        self._check_numbers()
        for name in self.arms:
            self.arm_settings(name)

    def _check_numbers(self) -> None:
        for name, numbers, low in (
            ("seeds", self.seeds, 0),
            ("budget_fractions", self.budget_fractions, 1e-6),
        ):
            require(
                len(numbers) > 0
                and len(set(numbers)) == len(numbers)
                and min(numbers) >= low,
                f"`{name}` must be different numbers of at least {low}. "
                f"Received: {numbers}.",
            )
        for name in ("finetune_steps", "max_examples"):
            require(
                getattr(self, name) >= 0,
                f"`{name}` must be at least 0. Received: "
                f"{getattr(self, name)}.",
            )

    def arm_settings(self, name: str) -> config.ExperimentConfig:
        """The settings of an arm at the number of steps of `base`.

        Raises:
            ConfigError: for fields that do not exist, values that cannot work,
                or fields that the study itself sets.
        """
        changes = self.arms[name]
        for section, field in _SET_BY_THE_STUDY:
            require(
                field not in changes.get(section, {}),
                f"Arm {name!r} of study {self.name!r} sets "
                f"`{section}.{field}`, which a study decides for all arms. "
                "Take it out.",
            )
        merged = dataclasses.asdict(self.base)
        for section, fields in changes.items():
            merged[section] = merged.get(section, {}) | dict(fields)
        try:
            return config.freeze(merged)
        except errors.ConfigError as error:
            raise errors.ConfigError(
                f"Arm {name!r} of study {self.name!r}: {error}"
            ) from error


def load_study(path: pathlib.Path) -> Study:
    """Runs a file of `configs/studies/` and returns its `get_study()`.

    Raises:
        FileNotFoundError: if there is no such file.
        ConfigError: if it holds no study, or one that cannot work.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no study {str(path)!r}. Name a file of configs/studies."
        )
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if specification is None or specification.loader is None:
        raise errors.ConfigError(
            f"{path} is not a Python file of configs/studies."
        )
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    require(
        hasattr(module, "get_study"),
        f"{path} has no function get_study(). Files of configs/studies define "
        "one that returns an electra_tf.analysis.studies.Study.",
    )
    return module.get_study()


def with_seeds(study: Study, seeds: Sequence[str]) -> Study:
    """The study with other seeds, as a command line names them.

    Raises:
        ConfigError: if one is not a whole number, or twice there.
    """
    require(
        all(seed.strip().isdecimal() for seed in seeds),
        "Seeds must be whole numbers, as in --seeds=1,2,3. Received: "
        f"{','.join(seeds)!r}.",
    )
    return dataclasses.replace(study, seeds=tuple(int(seed) for seed in seeds))


def replace_fields(
    settings: config.ExperimentConfig, **sections: Mapping[str, Any]
) -> config.ExperimentConfig:
    """The settings with other values of some fields, by section."""
    changed = {
        name: dataclasses.replace(getattr(settings, name), **fields)
        for name, fields in sections.items()
        if fields
    }
    return dataclasses.replace(settings, **changed)


def require_arm(what: str, name: str, arms: Collection[str]) -> None:
    """Raises `ConfigError`, with the nearest name, unless there is the arm.

    Args:
        what: is to be an arm, for the message.
        name: that was given.
        arms: those there are.
    """
    if name not in arms:
        (close,) = difflib.get_close_matches(name, list(arms), 1, 0) or [""]
        raise errors.ConfigError(
            f"{what} must be one of {', '.join(arms)}. Received: {name!r}."
            + (f" Did you mean {close!r}?" if close else "")
        )


def require(condition: bool, message: str) -> None:
    """Raises `ConfigError` with the message unless the condition holds."""
    if not condition:
        raise errors.ConfigError(message)
