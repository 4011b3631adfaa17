"""Weights of any model as the start of a run, with a full account.

A second phase (longer rows), another corpus, or a released model: the run
starts from its weights with a fresh optimizer. Part by part (main encoder,
heads, generator) either every tensor is found in its shape, or the part stays
fresh and the report says so; half a part is an error. Two tables may have
another number of rows:

* positions: the first ones are taken, new ones keep their fresh values;
* tokens: rows follow their tokens. The new vocabulary has every token of the
  old one, in any order; rows of new tokens keep their fresh values.
"""

import collections
import dataclasses
import pathlib
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple
from typing import TypeVar

import numpy as np

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.formats import portable
from electra_tf.formats import reading
from electra_tf.formats import tokenizer_files
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints

_T = TypeVar("_T")
_POSITION_TABLE = "position_embeddings"
# Tables and vectors with a row for each token.
_TOKEN_TABLES = ("word_embeddings", "output_bias")
_NUM_SHOWN = 8
_NOWHERE = -1
# Sizes that tables may differ in, and what changes no result of inference.
_FREE = ("vocab_size", "max_position_embeddings", "hidden_dropout_prob",
         "attention_probs_dropout_prob", "initializer_range")  # fmt: skip
_NAMED_SIZES = ("embedding_size", "hidden_size", "num_hidden_layers",
                "num_attention_heads", "intermediate_size",
                "type_vocab_size")  # fmt: skip


class Target(NamedTuple):
    """The model that starts."""

    variables: Mapping[str, Any]  # by `variable.path`
    encoder: config.EncoderConfig  # the main one
    generator: config.EncoderConfig  # of its generator, if it has one
    vocabulary: vocabulary_lib.Vocabulary  # of the records that it will read


def warm_start(path: str | pathlib.Path, target: Target) -> str:
    """Sets variables to the weights of a model of any format.

    Returns:
        One paragraph: how many variables were restored, which were resized,
        which parts stay fresh, and which of the model found no place.

    Raises:
        FileNotFoundError: if there is no model.
        ValueError: if the model is damaged, if sizes or vocabularies do not
            fit (lists how). No variable has been changed then.
    """
    model = reading.read(path)
    rows = _token_rows(model, target.vocabulary)
    shared = set(model.parts) & set(map(portable.part_of, target.variables))
    if portable.MAIN not in shared:
        raise errors.ModelError(
            f"A run starts from the main encoder of {model.origin}. Received: "
            f"a run without one ({portable.MAIN})."
        )
    _require_sizes(model, target, shared)
    wanted = _take_parts(target.variables, shared)
    values = _take_parts(model.tensors, shared)
    notes = []
    for name in sorted(wanted.keys() & values):
        saved = values[name]
        values[name] = _fit(name, saved, np.asarray(wanted[name]), rows)
        if len(values[name]) != len(saved):
            notes.append(
                f"{name}: {len(saved)} rows became {len(values[name])}"
            )
    checkpoints.require_equal_layout(model.origin, values, wanted)
    for name, variable in wanted.items():
        variable.assign(values[name])
    counted = (
        f"restored {len(wanted)} of {len(target.variables)} variables from "
        f"{model.origin}"
    )
    notes += _leftovers(model, target, shared)
    return "; ".join([counted, *notes, *model.notes])


def _take_parts(named: Mapping[str, _T], parts: set[str]) -> dict[str, _T]:
    return {n: v for n, v in named.items() if portable.part_of(n) in parts}


def _leftovers(
    model: portable.PortableModel, target: Target, shared: set[str]
) -> list[str]:
    """Says which parts stay fresh and which are not used."""
    fresh, unused = (
        sorted(
            item
            for item in collections.Counter(map(portable.part_of, n)).items()
            if item[0] not in shared
        )
        for n in (target.variables, model.tensors)
    )
    return [
        *(f"{part} ({n} variables) stays fresh" for part, n in fresh),
        *(f"its {part} ({n} tensors) is not used" for part, n in unused),
    ]


def _token_rows(
    model: portable.PortableModel, vocabulary: vocabulary_lib.Vocabulary
) -> np.ndarray:
    """Returns where each token of the model stands in the new vocabulary."""
    own = model.vocabulary
    if own is None:
        raise errors.ModelError(
            f"The vocabulary of {model.origin} must lie beside it, because its "
            "rows are looked up by token. Received: none. Put its vocab.txt "
            "there (and tokenizer_config.json, if it is cased)."
        )
    effective = tokenizer_files.effective
    if effective(own.settings) != effective(vocabulary.settings):
        raise errors.ModelError(
            f"{model.origin} must have the tokenizer settings of the dataset, "
            f"{vocabulary.settings}. Received: {own.settings}. Build the "
            "dataset with those of the model."
        )
    places = {token: place for place, token in enumerate(vocabulary.tokens)}
    gone = [
        token
        for token in own.tokens
        if token not in places and not tokenizer_files.is_no_token(token)
    ]
    if gone:
        more = f" and {len(gone) - _NUM_SHOWN} more"
        raise errors.ModelError(
            "The dataset's vocabulary must have every token of "
            f"{model.origin}, in any order. Received: another vocabulary, of "
            f"{vocabulary.size} tokens, without {gone[:_NUM_SHOWN]}"
            f"{more if len(gone) > _NUM_SHOWN else ''}. Build the dataset with "
            "the model's vocabulary, or with an extension of it."
        )
    return np.array([places.get(token, _NOWHERE) for token in own.tokens])


def _require_sizes(
    model: portable.PortableModel, target: Target, shared: set[str]
) -> None:
    """Raises `ModelError` with flags that give the model's sizes."""
    own = _flags("encoder", model.encoder, _NAMED_SIZES)
    _require_same(model, model.encoder, target.encoder, own)
    if model.generator and shared & {portable.GENERATOR, *portable.TOWER_PARTS}:
        # A config gives width and depth as fractions.
        names = ("generator_hidden_size", "generator_layers",
                 "num_attention_heads", "intermediate_size")  # fmt: skip
        own = _flags("generator", portable.generator_settings(model), names)
        _require_same(model, model.generator, target.generator, own)


def _flags(section: str, settings: Any, names: Iterable[str]) -> list[str]:
    return [f"--config.{section}.{n}={getattr(settings, n)}" for n in names]


def _require_same(
    model: portable.PortableModel,
    found: config.EncoderConfig,
    wanted: config.EncoderConfig,
    flags: list[str],
) -> None:
    free = {name: getattr(found, name) for name in _FREE}
    wrong = schema.find_differences(found, dataclasses.replace(wanted, **free))
    if wrong:
        section = flags[0].split(".")[1]
        raise errors.ModelError(
            f"The config's {section} must have the sizes of {model.origin}. "
            f"Received (the model's, the config's): {'; '.join(wrong)}. Set "
            f"{' '.join(flags)}"
        )


def _fit(
    name: str, saved: np.ndarray, fresh: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Returns the saved rows in their places among the fresh ones."""
    if saved.shape[1:] != fresh.shape[1:]:
        return saved
    if name.endswith(_POSITION_TABLE):
        shared = min(len(saved), len(fresh))
        return np.concatenate([saved[:shared], fresh[shared:]])
    if name.endswith(_TOKEN_TABLES):
        moved = fresh.copy()
        has_place = rows != _NOWHERE
        moved[rows[has_place]] = saved[has_place]
        return moved
    return saved
