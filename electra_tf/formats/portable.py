"""A model outside of any framework: named arrays, sizes, vocabulary.

Every reader makes a `PortableModel` and every writer takes one, so n formats
need n readers and n writers. Tensors have our names (`variable.path`) and
layouts; a name begins with the part of the model, for example `generator/`.
"""

import contextlib
import dataclasses
import functools
import pathlib
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import networks
from electra_tf.objectives import base as objective_base
from electra_tf.objectives import registry
from electra_tf.tasks import base
from electra_tf.text import vocabulary as vocabulary_lib

Tensors = Mapping[str, np.ndarray]
Arrays = dict[str, np.ndarray]
Shapes = dict[str, tuple[int, ...]]
_T = TypeVar("_T")

MAIN = "electra"
GENERATOR = "generator"
TOWER_PARTS = ("generator_ltr", "generator_rtl")
"""The encoders of a two-tower generator."""
REPLACED_TOKEN_HEAD = "discriminator_predictions"
MASKED_LM_HEAD = "generator_predictions"
TASK_HEADS = "task_specific"

# Heads of the generator; without a generator, of the main encoder.
_GENERATOR_HEADS: dict[str, Any] = {
    MASKED_LM_HEAD: networks.MaskedLMHead,
    "cloze_predictions": lambda sizes, **kwargs: networks.MaskedLMHead(
        networks.join_towers(sizes), **kwargs
    ),
}
_NUM_SHOWN = 4
FLOATS = ("float16", "bfloat16", "float32", "float64")
"""Dtypes of weights; those of quantized models are refused."""


@dataclasses.dataclass(frozen=True)
class PortableTask:
    """The task of a fine-tuned model."""

    name: str  # as in the paths of its head, `task_specific/<name>/`
    kind: str  # see `tasks.base.find_kind`
    # In the order of the outputs; empty if there are none, or if not known.
    labels: tuple[str, ...] = ()
    # Whether a head on [CLS] has a dense layer with gelu before the output
    # layer, as in Hugging Face.
    has_hidden_layer: bool = False
    has_pairs: bool = False  # set for the task `own` only
    options: Any = None  # the kind's `options_class`; None: its defaults

    def __post_init__(self) -> None:
        if self.options is None:
            options = base.find_kind(self.kind).options_class()
            object.__setattr__(self, "options", options)

    @property
    def head(self) -> str:
        """The prefix of the head's paths."""
        return f"{TASK_HEADS}/{self.name}"


@dataclasses.dataclass(frozen=True)
class PortableModel:
    """A pre-trained or fine-tuned model."""

    tensors: Tensors  # float32 arrays by our paths
    encoder: config.EncoderConfig  # the main one, with the table's vocab_size
    generator: config.EncoderConfig | None = None
    # Weights that the generator shares with it: `none`, `embeddings` or `all`.
    tying: str = "embeddings"
    vocabulary: vocabulary_lib.Vocabulary | None = None  # if the files hold one
    task: PortableTask | None = None  # of a fine-tuned model
    objective: str = ""  # as in the config; empty if not known
    step: int = 0  # number of updates; 0 if not known
    origin: str = ""  # format and path, in one line
    notes: tuple[str, ...] = ()  # changes and omissions of the reader
    history: Any = None  # `portable_trial.History` of a trial

    @property
    def trained_by(self) -> type[objective_base.PretrainingModel]:
        """The class of the objective, inferred from the heads if not known."""
        is_masked_lm = MASKED_LM_HEAD in self.parts and not self.has_both_heads
        usual = registry.MASKED_LM if is_masked_lm else registry.DETECTION
        name = self.objective or usual
        # A downloaded model must not choose which code is imported.
        if name in registry.NAMES or name in sys.modules:
            with contextlib.suppress(errors.ConfigError):
                return registry.find_class(name)
        return registry.find_class(registry.DETECTION)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the model, sorted."""
        return tuple(sorted(set(map(part_of, self.tensors))))

    @property
    def generator_parts(self) -> list[str]:
        """The generator's own encoders; two of a two-tower generator."""
        return [p for p in (GENERATOR, *TOWER_PARTS) if p in self.parts]

    @property
    def has_both_heads(self) -> bool:
        """Whether there are heads of both discriminator and generator."""
        return {REPLACED_TOKEN_HEAD, MASKED_LM_HEAD} <= set(self.parts)

    def require_vocabulary(self) -> vocabulary_lib.Vocabulary:
        """Returns the vocabulary; raises `ModelError` if there is none."""
        if self.vocabulary is None:
            raise errors.ModelError(
                "A model needs the vocabulary of its training. Received: none "
                f"beside {self.origin}. Put its vocab.txt there (and "
                "tokenizer_config.json, if it is cased), or use --vocab_file."
            )
        return self.vocabulary

    def with_notes(self, *notes: str) -> "PortableModel":
        """Returns the same model with more notes."""
        return dataclasses.replace(self, notes=self.notes + notes)


