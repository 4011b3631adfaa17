"""Layers with the weights of a portable model."""

import numpy as np

from electra_tf import errors
from electra_tf.formats import portable
from electra_tf.modeling import layers
from electra_tf.modeling import towers
from electra_tf.training import checkpoints


def build_towers(
    model: portable.PortableModel, precision: str = "float32"
) -> towers.Towers:
    """The towers of a pre-trained model, with their weights.

    Args:
        model: a discriminator, a masked language model, or both.
        precision: of the products, one of `config.PRECISIONS`.

    Returns:
        `main` is a `Discriminator`, or a `MaskedLMGenerator` where there is
        none; `generator` is None for a model of one tower. What they share in
        the model they share here.

    Raises:
        ModelError: if the model has neither head.
    """
    dtype = layers.dtype_policy(precision)
    if portable.REPLACED_TOKEN_HEAD in model.parts:
        main = towers.build_discriminator(model.encoder, dtype)
    elif portable.MASKED_LM_HEAD in model.parts:
        main = towers.build_masked_lm(
            model.encoder, portable.MASKED_LM_HEAD, dtype
        )
    else:
        raise errors.ModelError(
            "A tower needs a head, for replaced or for masked tokens. "
            f"Received: {model.origin} with {', '.join(model.parts)} alone."
        )
    generator = None
    if model.generator is not None:
        generator = towers.build_sized_generator(
            model.generator,
            main.encoder,
            model.tying,
            is_two_tower="generator_ltr" in model.parts,
            dtype=dtype,
        )
    built = towers.Towers(generator, main)
    assign(built, model.tensors)
    return built


def assign(built: towers.Towers, tensors: portable.Tensors) -> None:
    """Puts the weights of a model into towers of its sizes.

    Args:
        built: both towers, or one.
        tensors: our path to array; those of other parts are left out.

    Raises:
        ModelError: if a weight is missing or has another shape.
    """
    variables = {v.path: v for v in built.main.variables}
    if built.generator is not None:
        variables |= {v.path: v for v in built.generator.variables}
    values = {path: np.asarray(tensors[path])
              for path in variables if path in tensors}  # fmt: skip
    checkpoints.require_equal_layout("the model", values, variables)
    for path, variable in variables.items():
        variable.assign(values[path])
