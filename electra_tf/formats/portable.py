"""A model outside of any framework: named arrays, sizes, vocabulary.

Every reader makes a `PortableModel` and every writer takes one, so n formats
need n readers and n writers. Its tensors have our names (`variable.path`) and
layouts; the first part of a name says which part of the model it belongs to.
"""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any
from typing import TypeVar

import ml_dtypes
import numpy as np

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.text import vocabulary as vocabulary_lib

Tensors = Mapping[str, np.ndarray]
_T = TypeVar("_T")

MAIN = "electra"
GENERATOR = "generator"
TOWER_PARTS = ("generator_ltr", "generator_rtl")
"""The encoders of a two-tower generator."""
REPLACED_TOKEN_HEAD = "discriminator_predictions"
MASKED_LM_HEAD = "generator_predictions"
TASK_HEADS = "task_specific"
_EMBEDDINGS = f"{MAIN}/embeddings"


@dataclasses.dataclass(frozen=True)
class PortableTask:
    """What a fine-tuned model was trained for."""

    name: str  # as in the paths of its head, `task_specific/<name>/`
    kind: str  # one of `finetuning_config.OWN_KINDS`
    # In the order of the outputs; empty if there are none or files do not say.
    labels: tuple[str, ...] = ()
    # Of classification and regression: whether a dense layer with gelu stands
    # before the output layer, as in Hugging Face.
    has_hidden_layer: bool = False
    # Of regression, which values an output of 0 and of 1 mean.
    value_range: tuple[float, float] = (0.0, 1.0)
    has_pairs: bool = False  # of a task called `own`; of others it is known

    @property
    def head(self) -> str:
        """Returns the beginning of the paths of its head."""
        return f"{TASK_HEADS}/{self.name}"


@dataclasses.dataclass(frozen=True)
class PortableModel:
    """A pre-trained or fine-tuned model."""

    tensors: Tensors  # our path to float32 array
    encoder: config.EncoderConfig  # the main one; `vocab_size` is the table's
    generator: config.EncoderConfig | None = None  # None where there is none
    # What generator and encoder share: `none`, `embeddings` or `all`.
    tying: str = "embeddings"
    vocabulary: vocabulary_lib.Vocabulary | None = None  # if the files hold one
    task: PortableTask | None = None  # of a fine-tuned model
    objective: str = ""  # as in the config; empty where files do not say
    step: int = 0  # updates made, 0 where files do not say
    origin: str = ""  # one line that says where it was read
    notes: tuple[str, ...] = ()  # what was left out or changed in reading

    @property
    def parts(self) -> tuple[str, ...]:
        """Returns the first parts of the tensors' names, sorted."""
        return tuple(sorted(set(map(part_of, self.tensors))))

    def with_notes(self, *notes: str) -> "PortableModel":
        """Returns the same model with more notes."""
        return dataclasses.replace(self, notes=self.notes + notes)


def part_of(path: str) -> str:
    """Returns the part of the model that a path belongs to."""
    return path.split("/")[0]


def rename_part(tensors: Tensors, old: str, new: str) -> dict[str, np.ndarray]:
    """Returns the tensors below `old/`, with `new` in its place."""
    return {
        new + path.removeprefix(old): value
        for path, value in tensors.items()
        if path.startswith(f"{old}/")
    }


def take_part(tensors: Tensors, part: str) -> dict[str, np.ndarray]:
    """Returns the tensors below `part/`."""
    return rename_part(tensors, part, part)


def build_known(
    kind: type[_T], stated: Mapping[str, Any], file: pathlib.Path
) -> _T:
    """Builds what is known of another project's JSON file."""
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    known = {name: stated[name] for name in stated if name in names}
    return schema.build(kind, known, str(file), errors.ModelError)


def round_weights(model: PortableModel) -> PortableModel:
    """Rounds weights to numbers that bfloat16 holds; they stay float32.

    They are rounded to nearest, ties to even: by 1/256 of their size at most.
    """
    tensors = {
        path: value.astype(ml_dtypes.bfloat16).astype(np.float32)
        for path, value in model.tensors.items()
    }
    return dataclasses.replace(model, tensors=tensors).with_notes(
        "weights were rounded to bfloat16"
    )


