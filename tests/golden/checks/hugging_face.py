"""Files and outputs of Hugging Face's transformers.

Each folder is a model that transformers wrote, with inputs and what it
computed for them. Ours is built from the files; every layer, the logits and
the loss are compared. Then the model goes through all formats and must come
back bit by bit.
"""

import dataclasses
import importlib.util
import pathlib
import tempfile

import numpy as np
import tensorflow as tf

from electra_tf.export import conversion
from electra_tf.finetuning import model as finetuning_model
from electra_tf.formats import hugging_face
from electra_tf.formats import portable
from electra_tf.formats import reading
from electra_tf.modeling import networks
from electra_tf.modeling import task_heads
from electra_tf.modeling.task_heads import QuestionAnsweringHead
from electra_tf.pretraining import losses
from electra_tf.text import vocabulary as vocabulary_lib
from tests.golden import loading
from tests.golden.comparison import Line

_TOLERANCE = 1e-5
_IGNORED = -100  # targets that do not count, as PyTorch has them
_IDS_ONLY = "_ids_only"


def list_cases(folder):
    for path in sorted(folder.iterdir()):
        if not path.is_dir():
            continue
        if reason := _find_obstacle(path):
            yield path.name, _skip, path, reason
        else:
            yield path.name, _check_outputs, path
            yield f"{path.name}, round trip", _check_round_trip, path


def _find_obstacle(folder):
    """Why a folder cannot be checked, or nothing."""
    if not (folder / hugging_face.CONFIG_FILE).is_file():
        return f"no {hugging_face.CONFIG_FILE}"
    is_pickled = (folder / hugging_face.TORCH_FILE).is_file()
    if is_pickled and importlib.util.find_spec("torch") is None:
        return f"{hugging_face.TORCH_FILE} needs the extra `torch`"
    return ""


def _skip(folder, reason):
    return [Line(folder.name, skipped=reason)]


def _check_outputs(folder):
    """Everything that a model there computed, against ours."""
    arrays = loading.read_arrays(folder / "inputs.npz")
    inputs = {name: tf.constant(array) for name, array in arrays.items()}
    expected = loading.read_arrays(folder / "outputs.npz")
    compute = _build_model(hugging_face.read(folder))
    ours = compute(inputs)
    if any(name.endswith(_IDS_ONLY) for name in expected):
        # What transformers takes if it is given ids alone.
        ones = tf.ones_like(inputs["input_ids"])
        masks = {"attention_mask": ones, "token_type_ids": tf.zeros_like(ones)}
        bare = compute(inputs | masks)
        ours |= {f"{name}{_IDS_ONLY}": bare[name] for name in bare}
    line = Line(folder.name, _TOLERANCE)
    for name, theirs in expected.items():
        line.compare(name, ours.get(name, np.inf), theirs)
    yield line


def _build_model(model):
    """A function of inputs to outputs, under the reference's names."""
    if model.task is not None:
        return _build_finetuned(model)
    heads = {portable.REPLACED_TOKEN_HEAD, portable.MASKED_LM_HEAD}
    if heads.isdisjoint(model.parts):
        encoder = finetuning_model.build_encoder(model.encoder)
        _assign(encoder, model.tensors)
        return lambda inputs: _states(encoder(*_tokens(inputs)))
    main = reading.build_towers(model).main

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
    head = _build_head(task)
    head.build((None, None, model.encoder.hidden_size))
    _assign(encoder, tensors)
    path = f"{portable.TASK_HEADS}/{task.name}"
    _assign(head, portable.rename_part(tensors, path, head.name))

    def compute(inputs):
        output = encoder(*_tokens(inputs))
        features = _head_features(head, inputs)
        found = dict(head.predict(output.sequence_output, features))
        rows = head.compute_losses(output.sequence_output, features, None)
        weights = features.get("tag_weights", tf.ones_like(rows))
        found["loss"] = tf.reduce_sum(rows) / tf.reduce_sum(weights)
        if "prediction" in found:
            found["logits"] = found.pop("prediction")[:, tf.newaxis]
        return _states(output) | found

    return compute


def _build_head(task):
    count, has_hidden_layer = len(task.labels), task.has_hidden_layer
    if task.kind == "classification":
        return task_heads.ClassificationHead(count, 1, has_hidden_layer)
    if task.kind == "regression":
        return task_heads.RegressionHead(1, has_hidden_layer)
    if task.kind == "tagging":
        return task_heads.TaggingHead(count, 1)
    return QuestionAnsweringHead(
        1, joint_prediction=False, answerable_classifier=False
    )


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
    if isinstance(head, QuestionAnsweringHead):
        # There, every position may be an answer's.
        return {
            "input_mask": tf.ones_like(ids),
            "segment_ids": tf.ones_like(ids),
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


def _check_round_trip(folder):
    """Hugging Face, ours, Hugging Face, ours: equal bits.

    Pre-trained models go through a TF1 checkpoint too, and every encoder
    through a preset of KerasHub. A model without a vocabulary gets one.
    """
    model = hugging_face.read(folder)
    if model.vocabulary is None:
        size = model.encoder.vocab_size - len(vocabulary_lib.SPECIAL_TOKENS)
        others = tuple(f"token{number}" for number in range(size))
        tokens = vocabulary_lib.SPECIAL_TOKENS + others
        vocabulary = vocabulary_lib.Vocabulary(tokens)
        model = dataclasses.replace(model, vocabulary=vocabulary)
    formats = [reading.OURS, reading.HUGGING_FACE]
    if model.task is None:
        formats.append(reading.TF1)
    with tempfile.TemporaryDirectory() as name:
        for number, target in enumerate([*formats, reading.OURS]):
            path = pathlib.Path(name, str(number))
            model = _pass_through(model, target, path)
        encoder = portable.PortableModel(
            portable.take_part(model.tensors, portable.MAIN), model.encoder
        )
        path = pathlib.Path(name, "preset")
        preset = _pass_through(encoder, reading.KERAS_HUB, path)
    tensors = {**model.tensors, **preset.tensors}
    model = dataclasses.replace(model, tensors=tensors)
    line = Line(f"{folder.name}, round trip")
    line.measure = lambda ours, theirs: ours.tobytes() != theirs.tobytes()
    before = _without_task_name(hugging_face.read(folder))
    line.compare_all(_without_task_name(model), before)
    yield line


def _pass_through(model, target, path):
    path.mkdir()
    conversion.write(model, target, path)
    return conversion.read(path)


def _without_task_name(model):
    """The tensors; a task of no name here is called otherwise on the way."""
    if model.task is None:
        return dict(model.tensors)
    head = f"{portable.TASK_HEADS}/{model.task.name}"
    encoder = portable.take_part(model.tensors, portable.MAIN)
    return encoder | portable.rename_part(model.tensors, head, "head")
