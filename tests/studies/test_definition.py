"""Plans of studies, and tables of results."""

import pathlib

import pytest

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.pretraining import cost
from electra_tf.studies import definition
from electra_tf.studies import report
from electra_tf.studies import runner
from electra_tf.studies import study_run
from tests.studies import toy_study

STUDIES = pathlib.Path(__file__).parents[2] / "configs" / "studies"
FILES = sorted(set(STUDIES.glob("*.py")) - {STUDIES / "base.py"})


def staged_flops(settings: config.ExperimentConfig) -> float:
    """A two-stage run: cheap steps, then dear ones."""
    steps = settings.training.num_train_steps
    if settings.objective["name"] == "mlm":
        return 7.0 * steps
    first = min(settings.objective.get("generator_steps", 0), steps)
    return 3.0 * first + 11.0 * (steps - first)


def test_arms_cost_the_same_within_one_step():
    stages = {"name": "two_stage", "generator_steps": 5}
    arms = {
        "electra": {},
        "mlm": {"objective": {"name": "mlm"}},
        "two_stage": {"objective": stages},
    }
    study = toy_study.build_study(arms=arms)
    plan = definition.plan_study(study, 50, staged_flops, lambda _: 0, 1_000)
    costs = [(arm.name, arm.num_steps, arm.flops) for arm in plan.arms]
    assert costs == [
        ("electra", 1_000, 11_000),
        ("mlm", 1_571, 1_571 * 7),
        ("two_stage", 1_572, 786 * 3 + 786 * 11),
    ]


def test_schedules_keep_their_share_of_a_run():
    settings = schema.replace_fields(
        toy_study.BASE,
        training={"num_train_steps": 1_000},
        optimizer={"num_warmup_steps": 100},
        objective={"name": "two_stage", "generator_steps": 500},
        masking={"mask_prob_steps": 300},
        data={"phases": "128x32:200,128x64:100"},
    )
    longer = definition.with_num_steps(settings, 2_500)
    assert longer.training.num_train_steps == 2_500
    assert longer.optimizer.num_warmup_steps == 250
    assert longer.objective["generator_steps"] == 1_250
    assert longer.objective.get("temperature_steps", 0) == 0
    assert longer.masking.mask_prob_steps == 750
    assert longer.data.phases == "128x32:500,128x64:250"
    shortest = definition.with_num_steps(settings, 2)
    assert shortest.objective["generator_steps"] == 1
    assert shortest.num_warmup_steps == 0


def test_a_plan_has_every_arm_at_every_budget_and_the_datasets_vocabulary():
    plan = toy_study.build_plan(budget_fractions=(0.5, 1.0), num_train_steps=20)
    assert [(arm.name, arm.num_steps) for arm in plan.arms] == [
        ("electra_x0.5", 10),
        ("mlm_x0.5", 20),
        ("electra_x1", 20),
        ("mlm_x1", 40),
    ]
    assert plan.num_runs == 8
    assert {arm.settings.encoder.vocab_size for arm in plan.arms} == {50}
    base = schema.replace_fields(toy_study.BASE, encoder={"vocab_size": 99})
    with pytest.raises(errors.ConfigError, match="99.*50 tokens"):
        toy_study.build_plan(base=base)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"budget": "time"}, "`budget` must be one of steps, flops.*'time'"),
        ({"reference_arm": "elektra"}, "Did you mean 'electra'"),
        ({"arms": {"electra": {}, "untrained": {}}}, "Received: 'untrained'"),
        ({"arms": {"electra": {}, "a/b": {}}}, "names of folders.*'a/b'"),
        ({"seeds": (1, 1)}, "`seeds` must be different"),
        ({"budget_fractions": (0.0,)}, "0` must be greater than 0"),
        ({"arms": {"electra": {"masking": {"mask_prb": 0.1}}}},
         "Arm 'electra' of study 'toy'.*Did you mean 'mask_prob'"),
        ({"arms": {"electra": {"training": {"seed": 3}}}},
         "sets `training.seed`, which the study sets"),
    ],
)  # fmt: skip
def test_a_study_that_cannot_work_says_why(fields, message):
    with pytest.raises(errors.ConfigError, match=message):
        toy_study.build_study(**fields)


