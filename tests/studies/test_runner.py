"""Running a study: everything once, whatever happens, and its measures."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.finetuning import measure
from electra_tf.finetuning import model as finetuning_model
from electra_tf.records import manifest
from electra_tf.scoring import blimp
from electra_tf.scoring import sentence_scores
from electra_tf.studies import runner
from electra_tf.studies import study_run
from tests import tiny_electra
from tests import tiny_run
from tests.scoring import test_blimp
from tests.studies import toy_study

pytestmark = pytest.mark.usefixtures("forked_pools")


def _write_folders(tmp_path):
    """A dataset of which only the manifest exists, and files of tasks."""
    (tmp_path / "dataset" / "train").mkdir(parents=True, exist_ok=True)
    (tmp_path / "dataset" / "train" / "manifest.json").write_text("{}")
    tasks = tmp_path / "tasks"
    texts = {"CoLA": "x\t1\t\tA cat.\n", "SST-2": "A\tB\nA cat\t1\n"}
    for name, text in texts.items():
        (tasks / name).mkdir(parents=True, exist_ok=True)
        for split in ("train", "dev"):
            (tasks / name / f"{split}.tsv").write_text(text)
    return tmp_path / "dataset", tmp_path / "study", tasks


def _folder(tmp_path, arm, seed):
    return tmp_path / "study" / "runs" / arm / f"seed-{seed}"


def _results(tmp_path):
    return json.loads((tmp_path / "study" / "results.json").read_text())


def _run(tmp_path, run_fn=toy_study.take_steps, num_steps=2, **fields):
    plan = toy_study.build_plan(num_steps, **({"seeds": (1,)} | fields))
    folders = _write_folders(tmp_path)
    return runner.run_study(plan, *folders, run_fn=run_fn)


def test_every_run_has_its_process_and_its_log(tmp_path, capfd):
    assert _run(tmp_path, toy_study.print_process, seeds=(1, 2)) == []
    logs = [*(tmp_path / "study").glob("runs/*/*/log.txt")]
    said = [log.read_text() for log in logs]
    assert len(said) == len({line.split()[-1] for line in said}) == 4
    for log, line in zip(logs, said, strict=True):
        assert line.startswith(f"said by {log.parts[-3]} ")
    shown = capfd.readouterr().out
    assert "Run 3/4 electra, seed 2: starts." in shown
    assert "Study: 4/4" in shown
    assert "said by" not in shown


def test_results_tell_what_was_run_and_what_came_out(tmp_path):
    assert _run(tmp_path, has_tasks=True) == []
    results = _results(tmp_path)
    assert results["study"] == "toy"
    assert results["guessing"] == {"cola": 0.0, "sst2": 0.5}
    arms = ["electra", "mlm", "untrained"]
    assert [run["arm"] for run in results["runs"]] == arms
    run = {"name": "mlm", "arm": "mlm", "budget_fraction": 1.0, "seed": 1}
    cost = {"steps": 4, "warmup_steps": 1, "flops": 400.0}
    assert results["runs"][1] == run | cost | {
        "held_out": {"loss": 9.0, "gen_loss": 6.0},
        "tasks": {"cola_probe": 4.0, "sst2_probe": 40.0},
        "training_seconds": 1.5,
        "measuring_seconds": 0.5,
    }
    picture = (tmp_path / "study" / "study.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    # A finished study runs nothing again: this function would fail.
    (tmp_path / "study" / "table.md").unlink()
    assert _run(tmp_path, toy_study.fail_for_mlm) == []
    assert (tmp_path / "study" / "table.md").exists()


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        *(
            pytest.param(number, marks=pytest.mark.slow)
            for number in (signal.SIGKILL, signal.SIGINT)
        ),
    ],
)
def test_a_study_that_is_stopped_goes_on_and_repeats_nothing(
    tmp_path, number, capfd
):
    code = (
        "import pathlib; from tests.studies import test_runner; "
        f"folder = pathlib.Path({str(tmp_path)!r}); "
        "test_runner._run(folder, num_steps=50)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"PYTHONPATH": str(tiny_run.REPOSITORY)},
    )  # fmt: skip
    first, second = (_folder(tmp_path, arm, 1) for arm in ("electra", "mlm"))
    # The second run is in progress, the first has finished.
    end = time.monotonic() + 60
    while len(toy_study.steps_taken(second)) < 3:
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(number)
    said = process.communicate(timeout=60)[0]
    assert process.returncode != 0
    if number != signal.SIGKILL:
        assert "Repeat the command to continue." in said
    time.sleep(0.3)  # The orphan of a killed parent is ending.
    done = len(toy_study.steps_taken(second))
    assert 3 <= done < 100
    assert study_run.read_result(second) is None
    time.sleep(5 * toy_study.STEP_SECONDS)
    assert len(toy_study.steps_taken(second)) == done

    assert _run(tmp_path, num_steps=50) == []
    said = capfd.readouterr().out
    assert "1 of 2 runs are finished already." in said
    for folder, steps in ((first, 50), (second, 100)):
        # Each step once: nothing was made twice, nothing was left out.
        expected = [str(step) for step in range(steps)]
        assert toy_study.steps_taken(folder) == expected
    assert len(_results(tmp_path)["runs"]) == 2


def test_a_run_that_fails_is_named_and_the_others_go_on(tmp_path):
    (failure,) = _run(tmp_path, toy_study.fail_for_mlm)
    assert str(failure) == "mlm, seed 1: Expected tea. Received: coffee."
    assert "Received: coffee" in failure.request.log_file.read_text()
    assert str(failure) in (tmp_path / "study" / "table.md").read_text()
    # The next call tries the failed ones again, and only them.
    assert _run(tmp_path) == []
    steps = toy_study.steps_taken(_folder(tmp_path, "electra", 1))
    assert steps == ["0", "1"]


def test_results_of_other_settings_are_refused(tmp_path):
    _run(tmp_path)
    message = "electra/seed-1.*settings.training.num_train_steps: 2, 3"
    with pytest.raises(errors.ConfigError, match=message):
        _run(tmp_path, num_steps=3)
    path = _folder(tmp_path, "electra", 1) / study_run.REQUEST_FILE
    request = json.loads(path.read_text())
    # Fields at their defaults, which an earlier version did not write.
    del request["is_trained"], request["settings"]["masking"]
    path.write_text(json.dumps(request))
    assert _run(tmp_path, toy_study.fail_for_mlm) == []
    path.unlink()
    with pytest.raises(errors.ConfigError, match="without request.json"):
        _run(tmp_path)


def _measure(folder, arm, *tasks):
    """Measures an arm of a toy study in folders that are there."""
    settings = tiny_electra.build_settings()
    data = dataclasses.replace(settings.data, dataset_dir=str(folder / "data"))
    settings = dataclasses.replace(settings, data=data)
    plan = toy_study.build_plan(tasks=tasks, seeds=(3,), has_tasks=True)
    folders = folder / "data", folder, folder
    requests = runner.build_requests(plan, *folders)
    (request,) = [r for r in requests if r.arm.name == arm]
    request = dataclasses.replace(request, folder=folder)
    return study_run.measure_tasks(request, settings)


def test_a_run_has_its_share_of_right_pairs(tmp_path, capfd):
    tiny_electra.write_run(tmp_path / "model")
    test_blimp.write_files(tmp_path)
    scores, guessing = _measure(tmp_path, "electra", "blimp")
    scorer = sentence_scores.load_scorer(tmp_path / "model")
    pairs = blimp.read_pairs(tmp_path)
    expected = blimp.judge(scorer.score(blimp.list_sentences(pairs)), pairs)
    assert (scores, guessing) == ({"blimp": expected.mean()}, {})
    table = blimp.tabulate(expected.to_frame("right")).round(3)
    assert str(table) in capfd.readouterr().out


def test_random_weights_are_those_of_a_random_encoder(tmp_path, monkeypatch):
    vocabulary = tiny_electra.VOCABULARY
    dataset = tiny_run.write_dataset(tmp_path / "data", vocabulary)
    counts = np.ones(vocabulary.size, np.int64)
    counts[vocabulary.tokens.index("good")] = 2
    np.save(dataset / "train" / manifest.TOKEN_COUNTS_FILE, counts)
    test_blimp.write_files(tmp_path)
    seen = []

    def note(loaded, tasks_dir, names, **options):
        seen.append([v.numpy() for v in loaded.encoder.variables])
        return {f"{name}_probe": 0.5 for name in names}

    monkeypatch.setattr(measure, "measure_loaded_encoder", note)
    monkeypatch.setattr(measure, "measure_guessing", lambda *_: {"sst2": 0.625})
    scores, guessing = _measure(tmp_path, "untrained", "sst2", "blimp")
    assert list(scores) == ["blimp", "sst2_probe"]
    # The two sentences differ in "good" and "bad".
    assert guessing == {"blimp": 1.0, "sst2": 0.625}
    encoder = tiny_electra.build_settings().encoder
    random = finetuning_model.random_encoder(encoder, vocabulary, seed=3)
    for one, variable in zip(seen[0], random.encoder.variables, strict=True):
        np.testing.assert_array_equal(one, variable.numpy())
