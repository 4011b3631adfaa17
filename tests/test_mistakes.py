"""Mistakes of beginners get a sentence, without TensorFlow."""

import os
import re
import subprocess
import sys
from unittest import mock

import pytest
import tensorflow as tf

from electra_tf import command_line
from electra_tf.config import schema
from electra_tf.records import manifest
from tests import script_modules

SCRIPTS = script_modules.ROOT / "scripts"
CONFIGS = SCRIPTS.parent / "configs"
OWN = (f"--config={CONFIGS}/finetune/own.py:classification "
       "--output_dir=out --pretrained_dir=tiny-en ")  # fmt: skip
PRETRAIN = f"--config={CONFIGS}/pretrain/tiny.py "
NOTHING, EXPORT = "nothing, none of these", "the export export. Give the run"
NO_EXPORT = "run, no export. Make one: electra-export"
MISTAKES = [
    ("run_finetuning", f"{OWN} --search=rank=1,2 --search=rank=4",
     "--search must name each field once"),
    ("run_finetuning", f"{OWN} --config.own.dev_file=book.xlsx",
     "expected a text file, no archive or spreadsheet. Received: '.xlsx'"),
    ("run_finetuning", f"{OWN} --config.own.dev_file=nothing.csv",
     "nothing.csv, no such file"),
    ("run_finetuning", f"{OWN} --config.task.data_dir=nothing",
     "'nothing', no folder there. Set task.data_dir"),
    ("run_finetuning", f"{OWN} --pretrained_dir=export", EXPORT),
    ("run_pretraining", f"{PRETRAIN} --model_dir=out "
     "--config.data.dataset_dir=nothing", "No dataset in 'nothing'"),
    ("run_pretraining", f"{PRETRAIN} --model_dir=out "
     "--config.data.dataset_dir=. --init_from=nothing", NOTHING),
    ("run_pretraining", f"{PRETRAIN} --model_dir=tabs.csv/a",
     "--model_dir must be a folder. Received: tabs.csv/a, which is"),
    ("train_vocabulary", "--corpus=. --output_dir=tabs.csv",
     "--output_dir must be a folder. Received: tabs.csv"),
    ("benchmark", f"input {PRETRAIN} --dataset_dir=nothing", "No dataset in"),
    ("run_study", f"--study={CONFIGS}/studies/table5.py --seeds=1",
     "Give --dataset_dir and --output_dir, or --list"),
    ("export_saved_model", "--model_dir=export --export_dir=out", EXPORT),
    ("convert_checkpoint", "--input=nothing --to=tf1 --output_dir=out",
     NOTHING),
    ("convert_saved_model", "--saved_model=run --format=onnx --out=out",
     NO_EXPORT),
    ("score_text", "--saved_model=run --text=a", NO_EXPORT),
    ("score_text", "--text=a", "Give --model or --saved_model"),
    ("predict_text", "--model=tiny-en --text=a --input_file=tabs.csv",
     "Give texts, by --text for example"),
    ("predict_text", "--model=tiny-en --input_file=a.csv --output_file=b.xlsx",
     "b.xlsx: expected as --output_file a name that ends with one of .csv"),
    ("score_text", "--model=tiny-en --input_file=a.csv --output_file=b.csv",
     "a.csv, no such file"),
    ("serve_demo", "--model=export --task=cola",
     "Received: the export export. Leave both"),
    ("evaluate_words", "--model=tiny-en --sentences=nothing", "No corpus at"),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """With a run and an export, and a TensorFlow that cannot be imported."""
    split = manifest.SplitSummary(1, 1, 1, "")
    index = schema.to_json(manifest.Index({"train": split}, {}))
    (tmp_path / "manifest.json").write_text(index)
    for name in ("run/config.json", "export/saved_model.pb",
                 "stub/tensorflow.py"):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
    (tmp_path / "stub" / "tensorflow.py").write_text("raise SystemExit(99)")
    (tmp_path / "tabs.csv").write_text("text\tlabel\na, b\tc\n")
    (tmp_path / "book.xlsx").write_bytes(b"PK\x03\x04")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_mistakes_are_told_before_tensorflow_is_imported(folder):
    paths = f"{folder / 'stub'}:{SCRIPTS.parent}"
    commands = [[name, *arguments.split()] for name, arguments, _ in MISTAKES]
    finished = script_modules.run_in_forks(
        commands, cwd=folder, env={"PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"}
    )
    for done, (*command, message) in zip(finished, MISTAKES, strict=True):
        said = done.stderr
        assert done.returncode == 1, (command, said)
        assert said.startswith("error: ") and message in said, said
        assert len(said.splitlines()) == 1, said
    assert not (folder / "out").exists()


def test_mistaken_flags_are_one_sentence():
    commands = [["evaluate_words"], ["score_text", "--xyzzy=a"]]
    commands.append(["run_finetuning", "--config.own.dev_file=a.csv"])
    given, unknown, bare = script_modules.run_in_forks(commands)
    assert given.returncode == unknown.returncode == bare.returncode == 2
    assert "own.py:KIND for your own files" in bare.stderr
    assert given.stderr.startswith("error: --model must be given. See --help.")
    message = "error: Unknown command line flag 'xyzzy'. See --help."
    assert unknown.stderr.startswith(message)


_INTERRUPTED = ImportError("initialization failed")
_INTERRUPTED.__cause__ = KeyboardInterrupt()


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (tf.errors.ResourceExhaustedError(None, None, "OOM\nwhen"), 1,
         "error: The device has too little memory"),
        (MemoryError(), 1, "error: This machine has too little memory"),
        (ValueError(), 1, "error: ValueError"),
        (FileNotFoundError(2, "No such file or directory", "/nothing/a"), 1,
         "error: /nothing/a must be a usable path. Received: No such file "
         "or directory. Name another path, or repair this one."),
        (_INTERRUPTED, 130, "Interrupted. Start the same command again"),
    ],
)  # fmt: skip
def test_failures_end_with_one_sentence(capsys, error, code, said):
    command_line.flags.FLAGS.mark_as_parsed()
    fail = mock.Mock(side_effect=error)
    assert command_line._guarded(fail, ["script"]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(said)


@pytest.mark.parametrize(
    ("output", "code", "said"),
    [
        ("| true", 141, ""),
        ("2>&1 | true", 141, ""),
        (">&-", 0, ""),
        ("> /dev/full", 1, "error: The standard output must be a usable path"),
    ],
)
def test_a_command_that_nobody_reads_ends_quietly(output, code, said):
    plan = f"{sys.executable} {SCRIPTS}/plan.py {CONFIGS}/pretrain/tiny.py"
    shell = f"(sleep 0.3; {plan}; echo $? >&3) {output}"
    done = subprocess.run(
        ["bash", "-c", f"exec 3>&1; {shell}"], capture_output=True, text=True
    )
    assert done.stdout == f"{code}\n"
    assert done.stderr.startswith(said) and bool(done.stderr) == bool(said)


@pytest.mark.parametrize(
    ("backend", "first", "said"),
    [
        ("jax", "electra_tf", "KERAS_BACKEND=jax has no effect: electra_tf"),
        ("", "electra_tf", ""),
        ("", "torch_keras", "needs Keras on TensorFlow. Received: .*, on t"),
    ],
)
def test_keras_runs_on_tensorflow_or_the_import_says_why_not(
    tmp_path, backend, first, said
):
    (tmp_path / "keras.json").write_text('{"backend": "torch"}')
    (tmp_path / "torch_keras.py").write_text(
        "import sys, types\n"
        "sys.modules['keras'] = keras = types.ModuleType('keras')\n"
        "keras.config = types.SimpleNamespace(backend=lambda: 'torch')\n"
    )
    # Keras, whose import takes long, is asked once.
    how = "keras.config.backend()" if backend else "os.environ['KERAS_BACKEND']"
    code = f"import {first}, electra_tf, {how.split('.')[0]}; print({how})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "KERAS_HOME": str(tmp_path),
             "KERAS_BACKEND": backend,
             "PYTHONPATH": f"{tmp_path}:{SCRIPTS.parent}"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert re.search(said, done.stderr)
    assert done.stdout == "tensorflow\n" * (first == "electra_tf")
