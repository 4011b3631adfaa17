"""A model outside of any framework: named arrays, sizes, vocabulary.

Every reader makes a `PortableModel` and every writer takes one, so n formats
need n readers and n writers. Its tensors have our names (`variable.path`) and
layouts; the first part of a name says which part of the model it belongs to.
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

# Heads of generators; of the main encoder where there is no generator.
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
    # In the order of the outputs; empty if there are none or files do not say.
    labels: tuple[str, ...] = ()
    # Of heads on [CLS]: whether a dense layer with gelu stands before the
    # output layer, as in Hugging Face.
    has_hidden_layer: bool = False
    has_pairs: bool = False  # of a task called `own`; of others it is known
    options: Any = None  # the kind's `options_class`; None: its defaults

    def __post_init__(self) -> None:
        if self.options is None:
            options = base.find_kind(self.kind).options_class()
            object.__setattr__(self, "options", options)

    @property
    def head(self) -> str:
        """Returns the beginning of the paths of its head."""
        return f"{TASK_HEADS}/{self.name}"


@dataclasses.dataclass(frozen=True)
class PortableModel:
    """A pre-trained or fine-tuned model."""

    tensors: Tensors  # our path to float32 array
    encoder: config.EncoderConfig  # the main one; `vocab_size` is the table's
    generator: config.EncoderConfig | None = None
    tying: str = "embeddings"  # they are shared with it, or: none, all
    vocabulary: vocabulary_lib.Vocabulary | None = None  # if the files hold one
    task: PortableTask | None = None  # of a fine-tuned model
    objective: str = ""  # as in the config; empty where files do not say
    step: int = 0  # updates made, 0 where files do not say
    origin: str = ""  # one line that says where it was read
    notes: tuple[str, ...] = ()  # what was left out or changed in reading
    history: Any = None  # of a trial, its `portable_trial.History`

    @property
    def trained_by(self) -> type[objective_base.PretrainingModel]:
        """The class of its objective; the usual one where it is not known."""
        is_masked_lm = MASKED_LM_HEAD in self.parts and not self.has_both_heads
        usual = registry.MASKED_LM if is_masked_lm else registry.DETECTION
        name = self.objective or usual
        # A model of a stranger's may name any module: none is imported.
        if name in registry.NAMES or name in sys.modules:
            with contextlib.suppress(errors.ConfigError):
                return registry.find_class(name)
        return registry.find_class(registry.DETECTION)

    @property
    def parts(self) -> tuple[str, ...]:
        """Returns the first parts of the tensors' names, sorted."""
        return tuple(sorted(set(map(part_of, self.tensors))))

    @property
    def generator_parts(self) -> list[str]:
        """Returns the encoders of a generator that has its own."""
        return [p for p in (GENERATOR, *TOWER_PARTS) if p in self.parts]

    @property
    def has_both_heads(self) -> bool:
        """Returns whether there are heads of discriminator and generator."""
        return {REPLACED_TOKEN_HEAD, MASKED_LM_HEAD} <= set(self.parts)

    def require_vocabulary(self) -> vocabulary_lib.Vocabulary:
        """Returns the vocabulary; raises `ModelError` if there is none."""
        if self.vocabulary is None:
            raise errors.ModelError(
                "A model needs its vocabulary: its ids mean nothing without. "
                f"Received: none beside {self.origin}. Put its vocab.txt there "
                "(and tokenizer_config.json, if it is cased); a conversion "
                "takes it by --vocab_file."
            )
        return self.vocabulary

    def with_notes(self, *notes: str) -> "PortableModel":
        """Returns the same model with more notes."""
        return dataclasses.replace(self, notes=self.notes + notes)


def describe_task(
    task: base.Task, labels: tuple[str, ...], conventions: Any = None
) -> PortableTask:
    """Describes a task of the catalog, as a trained model has it."""
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
    """Returns the tensors below `old/`, with `new` in its place."""
    return {
        new + path.removeprefix(old): value
        for path, value in tensors.items()
        if path.startswith(f"{old}/")
    }


def replace_part(tensors: Tensors, old: str, new: str) -> Arrays:
    """Returns all tensors, those below `old/` with `new` in its place."""
    return drop_part(tensors, old) | rename_part(tensors, old, new)


def take_part(tensors: Mapping[str, _T], part: str) -> dict[str, _T]:
    """Returns the tensors below `part/`."""
    return rename_part(tensors, part, part)


def drop_part(tensors: Mapping[str, _T], part: str) -> dict[str, _T]:
    """Returns the tensors that are not below `part/`."""
    return {p: tensors[p] for p in tensors if not p.startswith(f"{part}/")}


