"""Files and outputs of Hugging Face's transformers.

Each folder is a model that transformers wrote, with inputs and what it
computed for them. Ours is built from the files; every layer, the logits and
the loss are compared. Then the model goes through all formats and must come
back bit by bit.
"""

import dataclasses
import functools
import tempfile
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.export import conversion
from electra_tf.finetuning import encoders
from electra_tf.formats import assembly
from electra_tf.formats import hugging_face
from electra_tf.formats import hugging_face_heads
from electra_tf.formats import portable
from electra_tf.formats import reading
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import generators
from electra_tf.modeling import task_heads
from electra_tf.modeling.question_answering_head import QuestionAnsweringHead
from electra_tf.pretraining import losses
from electra_tf.text import vocabulary as vocabulary_lib
from tests.golden import loading
from tests.golden.comparison import Line

_TOLERANCE = 1e-5
_IGNORED = -100  # targets that do not count, as PyTorch has them
_IDS_ONLY = "_ids_only"

Tensors = Mapping[str, tf.Tensor]
Compute = Callable[[Tensors], dict[str, Any]]


def list_cases(folder: Path) -> Iterator[tuple[str, Any]]:
    """Outputs and round trip of every model."""
    for path in sorted(folder.iterdir()):
        if (path / hugging_face.CONFIG_FILE).is_file():
            for name, check in (
                (path.name, _check_outputs),
                (f"{path.name}, round trip", _check_round_trip),
            ):
                yield name, functools.partial(check, path)
        elif path.is_dir():
            line = Line(path.name, skipped=f"no {hugging_face.CONFIG_FILE}")
            yield path.name, lambda line=line: [line]


def _check_outputs(folder: Path) -> Iterator[Line]:
    """Everything that a model there computed, against ours."""
    inputs = {
        name: tf.constant(array)
        for name, array in loading.read_arrays(folder / "inputs.npz").items()
    }
    expected = loading.read_arrays(folder / "outputs.npz")
    compute = _build_model(hugging_face.read(folder))
    ours = compute(inputs)
    if any(name.endswith(_IDS_ONLY) for name in expected):
        # What transformers takes if it is given ids alone.
        ids = inputs["input_ids"]
        masks = {
            "attention_mask": tf.ones_like(ids),
            "token_type_ids": tf.zeros_like(ids),
        }
        bare = compute(inputs | masks)
        ours |= {f"{name}{_IDS_ONLY}": bare[name] for name in bare}
    line = Line(folder.name, _TOLERANCE)
    for name, theirs in expected.items():
        line.compare(name, ours.get(name, np.inf), theirs)
    yield line


def _build_model(model: portable.PortableModel) -> Compute:
    """A function of inputs to outputs, under the reference's names."""
    if model.task is not None:
        return _build_finetuned(model, model.task)
    heads = {portable.REPLACED_TOKEN_HEAD, portable.MASKED_LM_HEAD}
    if not heads & set(model.parts):
        encoder = encoders.build_encoder(model.encoder)
        _assign(encoder.variables, model.tensors)
        return lambda inputs: _states(encoder(*_tokens(inputs)))
    main = assembly.build_towers(model).main
    is_masked_lm = isinstance(main, generators.MaskedLMGenerator)

    def compute(inputs: Tensors) -> dict[str, Any]:
        output = main.encoder(*_tokens(inputs))
        hidden, labels = output.sequence_output, inputs["labels"]
        if is_masked_lm:
            table = main.encoder.embeddings.word_embeddings
            logits, loss = main.head(hidden, table), losses.masked_lm_loss
            labels, weights = _targets(labels)
        else:
            logits, loss = main(*_tokens(inputs)).logits, losses.replaced_token_loss
            weights = tf.cast(inputs["attention_mask"], tf.float32)
        mean = loss(logits, labels, weights) / tf.reduce_sum(weights)
        return _states(output) | {"logits": logits, "loss": mean}

    return compute


