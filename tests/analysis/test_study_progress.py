"""What a study says about the time it will still take."""

import dataclasses

import pytest

from electra_tf.analysis import study_progress
from electra_tf.analysis import study_run
from electra_tf.analysis import study_runner
from tests.analysis import toy_study


@pytest.fixture
def study(tmp_path):
    plan = toy_study.build_plan()
    options = toy_study.write_folders(tmp_path)
    requests = study_runner.build_requests(plan, options)
    for request in requests:
        request.path.mkdir(parents=True)
    arms = {arm.name: arm for arm in plan.arms}
    return study_progress.StudyProgress(arms, requests, 1), requests


def _finish(request, seconds):
    result = study_run.RunResult({}, {"cola_probe": 0.5}, seconds, 0.0)
    study_run.write_json(
        request.path / study_run.RESULT_FILE, dataclasses.asdict(result)
    )


def _reach(request, step):
    folder = request.path / study_run.MODEL_FOLDER
    folder.mkdir()
    line = f'{{"step": {step}, "split": "train", "loss": 1.0}}\n'
    (folder / "metrics.jsonl").write_text(line + '{"step": 9')


def test_nothing_is_promised_before_anything_is_known(study):
    progress, requests = study
    progress.announce()
    progress.started(requests[0])
    assert progress.seconds_left(requests[:1]) is None


def test_time_left_comes_from_the_runs_that_have_finished(study, capsys):
    progress, requests = study
    _finish(requests[0], 100.0)
    progress.announce()
    assert "1 of 4 runs are finished already." in capsys.readouterr().out
    # Both arms cost 2,000 operations: three runs of 100 s are left.
    assert progress.seconds_left([]) == pytest.approx(300.0)
    _reach(requests[1], 5)  # Of 20 steps.
    progress.started(requests[1])
    assert "goes on at step 5" in capsys.readouterr().out
    left = progress.seconds_left(requests[1:2])
    assert left == pytest.approx(275.0)


def test_an_arm_with_times_of_its_own_is_judged_by_them(study):
    progress, requests = study
    _finish(requests[0], 100.0)
    _finish(requests[1], 40.0)
    progress.announce()
    assert progress.seconds_left([]) == pytest.approx(140.0)


def test_a_failed_run_is_not_waited_for(study, capsys):
    progress, requests = study
    _finish(requests[0], 100.0)
    progress.announce()
    progress.started(requests[1])
    log = requests[1].path / study_run.LOG_FILE
    progress.failed(requests[1], "No tea.", log)
    assert f"FAILED: No tea. See {log}." in capsys.readouterr().out
    assert progress.seconds_left([]) == pytest.approx(200.0)
