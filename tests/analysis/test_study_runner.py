"""Running a study: everything once, whatever happens."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from electra_tf import errors
from electra_tf.analysis import study_run
from electra_tf.analysis import study_runner
from tests.analysis import stub_runs
from tests.analysis import toy_study

REPOSITORY = pathlib.Path(__file__).parents[2]


def _folder(tmp_path, arm, seed):
    return study_runner.run_folder(tmp_path / "study", arm, seed)


def _results(tmp_path):
    return json.loads((tmp_path / "study" / "results.json").read_text())


def test_every_run_has_its_process_its_log_and_its_result(tmp_path, capfd):
    options = toy_study.write_folders(tmp_path)
    failures = study_runner.run_study(
        toy_study.build_plan(), options, stub_runs.check_environment
    )
    assert failures == []
    said = []
    for seed in (1, 2):
        for arm in ("electra", "mlm"):
            folder = _folder(tmp_path, arm, seed)
            log = (folder / study_run.LOG_FILE).read_text()
            assert log.startswith(f"said by {arm} ")
            said.append(log.split()[-1])
            assert study_run.read_result(folder).held_out == {"loss": 1.0}
    assert len(set(said)) == 4
    shown = capfd.readouterr().out
    assert "Run 3/4 electra, seed 2: starts." in shown
    assert "Study: 4/4" in shown
    assert "said by" not in shown


def test_results_tell_what_was_run_and_what_came_out(tmp_path):
    options = toy_study.write_folders(tmp_path)
    study_runner.run_study(
        toy_study.build_plan(num_train_steps=2), options, stub_runs.take_steps
    )
    results = _results(tmp_path)
    assert results["study"] == "toy"
    assert len(results["runs"]) == 4
    assert results["runs"][1] == {
        "name": "mlm",
        "arm": "mlm",
        "budget_fraction": 1.0,
        "seed": 1,
        "steps": 4,
        "warmup_steps": 1,
        "flops": 400.0,
        "held_out": {"loss": 9.0, "gen_loss": 6.0},
        "tasks": {"cola_probe": 4.0, "sst2_probe": 40.0},
        "training_seconds": 1.5,
        "measuring_seconds": 0.5,
    }
    picture = (tmp_path / "study" / "study.png").read_bytes()
    assert picture.startswith(b"\x89PNG")


def _start(tmp_path, num_steps):
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.analysis.toy_study"),
            *(str(tmp_path), str(num_steps)),
        ],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    )


def _wait_for_steps(folder, count):
    end = time.monotonic() + 60
    while len(stub_runs.steps_taken(folder)) < count:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        signal.SIGKILL,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_a_study_that_is_stopped_goes_on_and_repeats_nothing(tmp_path, number):
    process = _start(tmp_path, 50)
    # The second run is in progress, the first has finished.
    _wait_for_steps(_folder(tmp_path, "mlm", 1), 3)
    process.send_signal(number)
    said = process.communicate(timeout=60)[0]
    assert process.returncode != 0
    if number != signal.SIGKILL:
        assert "The same command goes on from here." in said
    first = _folder(tmp_path, "electra", 1)
    second = _folder(tmp_path, "mlm", 1)
    time.sleep(0.3)  # The orphan of a killed parent is ending.
    done = len(stub_runs.steps_taken(second))
    assert 3 <= done < 100
    assert study_run.read_result(second) is None
    time.sleep(5 * stub_runs.STEP_SECONDS)
    assert len(stub_runs.steps_taken(second)) == done

    again = _start(tmp_path, 50)
    said = again.communicate(timeout=120)[0]
    assert again.returncode == 0, said
    assert "1 of 4 runs are finished already." in said
    for folder, steps in ((first, 50), (second, 100)):
        # Each step once: nothing was made twice, nothing was left out.
        expected = [str(step) for step in range(steps)]
        assert stub_runs.steps_taken(folder) == expected
    assert len(_results(tmp_path)["runs"]) == 4


def test_random_weights_are_measured_once_for_every_seed(tmp_path):
    options = toy_study.write_folders(tmp_path)
    plan = toy_study.build_plan(num_train_steps=1, has_tasks=True)
    requests = study_runner.build_requests(plan, options)
    assert [request.arm for request in requests if not request.is_trained] == (
        ["untrained"] * 2
    )
    assert study_runner.run_study(plan, options, stub_runs.take_steps) == []
    results = _results(tmp_path)
    assert results["guessing"] == {"cola": 0.0, "sst2": 0.5}
    assert [run["arm"] for run in results["runs"]] == (
        ["electra", "mlm", "untrained"] * 2
    )
    # Of a study that did not measure them the other runs are kept.
    some = toy_study.build_plan(num_train_steps=1)
    assert study_runner.run_study(some, options, stub_runs.fail_for_mlm) == []


def test_a_finished_study_runs_nothing_again(tmp_path):
    options = toy_study.write_folders(tmp_path)
    plan = toy_study.build_plan(num_train_steps=2)
    study_runner.run_study(plan, options, stub_runs.take_steps)
    (tmp_path / "study" / "table.md").unlink()
    # This function would fail; it is not called.
    assert study_runner.run_study(plan, options, stub_runs.fail_for_mlm) == []
    assert (tmp_path / "study" / "table.md").exists()


@pytest.mark.parametrize(
    ("run_fn", "reason"),
    [
        (stub_runs.fail_for_mlm, "Expected tea. Received: coffee."),
        (stub_runs.die_for_mlm, "was killed by SIGKILL while at mlm, seed"),
    ],
)
def test_a_run_that_fails_is_named_and_the_others_go_on(
    tmp_path, run_fn, reason
):
    options = toy_study.write_folders(tmp_path)
    plan = toy_study.build_plan(num_train_steps=2)
    failures = study_runner.run_study(plan, options, run_fn)
    assert [(f.arm, f.seed) for f in failures] == [("mlm", 1), ("mlm", 2)]
    assert all(reason in f.reason and f.log.exists() for f in failures)
    results = _results(tmp_path)
    assert [run["arm"] for run in results["runs"]] == ["electra", "electra"]
    assert reason in (tmp_path / "study" / "table.md").read_text()
    # The next call tries the failed ones again, and only them.
    assert study_runner.run_study(plan, options, stub_runs.take_steps) == []
    assert len(_results(tmp_path)["runs"]) == 4
    steps = stub_runs.steps_taken(_folder(tmp_path, "electra", 1))
    assert steps == ["0", "1"]


def test_results_of_other_settings_are_refused(tmp_path):
    options = toy_study.write_folders(tmp_path)
    study_runner.run_study(
        toy_study.build_plan(num_train_steps=2), options, stub_runs.take_steps
    )
    with pytest.raises(
        errors.ConfigError,
        match=r"electra/seed-1.*num_train_steps was 2, now 3",
    ):
        study_runner.run_study(toy_study.build_plan(num_train_steps=3), options)
    with pytest.raises(errors.ConfigError, match="finetune_steps was 3, now 4"):
        study_runner.run_study(
            toy_study.build_plan(num_train_steps=2, finetune_steps=4), options
        )
    manifest = options.dataset_dir / "train" / "manifest.json"
    manifest.write_text('{"another": "corpus"}')
    with pytest.raises(errors.ConfigError, match="dataset.train was"):
        study_runner.run_study(toy_study.build_plan(num_train_steps=2), options)
    folder = _folder(tmp_path, "electra", 1)
    (folder / study_run.REQUEST_FILE).unlink()
    with pytest.raises(errors.ConfigError, match="settings are not known"):
        study_runner.run_study(toy_study.build_plan(num_train_steps=2), options)


def test_runs_may_work_side_by_side(tmp_path):
    options = toy_study.write_folders(tmp_path)
    options = study_runner.Options(
        options.dataset_dir, options.output_dir, options.tasks_dir, 2
    )
    plan = toy_study.build_plan(num_train_steps=10)
    requests = study_runner.build_requests(plan, options)
    assert all(request.num_threads >= 1 for request in requests)
    assert study_runner.run_study(plan, options, stub_runs.take_steps) == []
    assert len(_results(tmp_path)["runs"]) == 4


def test_two_studies_do_not_share_a_folder_at_once(tmp_path):
    process = _start(tmp_path, 50)
    _wait_for_steps(_folder(tmp_path, "electra", 1), 1)
    with pytest.raises(errors.ConfigError, match="Another process"):
        study_runner.run_study(
            toy_study.build_plan(num_train_steps=50),
            toy_study.write_folders(tmp_path),
            stub_runs.take_steps,
        )
    process.kill()
    process.communicate()


def test_without_a_folder_of_tasks_only_held_out_text_is_measured(tmp_path):
    given = toy_study.write_folders(tmp_path)
    options = study_runner.Options(given.dataset_dir, given.output_dir)
    request = study_runner.build_requests(toy_study.build_plan(), options)[0]
    assert request.tasks == ()
    study_runner.run_study(
        toy_study.build_plan(), options, stub_runs.check_environment
    )
    table = (tmp_path / "study" / "table.md").read_text()
    assert "Not measured: no --tasks_dir was given." in table


def test_a_mistaken_option_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="--tasks_dir"):
        study_runner.Options(tmp_path, tmp_path, tmp_path / "absent")
    with pytest.raises(errors.ConfigError, match="`num_parallel`.*: 0"):
        study_runner.Options(tmp_path, tmp_path, None, 0)