def describe_task(
    task: base.Task, labels: tuple[str, ...], conventions: Any = None
) -> PortableTask:
    """Describes a task of the catalog for a trained model."""
    is_own = task.name == base.OWN
    return PortableTask(
        task.name,
        task.kind,
        labels,
        task.has_hidden_layer,
        is_own and task.has_pairs and task.takes_pairs,
        task.options(conventions),
    )


def part_of(path: str) -> str:
    """Returns the part of the model that a path belongs to."""
    return path.split("/")[0]


def rename_part(tensors: Mapping[str, _T], old: str, new: str) -> dict[str, _T]:
    """Returns only the tensors below `old/`, renamed to `new/`."""
    return {
        new + path.removeprefix(old): value
        for path, value in tensors.items()
        if path.startswith(f"{old}/")
    }


def replace_part(tensors: Tensors, old: str, new: str) -> Arrays:
    """Returns all tensors; renames those below `old/` to `new/`."""
    return drop_part(tensors, old) | rename_part(tensors, old, new)


def take_part(tensors: Mapping[str, _T], part: str) -> dict[str, _T]:
    """Returns the tensors below `part/`."""
    return rename_part(tensors, part, part)


def drop_part(tensors: Mapping[str, _T], part: str) -> dict[str, _T]:
    """Returns the tensors that are not below `part/`."""
    return {p: tensors[p] for p in tensors if not p.startswith(f"{part}/")}


def peek(path: pathlib.Path) -> dict[str, Any]:
    """Returns the object in a JSON file; an empty one if there is none."""
    try:
        return schema.read_object(path)
    except (OSError, ValueError):
        return {}


def build_known(
    kind: type[_T], content: Mapping[str, Any], file: pathlib.Path
) -> _T:
    """Builds a dataclass from the fields that it knows of a JSON object."""
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    known = {name: content[name] for name in content if name in names}
    return schema.build(kind, known, str(file), errors.ModelError)


def round_weights(model: PortableModel) -> PortableModel:
    """Rounds weights to bfloat16 (as float32 arrays) and drops old scores."""
    tensors = {
        path: value.astype(ml_dtypes.bfloat16).astype(np.float32)
        for path, value in model.tensors.items()
    }
    history = model.history and model.history._replace(result=None)
    return dataclasses.replace(
        model, tensors=tensors, history=history
    ).with_notes("weights were rounded to bfloat16")


def state_initializers(
    model: PortableModel, is_shared: bool = False
) -> PortableModel:
    """Replaces an `initializer_range` of 0 by the number that it stands for.

    With `is_shared`, the generator gets the main encoder's number.
    """
    stddev = model.encoder.initializer_stddev
    encoder = dataclasses.replace(model.encoder, initializer_range=stddev)
    generator = model.generator
    if generator is not None:
        own = stddev if is_shared else generator.initializer_stddev
        generator = dataclasses.replace(generator, initializer_range=own)
    return dataclasses.replace(model, encoder=encoder, generator=generator)


