"""Models of any format, told by what lies in their folder, and their layers."""

import pathlib
from collections.abc import Iterable
from typing import Any

import keras

from electra_tf import errors
from electra_tf import installed
from electra_tf.config import schema
from electra_tf.formats import hugging_face
from electra_tf.formats import keras_hub_preset
from electra_tf.formats import original_model
from electra_tf.formats import own_run
from electra_tf.formats import portable
from electra_tf.modeling import layers
from electra_tf.modeling import networks
from electra_tf.training import checkpoints

FORMATS = ("tf1", "electra_tf", "huggingface", "keras_hub")
TF1, OURS, HUGGING_FACE, KERAS_HUB = FORMATS
_MODULES: Any = {
    TF1: original_model,
    OURS: own_run,
    HUGGING_FACE: hugging_face,
    KERAS_HUB: keras_hub_preset,
}


def detect(path: str | pathlib.Path) -> str:
    """Finds out the format of what lies at a path."""
    path = pathlib.Path(path)
    if (path.parent / f"{path.name}.index").is_file():
        return TF1
    if not path.is_dir():
        raise FileNotFoundError(
            "A model is a folder, the prefix of a TF1 checkpoint, or one that "
            f"comes along ({', '.join(installed.model_names()) or 'none'}). "
            f"Received: {path}, which is nothing of these. Mind its spelling "
            "and the folder that you are in."
        )
    if own_run.is_trial(path):
        raise errors.ModelError(
            f"{path} must hold a pre-trained model. Received: a fine-tuned "
            "trial of ours, which scripts/export_saved_model.py and "
            "scripts/convert_checkpoint.py take."
        )
    if own_run.is_folder(path):
        return OURS
    if keras_hub_preset.is_folder(path):
        return KERAS_HUB
    if hugging_face.is_folder(path):
        return HUGGING_FACE
    if any(path.glob("*.index")):
        return TF1
    raise errors.ModelError(
        f"{path} must hold a model: a run of ours (config.json, checkpoints/), "
        "a Hugging Face model (config.json, model.safetensors), a KerasHub "
        "preset (config.json, model.weights.h5) or a TF1 checkpoint (*.index). "
        f"Received: {', '.join(sorted(p.name for p in path.iterdir())[:8])}."
    )


def read(
    path: str | pathlib.Path, format_name: str = ""
) -> portable.PortableModel:
    """Reads a model of any format.

    Args:
        path: a folder, the prefix of a TF1 checkpoint, or the name of a model
            that comes along.
        format_name: one of `FORMATS`; empty to find out.

    Raises:
        FileNotFoundError: if there is nothing, or a file is missing.
        ValueError: for a format that there is not, or a model that is
            damaged, partial or of another kind (says what).
    """
    found = installed.find_model(path)
    format_name = format_name or detect(found)
    schema.require_choice("format", format_name, FORMATS)
    return _MODULES[format_name].read(found)


def write(
    model: portable.PortableModel, format_name: str, folder: pathlib.Path
) -> portable.PortableModel:
    """Writes a pre-trained or fine-tuned model into an empty folder."""
    return _MODULES[format_name].write(model, folder)


def build_towers(
    model: portable.PortableModel, precision: str = "float32"
) -> networks.Networks:
    """Builds the towers of a pre-trained model, with their weights.

    Returns:
        `main` is a `Discriminator`, or a `MaskedLMGenerator` where there is
        none; `generator` is None for a model of one tower. What they share in
        the model they share here.
    """
    dtype = layers.dtype_policy(precision)
    if portable.REPLACED_TOKEN_HEAD in model.parts:
        main = networks.Discriminator(model.encoder, dtype=dtype)
    elif portable.MASKED_LM_HEAD in model.parts:
        main = networks.MaskedLMGenerator(
            model.encoder,
            portable.MASKED_LM_HEAD,
            networks.MAIN_ENCODER,
            dtype=dtype,
        )
    else:
        raise errors.ModelError(
            "A tower needs a head, for replaced or for masked tokens. "
            f"Received: {model.origin} with {', '.join(model.parts)} alone."
        )
    generator, variables = None, list(main.variables)
    if model.generator is not None:
        generator = networks.build_sized_generator(
            model.generator,
            main.encoder,
            model.tying,
            is_two_tower=portable.TOWER_PARTS[0] in model.parts,
            dtype=dtype,
        )
        variables += generator.variables
    assign(variables, model)
    return networks.Networks(generator, main)


def assign(
    variables: Iterable[keras.Variable], model: portable.PortableModel
) -> None:
    """Puts the weights of a model into variables of its sizes."""
    named = {variable.path: variable for variable in variables}
    values = {p: v for p, v in model.tensors.items() if p in named}
    checkpoints.require_equal_layout(model.origin, values, named)
    for path, variable in named.items():
        variable.assign(values[path])
