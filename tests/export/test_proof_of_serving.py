"""What a server needs of an export, proved without one."""

import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from tests.export import conftest

EXPORTS = [
    "run",
    "chunking",
    "squad2",
    *(
        pytest.param(task, marks=pytest.mark.slow)
        for task in ("sst2", "mrpc", "stsb")
    ),
]
# The line that docs/serving.md gives.
CLI = (
    "import tensorflow_text; "
    "from tensorflow.python.tools import saved_model_cli; "
    "saved_model_cli.main()"
)
LONG = "the cat sat on the mat, unaffable items in a cafe. " * 9
TEXTS = ["The cat sat on the mat.", "", "cat", LONG, "  ", "東京 …!", "in a\n"]


@pytest.fixture(params=EXPORTS)
def export(request, exported, task_exports):
    """The folder of each kind of export."""
    if request.param == "run":
        return exported
    return task_exports(request.param)


def documented_signatures(folder):
    return json.loads((folder / "signatures.json").read_text())


def id_inputs(names, rows=3, length=9):
    lengths = np.array([[length], [2], [5]] * rows)[:rows]
    places = np.arange(length)
    mask = (places < lengths).astype(np.int32)
    ids = np.random.default_rng(4).integers(5, 30, (rows, length))
    ids[:, 0] = 2
    positions = np.where(places < lengths - 1, places, 0)
    built = {
        "input_ids": (ids * mask).astype(np.int32),
        "input_mask": mask,
        "segment_ids": (places > 3).astype(np.int32) * mask,
        "word_positions": positions.astype(np.int32)[:, 1::2],
    }
    return {name: built[name] for name in names}


def build_inputs(names, texts):
    """Inputs of any signature, as many rows as texts."""
    if "input_ids" in names:
        return id_inputs(names, len(texts))
    data = conftest.encode(*texts)
    return dict(zip(names, (data, data[::-1]), strict=False))


def run_cli(*arguments):
    done = subprocess.run(
        [sys.executable, "-P", "-c", CLI, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def show(rows):
    """Rows as the command line takes them."""
    return f"[{', '.join(map(repr, rows.tolist()))}]"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run", "chunking"])
def test_saved_model_cli_shows_and_runs(name, exported, task_exports, tmp_path):
    folder = exported if name == "run" else task_exports(name)
    documented = documented_signatures(folder)
    shown = run_cli("show", "--dir", folder, "--tag_set", "serve")
    assert set(re.findall(r"key: \"(\w+)\"", shown)) >= set(documented)
    call = conftest.load(folder)
    for signature in documented:
        names = list(documented[signature]["inputs"])
        inputs = build_inputs(names, ["The cat sat .", "", "東京 mat"])
        expressions = ";".join(
            f"{key}={show(value)}" for key, value in inputs.items()
        )
        run_cli(
            "run", "--dir", folder, "--tag_set", "serve", "--signature_def",
            signature, "--input_exprs", expressions, "--outdir",
            tmp_path / signature,
        )  # fmt: skip
        found = {
            path.stem: np.load(path, allow_pickle=True)
            for path in (tmp_path / signature).iterdir()
        }
        conftest.assert_close(found, call(signature, **inputs))


@pytest.mark.parametrize(
    "name", ["run", pytest.param("squad2", marks=pytest.mark.slow)]
)
def test_all_operations_are_tensorflows_or_tensorflow_texts(
    name, exported, task_exports, tmp_path
):
    folder = exported if name == "run" else task_exports(name)
    script = pathlib.Path(__file__).with_name("registered_ops.py")
    done = subprocess.run(
        [sys.executable, "-I", script, folder],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["missing"] == []
    assert found["modules"] == ["electra_tf"]  # the name is blocked
    # Servers have these of TensorFlow Text; more would have to be looked up.
    assert set(found["text"]) == {
        "FastWordpieceTokenizeWithOffsets", "NormalizeUTF8",
    }  # fmt: skip


def test_every_row_of_a_large_batch_is_answered_as_if_alone(export):
    call = conftest.load(export)
    for signature, sides in documented_signatures(export).items():
        batch = build_inputs(list(sides["inputs"]), (TEXTS * 10)[:64])
        answers = call(signature, **batch)
        assert {len(value) for value in answers.values()} == {64}
        # With 64 rows of 7 texts, rows 0 to 6 are all there are.
        for row in range(7):
            alone = call(
                signature, **{k: v[row : row + 1] for k, v in batch.items()}
            )
            for key, value in alone.items():
                assert_equal_but_for_padding(answers[key][row], value[0], key)


def assert_equal_but_for_padding(large, small, name):
    """A row of a larger batch may have more padding."""
    large, small = (
        np.array(value, object) if isinstance(value, bytes) else value
        for value in (large, small)
    )
    places = tuple(slice(size) for size in small.shape)
    conftest.assert_close({name: large[places]}, {name: small}, 1e-4)
    if small.ndim and large.shape[0] > small.shape[0]:
        rest = large[small.shape[0] :]
        assert len(set(rest.ravel().tolist())) == 1, name
        assert rest.ravel()[0] in (0, -1, b"", -10000.0), name


def test_more_padding_changes_no_answer_of_ids(export):
    call = conftest.load(export)
    for signature, sides in documented_signatures(export).items():
        if "input_ids" not in sides["inputs"]:
            continue
        rows = id_inputs(sides["inputs"])
        answers = call(signature, **rows)
        padded = {k: np.pad(v, [[0, 0], [0, 14]]) for k, v in rows.items()}
        for key, value in call(signature, **padded).items():
            for row in range(3):
                assert_equal_but_for_padding(value[row], answers[key][row], key)


def test_padding_as_a_batching_server_would_add_it_changes_answers(loaded):
    """Why batching.config says `pad_variable_length_inputs: false`.

    TensorFlow Serving pads every input with its first value
    (batching/batching_util.cc), `input_mask` with 1.
    """
    rows = id_inputs(["input_ids", "input_mask", "segment_ids"], 1, 5)
    answers = loaded("features_ids", **rows)["sentence_features"]
    padded = {
        name: np.pad(value, [[0, 0], [0, 4]], constant_values=value[0, 0])
        for name, value in rows.items()
    }
    changed = loaded("features_ids", **padded)["sentence_features"]
    assert np.abs(changed - answers).max() > 1e-3
