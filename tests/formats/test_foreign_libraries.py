"""transformers and KerasHub themselves read what we write, and the reverse."""

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
from tests.formats import tiny_models

pytestmark = pytest.mark.slow
_PEER = pathlib.Path(__file__).with_name("transformers_peer.py")
_TOLERANCE = 1e-5


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


def _our_output(model, inputs):
    states = _encode(model, inputs)
    if model.parts == ("electra",):
        return states
    if model.task is not None:
        head = portable.take_part(model.tensors, "task_specific/own")
        head = {path.split("/", 2)[2]: value for path, value in head.items()}
        first = states[:, 0]
        if model.task.kind == "ranking":
            first = first @ head["hidden/kernel"] + head["hidden/bias"]
            first = tf.nn.gelu(first, approximate=False)
        return first @ head["dense/kernel"] + head["dense/bias"]
    tower = reading.build_networks(model).main
    if portable.REPLACED_TOKEN_HEAD in model.parts:
        return tower.head(states)
    table = tower.encoder.embeddings.word_embeddings
    return tower.head(states, table)


_CLASSES = {
    "discriminator": "ElectraForPreTraining",
    "masked_lm": "ElectraForMaskedLM",
    "encoder": "ElectraModel",
    # Heads of one's own kinds.
    "multilabel": "ElectraForSequenceClassification",
    "multiple_choice": "ElectraForMultipleChoice",
    "ranking": "ElectraForSequenceClassification",
}


@pytest.mark.extra("torch")
@pytest.mark.parametrize("kind", _CLASSES)
def test_transformers_computes_what_we_compute(tmp_path, kind):
    model, folder = tiny_models.build(kind), tmp_path / "hf"
    # States are neither all alike nor beyond float32 then.
    for path, value in model.tensors.items():
        value *= 0.2
        if path.endswith("gamma"):
            value += 1
    folder.mkdir()
    hugging_face.write(model, folder)
    inputs = _inputs(model.encoder.vocab_size)
    # Rows are the choices of one question there.
    is_choice = kind == "multiple_choice"
    given = {n: v[np.newaxis] if is_choice else v for n, v in inputs.items()}
    np.savez(tmp_path / "inputs.npz", **given)
    files = tmp_path / "inputs.npz", tmp_path / "outputs.npz"
    finished = subprocess.run(
        [sys.executable, _PEER, folder, _CLASSES[kind], *files],
        capture_output=True, text=True, check=False,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert not finished.returncode, finished.stderr
    found = np.load(files[1])
    for name, problems in json.loads(str(found["report"])).items():
        assert not problems, name
    expected = np.asarray(_our_output(model, inputs))
    output = "last_hidden_state" if kind == "encoder" else "logits"
    received = found[output].reshape(expected.shape)
    is_real = inputs["attention_mask"].astype(bool)
    if expected.shape[:2] == is_real.shape:
        received, expected = received[is_real], expected[is_real]
    np.testing.assert_allclose(received, expected, atol=_TOLERANCE)
    assert np.ptp(expected) > 0.1


def _hub_states(backbone, inputs):
    return backbone(
        {
            "token_ids": inputs["input_ids"],
            "padding_mask": inputs["attention_mask"],
            "segment_ids": inputs["token_type_ids"],
        }
    )["sequence_output"].numpy()


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
    model = keras_hub_preset.read_model(tmp_path)
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
