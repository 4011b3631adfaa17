"""Defines studies: arms that differ in a few fields, at equal cost.

A file of `configs/studies/` returns a `Study`; `plan_study` computes each arm's
number of steps. Each arm has its own runs, never a part of a longer run.
"""

import bisect
import dataclasses
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import pydantic

from electra_tf import config
from electra_tf.config import schema
from electra_tf.objectives import registry

UNTRAINED = "untrained"
"""The arm of random weights, a baseline for the trained arms."""

BLIMP = "blimp"
"""A study's task: the minimal pairs of `scoring.blimp`."""

_SET_BY_THE_STUDY = (
    ("training", "num_train_steps"),
    ("training", "seed"),
    ("data", "dataset_dir"),
)
# Sections with schedules, and their minimum steps after rescaling.
_LEAST_SCHEDULES = {"optimizer": 0, "objective": 1, "masking": 1}
_MAX_STEPS = 2**40

Overrides = Mapping[str, Mapping[str, Any]]
FlopsFn = Callable[[config.ExperimentConfig], float]

# BERT among arms with a generator: settings of generator and sampling have no
# effect on BERT, so this arm resets them to the defaults.
MASKED_LM_ARM: Overrides = {
    "objective": {
        "name": registry.MASKED_LM,
        "temperature": 1.0,
        "generator_steps": 0,
        "freeze_generator": True,
    },
    "generator": dataclasses.asdict(config.GeneratorConfig()),
}


@schema.frozen
class Study:
    """Arms, seeds and measures of a comparison."""

    name: str
    question: str  # in a sentence
    base: config.ExperimentConfig  # settings that the arms share
    # Settings of each arm that differ from `base`, by section and field. Fields
    # that count steps refer to `base`'s number of steps.
    arms: Mapping[str, Overrides]
    # `steps`: all arms train equally long. `flops`: all cost as much as the
    # reference arm, which trains for `base.training.num_train_steps`.
    budget: Annotated[str, schema.one_of("steps", "flops")]
    reference_arm: str
    # There is one run for each seed, arm and budget.
    seeds: tuple[schema.Count, ...] = (1, 2, 3)
    # Tasks of classification, regression and tagging, and `BLIMP`.
    tasks: tuple[str, ...] = ()
    # A fine-tuning takes the larger one; both 0: no fine-tuning.
    finetune_steps: schema.Count = 0
    finetune_epochs: Annotated[float, pydantic.Field(ge=0)] = 0.0
    finetune_trials: pydantic.PositiveInt = 1  # the score is their mean
    max_examples: schema.Count = 0  # training examples of a task; 0: all
    # Parts of the budget; all arms are compared at each of them.
    budget_fractions: tuple[pydantic.PositiveFloat, ...] = (1.0,)

    def __post_init__(self) -> None:
        for name in (self.name, *self.arms):
            schema.require(
                bool(re.fullmatch(rf"(?!{UNTRAINED}$)[A-Za-z0-9_.-]+", name)),
                "Names of studies and arms become names of folders: letters, "
                f"digits, '_', '.' and '-', but not {UNTRAINED!r}, the arm of "
                f"random weights. Received: {name!r}.",
            )
        _require_arm("`reference_arm`", self.reference_arm, self.arms)
        for name in ("seeds", "budget_fractions"):
            numbers = getattr(self, name)
            schema.require(
                len(numbers) > 0 and len({*numbers}) == len(numbers),
                f"`{name}` must be different numbers. Received: {numbers}.",
            )
        for name in self.arms:
            self.arm_settings(name)

    @property
    def cost(self) -> str:
        """The cost that all arms share: FLOPs or steps."""
        return "FLOPs" if self.budget == "flops" else "steps"

    def arm_settings(self, name: str) -> config.ExperimentConfig:
        """Returns the settings of an arm for `base`'s number of steps."""
        title = f"Arm {name!r} of study {self.name!r}"
        merged = dataclasses.asdict(self.base)
        for section, fields in self.arms[name].items():
            for field in fields:
                schema.require(
                    (section, field) not in _SET_BY_THE_STUDY,
                    f"{title} sets `{section}.{field}`, which the study sets "
                    "for all arms. Remove it from the arm.",
                )
            merged[section] = merged.get(section, {}) | dict(fields)
        return schema.build(config.ExperimentConfig, merged, title)


