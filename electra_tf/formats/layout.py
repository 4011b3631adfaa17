"""Which tensors a model of given sizes has, and sizes read off tensors.

Shapes: B, S, D, E, V as in `modeling/encoder.py`. Written without layers, so
that a file can be checked before anything is built; a test holds it to the
variables that the layers make.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import numpy as np

from electra_tf import config
from electra_tf import errors
from electra_tf.formats import portable
from electra_tf.modeling import question_answering_head

Shapes = dict[str, tuple[int, ...]]
ShapeOf = Callable[[str], tuple[int, ...] | None]

# Names that one table or matrix of the right rank can be looked up by.
_ATTENTION_OUTPUT = "encoder/layer_{}/attention/output/dense/kernel"
_INTERMEDIATE = "encoder/layer_{}/intermediate/dense/kernel"
# The original's rule: heads are 64 wide.
_HEAD_WIDTH = 64


def linear_shapes(name: str, num_in: int, num_out: int) -> Shapes:
    """Of a `layers.Linear`."""
    return {f"{name}/kernel": (num_in, num_out), f"{name}/bias": (num_out,)}


def _norm_shapes(name: str, width: int) -> Shapes:
    return {f"{name}/gamma": (width,), f"{name}/beta": (width,)}


def encoder_shapes(
    name: str, sizes: config.EncoderConfig, has_embeddings: bool = True
) -> Shapes:
    """Of an encoder.

    Args:
        name: first part of the paths.
        sizes: its sizes.
        has_embeddings: False where it shares another encoder's.
    """
    width, inner = sizes.hidden_size, sizes.intermediate_size
    shapes: Shapes = {}
    if has_embeddings:
        table = f"{name}/embeddings"
        shapes = {
            f"{table}/{kind}_embeddings": (rows, sizes.embedding_size)
            for kind, rows in (
                ("word", sizes.vocab_size),
                ("position", sizes.max_position_embeddings),
                ("token_type", sizes.type_vocab_size),
            )
        }
        shapes |= _norm_shapes(f"{table}/LayerNorm", sizes.embedding_size)
    if sizes.embedding_size != width:
        shapes |= linear_shapes(
            f"{name}/embeddings_project", sizes.embedding_size, width
        )
    for number in range(sizes.num_hidden_layers):
        block = f"{name}/encoder/layer_{number}"
        output = f"{block}/attention/output"
        shapes |= linear_shapes(f"{block}/attention/self/qkv", width, 3 * width)
        shapes |= linear_shapes(f"{output}/dense", width, width)
        shapes |= _norm_shapes(f"{output}/LayerNorm", width)
        shapes |= linear_shapes(f"{block}/intermediate/dense", width, inner)
        shapes |= linear_shapes(f"{block}/output/dense", inner, width)
        shapes |= _norm_shapes(f"{block}/output/LayerNorm", width)
    return shapes


def _vocabulary_head_shapes(
    name: str, sizes: config.EncoderConfig, num_states: int = 1
) -> Shapes:
    """Of a head that scores the vocabulary, from states that are joined."""
    width = sizes.embedding_size
    return {
        **linear_shapes(f"{name}/dense", num_states * sizes.hidden_size, width),
        **_norm_shapes(f"{name}/LayerNorm", width),
        f"{name}/output_bias": (sizes.vocab_size,),
    }


def infer_sizes(
    name: str,
    shape_of: ShapeOf,
    embeddings_name: str = "",
    num_attention_heads: int = 0,
    origin: str = "the model",
) -> config.EncoderConfig:
    """Sizes of an encoder, read off its tensors.

    Args:
        name: first part of the encoder's paths.
        shape_of: the shape behind one of our paths, None if there is none.
        embeddings_name: of the encoder that it shares embeddings with.
        num_attention_heads: no tensor tells it; 0 for heads that are 64 wide,
            the original's rule.
        origin: where the tensors are from, for messages.

    Raises:
        ModelError: if a tensor that tells a size is missing or has another
            rank.
    """

    def matrix(path: str) -> tuple[int, int]:
        shape = shape_of(path)
        if shape is None or len(shape) != 2:
            raise errors.ModelError(
                f"Expected in {origin} a matrix that is called {path} here, to "
                "read the model's sizes off. Received: "
                f"{shape or 'none of that name'}. Is this a checkpoint of "
                "ELECTRA, and whole?"
            )
        return shape[0], shape[1]

    tables = f"{embeddings_name or name}/embeddings"
    vocab_size, embedding_size = matrix(f"{tables}/word_embeddings")
    hidden_size = matrix(f"{name}/{_ATTENTION_OUTPUT.format(0)}")[1]
    num_layers = 1
    while shape_of(f"{name}/{_ATTENTION_OUTPUT.format(num_layers)}"):
        num_layers += 1
    return config.EncoderConfig(
        vocab_size=vocab_size,
        embedding_size=embedding_size,
        hidden_size=hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=num_attention_heads
        or max(1, hidden_size // _HEAD_WIDTH),
        intermediate_size=matrix(f"{name}/{_INTERMEDIATE.format(0)}")[1],
        max_position_embeddings=matrix(f"{tables}/position_embeddings")[0],
        type_vocab_size=matrix(f"{tables}/token_type_embeddings")[0],
    )


def require_sizes(
    found: config.EncoderConfig, stated: Mapping[str, Any], source: str
) -> None:
    """Raises `ModelError` unless a config says what the tensors say.

    Args:
        found: read off tensors.
        stated: field of `EncoderConfig` to the config's value; other fields
            are not looked at.
        source: of the stated sizes, for the message.
    """
    sizes = dataclasses.asdict(found)
    wrong = [
        f"{name} is {stated[name]!r} there, {sizes[name]} by the tensors"
        for name in sizes
        if name in stated and stated[name] != sizes[name]
    ]
    if wrong:
        raise errors.ModelError(
            f"{source} does not describe the tensors beside it: "
            f"{'; '.join(wrong)}. Are both of the same model?"
        )


def part_shapes(
    part: str,
    encoder: config.EncoderConfig,
    generator: config.EncoderConfig | None,
    tying: str,
) -> Shapes | None:
    """Of one part of a model; None for a part that is not known here.

    Args:
        part: first part of the paths.
        encoder: sizes of the main encoder.
        generator: sizes of the generator's encoder, None where there is none.
        tying: what they share.
    """
    # A head without a generator's encoder belongs to the main one.
    proposing = generator or encoder
    has_own = tying == "none"
    if part == portable.MAIN:
        return encoder_shapes(part, encoder)
    if part == portable.REPLACED_TOKEN_HEAD:
        width = encoder.hidden_size
        shapes = linear_shapes(f"{part}/dense", width, width)
        return shapes | linear_shapes(f"{part}/dense_1", width, 1)
    if part == portable.MASKED_LM_HEAD:
        return _vocabulary_head_shapes(part, proposing)
    if part == portable.GENERATOR or part in TOWER_PARTS:
        return encoder_shapes(part, proposing, has_own)
    if part == "cloze_predictions":
        return _vocabulary_head_shapes(part, proposing, num_states=2)
    if part == "masked_lm_predictions":
        return _vocabulary_head_shapes(part, encoder)
    if part == "copy_predictions":
        return linear_shapes(f"{part}/dense", encoder.hidden_size, 1)
    if part == "reward_baseline":
        return linear_shapes(part, proposing.hidden_size, 1)
    return None


TOWER_PARTS = ("generator_ltr", "generator_rtl")
"""The encoders of a two-tower generator."""


def task_shapes(
    task: portable.PortableTask, hidden_size: int, there: Shapes
) -> Shapes:
    """Of a fine-tuned head.

    Args:
        task: of the model.
        hidden_size: of the encoder, D.
        there: path to shape of the tensors that there are. They tell the
            number of outputs where the labels are not known, and which of its
            optional layers a head of question answering has.
    """
    name = f"{portable.TASK_HEADS}/{task.name}"
    if task.kind == "qa":
        return _answering_shapes(name, hidden_size, there)
    outputs = 1 if task.kind == "regression" else len(task.labels)
    outputs = outputs or (there.get(f"{name}/dense/bias") or (1,))[-1]
    shapes = linear_shapes(f"{name}/dense", hidden_size, outputs)
    if task.has_hidden_layer:
        shapes |= linear_shapes(f"{name}/hidden", hidden_size, hidden_size)
    return shapes


def _answering_shapes(name: str, width: int, there: Shapes) -> Shapes:
    """Of `question_answering_head`: start, end, and what else there is."""
    layers = {
        path.split("/")[-2] for path in there if path.startswith(f"{name}/")
    }
    inner = question_answering_head.HIDDEN_SIZE
    is_joint = "qa_hidden" in layers
    shapes = linear_shapes(f"{name}/dense", width, 1)
    shapes |= linear_shapes(f"{name}/dense_1", inner if is_joint else width, 1)
    if is_joint:
        shapes |= linear_shapes(f"{name}/qa_hidden", 2 * width, inner)
    if "dense_3" in layers:
        shapes |= linear_shapes(f"{name}/dense_2", 2 * width, inner)
        shapes |= linear_shapes(f"{name}/dense_3", inner, 1)
    elif "dense_2" in layers:
        shapes |= linear_shapes(f"{name}/dense_2", width, 1)
    return shapes


def check(model: portable.PortableModel) -> None:
    """Raises `ModelError` unless a model has all tensors, finite, in shape."""
    if portable.MAIN not in model.parts:
        raise errors.ModelError(
            f"Expected a main encoder, `{portable.MAIN}/...`. Received: "
            f"{', '.join(model.parts) or 'nothing'} in {model.origin}."
        )
    received = {path: value.shape for path, value in model.tensors.items()}
    expected: Shapes = {}
    for part in model.parts:
        shapes = part_shapes(part, model.encoder, model.generator, model.tying)
        expected |= shapes or {}
    if model.task is not None:
        width = model.encoder.hidden_size
        expected |= task_shapes(model.task, width, received)
    problems = shape_problems(received, expected)
    for path, value in sorted(model.tensors.items()):
        if value.dtype != np.float32:
            problems.append(f"{path} holds {value.dtype}, expected float32")
        elif not np.isfinite(value).all():
            problems.append(f"{path} holds NaN or infinity")
    require_none(problems, model.origin)


def shape_problems(
    received: Mapping[str, tuple[int, ...]], expected: Shapes
) -> list[str]:
    """Paths that are missing, unknown, or of another shape, one line each."""
    problems = [f"{p} is missing" for p in sorted(expected.keys() - received)]
    problems += [
        f"{path} {received[path]} is not known"
        for path in sorted(received.keys() - expected)
    ]
    return problems + [
        f"{path} is {received[path]}, expected {expected[path]}"
        for path in sorted(expected.keys() & received)
        if received[path] != expected[path]
    ]


def require_none(problems: list[str], origin: str) -> None:
    """Raises `ModelError` if there are problems, and lists them all."""
    if problems:
        raise errors.ModelError(
            f"{origin} is not a whole model ({len(problems)} problems): "
            f"{'; '.join(problems)}. Take all its files again from where they "
            "come from."
        )


def generator_fractions(
    encoder: config.EncoderConfig, generator: config.EncoderConfig
) -> tuple[float, float]:
    """Width and depth of the generator as shares of the main encoder's."""
    return (
        generator.hidden_size / encoder.hidden_size,
        generator.num_hidden_layers / encoder.num_hidden_layers,
    )
