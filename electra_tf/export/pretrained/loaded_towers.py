"""Towers of a model in any format, ready to answer."""

import os
import pathlib
from typing import Any
from typing import NamedTuple

from electra_tf import config
from electra_tf.config import sections as config_sections
from electra_tf.formats import portable
from electra_tf.formats import reading
from electra_tf.formats import tokenizer_files
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import generators
from electra_tf.modeling import layers
from electra_tf.modeling import towers as towers_lib
from electra_tf.text import vocabulary as vocabulary_lib

# Their heads are neither a discriminator's nor a masked language model's.
_OTHER_HEADS = ("replace_mlm", "all_tokens_mlm")
_HEADS = {portable.REPLACED_TOKEN_HEAD, portable.MASKED_LM_HEAD}


class EncoderTower:
    """A main tower that is an encoder and nothing else.

    Args:
        encoder: with its weights.
    """

    def __init__(self, encoder: encoder_lib.Encoder) -> None:
        self.encoder = encoder
        self.variables = encoder.variables


class LoadedTowers(NamedTuple):
    """Towers and what belongs to them.

    Attributes:
        towers: with weights; `main` is an `EncoderTower` where the files hold
            no head of pre-training.
        settings: sizes of the main encoder.
        vocabulary: what the ids mean.
        generator_settings: sizes of the generator's encoder, if it has one.
        objective: that it was trained with; empty where the files do not say.
        origin: one line, where the weights come from.
        notes: what was left out or changed in reading, one line each.
    """

    towers: towers_lib.Towers
    settings: config.EncoderConfig
    vocabulary: vocabulary_lib.Vocabulary
    generator_settings: config.EncoderConfig | None
    objective: str
    origin: str
    notes: tuple[str, ...]


def load_towers(
    path: str | os.PathLike[str],
    format: str = "",
    generator_path: str | os.PathLike[str] | None = None,
    precision: str = "float32",
) -> LoadedTowers:
    """The towers of one model, or of two that belong together.

    Args:
        path: of the model.
        format: its format; empty finds out.
        generator_path: of a model whose masked language model takes the place
            of the generator.
        precision: of the products, one of `config.PRECISIONS`.

    Raises:
        FileNotFoundError: if there is nothing.
        ValueError: for another precision, if a model cannot be read as a
            whole or has no vocabulary, or if the two do not fit each other.
    """
    config_sections.require_choice("precision", precision, config.PRECISIONS)
    model = reading.read(pathlib.Path(path), format)
    vocabulary = _require_vocabulary(model)
    towers, notes = _build(model, precision)
    sizes = model.generator
    if generator_path is not None:
        second = reading.read(pathlib.Path(generator_path))
        others = _require_vocabulary(second)
        if not tokenizer_files.are_alike(vocabulary, others):
            raise ValueError(
                "A generator must have the vocabulary of the model that it is "
                f"loaded with. Received: {model.origin}; and {second.origin} "
                "with other tokens or settings."
            )
        extra, more_notes = _build(second, precision)
        generator, sizes = _take_masked_lm(extra, second)
        towers = towers._replace(generator=generator)
        notes += more_notes
    return LoadedTowers(
        towers,
        model.encoder,
        vocabulary,
        sizes,
        model.objective,
        model.origin,
        notes,
    )


def _build(
    model: portable.PortableModel, precision: str
) -> tuple[towers_lib.Towers, tuple[str, ...]]:
    """The towers, and what there is to tell of them."""
    if _HEADS & set(model.parts) and model.objective not in _OTHER_HEADS:
        return reading.build_towers(model, precision), model.notes
    encoder = encoder_lib.build_encoder(
        model.encoder,
        towers_lib.MAIN_ENCODER,
        dtype=layers.dtype_policy(precision),
    )
    tower = towers_lib.Towers(None, EncoderTower(encoder))
    reading.assign(encoder.variables, model)
    left_out = sorted(set(model.parts) - {portable.MAIN})
    if not left_out:
        return tower, model.notes
    note = f"the encoder alone was loaded, without {', '.join(left_out)}"
    return tower, (*model.notes, note)


def _require_vocabulary(
    model: portable.PortableModel,
) -> vocabulary_lib.Vocabulary:
    if model.vocabulary is None:
        raise ValueError(
            "A model must come with its vocabulary, or its ids would mean "
            f"nothing. Received: none ({model.origin}). Put vocab.txt, and "
            "tokenizer_config.json for a cased one, beside the weights."
        )
    return model.vocabulary


def _take_masked_lm(
    towers: towers_lib.Towers, model: portable.PortableModel
) -> tuple[Any, config.EncoderConfig | None]:
    """The masked language model of a model, and its sizes."""
    if towers.generator is not None:
        return towers.generator, model.generator
    if isinstance(towers.main, generators.MaskedLMGenerator):
        return towers.main, model.encoder
    raise ValueError(
        "`generator_path` must hold a masked language model. Received: "
        f"{model.origin}, a model without one."
    )