def describe(model: PortableModel) -> list[str]:
    """Lists the parts of a model for users, a line for each, and notes."""
    lines = [model.origin]
    for part in (*model.parts, ""):
        tensors = take_part(model.tensors, part) if part else model.tensors
        size = sum(value.size for value in tensors.values())
        lines.append(f"  {part:<26} {len(tensors):>4} tensors {size:>12,}")
    return lines + [f"  note: {note}" for note in model.notes]


def linear_shapes(path: str, width: int, units: int) -> Shapes:
    """Returns the shapes of a linear layer."""
    return {f"{path}/kernel": (width, units), f"{path}/bias": (units,)}


def _built_shapes(layer: Any, *input_shape: int | None) -> Shapes:
    """Returns the shapes of a layer's variables without allocating them."""
    with tf.Graph().as_default():
        layer.build(input_shape)
        return {v.path: tuple(v.shape) for v in layer.variables}


def part_shapes(part: str, model: PortableModel) -> Shapes:
    """Returns the shapes of a part of a model; empty for an unknown part."""
    generator = model.generator or model.encoder
    if part == MAIN:
        return dict(_encoder_shapes(part, model.encoder, True))
    if part == GENERATOR or part in TOWER_PARTS:
        return dict(_encoder_shapes(part, generator, model.tying == "none"))
    own = model.trained_by.heads
    of_generator = _GENERATOR_HEADS | {**model.trained_by.generator_heads}
    for heads, sizes in ((own, model.encoder), (of_generator, generator)):
        if part in heads:
            head = heads[part](sizes, name=part)
            return _built_shapes(head, None, sizes.hidden_size)
    return {}


@functools.lru_cache(maxsize=64)  # a conversion calls it several times
def _encoder_shapes(
    name: str, encoder: config.EncoderConfig, has_embeddings: bool
) -> Shapes:
    one = dataclasses.replace(encoder, num_hidden_layers=1)
    shapes = _built_shapes(encoder_lib.Encoder(one, name=name))
    if not has_embeddings:
        shapes = drop_part(shapes, f"{name}/embeddings")
    for number in range(1, encoder.num_hidden_layers):
        block = f"{name}/encoder/layer_"
        shapes |= rename_part(shapes, f"{block}0", f"{block}{number}")
    return shapes


def task_shapes(task: PortableTask, hidden_size: int, stored: Shapes) -> Shapes:
    """Returns the shapes of a fine-tuned head on an encoder of this width.

    `stored` holds the shapes in the file. They tell the head's optional layers
    and, if the labels are not known, the number of outputs.
    """
    own = {
        path.removeprefix(f"{task.head}/"): shape
        for path, shape in take_part(stored, task.head).items()
    }
    head = base.find_kind(task.kind).restore_head(
        len(task.labels), own, task.has_hidden_layer, seed=0, name=task.name
    )
    shapes = _built_shapes(head, None, None, hidden_size)
    return {f"{TASK_HEADS}/{path}": shape for path, shape in shapes.items()}


def expected_shapes(model: PortableModel) -> Shapes:
    """Returns the shapes of all known parts of a model."""
    expected: Shapes = {}
    for part in (MAIN, *model.parts):
        expected |= part_shapes(part, model)
    if model.task is not None:
        stored = {path: value.shape for path, value in model.tensors.items()}
        expected |= task_shapes(model.task, model.encoder.hidden_size, stored)
    return expected


def check(model: PortableModel) -> None:
    """Raises `ModelError` unless all tensors exist with finite values."""
    expected = expected_shapes(model)
    require_shapes(model.tensors, expected, model.origin, dtypes=("float32",))


