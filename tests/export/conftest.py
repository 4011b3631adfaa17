"""Tiny runs with random weights, and their exports, each made once."""

import collections
import dataclasses
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf import config
from electra_tf.export import saved_model
from electra_tf.export import self_check
from electra_tf.export.models import exported_module
from electra_tf.export.models import pretrained
from electra_tf.modeling import networks
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.training import checkpoints
from tests import tiny_electra
from tests.export import finetuned_tiny

# A run of one objective, or its export, with the main network.
_Trained = collections.namedtuple("_Trained", "folder objective main call")
TinyRun = collections.namedtuple(
    "TinyRun", "model_dir settings vocabulary discriminator"
)


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory):
    """A run that 'trained' in bfloat16 and kept averaged weights."""
    encoder = dataclasses.replace(
        finetuned_tiny.ENCODER, vocab_size=0, embedding_size=16, hidden_size=32,
        num_hidden_layers=2, intermediate_size=64, max_position_embeddings=24,
    )  # fmt: skip
    settings = config.ExperimentConfig(
        encoder=encoder,
        data=config.DataConfig(max_seq_length=16),
        training=config.TrainingConfig(precision="bfloat16", ema_decay=0.9),
    )
    vocabulary = finetuned_tiny.VOCABULARY
    keras.utils.set_random_seed(3)
    discriminator = networks.Discriminator(
        dataclasses.replace(encoder, vocab_size=vocabulary.size)
    )
    model_dir = tmp_path_factory.mktemp("tiny") / "run"
    model_dir.mkdir()
    vocabulary.save(model_dir)
    (model_dir / "config.json").write_text(config.to_json(settings))
    weights = {f"model/{v.path}": v for v in discriminator.variables}
    for v in discriminator.variables:
        weights[f"average/{v.path}"] = tf.Variable(0.5 * v.value)
    for step in (6, 7):
        checkpoints.save(model_dir, step, weights, {"best_step": 6}, keep=2)
    return TinyRun(model_dir, settings, vocabulary, discriminator)


def export_unchecked(*args, **kwargs):
    """Exports without the fresh process of the self-check."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(self_check, "check", lambda *_: 0.0)
        return saved_model.export(*args, **kwargs)


@pytest.fixture
def without_graphs(monkeypatch):
    """Exports have their files and variables, and no signature."""
    module = exported_module.ExportedModule
    for name in ("trace_signatures", "trace_unbucketed"):
        monkeypatch.setattr(module, name, lambda self: {})


@pytest.fixture(scope="session")
def exported(tiny_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports") / "tiny"
    result = saved_model.export(tiny_run.model_dir, folder)
    assert result.folder == folder
    assert result.checkpoint.name == "step-00000007"
    assert result.largest_difference <= 1e-5
    return folder


def build_module(run, network=None, answer=networks.Answer.REPLACED):
    """Signatures of a run's discriminator, or of another network."""
    tokenizer = tokenizer_lib.Tokenizer(run.vocabulary)
    network = network or run.discriminator
    return pretrained.build_module(answer, network, tokenizer, max_length=0)


@pytest.fixture(scope="session")
def loaded(exported):
    return load(exported)


@pytest.fixture(scope="session")
def objective_runs(tiny_run, tmp_path_factory):
    """Gives the run of an objective by name, in memory, made once."""

    @functools.cache
    def write(name):
        folder = tmp_path_factory.mktemp(name) / "run"
        model = tiny_electra.write_run(folder, name, tiny_run.vocabulary)
        module = saved_model.load_run(folder).module
        return _Trained(folder, name, model.main, module)

    return write


@pytest.fixture(scope="session")
def objective_exports(objective_runs, tiny_run, exported, tmp_path_factory):
    """Gives the export of an objective by name, made at the first call."""

    @functools.cache
    def export(name):
        if name == "electra":
            main = tiny_run.discriminator
            return _Trained(exported, name, main, load(exported))
        run, folder = objective_runs(name), tmp_path_factory.mktemp(name)
        export_unchecked(run.folder, folder / "export")
        call = load(folder / "export")
        return _Trained(folder / "export", name, run.main, call)

    return export


@functools.cache
def load(folder):
    """Calls a signature of an export by name with arrays."""
    model = tf.saved_model.load(str(folder))

    def call(signature, **arguments):
        outputs = model.signatures[signature](
            **{name: tf.constant(value) for name, value in arguments.items()}
        )
        return {name: value.numpy() for name, value in outputs.items()}

    call.signatures = model.signatures
    return call


@pytest.fixture(scope="session")
def tiny_trial(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finetuning") / "trial_01"
    return finetuned_tiny.write_trial(folder, finetuned_tiny.build_settings())


@pytest.fixture(scope="session")
def task_exports(tiny_trial, tmp_path_factory):
    """Gives the export of a task by name, made at the first call."""

    @functools.cache
    def export(name):
        folder = tmp_path_factory.mktemp("tasks") / name
        return export_unchecked(tiny_trial.folder, folder, task=name).folder

    return export


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("mrpc", "stsb")]


@pytest.fixture(params=["run", "sst2", "chunking", "squad2", *SLOW])
def any_export(request, exported, task_exports):
    name = request.param
    return exported if name == "run" else task_exports(name)


def encode(*texts):
    data = [t if isinstance(t, bytes) else t.encode() for t in texts]
    return np.array(data, object)


def as_ids(rows, length=0):
    """Rows of ids as the three inputs, padded to a length."""
    length = length or max(map(len, rows))
    mask = np.array([[n < len(row) for n in range(length)] for row in rows])
    ids = np.zeros(mask.shape, np.int32)
    ids[mask] = np.concatenate(rows)
    segments = np.cumsum(ids == 6, axis=1).clip(0, 1) * mask
    return {
        "input_ids": ids,
        "input_mask": mask.astype(np.int32),
        "segment_ids": segments.astype(np.int32),
    }


def assert_close(found, expected, atol=1e-5):
    """Floats are close, all else is equal."""
    assert set(found) == set(expected)
    for name, value in expected.items():
        value, other = np.asarray(value), np.asarray(found[name])
        if value.dtype.kind == "f":
            np.testing.assert_allclose(other, value, atol, atol, err_msg=name)
        else:
            np.testing.assert_array_equal(other, value, name)