def _build_finetuned(
    model: portable.PortableModel, task: portable.PortableTask
) -> Compute:
    tensors = model.tensors
    if task.kind == "tagging":
        # The reference gives segments of its own; ours are exchanged.
        tensors = hugging_face_heads.exchange_segments(tensors)
    encoder = encoders.build_encoder(model.encoder)
    _assign(encoder.variables, tensors)
    head = _build_head(task)
    head.build((None, None, model.encoder.hidden_size))
    own = portable.rename_part(
        tensors, f"{portable.TASK_HEADS}/{task.name}", head.name
    )
    _assign(head.variables, own)

    def compute(inputs: Tensors) -> dict[str, Any]:
        output = encoder(*_tokens(inputs))
        features = _head_features(head, inputs)
        found = dict(head.predict(output.sequence_output, features))
        rows = head.compute_losses(output.sequence_output, features, None)
        found["loss"] = tf.reduce_mean(rows)
        if "tag_weights" in features:
            count = tf.reduce_sum(features["tag_weights"])
            found["loss"] = tf.reduce_sum(rows) / count
        if "prediction" in found:
            found["logits"] = found.pop("prediction")[:, tf.newaxis]
        return _states(output) | found

    return compute


def _build_head(task: portable.PortableTask) -> task_heads.TaskHead:
    if task.kind == "classification":
        return task_heads.ClassificationHead(
            len(task.labels), 1, task.has_hidden_layer
        )
    if task.kind == "regression":
        return task_heads.RegressionHead(1, task.has_hidden_layer)
    if task.kind == "tagging":
        return task_heads.TaggingHead(len(task.labels), 1)
    return QuestionAnsweringHead(
        1, joint_prediction=False, answerable_classifier=False
    )


def _assign(variables: Any, tensors: Mapping[str, np.ndarray]) -> None:
    for variable in variables:
        variable.assign(tensors[variable.path])


def _tokens(inputs: Tensors) -> tuple[tf.Tensor, ...]:
    names = ("input_ids", "attention_mask", "token_type_ids")
    return tuple(tf.cast(inputs[name], tf.int32) for name in names)


def _states(output: encoder_lib.EncoderOutput) -> dict[str, Any]:
    return {
        "hidden_states": tf.stack(output.layer_outputs),
        "last_hidden_state": output.sequence_output,
    }


def _targets(labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    counts = labels != _IGNORED
    targets = tf.where(counts, labels, tf.zeros_like(labels))
    return tf.cast(targets, tf.int32), tf.cast(counts, tf.float32)


def _head_features(head: task_heads.TaskHead, inputs: Tensors) -> Tensors:
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


def _check_round_trip(folder: Path) -> Iterator[Line]:
    """Hugging Face, ours, Hugging Face, KerasHub, ours: equal bits.

    Pre-trained models go through a TF1 checkpoint too. A model without a
    vocabulary gets one.
    """
    model = hugging_face.read(folder)
    if model.vocabulary is None:
        model = dataclasses.replace(model, vocabulary=_any_vocabulary(model))
    formats = [reading.OURS, reading.HUGGING_FACE, reading.KERAS_HUB]
    if model.task is None:
        formats.append(reading.TF1)
    with tempfile.TemporaryDirectory() as name:
        for number, target in enumerate([*formats, reading.OURS]):
            path = Path(name, str(number))
            path.mkdir()
            conversion.write(model, target, path)
            model = conversion.read(path)
    line = Line(f"{folder.name}, round trip")
    line.compare_all(
        _without_task_name(model),
        _without_task_name(hugging_face.read(folder)),
        lambda ours, theirs: float(ours.tobytes() != theirs.tobytes()),
    )
    yield line


def _without_task_name(
    model: portable.PortableModel,
) -> dict[str, np.ndarray]:
    """The tensors; a task of no name here is called otherwise on the way."""
    if model.task is None:
        return dict(model.tensors)
    head = f"{portable.TASK_HEADS}/{model.task.name}"
    encoder = portable.take_part(model.tensors, portable.MAIN)
    return encoder | portable.rename_part(model.tensors, head, "head")


def _any_vocabulary(
    model: portable.PortableModel,
) -> vocabulary_lib.Vocabulary:
    special = vocabulary_lib.SPECIAL_TOKENS
    others = model.encoder.vocab_size - len(special)
    return vocabulary_lib.Vocabulary(
        special + tuple(f"token{number}" for number in range(others))
    )