def require_shapes(
    tensors: Tensors,
    expected: Shapes,
    origin: str,
    may_be_unused: str = "",
    dtypes: Iterable[str] = FLOATS,
) -> None:
    """Raises `ModelError` unless tensors are finite numbers of these shapes.

    Left-over tensors are allowed if their names match `may_be_unused`.
    """
    problems = [
        f"{name} {tensors[name].shape} is not used"
        for name in sorted(tensors.keys() - expected.keys())
        if not re.fullmatch(may_be_unused, name)
    ]
    problems += [
        _find_problem(name, tensors.get(name), shape, dtypes)
        for name, shape in expected.items()
    ]
    require_none(problems, origin)


def _find_problem(
    name: str,
    value: np.ndarray | None,
    shape: tuple[int, ...],
    dtypes: Iterable[str],
) -> str:
    if value is None:
        return f"{name} is missing"
    if str(value.dtype) not in dtypes:
        return f"{name} holds {value.dtype}, expected {' or '.join(dtypes)}"
    if value.shape != shape:
        return f"{name} {value.shape} should be {shape}"
    if not np.isfinite(np.asarray(value, np.float32)).all():
        return f"{name} holds NaN or infinity"
    return ""


def require_parts(model: PortableModel, known: Iterable[str], why: str) -> None:
    """Raises `ModelError`, with `why`, if a format cannot hold some parts."""
    unknown = [part for part in model.parts if part not in known]
    if unknown:
        raise errors.ModelError(
            f"{why} Received: {model.origin} with {', '.join(unknown)}. Leave "
            f"them out: {without(*unknown)}."
        )


def without(*parts: str) -> str:
    """Returns the command that leaves parts out."""
    return f"electra-convert --drop='{'|'.join(parts)}'"


def require_labels(task: str, labels: tuple[str, ...], origin: str) -> None:
    """Raises `ModelError` if a task's labels are not known."""
    if not labels:
        raise errors.ModelError(
            f"The labels of {task!r} must be known, in the order of the "
            f"outputs. Received: none in {origin}. Add --labels=NAME,NAME,..."
        )


def require_none(problems: list[str], origin: str) -> None:
    """Raises `ModelError` with the first problems that are not empty."""
    if real := list(filter(None, problems)):
        more = " ..." if len(real) > _NUM_SHOWN else ""
        raise errors.ModelError(
            f"{origin} is not a complete model of its sizes ({len(real)} "
            f"problems): {'; '.join(real[:_NUM_SHOWN])}{more}. Copy or "
            "download all files of one model again."
        )


def generator_settings(model: PortableModel) -> config.GeneratorConfig:
    """Returns the section of a config that describes a generator."""
    encoder, generator = model.encoder, model.generator
    if not model.trained_by.has_generator:
        return config.GeneratorConfig()
    if generator is None:  # The section has no effect, but must be valid.
        width = round(encoder.hidden_size * 0.25)
        return config.GeneratorConfig(
            num_attention_heads=int(width % max(1, width // 64) > 0),
            **model.trained_by.required_generator,
        )
    if model.tying == "all":
        return config.GeneratorConfig(untied_generator=False)
    return config.GeneratorConfig(
        generator_hidden_size=generator.hidden_size / encoder.hidden_size,
        generator_layers=generator.num_hidden_layers
        / encoder.num_hidden_layers,
        num_attention_heads=generator.num_attention_heads,
        intermediate_size=generator.intermediate_size,
        untied_generator_embeddings=model.tying == "none",
        two_tower_generator=TOWER_PARTS[0] in model.parts,
    )


def require_generator(
    model: PortableModel, settings: config.ExperimentConfig, rule: str
) -> None:
    """Raises `ModelError` unless a config describes the model's generator."""
    if model.generator is None:
        return  # The settings of a generator have no effect.
    derived = settings.generator.encoder_config(settings.encoder)
    if wrong := schema.find_differences(model.generator, derived):
        raise errors.ModelError(
            f"{rule}. Received: {model.origin}, whose generator has other "
            f"sizes (received, by this rule): {'; '.join(wrong)}. Leave the "
            f"generator out: {without(GENERATOR, MASKED_LM_HEAD)}."
        )
