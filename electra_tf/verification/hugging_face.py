"""Files and outputs of Hugging Face's transformers.

Each folder of `huggingface/` is a model that transformers wrote, with inputs
and what it computed for them. Ours is built from the files; every layer, the
logits and the loss are compared. Then the model goes through all formats and
must come back bit by bit.
"""

import dataclasses
import functools
import importlib.util
import pathlib
import tempfile
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
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
from electra_tf.formats import tensor_files
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import generators
from electra_tf.modeling import question_answering_head
from electra_tf.modeling import task_heads
from electra_tf.pretraining import losses
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints
from electra_tf.verification import comparison
from electra_tf.verification import reference
from electra_tf.verification.report import CheckResult

KIND = "huggingface"
TOLERANCE = 1e-5
# Targets that do not count, as PyTorch has them.
_IGNORED = -100
_IDS_ONLY = "_ids_only"

Arrays = reference.Arrays
Case = tuple[str, Callable[[], CheckResult]]


def list_cases(folder: pathlib.Path) -> Iterator[Case]:
    """Outputs and round trip of every model of a reference folder.

    Args:
        folder: `huggingface` of a reference folder.
    """
    for path in sorted(folder.iterdir()):
        if (path / hugging_face.CONFIG_FILE).is_file():
            if _needs_torch(path):
                yield (
                    path.name,
                    functools.partial(
                        CheckResult.skipped,
                        KIND,
                        path.name,
                        "pytorch_model.bin needs the extra `torch`",
                    ),
                )
                continue
            yield path.name, functools.partial(check_outputs, path)
            yield (
                f"{path.name}, round trip",
                functools.partial(check_round_trip, path),
            )


def _needs_torch(folder: pathlib.Path) -> bool:
    """Whether PyTorch would have to read a model, and is not installed."""
    is_pickled = (folder / tensor_files.TORCH_FILE).is_file()
    return is_pickled and importlib.util.find_spec("torch") is None


def check_outputs(folder: pathlib.Path) -> CheckResult:
    """Everything that a model there computed, against ours.

    Args:
        folder: of the model, with `inputs.npz` and `outputs.npz`.
    """
    model = hugging_face.read(folder)
    inputs = reference.read_arrays(folder / "inputs.npz")
    expected = reference.read_arrays(folder / "outputs.npz")
    answer = _build_answer(model)
    ours = answer(inputs)
    if any(name.endswith(_IDS_ONLY) for name in expected):
        bare = answer(_without_masks(inputs))
        ours |= {f"{name}{_IDS_ONLY}": bare[name] for name in bare}
    line = comparison.Comparison(KIND, folder.name, TOLERANCE)
    for name, theirs in expected.items():
        found = ours.get(name)
        line.add(
            name,
            np.inf
            if found is None
            else comparison.compute_error(found, theirs),
        )
    return line.result()


def _without_masks(inputs: Arrays) -> Arrays:
    """What transformers takes if it is given ids alone."""
    ids = inputs["input_ids"]
    return inputs | {
        "attention_mask": np.ones_like(ids),
        "token_type_ids": np.zeros_like(ids),
    }


def _build_answer(
    model: portable.PortableModel,
) -> Callable[[Arrays], Arrays]:
    """A function of inputs to outputs, under the reference's names."""
    if model.task is not None:
        loaded = encoders.build_encoder(model.encoder)
        tensors = model.tensors
        if model.task.kind == "tagging":
            # The reference gives segments of its own; ours are exchanged.
            tensors = hugging_face_heads.exchange_segments(tensors)
        _assign(loaded.variables, tensors)
        head = _build_head(model, model.task)
        return lambda inputs: _finetuned_outputs(loaded, head, inputs)
    heads = {portable.REPLACED_TOKEN_HEAD, portable.MASKED_LM_HEAD}
    if not heads & set(model.parts):
        encoder = encoders.build_encoder(model.encoder)
        _assign(encoder.variables, model.tensors)
        return lambda inputs: _states(encoder(*_features(inputs)))
    main = assembly.build_towers(model).main
    if isinstance(main, generators.MaskedLMGenerator):
        return lambda inputs: _masked_lm_outputs(main, inputs)
    return lambda inputs: _discriminator_outputs(main, inputs)


def _features(inputs: Arrays) -> tuple[tf.Tensor, ...]:
    names = ("input_ids", "attention_mask", "token_type_ids")
    return tuple(tf.constant(inputs[name], tf.int32) for name in names)


def _states(output: encoder_lib.EncoderOutput) -> Arrays:
    return {
        "hidden_states": np.stack([t.numpy() for t in output.layer_outputs]),
        "last_hidden_state": output.sequence_output.numpy(),
    }


def _discriminator_outputs(main: Any, inputs: Arrays) -> Arrays:
    output = main(*_features(inputs))
    weights = tf.constant(inputs["attention_mask"], tf.float32)
    total = losses.replaced_token_loss(
        output.logits, tf.constant(inputs["labels"]), weights
    )
    return _states(output.encoder_output) | {
        "logits": output.logits.numpy(),
        "loss": (total / tf.reduce_sum(weights)).numpy(),
    }


def _masked_lm_outputs(
    main: generators.MaskedLMGenerator, inputs: Arrays
) -> Arrays:
    output = main.encoder(*_features(inputs))
    logits = main.head(
        output.sequence_output, main.encoder.embeddings.word_embeddings
    )
    ids, weights = _targets(inputs["labels"])
    total = losses.masked_lm_loss(logits, ids, weights)
    return _states(output) | {
        "logits": logits.numpy(),
        "loss": (total / tf.reduce_sum(weights)).numpy(),
    }