def describe(model: PortableModel) -> list[str]:
    """Lists for people what a model has: a line for each part, then notes."""
    lines = [model.origin]
    for part in (*model.parts, ""):
        tensors = take_part(model.tensors, part) if part else model.tensors
        size = sum(value.size for value in tensors.values())
        lines.append(f"  {part:<26} {len(tensors):>4} tensors {size:>12,}")
    return lines + [f"  note: {note}" for note in model.notes]


def split(model: PortableModel) -> dict[str, PortableModel]:
    """Splits a discriminator and its generator into two models.

    Each gets the embeddings that they share, because Hugging Face knows one
    encoder at a time.

    Returns:
        The models `discriminator` and `generator`, a masked LM; for a model of
        one encoder, that alone under `.`.
    """
    if model.generator is None:
        return {".": model}
    encoder = rename_part(
        model.tensors, MAIN if model.tying == "all" else GENERATOR, MAIN
    )
    if model.tying == "embeddings":
        encoder |= take_part(model.tensors, _EMBEDDINGS)
    others = {
        path: value
        for path, value in model.tensors.items()
        if part_of(path) not in (GENERATOR, MASKED_LM_HEAD)
    }
    alone = dataclasses.replace(model, generator=None, tying="embeddings")
    return {
        "discriminator": dataclasses.replace(alone, tensors=others),
        "generator": dataclasses.replace(
            alone,
            tensors=encoder | take_part(model.tensors, MASKED_LM_HEAD),
            encoder=model.generator,
        ),
    }


def join(main: PortableModel, generator: PortableModel) -> PortableModel:
    """Joins a discriminator and its generator, the reverse of `split`.

    Weights that are equal in both become shared ones.
    """
    # More would come along unseen, or be overwritten.
    for model, head in ((main, REPLACED_TOKEN_HEAD),
                        (generator, MASKED_LM_HEAD)):  # fmt: skip
        if model.parts != tuple(sorted((head, MAIN))):
            raise errors.ModelError(
                "A discriminator is joined with its generator, each with its "
                f"own head alone, here {head}. Received: {model.origin} with "
                f"{', '.join(model.parts)}. Leave other parts out."
            )
    if main.vocabulary != generator.vocabulary:
        raise errors.ModelError(
            "Both models must have one vocabulary and tokenizer settings. "
            f"Received: different ones in {main.origin} and "
            f"{generator.origin}."
        )
    tying = _find_tying(main, generator)
    own = rename_part(generator.tensors, MAIN, GENERATOR)
    if tying == "all":
        own = {}
    elif tying == "embeddings":
        own = {p: v for p, v in own.items() if "/embeddings/" not in p}
    head_tensors = take_part(generator.tensors, MASKED_LM_HEAD)
    return dataclasses.replace(
        main,
        tensors={**main.tensors, **own, **head_tensors},
        generator=generator.encoder,
        tying=tying,
        step=max(main.step, generator.step),
        origin=f"{main.origin} and {generator.origin}",
        notes=tuple(dict.fromkeys(main.notes + generator.notes)),
    )


def _find_tying(main: PortableModel, generator: PortableModel) -> str:
    if main.encoder == generator.encoder and _share(main, generator, MAIN):
        return "all"
    if _share(main, generator, _EMBEDDINGS):
        return "embeddings"
    sizes = generator.encoder
    if sizes.embedding_size != sizes.hidden_size:
        raise errors.ModelError(
            "A generator with embeddings of its own must have them of its own "
            f"width. Received: {generator.origin}, embedding_size="
            f"{sizes.embedding_size}, hidden_size={sizes.hidden_size}, and "
            f"other embeddings than {main.origin}. Convert the two one by one."
        )
    return "none"


def _share(one: PortableModel, other: PortableModel, part: str) -> bool:
    mine, theirs = (take_part(model.tensors, part) for model in (one, other))
    return mine.keys() == theirs.keys() and all(
        np.array_equal(mine[path], theirs[path]) for path in mine
    )