def peek(path: pathlib.Path) -> dict[str, Any]:
    """Returns the object in a JSON file; an empty one if it holds none."""
    try:
        return schema.read_object(path)
    except (OSError, ValueError):
        return {}


def build_known(
    kind: type[_T], stated: Mapping[str, Any], file: pathlib.Path
) -> _T:
    """Builds what is known of another project's JSON file."""
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    known = {name: stated[name] for name in stated if name in names}
    return schema.build(kind, known, str(file), errors.ModelError)


def round_weights(model: PortableModel) -> PortableModel:
    """Rounds weights to bfloat16, kept as float32, and drops their scores."""
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
    """Puts the number that an `initializer_range` of 0 means in its place.

    With `is_shared` the format has one, that of the main encoder.
    """
    stddev = model.encoder.initializer_stddev
    encoder = dataclasses.replace(model.encoder, initializer_range=stddev)
    generator = model.generator
    if generator is not None:
        own = stddev if is_shared else generator.initializer_stddev
        generator = dataclasses.replace(generator, initializer_range=own)
    return dataclasses.replace(model, encoder=encoder, generator=generator)


def describe(model: PortableModel) -> list[str]:
    """Lists for people what a model has: a line for each part, then notes."""
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
    """Returns the shapes of a layer's variables; none of them is allocated."""
    with tf.Graph().as_default():
        layer.build(input_shape)
        return {v.path: tuple(v.shape) for v in layer.variables}


def part_shapes(part: str, model: PortableModel) -> Shapes:
    """Returns the shapes of a part of a model; none if it is not known."""
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


@functools.lru_cache(maxsize=64)  # A conversion asks several times.
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


def task_shapes(task: PortableTask, hidden_size: int, there: Shapes) -> Shapes:
    """Returns the shapes of a fine-tuned head on an encoder of this width.

    `there` are the shapes that were found: they tell the number of outputs
    where labels are not known, and which optional layers the head has.
    """
    own = {
        path.removeprefix(f"{task.head}/"): shape
        for path, shape in take_part(there, task.head).items()
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
        there = {path: value.shape for path, value in model.tensors.items()}
        expected |= task_shapes(model.task, model.encoder.hidden_size, there)
    return expected


def check(model: PortableModel) -> None:
    """Raises `ModelError` unless a model has all tensors, finite, in shape."""
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

    Others may be there if their names match `may_be_unused`. The error lists
    what is missing, left over, of another shape or dtype, or not finite.
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
    """Raises `ModelError` if a format lacks parts of a model; `why` says so."""
    unknown = [part for part in model.parts if part not in known]
    if unknown:
        raise errors.ModelError(
            f"{why} Received: {model.origin} with {', '.join(unknown)}. Leave "
            f"them out: {without(*unknown)}."
        )


def without(*parts: str) -> str:
    """Returns the flag that leaves parts out, which one command has."""
    return f"electra-convert --drop='{'|'.join(parts)}'"


def require_labels(task: str, labels: tuple[str, ...], origin: str) -> None:
    """Raises `ModelError` if a task's labels are not known."""
    if not labels:
        raise errors.ModelError(
            f"The labels of {task!r} must be known, in the order of the "
            f"outputs. Received: none in {origin}. Write a model that has "
            "them: electra-convert --labels=NAME,NAME,..."
        )


def require_none(problems: list[str], origin: str) -> None:
    """Raises `ModelError` if any problem is not empty, and lists the first."""
    if real := list(filter(None, problems)):
        more = " ..." if len(real) > _NUM_SHOWN else ""
        raise errors.ModelError(
            f"{origin} is not a whole model of its sizes ({len(real)} "
            f"problems): {'; '.join(real[:_NUM_SHOWN])}{more}. Are all its "
            "files of one model? Take them again from where they come from."
        )


def generator_settings(model: PortableModel) -> config.GeneratorConfig:
    """Returns the section of a config that describes a generator."""
    encoder, generator = model.encoder, model.generator
    if not model.trained_by.has_generator:
        return config.GeneratorConfig()
    if generator is None:  # The section is not read, but must be valid.
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
        return  # What the settings say of it has no effect.
    derived = settings.generator.encoder_config(settings.encoder)
    if wrong := schema.find_differences(model.generator, derived):
        raise errors.ModelError(
            f"{rule}. Received: {model.origin}, whose generator has other "
            f"sizes (its own, and by this rule): {'; '.join(wrong)}. Leave it "
            f"out: {without(GENERATOR, MASKED_LM_HEAD)}."
        )