def _targets(labels: np.ndarray) -> tuple[tf.Tensor, tf.Tensor]:
    counts = labels != _IGNORED
    return (
        tf.constant(np.where(counts, labels, 0), tf.int32),
        tf.constant(counts, tf.float32),
    )


def _build_head(
    model: portable.PortableModel, task: portable.PortableTask
) -> task_heads.TaskHead:
    """The task's head with its weights."""
    if task.kind == "classification":
        head: task_heads.TaskHead = task_heads.ClassificationHead(
            len(task.labels), 1, task.has_hidden_layer
        )
    elif task.kind == "regression":
        head = task_heads.RegressionHead(1, task.has_hidden_layer)
    elif task.kind == "tagging":
        head = task_heads.TaggingHead(len(task.labels), 1)
    else:
        head = question_answering_head.QuestionAnsweringHead(
            1, joint_prediction=False, answerable_classifier=False
        )
    head.build((None, None, model.encoder.hidden_size))
    beginning = f"{portable.TASK_HEADS}/{task.name}/"
    _assign(
        head.variables,
        {
            f"{head.name}/{path.removeprefix(beginning)}": value
            for path, value in model.tensors.items()
            if path.startswith(beginning)
        },
    )
    return head


def _assign(variables: Any, tensors: Mapping[str, np.ndarray]) -> None:
    by_path = {variable.path: variable for variable in variables}
    wanted = {path: tensors[path] for path in by_path if path in tensors}
    checkpoints.require_equal_layout("the reference", wanted, by_path)
    for path, variable in by_path.items():
        variable.assign(wanted[path])


def _finetuned_outputs(
    encoder: encoder_lib.Encoder, head: task_heads.TaskHead, inputs: Arrays
) -> Arrays:
    output = encoder(*_features(inputs))
    features = _head_features(head, inputs)
    hidden = output.sequence_output
    predicted = head.predict(hidden, features)
    rows = head.compute_losses(hidden, features, None)
    loss = tf.reduce_mean(rows)
    if "tag_weights" in features:
        loss = tf.reduce_sum(rows) / tf.reduce_sum(features["tag_weights"])
    found = {name: predicted[name].numpy() for name in predicted}
    if "prediction" in found:
        found["logits"] = found.pop("prediction")[:, np.newaxis]
    return _states(output) | found | {"loss": loss.numpy()}


def _head_features(
    head: task_heads.TaskHead, inputs: Arrays
) -> dict[str, tf.Tensor]:
    """The reference's inputs as our head reads them."""
    ids = inputs["input_ids"]
    every = np.ones_like(ids)
    if isinstance(head, question_answering_head.QuestionAnsweringHead):
        # There, every position may be an answer's.
        return {
            "input_mask": tf.constant(every),
            "segment_ids": tf.constant(every),
            "start_position": tf.constant(inputs["start_positions"]),
            "end_position": tf.constant(inputs["end_positions"]),
            "is_impossible": tf.zeros(len(ids), tf.int32),
        }
    labels = inputs["labels"]
    if isinstance(head, task_heads.TaggingHead):
        tags, weights = _targets(labels)
        places = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
        return {
            "word_positions": tf.constant(places, tf.int32),
            "tags": tags,
            "tag_weights": weights,
        }
    return {"label": tf.constant(labels), "target": tf.constant(labels)}


def check_round_trip(folder: pathlib.Path) -> CheckResult:
    """Hugging Face, ours, Hugging Face, ours: equal bits.

    Pre-trained models go through a TF1 checkpoint too, and every encoder
    through a preset of KerasHub. A model without a vocabulary gets one.

    Args:
        folder: of the model.
    """
    model = hugging_face.read(folder)
    if model.vocabulary is None:
        model = dataclasses.replace(model, vocabulary=_any_vocabulary(model))
    line = comparison.Comparison(KIND, f"{folder.name}, round trip")
    formats = [reading.OURS, reading.HUGGING_FACE]
    if model.task is None:
        formats.append(reading.TF1)
    with tempfile.TemporaryDirectory() as name:
        for number, target in enumerate([*formats, reading.OURS]):
            model = _pass_through(
                model, target, pathlib.Path(name, str(number))
            )
        encoder = portable.PortableModel(
            portable.take_part(model.tensors, portable.MAIN), model.encoder
        )
        preset = _pass_through(
            encoder, reading.KERAS_HUB, pathlib.Path(name, "preset")
        )
    model = dataclasses.replace(
        model, tensors={**model.tensors, **preset.tensors}
    )
    before = _without_task_name(hugging_face.read(folder))
    after = _without_task_name(model)
    for tensor in sorted({*before, *after}):
        is_equal = _are_equal(before.get(tensor), after.get(tensor))
        line.add(tensor, not is_equal)
    return line.result()


def _pass_through(
    model: portable.PortableModel, target: str, path: pathlib.Path
) -> portable.PortableModel:
    path.mkdir()
    conversion.write(model, target, path)
    return conversion.read(path)


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


def _are_equal(first: np.ndarray | None, second: np.ndarray | None) -> bool:
    if first is None or second is None:
        return False
    return first.tobytes() == second.tobytes()
