"""The work that objectives tell of themselves, and the script that prints it.

Traced training steps are counted by TensorFlow's profiler; nothing is run.
"""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from electra_tf import config
from electra_tf.modeling import flops
from electra_tf.pretraining import cost
from electra_tf.pretraining import model as model_lib
from electra_tf.pretraining import run
from tests import profiler
from tests import tiny

REPOSITORY = pathlib.Path(__file__).parents[2]


def _settings(name: str) -> config.ExperimentConfig:
    settings = tiny.with_objective(tiny.build_settings(), name)
    return model_lib.resolve(settings, tiny.VOCABULARY.size)


@pytest.mark.parametrize("name", tiny.OBJECTIVE_NAMES)
def test_a_traced_step_holds_the_products_that_the_objective_tells_of(name):
    settings = _settings(name)
    model = run.build_model_and_optimizer(
        settings, tiny.VOCABULARY, np.arange(tiny.VOCABULARY.size)
    )
    work = cost.Cost(settings, "exact")
    features = tiny.deal(tiny.build_features())
    for phase, start in enumerate(work.phase_starts):
        model.enter_phase(phase, True)
        counted = profiler.count_matrix_products(model.training_step, features)
        assert counted == work.step_flops(start)


@pytest.mark.parametrize("name", tiny.OBJECTIVE_NAMES)
def test_a_run_costs_the_sum_of_its_steps(name):
    settings = _settings(name)
    for convention in flops.CONVENTIONS:
        work = cost.Cost(settings, convention)
        steps = range(settings.training.num_train_steps)
        total = sum(work.step_flops(step) for step in steps)
        assert work.run_flops() == pytest.approx(total, rel=1e-12)


def _run_script(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    script = REPOSITORY / "scripts" / "count_flops.py"
    small = REPOSITORY / "configs" / "pretrain" / "electra_small.py"
    return subprocess.run(
        [sys.executable, script, f"--config={small}", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )


def test_the_script_prints_what_the_original_prints_for_small():
    done = _run_script()
    assert done.returncode == 0, done.stderr
    vocabulary, header, *lines = done.stdout.splitlines()
    assert vocabulary == "Vocabulary: 30,522 entries."
    assert header.split() == ["original", "exact"]
    cells = {line.rsplit(maxsplit=2)[0]: line.split()[-2:] for line in lines}
    total, exact = map(float, cells["training, all 1,000,000 steps"])
    assert total == 1.293743798272e18
    assert 0.5 * total < exact < total
    assert cells["inference, a row"][0] == "3677281792"
    step, row = cells["training, a step"], cells["training, a row"]
    assert [float(s) for s in step] == [128 * float(r) for r in row]
    assert len({len(line) for line in [header, *lines]}) == 1
