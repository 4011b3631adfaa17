"""Which tensors a model of given sizes has, and in which shapes.

Sizes: B, S, D, E, V as in `modeling/encoder.py`. This is written without
layers, so that a file is checked before anything is built; a test compares it
with the variables that the layers make.
"""

import numpy as np

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.formats import portable
from electra_tf.modeling import task_heads

Shapes = dict[str, tuple[int, ...]]
_NUM_SHOWN = 20


def linear_shapes(name: str, num_in: int, num_out: int) -> Shapes:
    """Returns the shapes of a `layers.Linear`."""
    return {f"{name}/kernel": (num_in, num_out), f"{name}/bias": (num_out,)}


def _norm_shapes(name: str, width: int) -> Shapes:
    return {f"{name}/gamma": (width,), f"{name}/beta": (width,)}


def encoder_shapes(
    name: str, sizes: config.EncoderConfig, has_embeddings: bool = True
) -> Shapes:
    """Returns the shapes of an encoder, which may have no embeddings."""
    width, inner = sizes.hidden_size, sizes.intermediate_size
    table, narrow = f"{name}/embeddings", sizes.embedding_size
    shapes: Shapes = {}
    if has_embeddings:
        shapes = {
            f"{table}/word_embeddings": (sizes.vocab_size, narrow),
            f"{table}/position_embeddings": (
                sizes.max_position_embeddings,
                narrow,
            ),
            f"{table}/token_type_embeddings": (sizes.type_vocab_size, narrow),
            **_norm_shapes(f"{table}/LayerNorm", narrow),
        }
    if narrow != width:
        shapes |= linear_shapes(f"{name}/embeddings_project", narrow, width)
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
    """Returns the shapes of a head that scores the vocabulary."""
    width = sizes.embedding_size
    return {
        **linear_shapes(f"{name}/dense", num_states * sizes.hidden_size, width),
        **_norm_shapes(f"{name}/LayerNorm", width),
        f"{name}/output_bias": (sizes.vocab_size,),
    }


def part_shapes(
    part: str,
    encoder: config.EncoderConfig,
    generator: config.EncoderConfig | None,
    tying: str,
) -> Shapes | None:
    """Returns the shapes of one part of a model; None for an unknown part."""
    # A head without a generator's encoder belongs to the main one.
    proposing = generator or encoder
    width = encoder.hidden_size
    if part == portable.MAIN:
        return encoder_shapes(part, encoder)
    if part == portable.GENERATOR or part in portable.TOWER_PARTS:
        return encoder_shapes(part, proposing, tying == "none")
    if part == portable.REPLACED_TOKEN_HEAD:
        shapes = linear_shapes(f"{part}/dense", width, width)
        return shapes | linear_shapes(f"{part}/dense_1", width, 1)
    if part == portable.MASKED_LM_HEAD:
        return _vocabulary_head_shapes(part, proposing)
    if part == "cloze_predictions":
        return _vocabulary_head_shapes(part, proposing, num_states=2)
    if part == "masked_lm_predictions":
        return _vocabulary_head_shapes(part, encoder)
    if part == "copy_predictions":
        return linear_shapes(f"{part}/dense", width, 1)
    if part == "reward_baseline":
        return linear_shapes(part, proposing.hidden_size, 1)
    return None


def task_shapes(
    task: portable.PortableTask, hidden_size: int, there: Shapes
) -> Shapes:
    """Returns the shapes of a fine-tuned head.

    Args:
        task: of the model.
        hidden_size: of the encoder, D.
        there: path to shape of the tensors that there are. They tell the
            number of outputs where the labels are not known, and which of its
            optional layers a head of question answering has.
    """
    name = task.head
    if task.kind == "qa":
        return _answering_shapes(name, hidden_size, there)
    outputs = 1 if task.kind == "regression" else len(task.labels)
    outputs = outputs or (there.get(f"{name}/dense/bias") or (1,))[-1]
    shapes = linear_shapes(f"{name}/dense", hidden_size, outputs)
    if task.has_hidden_layer:
        shapes |= linear_shapes(f"{name}/hidden", hidden_size, hidden_size)
    return shapes


def _answering_shapes(name: str, width: int, there: Shapes) -> Shapes:
    """Returns the shapes of a head of question answering."""
    layers = {
        path.split("/")[-2] for path in there if path.startswith(f"{name}/")
    }
    inner = task_heads.QA_HIDDEN_SIZE
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


def expected_shapes(model: portable.PortableModel) -> Shapes:
    """Returns the shapes that all known parts of a model must have."""
    expected: Shapes = {}
    for part in (portable.MAIN, *model.parts):
        shapes = part_shapes(part, model.encoder, model.generator, model.tying)
        expected |= shapes or {}
    if model.task is not None:
        there = {path: value.shape for path, value in model.tensors.items()}
        expected |= task_shapes(model.task, model.encoder.hidden_size, there)
    return expected


def check(model: portable.PortableModel) -> None:
    """Raises `ModelError` unless a model has all tensors, finite, in shape."""
    if portable.MAIN not in model.parts:
        raise errors.ModelError(
            f"Expected a main encoder, `{portable.MAIN}/...`. Received: "
            f"{', '.join(model.parts) or 'nothing'} in {model.origin}."
        )
    tensors, expected = model.tensors, expected_shapes(model)
    problems = []
    for path, value in sorted(tensors.items()):
        if path not in expected:
            problems.append(f"{path} {value.shape} is not known")
        elif value.shape != expected[path]:
            problems.append(
                f"{path} is {value.shape}, expected {expected[path]}"
            )
        elif value.dtype != np.float32:
            problems.append(f"{path} holds {value.dtype}, expected float32")
        elif not np.isfinite(value).all():
            problems.append(f"{path} holds NaN or infinity")
    problems += [f"{p} is missing" for p in sorted(expected.keys() - tensors)]
    require_none(problems, model.origin)


def require_none(problems: list[str], origin: str) -> None:
    """Raises `ModelError` if there are problems, and lists the first."""
    if problems:
        more = " ..." if len(problems) > _NUM_SHOWN else ""
        raise errors.ModelError(
            f"{origin} is not a whole model of its sizes ({len(problems)} "
            f"problems): {'; '.join(problems[:_NUM_SHOWN])}{more}. Are all its "
            "files of the same model? Take them again from where they come "
            "from."
        )


def generator_settings(
    model: portable.PortableModel,
) -> config.GeneratorConfig:
    """Returns the section of a config that describes a model's generator."""
    encoder, generator = model.encoder, model.generator
    if generator is None:
        return config.GeneratorConfig()
    if model.tying == "all":
        return config.GeneratorConfig(untied_generator=False)
    return config.GeneratorConfig(
        generator_hidden_size=generator.hidden_size / encoder.hidden_size,
        generator_layers=generator.num_hidden_layers
        / encoder.num_hidden_layers,
        num_attention_heads=generator.num_attention_heads,
        intermediate_size=generator.intermediate_size,
        untied_generator_embeddings=model.tying == "none",
        two_tower_generator=portable.TOWER_PARTS[0] in model.parts,
    )


def require_generator(
    model: portable.PortableModel, settings: config.ExperimentConfig, rule: str
) -> None:
    """Raises `ModelError` unless a config describes the model's generator."""
    if model.generator is None:
        return
    derived = settings.generator.encoder_config(settings.encoder)
    wrong = schema.find_differences(model.generator, derived)
    if wrong:
        raise errors.ModelError(
            f"{rule}. Received: {model.origin}, whose generator has other "
            f"sizes (its own, and by this rule): {'; '.join(wrong)}."
        )