class PlannedArm(NamedTuple):
    """An arm with its settings, and the cost of one of its runs."""

    name: str  # unique in the plan, and the name of the arm's folder
    arm: str  # the name in the study
    fraction: float  # of the study's budget; 0 without training
    settings: config.ExperimentConfig  # without seed and dataset
    flops: float  # exact FLOPs of training
    num_weights: int  # of all networks in training

    @property
    def is_trained(self) -> bool:
        """Whether the arm is trained; random weights are not."""
        return self.arm != UNTRAINED

    @property
    def num_steps(self) -> int:
        """Training steps of a run."""
        return self.is_trained * self.settings.training.num_train_steps

    @property
    def num_warmup_steps(self) -> int:
        """Steps in which the learning rate rises."""
        return self.is_trained * self.settings.num_warmup_steps

    @property
    def flops_per_step(self) -> float:
        """The mean FLOPs of a step."""
        return self.flops / max(1, self.num_steps)


class StudyPlan(NamedTuple):
    """The arms of a study with their steps, in the order of the report."""

    study: Study
    arms: tuple[PlannedArm, ...]

    @property
    def num_runs(self) -> int:
        """The number of arms, times the number of seeds."""
        return len(self.arms) * len(self.study.seeds)


def load_study(name: str) -> Study:
    """Runs a file of `configs/studies/` and returns its `get_study()`.

    The text after a colon is its argument, as in `table1.py:192x4:600M`.
    """
    return config.run_file(name, function="get_study")


def with_seeds(study: Study, seeds: Sequence[str]) -> Study:
    """Returns the study with the seeds of a command line."""
    schema.require(
        all(seed.strip().isdecimal() for seed in seeds),
        "Seeds must be whole numbers, as in --seeds=1,2,3. Received: "
        f"{','.join(seeds)!r}.",
    )
    return dataclasses.replace(study, seeds=tuple(int(seed) for seed in seeds))


def plan_study(
    study: Study,
    vocab_size: int,
    run_flops_fn: FlopsFn,
    count_weights_fn: Callable[[config.ExperimentConfig], int],
    num_train_steps: int = 0,
    has_tasks: bool = False,
) -> StudyPlan:
    """Plans arms of equal cost.

    Args:
        study: the study.
        vocab_size: size of the dataset's vocabulary.
        run_flops_fn: returns the FLOPs of a training, which must grow with the
            number of steps.
        count_weights_fn: returns the number of weights in a training.
        num_train_steps: steps of the reference arm; 0: the study's.
        has_tasks: whether models are fine-tuned. Then the last arm is the
            reference arm's model with random weights.
    """
    steps = num_train_steps or study.base.training.num_train_steps
    arms = {}
    for name in study.arms:
        settings = study.arm_settings(name)
        own = settings.encoder.vocab_size
        schema.require(
            own in (0, vocab_size),
            f"`encoder.vocab_size` of study {study.name!r} is {own}, the "
            f"dataset's vocabulary has {vocab_size} tokens. Leave it at 0.",
        )
        encoder = {"vocab_size": vocab_size}
        arms[name] = schema.replace_fields(settings, encoder=encoder)
    planned = []
    for fraction in study.budget_fractions:
        count = max(1, round(steps * fraction))
        target = run_flops_fn(with_num_steps(arms[study.reference_arm], count))
        suffix = f"_x{fraction:g}" if len(study.budget_fractions) > 1 else ""
        for name, settings in arms.items():
            fitted = with_num_steps(settings, count)
            if study.budget == "flops" and name != study.reference_arm:
                fitted = with_flops(settings, target, run_flops_fn)
            flops = run_flops_fn(fitted)
            arm = PlannedArm(
                *(name + suffix, name, fraction, fitted, flops),
                count_weights_fn(fitted),
            )
            planned.append(arm)
    if has_tasks and study.tasks:
        random = with_num_steps(arms[study.reference_arm], steps)
        size = count_weights_fn(random)
        planned.append(PlannedArm(UNTRAINED, UNTRAINED, 0.0, random, 0.0, size))
    return StudyPlan(study, tuple(planned))


