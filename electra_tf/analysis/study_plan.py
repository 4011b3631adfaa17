"""How long each arm of a study trains.

Equal steps, or the steps at which an arm's training has cost as many
floating-point operations as that of the reference arm. Every arm has a
schedule of its own that ends at its last step; no arm is a checkpoint in the
middle of a longer run.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from electra_tf import config
from electra_tf.analysis import studies

# Section to the fields that count steps of a schedule: they grow and shrink
# with the length of a run.
_SCHEDULE_FIELDS = {
    "optimizer": ("num_warmup_steps",),
    "objective": (
        "disc_weight_steps",
        "temperature_steps",
        "gumbel_temperature_steps",
        "generator_steps",
        "adversarial_start_step",
        "adversarial_full_step",
    ),
}
FlopsFn = Callable[[config.ExperimentConfig], float]


@dataclasses.dataclass(frozen=True)
class PlannedArm:
    """An arm with its number of steps.

    Attributes:
        name: unique in the plan; its folder's name.
        arm: its name in the study.
        fraction: part of the study's budget; 0 without training.
        settings: of its runs, except seed and dataset.
        flops: of one run's training, by the exact convention.
        is_trained: False for `studies.UNTRAINED`.
    """

    name: str
    arm: str
    fraction: float
    settings: config.ExperimentConfig
    flops: float
    is_trained: bool = True

    @property
    def num_steps(self) -> int:
        """Training steps of a run."""
        return self.is_trained * self.settings.training.num_train_steps

    @property
    def num_warmup_steps(self) -> int:
        """Steps in which the learning rate rises."""
        return self.is_trained * self.settings.optimizer.num_warmup_steps


@dataclasses.dataclass(frozen=True)
class Plan:
    """What running a study means, in the order of the report's rows."""

    study: studies.Study
    arms: tuple[PlannedArm, ...]

    @property
    def num_runs(self) -> int:
        """Runs of all arms and seeds."""
        return len(self.arms) * len(self.study.seeds)


def plan_study(
    study: studies.Study,
    vocab_size: int,
    run_flops_fn: FlopsFn,
    num_train_steps: int = 0,
    has_tasks: bool = False,
) -> Plan:
    """Gives every arm its number of steps.

    Args:
        study: what to compare.
        vocab_size: entries of the dataset's vocabulary.
        run_flops_fn: settings, vocabulary size included, to the operations of
            their whole training; it must grow with the number of steps.
        num_train_steps: of the reference arm; 0 takes the study's.
        has_tasks: whether models are measured on tasks; then the last arm is
            the reference arm's model with random weights.

    Raises:
        ConfigError: if the settings fix another size of the vocabulary.
    """
    steps = num_train_steps or study.base.training.num_train_steps
    arms = {
        name: _with_vocabulary(study, name, vocab_size) for name in study.arms
    }
    planned = []
    for fraction in study.budget_fractions:
        count = max(1, round(steps * fraction))
        reference = with_num_steps(arms[study.reference_arm], count)
        target = run_flops_fn(reference)
        for name, settings in arms.items():
            if study.budget == "steps" or name == study.reference_arm:
                own = with_num_steps(settings, count)
            else:
                own = with_flops(settings, target, run_flops_fn)
            planned.append(
                PlannedArm(
                    _planned_name(study, name, fraction),
                    name,
                    fraction,
                    own,
                    run_flops_fn(own),
                )
            )
    if has_tasks and study.tasks:
        settings = with_num_steps(arms[study.reference_arm], steps)
        name = studies.UNTRAINED
        planned.append(PlannedArm(name, name, 0.0, settings, 0.0, False))
    return Plan(study, tuple(planned))


