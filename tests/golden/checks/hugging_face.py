"""Models that Hugging Face's transformers wrote, and what they compute.

Every layer, the logits and the loss are compared.
"""

import importlib.util

import numpy as np
import tensorflow as tf

from electra_tf.finetuning import model as finetuning_model
from electra_tf.formats import hugging_face
from electra_tf.formats import portable
from electra_tf.formats import reading
from electra_tf.formats import tensor_files
from electra_tf.formulas import losses
from electra_tf.modeling import networks
from electra_tf.modeling import task_heads
from electra_tf.tasks import base
from tests.golden import comparison
from tests.golden import loading

_TOLERANCE = 1e-5
_IGNORED = -100  # targets that do not count, as PyTorch has them
_IDS_ONLY = "_ids_only"


def list_cases(folder):
    has_torch = importlib.util.find_spec("torch") is not None
    for path in sorted(path for path in folder.iterdir() if path.is_dir()):
        reason = ""
        if not (path / hugging_face.CONFIG_FILE).is_file():
            reason = f"no {hugging_face.CONFIG_FILE}"
        elif (path / tensor_files.TORCH_FILE).is_file() and not has_torch:
            reason = f"{tensor_files.TORCH_FILE} needs the extra `torch`"
        if reason:
            line = comparison.Line(path.name, skipped=reason)
            yield path.name, lambda line: [line], line
        else:
            yield path.name, _check_outputs, path


def _check_outputs(folder):
    arrays = loading.read_arrays(folder / "inputs.npz")
    inputs = {name: tf.constant(array) for name, array in arrays.items()}
    expected = loading.read_arrays(folder / "outputs.npz")
    model = hugging_face.read_model(folder)
    build = _build_pretrained if model.task is None else _build_finetuned
    ours = (compute := build(model))(inputs)
    if any(name.endswith(_IDS_ONLY) for name in expected):
        # What transformers takes if it is given ids alone.
        ones = tf.ones_like(inputs["input_ids"])
        masks = {"attention_mask": ones, "token_type_ids": tf.zeros_like(ones)}
        bare = compute(inputs | masks)
        ours |= {f"{name}{_IDS_ONLY}": bare[name] for name in bare}
    entries = ((n, ours.get(n, np.inf), array) for n, array in expected.items())
    yield comparison.compare(folder.name, entries, _TOLERANCE)


def _build_pretrained(model):
    """A function of inputs to outputs, under the reference's names."""
    heads = {portable.REPLACED_TOKEN_HEAD, portable.MASKED_LM_HEAD}
    if heads.isdisjoint(model.parts):
        encoder = finetuning_model.build_encoder(model.encoder)
        _assign(encoder, model.tensors)
        return lambda inputs: _states(encoder(*_tokens(inputs)))
    main = reading.build_networks(model).main

    def compute(inputs):
        output = main.encoder(*_tokens(inputs))
        labels, weights = _targets(inputs["labels"])
        if isinstance(main, networks.MaskedLMGenerator):
            table = main.encoder.embeddings.word_embeddings
            logits = main.head(output.sequence_output, table)
            total = losses.masked_lm_loss(logits, labels, weights)
        else:
            logits = main(*_tokens(inputs)).logits
            weights = tf.cast(inputs["attention_mask"], tf.float32)
            total = losses.replaced_token_loss(logits, labels, weights)
        loss = total / tf.reduce_sum(weights)
        return _states(output) | {"logits": logits, "loss": loss}

    return compute


def _build_finetuned(model):
    task, tensors = model.task, model.tensors
    if task.kind == "tagging":
        # The reference gives segments of its own; ours are exchanged.
        tensors = hugging_face.exchange_segments(tensors)
    encoder = finetuning_model.build_encoder(model.encoder)
    _assign(encoder, tensors)
    own = portable.rename_part(tensors, task.head, "head")
    shapes = {path.removeprefix("head/"): own[path].shape for path in own}
    head = base.find_kind(task.kind).restore_head(
        len(task.labels), shapes, task.has_hidden_layer, seed=1, name="head"
    )
    head.build((None, None, model.encoder.hidden_size))
    _assign(head, own)

    def compute(inputs):
        output = encoder(*_tokens(inputs))
        features = _head_features(head, inputs)
        outputs = dict(head.predict(output.sequence_output, features))
        rows = head.compute_losses(output.sequence_output, features, None)
        weights = features.get("tag_weights", tf.ones_like(rows))
        outputs["loss"] = tf.reduce_sum(rows) / tf.reduce_sum(weights)
        if "prediction" in outputs:
            outputs["logits"] = outputs.pop("prediction")[:, tf.newaxis]
        return _states(output) | outputs

    return compute


def _assign(layer, tensors):
    for variable in layer.variables:
        variable.assign(tensors[variable.path])


def _tokens(inputs):
    names = ("input_ids", "attention_mask", "token_type_ids")
    return [tf.cast(inputs[name], tf.int32) for name in names]


def _states(output):
    return {
        "hidden_states": tf.stack(output.layer_outputs),
        "last_hidden_state": output.sequence_output,
    }


def _targets(labels):
    counts = labels != _IGNORED
    targets = tf.where(counts, labels, tf.zeros_like(labels))
    return tf.cast(targets, tf.int32), tf.cast(counts, tf.float32)


def _head_features(head, inputs):
    """The reference's inputs as our head reads them."""
    ids = inputs["input_ids"]
    if isinstance(head, task_heads.QuestionAnsweringHead):
        # There, every position may be an answer's.
        return {
            **dict.fromkeys(("input_mask", "segment_ids"), tf.ones_like(ids)),
            "start_position": inputs["start_positions"],
            "end_position": inputs["end_positions"],
            "is_impossible": tf.zeros(len(ids), tf.int32),
        }
    labels = inputs["labels"]
    if isinstance(head, task_heads.TaggingHead):
        tags, weights = _targets(labels)
        places = tf.broadcast_to(tf.range(ids.shape[1]), ids.shape)
        return {"word_positions": places, "tags": tags, "tag_weights": weights}
    return {"label": labels, "target": labels}