def select_arms(plan: StudyPlan, names: Sequence[str]) -> StudyPlan:
    """Returns the plan of the named arms (no names: all), and random weights.

    A name selects an arm at all budgets (`mlm`) or at one (`mlm_x0.5`).
    """
    known = dict.fromkeys(n for arm in plan.arms for n in (arm.arm, arm.name))
    for name in names:
        _require_arm("--arms", name, known)
    kept = {*(names or known), UNTRAINED}
    arms = (arm for arm in plan.arms if kept & {arm.arm, arm.name})
    return StudyPlan(plan.study, tuple(arms))


def with_num_steps(
    settings: config.ExperimentConfig, num_steps: int
) -> config.ExperimentConfig:
    """Scales a training, with its schedules and phases, to `num_steps`.

    Parts of more than 0 steps keep at least 1, except the warm-up.
    """
    ratio = num_steps / settings.training.num_train_steps
    schedules: dict[str, dict[str, Any]] = {
        section: {
            name: max(least, round(count * ratio))
            for name, count in dataclasses.asdict(settings)[section].items()
            if name.endswith(("_step", "_steps")) and count
        }
        for section, least in _LEAST_SCHEDULES.items()
    }
    schedules["data"] = {
        "phases": re.sub(
            r":(\d+)",
            lambda count: f":{max(1, round(int(count[1]) * ratio))}",
            settings.data.phases,
        )
    }
    training = {"num_train_steps": num_steps}
    return schema.replace_fields(settings, training=training, **schedules)


def with_flops(
    settings: config.ExperimentConfig, target: float, run_flops_fn: FlopsFn
) -> config.ExperimentConfig:
    """Scales a training to the number of steps with the nearest cost."""

    def excess(num_steps: int) -> float:
        return run_flops_fn(with_num_steps(settings, num_steps)) - target

    # A search, as steps can differ in cost (for example in two stages).
    enough = 1 + bisect.bisect_left(range(1, _MAX_STEPS), 0.0, key=excess)
    nearest = min(enough, max(1, enough - 1), key=lambda n: abs(excess(n)))
    return with_num_steps(settings, nearest)


def format_plan(plan: StudyPlan) -> str:
    """Formats the plan as a table of the arms' steps and FLOPs."""
    study = plan.study
    width = max(len("arm"), *(len(arm.name) for arm in plan.arms))
    return "\n".join(
        (
            f"{study.name}: {study.question}",
            f"{plan.num_runs} runs: {len(plan.arms)} arms x seeds "
            f"{', '.join(map(str, study.seeds))}, equal {study.cost}; tasks: "
            f"{', '.join(study.tasks) or 'none'}.",
            f"{'arm':<{width}}     steps  warm-up  FLOPs/step   FLOPs/run"
            "  M weights",
            *(
                f"{arm.name:<{width}} {arm.num_steps:>9,} "
                f"{arm.num_warmup_steps:>8,} {arm.flops_per_step:>11.3e} "
                f"{arm.flops:>11.4e} {arm.num_weights / 1e6:>10.2f}"
                for arm in plan.arms
            ),
        )
    )


def _require_arm(setting: str, name: str, arms: Collection[str]) -> None:
    schema.require(
        name in arms,
        f"{setting} must be an arm. Received: {name!r}. "
        + schema.suggest(name, arms),
    )
