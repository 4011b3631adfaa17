"""Tables and pictures from known results."""

import pathlib

from electra_tf.studies import report
from electra_tf.studies import runner
from electra_tf.studies import study_run
from tests.studies import toy_study


def _result(guessing=(), **measures):
    tasks = {k: v for k, v in measures.items() if "loss" not in k}
    held_out = {k: v for k, v in measures.items() if "loss" in k}
    return study_run.RunResult(held_out, tasks, 90.0, 30.0, dict(guessing))


def _format(plan, results, *failed):
    """The tables of results by arm and seed."""
    folder = pathlib.Path("folder")
    requests = runner.build_requests(plan, folder, folder)
    asked = {(request.arm.name, request.seed): request for request in requests}
    found = [(asked[key], result) for key, result in results.items()]
    return report.format_tables(plan, found, failed)


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
    text = _format(plan, results)
    for table in _TABLES.split("\n\n"):
        assert f"\n\n{table}\n\n" in text
    assert "4 of 6 runs have finished" in text
    assert "the model of `electra` with random weights" in text
    assert "chance is 0.5" in text