def select_arms(plan: Plan, names: Sequence[str]) -> Plan:
    """The plan with some of its arms, and random weights if it has them.

    What the others cost stays as it is: the reference arm need not be there.

    Args:
        plan: of the whole study.
        names: of arms of the study; none of them for all.

    Raises:
        ConfigError: for a name that there is not.
    """
    for name in names:
        studies.require_arm("--arms", name, plan.study.arms)
    chosen = tuple(
        arm for arm in plan.arms if arm.arm in names or not arm.is_trained
    )
    return Plan(plan.study, chosen) if names else plan


def _planned_name(study: studies.Study, arm: str, fraction: float) -> str:
    if len(study.budget_fractions) == 1:
        return arm
    return f"{arm}_x{fraction:g}"


def _with_vocabulary(
    study: studies.Study, arm: str, vocab_size: int
) -> config.ExperimentConfig:
    settings = study.arm_settings(arm)
    own = settings.encoder.vocab_size
    studies.require(
        own in (0, vocab_size),
        f"`encoder.vocab_size` of study {study.name!r} is {own}, the dataset's "
        f"vocabulary has {vocab_size} entries. Leave it at 0, or use another "
        "dataset.",
    )
    return studies.replace_fields(settings, encoder={"vocab_size": vocab_size})


def with_num_steps(
    settings: config.ExperimentConfig, num_steps: int
) -> config.ExperimentConfig:
    """The same training, stretched or shrunk to another number of steps.

    Warm-up and other schedules keep their share of the run. What was more
    than 0 steps stays at least 1.
    """
    ratio = num_steps / settings.training.num_train_steps
    changes: dict[str, dict[str, Any]] = {
        "training": {"num_train_steps": num_steps}
    }
    for section, fields in _SCHEDULE_FIELDS.items():
        values = {
            name: getattr(getattr(settings, section), name) for name in fields
        }
        changes[section] = {
            name: max(1, round(value * ratio))
            for name, value in values.items()
            if value
        }
    return studies.replace_fields(settings, **changes)


def with_flops(
    settings: config.ExperimentConfig, target: float, run_flops_fn: FlopsFn
) -> config.ExperimentConfig:
    """The same training at the number of steps whose cost is nearest.

    Args:
        settings: any number of steps.
        target: floating-point operations of the whole training.
        run_flops_fn: as in `plan_study`.
    """

    def cost(num_steps: int) -> float:
        return run_flops_fn(with_num_steps(settings, num_steps))

    # Steps may differ in cost, as those of a two-stage run do: so search.
    enough = settings.training.num_train_steps
    while cost(enough) < target:
        enough *= 2
        studies.require(
            enough < 2**40,
            f"No number of steps costs {target:.3g} operations. Received: "
            f"{cost(enough):.3g} for {enough:,} steps.",
        )
    too_few = enough // 2
    while too_few > 0 and cost(too_few) >= target:
        too_few, enough = too_few // 2, too_few
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if cost(middle) < target:
            too_few = middle
        else:
            enough = middle
    is_nearer = too_few > 0 and target - cost(too_few) < cost(enough) - target
    return with_num_steps(settings, too_few if is_nearer else enough)


def format_plan(plan: Plan) -> str:
    """The plan as a table: steps and operations of every arm."""
    study = plan.study
    width = max(len("arm"), *(len(arm.name) for arm in plan.arms))
    lines = [
        f"{study.name}: {study.question}",
        f"{plan.num_runs} runs: {len(plan.arms)} arms x seeds "
        f"{', '.join(str(seed) for seed in study.seeds)}, equal "
        f"{'FLOPs' if study.budget == 'flops' else 'steps'}; tasks: "
        f"{', '.join(study.tasks) or 'none'}.",
        f"{'arm':<{width}} {'steps':>9} {'warm-up':>8} {'FLOPs/step':>11} "
        f"{'FLOPs/run':>11}",
    ]
    lines += [
        f"{arm.name:<{width}} {arm.num_steps:>9,} {arm.num_warmup_steps:>8,} "
        f"{arm.flops / max(1, arm.num_steps):>11.3e} {arm.flops:>11.4e}"
        for arm in plan.arms
    ]
    return "\n".join(lines)