def test_some_arms_keep_the_steps_of_the_whole_study():
    plan = toy_study.build_plan(num_train_steps=30, has_tasks=True)
    assert [(arm.name, arm.num_steps) for arm in plan.arms] == [
        ("electra", 30),
        ("mlm", 60),
        ("untrained", 0),
    ]
    untrained = plan.arms[-1]
    assert untrained.flops == untrained.num_warmup_steps == 0
    assert untrained.settings.objective["name"] == "electra"
    # Without the reference arm, whose cost sets the steps.
    assert definition.select_arms(plan, ["mlm"]).arms == plan.arms[1:]
    without = toy_study.build_plan(has_tasks=True, tasks=())
    assert all(arm.is_trained for arm in without.arms)
    several = toy_study.build_plan(budget_fractions=(0.5, 1.0))
    for asked, names in (
        ("mlm", ["mlm_x0.5", "mlm_x1"]),
        ("mlm_x0.5", ["mlm_x0.5"]),
    ):
        chosen = definition.select_arms(several, [asked]).arms
        assert [arm.name for arm in chosen] == names
    message = "--arms.*'mln'. Did you mean 'mlm'"
    with pytest.raises(errors.ConfigError, match=message):
        definition.select_arms(plan, ["mln"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_studies_of_the_project_compare_at_equal_cost(path):
    study = definition.load_study(str(path))
    assert study.name == path.stem
    assert str(path.relative_to(STUDIES.parent.parent)) in path.read_text()
    plan = definition.plan_study(
        study, 8192, lambda own: cost.Cost(own).run_flops(), lambda _: 0
    )
    described = definition.format_plan(plan)
    assert all(arm.name in described for arm in plan.arms)
    # No two arms are the same run under two names.
    assert len({repr(arm.settings) for arm in plan.arms}) == len(plan.arms)
    if study.budget == "steps":
        assert len({arm.num_steps for arm in plan.arms}) == 1
        return
    references = {
        arm.fraction: arm.flops
        for arm in plan.arms
        if arm.arm == study.reference_arm
    }
    for arm in plan.arms:
        # Half a step is the nearest; the steps of a run may cost unequally.
        counted = cost.Cost(arm.settings)
        dearest = max(map(counted.step_flops, (0, arm.num_steps - 1)))
        assert abs(arm.flops - references[arm.fraction]) <= dearest


def _result(guessing=(), **measures):
    tasks = {k: v for k, v in measures.items() if "loss" not in k}
    held_out = {k: v for k, v in measures.items() if "loss" in k}
    return study_run.RunResult(held_out, tasks, 90.0, 30.0, dict(guessing))


_TABLES = """\
| arm | steps | warm-up | FLOPs | M weights | n | minutes a run |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| `electra` | 10 | 2 | 2.0000e+03 | 1.50 | 2 | 2.0 |
| `mlm` | 20 | 4 | 2.0000e+03 | 1.50 | 1 | 2.0 |
| `untrained` | 0 | 0 | 0.0000e+00 | 1.50 | 1 | 2.0 |

| arm | average | cola_probe | blimp |
| --- | ---: | ---: | ---: |
| `electra` | 0.562 ± 0.177 (2) | 0.250 ± 0.177 (2) | **0.875** ± 0.177 (2) |
| `mlm` | 0.562 (1) | **0.500** (1) | 0.625 (1) |
| `untrained` | 0.500 (1) | 0.750 (1) | 0.250 (1) |
| guessing | 0.250 | 0.000 | 0.500 |

| arm | gen_loss |
| --- | ---: |
| `electra` | 6.000 ± 1.414 (2) |
| `mlm` | **5.500** (1) |"""


def test_tables_have_mean_spread_and_number_of_every_measure():
    plan = toy_study.build_plan(has_tasks=True, tasks=("cola", "blimp"))
    guessing = {"cola": 0.0, "blimp": 0.5}
    results = {
        # Equal averages: neither is best.
        ("electra", 1): _result(cola_probe=0.125, blimp=0.75, gen_loss=5),
        ("electra", 2): _result(cola_probe=0.375, blimp=1.0, gen_loss=7),
        ("mlm", 1): _result(cola_probe=0.5, blimp=0.625, gen_loss=5.5),
        # Random weights are never best.
        ("untrained", 1): _result(guessing, cola_probe=0.75, blimp=0.25),
    }
    folder = pathlib.Path("folder")
    requests = runner.build_requests(plan, folder, folder)
    asked = {(request.arm.name, request.seed): request for request in requests}
    found = [(asked[key], result) for key, result in results.items()]
    text = report.format_tables(plan, found, ())
    for table in _TABLES.split("\n\n"):
        assert f"\n\n{table}\n\n" in text
    assert "4 of 6 runs have finished" in text
    assert "the model of `electra` with random weights" in text
    assert "chance is 0.5" in text
