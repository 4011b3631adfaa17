"""What a server needs of an export, proved without one."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import venv

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from electra_tf.export.checks import fresh_process
from tests.export import conftest

ROOT = pathlib.Path(__file__).parents[2]
EXPORTS = [
    "run",
    "chunking",
    "squad2",
    *(pytest.param(task, marks=pytest.mark.slow) for task in
      ("sst2", "mrpc", "stsb")),
]  # fmt: skip
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


def read_graph(folder):
    data = (folder / "saved_model.pb").read_bytes()
    (meta,) = saved_model_pb2.SavedModel.FromString(data).meta_graphs
    return meta


def documented_signatures(folder):
    return json.loads((folder / "signatures.json").read_text())


def text_inputs(names, texts):
    data = np.array([text.encode() for text in texts], object)
    return dict(zip(names, (data, data[::-1]), strict=False))


def id_inputs(names, rows=3, length=9):
    lengths = np.array([[length], [2], [5]] * rows)[:rows]
    places = np.arange(length)
    mask = (places < lengths).astype(np.int32)
    ids = np.random.default_rng(4).integers(5, 30, (rows, length))
    ids[:, 0] = 2
    built = {
        "input_ids": (ids * mask).astype(np.int32),
        "input_mask": mask,
        "segment_ids": (places > 3).astype(np.int32) * mask,
        "word_positions": np.where(places < lengths - 1, places, 0).astype(
            np.int32
        )[:, 1::2],
    }
    return {name: built[name] for name in names}


def run_cli(*arguments):
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", CLI, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize(
    ("name", "signatures"),
    [
        ("run", ["score_text", "score_ids"]),
        pytest.param(
            "run",
            ["serving_default", "features_text", "features_ids"],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "chunking", ["tag_text", "tag_ids"], marks=pytest.mark.slow
        ),
    ],
)
def test_saved_model_cli_shows_and_runs(
    name, signatures, exported, task_exports, tmp_path
):
    folder = exported if name == "run" else task_exports(name)
    documented = documented_signatures(folder)
    shown = run_cli("show", "--dir", folder, "--tag_set", "serve")
    assert set(re.findall(r"key: \"(\w+)\"", shown)) >= set(documented)
    call = conftest.load(folder)
    texts = ["The cat sat .", "", "東京 mat"]
    for signature in signatures:
        names = list(documented[signature]["inputs"])
        if "texts" in names:
            inputs = text_inputs(names, texts)
            rows = "[" + ", ".join(repr(t.encode()) for t in texts) + "]"
            expressions = f"texts={rows}"
        else:
            inputs = id_inputs(names)
            expressions = ";".join(
                f"{key}={value.tolist()}" for key, value in inputs.items()
            )
        run_cli(
            "run", "--dir", folder, "--tag_set", "serve", "--signature_def",
            signature, "--input_exprs", expressions, "--outdir",
            tmp_path / signature,
        )  # fmt: skip
        expected = call(signature, **inputs)
        found = {
            path.stem: np.load(path, allow_pickle=True)
            for path in (tmp_path / signature).iterdir()
        }
        assert set(found) == set(expected)
        for key, value in expected.items():
            if value.dtype.kind == "f":
                np.testing.assert_allclose(found[key], value, atol=1e-5)
            else:
                np.testing.assert_array_equal(found[key], value)


@pytest.mark.parametrize(
    "name",
    [
        "run",
        pytest.param("chunking", marks=pytest.mark.slow),
        pytest.param("squad2", marks=pytest.mark.slow),
    ],
)
def test_all_operations_are_tensorflows_or_tensorflow_texts(
    name, exported, task_exports, tmp_path
):
    folder = exported if name == "run" else task_exports(name)
    script = shutil.copy(
        pathlib.Path(__file__).with_name("registered_ops.py"), tmp_path
    )
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
    assert not [op for op in found["ops"] if "PyFunc" in op]
    assert not [kind for kind in found["identifiers"] if "keras" in kind]


def test_the_graphs_signatures_are_those_of_signatures_json(export):
    documented = documented_signatures(export)
    graph = read_graph(export).signature_def
    assert {key for key in graph if not key.startswith("__")} == set(documented)
    for name, sides in documented.items():
        assert graph[name].method_name == "tensorflow/serving/predict"
        for side in ("inputs", "outputs"):
            infos = getattr(graph[name], side)
            assert set(infos) == set(sides[side])
            for key, info in infos.items():
                letters = sides[side][key]["shape"].strip("[]").split(", ")
                assert tf.as_dtype(info.dtype).name == sides[side][key]["dtype"]
                sizes = [axis.size for axis in info.tensor_shape.dim]
                assert len(sizes) == len(letters)
                # What comes from a request is free, the rest is known.
                for size, letter in zip(sizes, letters, strict=True):
                    assert (size == -1) == (letter in "BSW"), (name, key)


def test_every_row_of_a_large_batch_is_answered_as_if_alone(export):
    call = conftest.load(export)
    for signature, sides in documented_signatures(export).items():
        names = list(sides["inputs"])
        if "input_ids" in names:
            batch = id_inputs(names, rows=64)
        else:
            batch = text_inputs(names, (TEXTS * 10)[:64])
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
    if small.dtype.kind == "f":
        np.testing.assert_allclose(
            large[places], small, atol=1e-4, rtol=1e-4, err_msg=name
        )
    else:
        np.testing.assert_array_equal(large[places], small, err_msg=name)
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
        for more in (1, 14):
            padded = {
                k: np.pad(v, [[0, 0], [0, more]]) for k, v in rows.items()
            }
            for key, value in call(signature, **padded).items():
                for row in range(3):
                    assert_equal_but_for_padding(
                        value[row], answers[key][row], key
                    )


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


def _locked_versions():
    text = (ROOT / "requirements.lock").read_text()
    return re.findall(r"^((?:tensorflow|tensorflow-text)==\S+)", text, re.M)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["run", "chunking"])
def test_tensorflow_and_tensorflow_text_alone_suffice(
    name, exported, task_exports, tmp_path, tmp_path_factory
):
    python = _clean_python(tmp_path_factory)
    folder = exported if name == "run" else task_exports(name)
    shutil.copytree(folder, tmp_path / "moved" / "1")
    script = shutil.copy(fresh_process.__file__, tmp_path)
    requests = {}
    for signature, sides in documented_signatures(folder).items():
        names = sides["inputs"]
        inputs = (
            id_inputs(names) if "input_ids" in names
            else text_inputs(names, TEXTS)
        )  # fmt: skip
        for key, value in inputs.items():
            is_text = value.dtype == object
            requests[f"0/{signature}/{key}"] = (
                value.astype(np.bytes_) if is_text else value
            )
    np.savez(tmp_path / "in.npz", **requests)
    subprocess.run(
        [python, "-I", script, tmp_path / "moved" / "1", tmp_path / "in.npz",
         tmp_path / "out.npz"],
        check=True,
        cwd=tmp_path,
    )  # fmt: skip
    call = conftest.load(folder)
    with np.load(tmp_path / "out.npz") as answers:
        for signature in documented_signatures(folder):
            prefix = f"0/{signature}/"
            inputs = {
                key.removeprefix(prefix): value
                for key, value in requests.items()
                if key.startswith(prefix)
            }
            for key, value in call(signature, **inputs).items():
                found = answers[prefix + key]
                if value.dtype.kind == "f":
                    np.testing.assert_allclose(found, value, atol=1e-5)
                else:
                    expected = value.astype(found.dtype)
                    np.testing.assert_array_equal(found, expected)


def _clean_python(tmp_path_factory) -> pathlib.Path:
    """An environment with nothing else; $ELECTRA_CLEAN_ENV names one."""
    given = os.environ.get("ELECTRA_CLEAN_ENV")
    if given:
        python = pathlib.Path(given, "bin", "python")
    else:
        folder = tmp_path_factory.getbasetemp() / "clean_environment"
        python = folder / "bin" / "python"
        if not folder.exists():
            venv.create(folder, with_pip=True)
            installed = subprocess.run(
                [python, "-m", "pip", "install", *_locked_versions()],
                capture_output=True,
                text=True,
            )
            if installed.returncode != 0:
                shutil.rmtree(folder)
                pytest.skip(f"pip cannot install: {installed.stderr[-300:]}")
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format=freeze"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.lower()
    assert set(_locked_versions()) <= set(listed.split())
    assert "electra" not in listed
    assert "tensorflow-serving-api" not in listed
    return python
