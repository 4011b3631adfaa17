"""transformers and KerasHub themselves read what we write, and the reverse.

transformers runs in a Python of its own: $ELECTRA_PEER_PYTHON, or this one if
it has it.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.finetuning import model as finetuning_model
from electra_tf.formats import hugging_face
from electra_tf.formats import keras_hub_preset
from electra_tf.formats import portable
from electra_tf.formats import reading
from electra_tf.text import tokenizer as tokenizer_lib
from tests.formats import tiny_models

pytestmark = pytest.mark.slow
_PEER = pathlib.Path(__file__).with_name("transformers_peer.py")
_TOLERANCE = 1e-5
_TEXTS = (
    "The cat sat on a mat.",
    "Unable dogs, é and É? 東京 items",
    "THE CATS ran...un",
    "",
)


@pytest.fixture(scope="session")
def peer():
    """Calls the other side; skips where there is none."""
    python = os.environ.get("ELECTRA_PEER_PYTHON", "")
    if not python:
        if not all(map(importlib.util.find_spec, ("torch", "transformers"))):
            pytest.skip("no torch and transformers; set ELECTRA_PEER_PYTHON")
        python = sys.executable

    def call(*arguments):
        finished = subprocess.run(
            [python, str(_PEER), *map(str, arguments)],
            capture_output=True,
            text=True,
            env=os.environ | {"HF_HUB_OFFLINE": "1"},
            check=False,
        )
        assert not finished.returncode, finished.stderr

    return call


def _build(kind, scale=0.2):
    """A model whose states are neither all alike nor beyond float32."""
    model = tiny_models.build(kind)
    for path, value in model.tensors.items():
        value *= scale
        if path.endswith("gamma"):
            value += 1
    return model


def _inputs(vocab_size, type_vocab_size=3):
    generator = np.random.default_rng(2)
    lengths = np.array([12, 7, 2])
    mask = (np.arange(12) < lengths[:, None]).astype(np.int64)
    return {
        "input_ids": generator.integers(5, vocab_size, [3, 12]) * mask,
        "attention_mask": mask,
        "token_type_ids": generator.integers(type_vocab_size, size=[3, 12])
        * mask,
    }


def _encode(model, inputs):
    encoder = finetuning_model.build_encoder(model.encoder)
    for variable in encoder.variables:
        variable.assign(model.tensors[variable.path])
    ids, mask, types = (inputs[n].astype(np.int32) for n in inputs)
    return encoder(ids, mask, types).sequence_output


def _our_outputs(model, inputs):
    """By the names that transformers gives them."""
    states = _encode(model, inputs)
    if model.parts == ("electra",):
        return {"last_hidden_state": states}
    tower = reading.build_networks(model).main
    if portable.REPLACED_TOKEN_HEAD in model.parts:
        return {"logits": tower.head(states)}
    table = tower.encoder.embeddings.word_embeddings
    return {"logits": tower.head(states, table)}


def _require_equal_outputs(model, folder, name, peer, tmp_path):
    inputs = _inputs(model.encoder.vocab_size, model.encoder.type_vocab_size)
    np.savez(tmp_path / "inputs.npz", **inputs)
    peer(folder, name, tmp_path / "inputs.npz", tmp_path / "outputs.npz")
    found = np.load(tmp_path / "outputs.npz")
    for kind, problems in json.loads(str(found["report"])).items():
        assert not problems, kind
    is_real = inputs["attention_mask"].astype(bool)
    for output, expected in _our_outputs(model, inputs).items():
        one, other = found[output], np.asarray(expected)
        if one.ndim > 1 and one.shape[:2] == is_real.shape:
            one, other = one[is_real], other[is_real]
        np.testing.assert_allclose(one, other, atol=_TOLERANCE)
        assert np.ptp(other) > 0.1


_CLASSES = {
    "discriminator": "ElectraForPreTraining",
    "masked_lm": "ElectraForMaskedLM",
    "encoder": "ElectraModel",
}


@pytest.mark.parametrize("kind", _CLASSES)
def test_transformers_computes_what_we_compute(tmp_path, peer, kind):
    model = _build(kind)
    (tmp_path / "hf").mkdir()
    hugging_face.write(model, tmp_path / "hf")
    _require_equal_outputs(
        model, tmp_path / "hf", _CLASSES[kind], peer, tmp_path
    )


def _hub_states(backbone, inputs):
    return backbone(
        {
            "token_ids": inputs["input_ids"],
            "padding_mask": inputs["attention_mask"],
            "segment_ids": inputs["token_type_ids"],
        }
    )["sequence_output"].numpy()


def test_keras_hub_makes_our_ids(tmp_path):
    import keras_hub

    vocabulary = tiny_models.VOCABULARY
    keras_hub_preset.write(tiny_models.build("encoder"), tmp_path)
    theirs = keras_hub.models.ElectraTokenizer.from_preset(str(tmp_path))
    texts = ["the cat sat on a mat .", "unable dogs, the items?"]
    ours = tokenizer_lib.Tokenizer(vocabulary).tokenize(tf.constant(texts))
    for text, ids in zip(texts, ours.to_list(), strict=True):
        assert list(theirs(text)) == ids


def test_a_preset_that_keras_hub_made_is_read(tmp_path):
    import keras_hub

    keras.utils.set_random_seed(3)
    backbone = keras_hub.models.ElectraBackbone(
        vocab_size=24, num_layers=2, num_heads=2, hidden_dim=16,
        embedding_dim=12, intermediate_dim=24, max_sequence_length=20,
    )  # fmt: skip
    for variable in backbone.weights:
        if variable.path.endswith(("/kernel", "/embeddings")):
            variable.assign(10 * variable)
    backbone.save_to_preset(str(tmp_path))
    keras_hub.models.ElectraTokenizer(
        vocabulary=list(tiny_models.VOCABULARY.tokens), lowercase=True
    ).save_to_preset(str(tmp_path))
    model = keras_hub_preset.read(tmp_path)
    assert model.vocabulary.tokens == tiny_models.VOCABULARY.tokens
    inputs = _inputs(24, 2)
    is_real = inputs["attention_mask"].astype(bool)
    ours = _encode(model, inputs).numpy()[is_real]
    gelu = keras.activations.gelu  # the exact one
    before = np.abs(_hub_states(backbone, inputs)[is_real] - ours).max()
    for number in range(2):
        layer = backbone.get_layer(f"transformer_layer_{number}")
        layer._feedforward_intermediate_dense.activation = gelu
    after = np.abs(_hub_states(backbone, inputs)[is_real] - ours).max()
    # Its tanh-gelu is what the documentation says differs.
    assert after < _TOLERANCE < before


@pytest.mark.parametrize("kind", ["multilabel", "multiple_choice", "ranking"])
def test_transformers_has_the_heads_of_ones_own_kinds(tmp_path, peer, kind):
    model, folder = _build(kind), tmp_path / "hf"
    folder.mkdir()
    hugging_face.write(model, folder)
    inputs = _inputs(model.encoder.vocab_size)
    first = _encode(model, inputs)[:, 0]
    head = {
        path.removeprefix("task_specific/own/"): value
        for path, value in model.tensors.items()
    }
    if kind == "ranking":
        first = first @ head["hidden/kernel"] + head["hidden/bias"]
        first = tf.nn.gelu(first, approximate=False)
    expected = first @ head["dense/kernel"] + head["dense/bias"]
    # Rows are the choices of one question there.
    is_choice = kind == "multiple_choice"
    given = {n: v[np.newaxis] if is_choice else v for n, v in inputs.items()}
    np.savez(tmp_path / "inputs.npz", **given)
    files = tmp_path / "inputs.npz", tmp_path / "outputs.npz"
    peer(folder, hugging_face.CLASSES[model.task.kind], *files)
    found = np.load(files[1])
    problems = json.loads(str(found["report"]))
    assert not any(problems.values())
    np.testing.assert_allclose(
        found["logits"].reshape(expected.shape), expected, atol=_TOLERANCE
    )
    assert np.ptp(expected) > 0.1
