"""Models of Hugging Face's transformers, read and written without it.

A pre-trained ELECTRA is two models there, in `folder/discriminator` and
`folder/generator`; each has the embeddings. Any one of them is read too.
"""

import dataclasses
import itertools
import pathlib
import re
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
import safetensors.numpy

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.config.finetuning import TASK_KINDS
from electra_tf.formats import pairs
from electra_tf.formats import parameter_names
from electra_tf.formats import portable
from electra_tf.formats import tensor_files
from electra_tf.formats import tokenizer_files
from electra_tf.formats.portable import Arrays
from electra_tf.formats.portable import PortableModel
from electra_tf.formats.portable import PortableTask
from electra_tf.formats.portable import Tensors
from electra_tf.modeling import networks
from electra_tf.tasks import base
from electra_tf.tasks.question_answering import answering_task

CONFIG_FILE = "config.json"
# Class to the part that it has beside its encoder.
_HEAD_PARTS = {
    "ElectraForPreTraining": portable.REPLACED_TOKEN_HEAD,
    "ElectraForMaskedLM": portable.MASKED_LM_HEAD,
}
_ENCODER = "ElectraModel"
# Buffers of older releases, and the tied table that some files repeat.
_NO_WEIGHTS = r"electra\.embeddings\.(position_ids|token_type_ids)"
_TIED_OUTPUT = "generator_lm_head.weight"
_TABLE = "electra.embeddings.word_embeddings.weight"
_SEGMENTS = f"{portable.MAIN}/embeddings/token_type_embeddings"
# The layers of ours that `qa_outputs` there holds side by side.
_ENDS = ("dense", "dense_1")


def _read_sentence_head(tensors: Tensors, head: str) -> Arrays:
    """Restores a single layer that was written as two."""
    width, outputs = tensors[f"{head}/dense/kernel"].shape
    kernel = tensors[f"{head}/hidden/kernel"][:, :outputs].copy()
    twin = _gelu_twin(kernel, head) if 2 * outputs <= width else {}
    if not twin or any(tensors[p].tobytes() != twin[p].tobytes() for p in twin):
        return dict(tensors)
    arrays = {p: v for p, v in tensors.items() if p not in twin}
    return arrays | {f"{head}/dense/kernel": kernel}


def _write_sentence_head(tensors: Tensors, head: str) -> Tensors:
    """Writes a single layer as two."""
    if f"{head}/hidden/kernel" in tensors:
        return tensors
    kernel = tensors[f"{head}/dense/kernel"]
    width, outputs = kernel.shape
    if 2 * outputs > width:
        raise errors.ModelError(
            f"A class of Hugging Face can stand for a linear layer of up to "
            f"{width // 2} labels, half its width. Received: {outputs}. "
            f"Leave the head out: {portable.without(portable.TASK_HEADS)}."
        )
    return {**tensors, **_gelu_twin(kernel, head)}


def _gelu_twin(kernel: np.ndarray, head: str) -> Arrays:
    """Returns the two layers that compute the one linear layer `W h + b`.

    Classification there is `out_proj(gelu(dense(h)))`, D wide inside. With C
    outputs and 2 C <= D, the rows of `dense` are W, -W and zeros, `out_proj` is
    I, -I and zeros, and gelu(x) - gelu(-x) = x Phi(x) + x Phi(-x) = x.
    """
    width, outputs = kernel.shape
    hidden = np.zeros((width, width), np.float32)
    hidden[:, :outputs], hidden[:, outputs : 2 * outputs] = kernel, -kernel
    output = np.zeros((width, outputs), np.float32)
    output[:outputs] = np.eye(outputs)
    output[outputs : 2 * outputs] = -np.eye(outputs)
    return {
        f"{head}/hidden/kernel": hidden,
        f"{head}/hidden/bias": np.zeros(width, np.float32),
        f"{head}/dense/kernel": output,
    }


def exchange_segments(tensors: Tensors) -> Arrays:
    """Exchanges segments 0 and 1 of a tagger; twice changes nothing.

    The original puts the words into segment 1, transformers into segment 0.
    """
    table = tensors[_SEGMENTS]
    if len(table) < 2:
        raise errors.ModelError(
            f"Tagging needs type_vocab_size=2. Received: {len(table)}."
        )
    order = [1, 0, *range(2, len(table))]
    return {**tensors, _SEGMENTS: np.ascontiguousarray(table[order])}


def _read_span_head(tensors: Tensors, head: str) -> Arrays:
    """Splits the one layer into start and end."""
    arrays = dict(tensors)
    for variable in ("kernel", "bias"):
        both = arrays.pop(f"{head}/outputs/{variable}")
        for layer, part in zip(_ENDS, np.split(both, 2, -1), strict=True):
            arrays[f"{head}/{layer}/{variable}"] = part.copy()
    return arrays


def _write_span_head(tensors: Tensors, head: str) -> Arrays:
    """Joins start and end, if the head has nothing else."""
    paths = {
        variable: [f"{head}/{end}/{variable}" for end in _ENDS]
        for variable in ("kernel", "bias")
    }
    own = portable.take_part(tensors, head)
    if own.keys() != {*paths["kernel"], *paths["bias"]}:
        raise errors.ModelError(
            "ElectraForQuestionAnswering predicts start and end apart, each by "
            "one linear layer. Received: a head that has others. Fine-tune "
            f"with {answering_task.PLAIN_HEAD_FLAGS}, or leave it out: "
            f"{portable.without(portable.TASK_HEADS)}."
        )
    joined = {
        f"{head}/outputs/{variable}": np.concatenate([own[p] for p in ends], -1)
        for variable, ends in paths.items()
    }
    return portable.drop_part(tensors, head) | joined


@dataclasses.dataclass(frozen=True)
class HeadClass:
    """A class of transformers for tasks; `Task.hugging_face` names one.

    `read` and `write` take a model's tensors, and the beginning of the paths of
    its head. They turn the head of the class into ours and back.
    """

    name: str
    table: parameter_names.NameTable
    read: Callable[[Tensors, str], Arrays]
    write: Callable[[Tensors, str], Tensors]
    has_hidden_layer: bool = False  # before the output layer
    names_outputs: bool = True  # whether its config lists labels
    note: str = ""  # of what reading changed


_names = parameter_names.hugging_face
_SENTENCE = _read_sentence_head, _write_sentence_head
HEAD_CLASSES: Mapping[str, HeadClass] = {
    head.name: head
    for head in (
        HeadClass(
            "ElectraForSequenceClassification",
            _names("classifier.out_proj", "classifier.dense"),
            *_SENTENCE,
            has_hidden_layer=True,
        ),
        HeadClass(
            "ElectraForMultipleChoice",
            _names("classifier", "sequence_summary.summary"),
            *_SENTENCE,
            has_hidden_layer=True,
        ),
        HeadClass(
            "ElectraForTokenClassification",
            _names("classifier"),
            lambda tensors, _: exchange_segments(tensors),
            lambda tensors, _: exchange_segments(tensors),
            note="exchanged segments 0 and 1, words are in 1 here",
        ),
        HeadClass(
            "ElectraForQuestionAnswering",
            _names("qa_outputs"),
            _read_span_head,
            _write_span_head,
            names_outputs=False,
        ),
    )
}
_CLASSES = (*_HEAD_PARTS, _ENCODER, *HEAD_CLASSES)
# Tensors that only models of a class have, of which a config may be silent.
_TOLD_BY = {
    "discriminator_predictions.": "ElectraForPreTraining",
    "generator_predictions.": "ElectraForMaskedLM",
    "sequence_summary.": "ElectraForMultipleChoice",
    "classifier.out_proj.": "ElectraForSequenceClassification",
    "classifier.": "ElectraForTokenClassification",
    "qa_outputs.": "ElectraForQuestionAnswering",
}
_WRAPPERS = r"((module|_orig_mod|model)\.)+"

_MAX_LABELS = 100_000
_Labels = Annotated[Mapping[str, str], pydantic.Field(min_length=1)]
_Epsilon = Annotated[float, pydantic.Field(ge=1e-12, le=1e-12)]
# Of a task, which becomes the name of a layer.
_NAME = re.compile(r"[A-Za-z0-9.][\w.-]*", re.ASCII)
_REGRESSION = "regression"
_PROBLEMS = ("single_label_classification", "multi_label_classification",
             _REGRESSION)  # fmt: skip


@schema.frozen
class _Config:
    """Fields of a config that are read, beside a kind's `options_class`."""

    model_type: Literal["electra"] = "electra"
    architectures: (
        tuple[Annotated[str, schema.one_of(*_CLASSES)]] | tuple[()] | None
    ) = None
    hidden_act: Literal["gelu"] = "gelu"
    layer_norm_eps: _Epsilon = 1e-12
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: Literal[False] = False
    add_cross_attention: Literal[False] = False
    finetuning_task: str | None = None
    id2label: _Labels | None = None
    problem_type: Annotated[str, schema.one_of(*_PROBLEMS)] | None = None
    # Of the head of multiple choice.
    summary_type: Literal["first"] = "first"
    summary_use_proj: Literal[True] = True
    summary_activation: Literal["gelu"] = "gelu"
    # Ours alone.
    electra_tf_kind: str = ""  # where the fields above do not tell the kind
    text_pairs: bool = False


def read_model(path: pathlib.Path) -> PortableModel:
    """Reads a folder with a model, or with both of a pre-trained ELECTRA."""
    main, generator = path / "discriminator", path / "generator"
    if (path / CONFIG_FILE).exists() or not main.exists():
        return _read_one(path)
    model = _read_one(main)
    if generator.exists():
        model = pairs.join(model, _read_one(generator))
    return model


def _read_one(path: pathlib.Path) -> PortableModel:
    """Reads a model that lies in one folder; raises `ModelError`."""
    file = path / CONFIG_FILE
    stated = schema.read_object(file, errors.ModelError)
    names = stated.get("id2label")
    if isinstance(names, dict) and len(names) > _MAX_LABELS:
        raise errors.ModelError(
            f"{file}: id2label must name the model's outputs, {_MAX_LABELS:,} "
            f"at most. Received: {len(names):,} names. Take the files again."
        )
    known = portable.build_known(_Config, stated, file)
    # What a config leaves out is the same there as in ours.
    encoder = portable.build_known(config.EncoderConfig, stated, file)
    model = PortableModel({}, encoder)
    expected = portable.part_shapes(portable.MAIN, model)
    arrays, source = tensor_files.read_tensors(path, expected)
    arrays, notes = _take_plain_names(arrays)
    if known.architectures:
        (architecture,) = known.architectures
    else:
        architecture = _find_class(arrays)
        notes.append(f"{CONFIG_FILE} names no class, it is an {architecture}")
    task, table = None, parameter_names.HUGGING_FACE
    if (head := HEAD_CLASSES.get(architecture)) is not None:
        task, table = _read_task(known, head, stated, file), head.table
        width, outputs = encoder.hidden_size, f"{task.head}/outputs"
        expected |= (
            portable.task_shapes(task, width, {})
            if head.names_outputs
            else portable.linear_shapes(outputs, width, 2)
        )
    elif architecture != _ENCODER:
        expected |= portable.part_shapes(_HEAD_PARTS[architecture], model)
    notes += parameter_names.precision_notes(
        str(value.dtype) for value in arrays.values()
    )
    if (repeated := arrays.pop(_TIED_OUTPUT, None)) is not None:
        if not np.array_equal(repeated, arrays.get(_TABLE, ())):
            raise errors.ModelError(
                f"{source}: {_TIED_OUTPUT} must be the table of word "
                "embeddings, which the output is tied to. Received: another "
                "matrix."
            )
        notes.insert(0, f"{_TIED_OUTPUT} is the token table, kept once")
    has_prefix = any(name.startswith("electra.") for name in arrays)
    if architecture == _ENCODER and not has_prefix:
        arrays = {f"electra.{name}": arrays[name] for name in arrays}
    tensors = parameter_names.take(
        arrays, expected, table, f"{source}, by its {CONFIG_FILE},", _NO_WEIGHTS
    )
    if task is not None and head is not None:
        tensors = head.read(tensors, task.head)
        has_hidden = f"{task.head}/hidden/kernel" in tensors
        task = dataclasses.replace(task, has_hidden_layer=has_hidden)
        notes = [head.note] * bool(head.note) + notes
    vocabulary = tokenizer_files.load_if_there(path, encoder)
    return PortableModel(
        tensors,
        encoder,
        vocabulary=vocabulary,
        task=task,
        origin=f"Hugging Face {architecture} {path}",
        notes=(*notes, *tokenizer_files.notes_of(vocabulary)),
    )


def _take_plain_names(arrays: Arrays) -> tuple[Arrays, list[str]]:
    """Takes off what wrappers put before the names of all tensors.

    These are PyTorch's `DataParallel` and `compile`, and Lightning.
    """
    # No class of the library has such names itself.
    ends = zip(min(arrays, default=""), max(arrays, default=""), strict=False)
    common = itertools.takewhile(lambda pair: pair[0] == pair[1], ends)
    shared = re.match(_WRAPPERS, "".join(letter for letter, _ in common))
    if not shared:
        return arrays, []
    prefix = shared[0]
    arrays = {n.removeprefix(prefix): arrays[n] for n in arrays}
    return arrays, [f"took {prefix} off the names of all tensors"]


def _find_class(arrays: Arrays) -> str:
    told = (
        name
        for beginning, name in _TOLD_BY.items()
        if any(tensor.startswith(beginning) for tensor in arrays)
    )
    return next(told, _ENCODER)


def _read_task(
    known: _Config,
    head: HeadClass,
    stated: Mapping[str, Any],
    file: pathlib.Path,
) -> PortableTask:
    name = known.finetuning_task or ""
    name = name if _NAME.fullmatch(name) else "own"
    # The library's default.
    named = known.id2label or {"0": "LABEL_0", "1": "LABEL_1"}
    kind = _find_kind(known, head.name, len(named), file)
    labels = tuple(named.get(str(number), "") for number in range(len(named)))
    if kind.outputs_are_labels:
        _require_labels(labels, f"{file}: id2label")
    return PortableTask(
        name,
        kind.kind,
        labels if kind.outputs_are_labels else (),
        has_hidden_layer=head.has_hidden_layer,
        has_pairs=known.text_pairs,
        options=portable.build_known(kind.options_class, stated, file),
    )


def _find_kind(
    known: _Config, class_name: str, num_outputs: int, file: object
) -> type[base.Task]:
    """Finds the kind that a config names, or else that its fields tell."""
    if stated := known.electra_tf_kind:
        # A file from elsewhere must not choose which code is imported.
        is_here = stated in TASK_KINDS or stated in sys.modules
        kind = base.find_kind(stated) if is_here else None
        if kind is None or kind.hugging_face != class_name:
            raise errors.ModelError(
                f"{file}: `electra_tf_kind` must be a kind of task that is a "
                f"{class_name}. Received: {stated!r}. If a module of yours "
                "defines it, import that first."
            )
        return kind
    known_kinds = map(base.find_kind, TASK_KINDS)
    candidates = [k for k in known_kinds if k.hugging_face == class_name]
    usual = _REGRESSION if num_outputs == 1 else candidates[0].problem_type
    problem = known.problem_type or usual
    alike = (kind for kind in candidates if kind.problem_type == problem)
    return next(alike, candidates[0])


def _require_labels(labels: tuple[str, ...], source: str) -> None:
    known = set[str]()
    for number, label in enumerate(labels):
        is_line = label.strip() and label.splitlines() == [label]
        if not is_line or label in known:
            raise errors.ModelError(
                f"{source} must give every output a name of one line, and no "
                f"two the same. Received: {label!r:.80} for output {number}. "
                "Rename it."
            )
        known.add(label)


def write(model: PortableModel, folder: pathlib.Path) -> PortableModel:
    """Writes what `from_pretrained` reads; returns the model as stated."""
    model = portable.state_initializers(model)
    known = {portable.MAIN, portable.GENERATOR, *_HEAD_PARTS.values()}
    if model.task is not None:
        known = {portable.MAIN, portable.TASK_HEADS}
    if model.trained_by.answer is networks.Answer.ENERGY:
        known -= {portable.REPLACED_TOKEN_HEAD}
    portable.require_parts(
        model,
        known,
        "Hugging Face has a class for an encoder that sees both sides with a "
        "head for replaced or for masked tokens; Electric's are energies.",
    )
    for name, part in pairs.split(model).items():
        target = folder / name
        target.mkdir(exist_ok=True)
        _write_one(part, target)
    return model


def _write_one(model: PortableModel, folder: pathlib.Path) -> None:
    architecture, tensors = _ENCODER, model.tensors
    table, stated = parameter_names.HUGGING_FACE, {}
    if model.task is not None:
        architecture = base.find_kind(model.task.kind).hugging_face
        if architecture not in HEAD_CLASSES:
            raise errors.ModelError(
                "Hugging Face has no class for tasks of the kind "
                f"{model.task.kind!r}. "
                f"Leave the head out: {portable.without(portable.TASK_HEADS)}."
            )
        head = HEAD_CLASSES[architecture]
        tensors, table = head.write(tensors, model.task.head), head.table
        stated = _task_fields(model.task, head, model.origin)
    for name, part in _HEAD_PARTS.items():
        architecture = name if part in model.parts else architecture
    arrays = table.split_all(tensors)
    if architecture == _ENCODER:
        arrays = {n.removeprefix("electra."): arrays[n] for n in arrays}
    # transformers refuses files that do not name their framework. The library
    # that saves them itself would let only the owner read them.
    content = safetensors.numpy.save(arrays, {"format": "pt"})
    (folder / tensor_files.SAFETENSORS_FILE).write_bytes(content)
    fields = {
        "architectures": [architecture],
        "model_type": "electra",
        **dataclasses.asdict(model.encoder),
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "pad_token_id": model.vocabulary.pad_id if model.vocabulary else 0,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }
    (folder / CONFIG_FILE).write_text(schema.to_json(fields | stated), "utf-8")
    if model.vocabulary is not None:
        tokenizer_files.write_hugging_face(
            model.vocabulary, folder, model.encoder.max_position_embeddings
        )


def _task_fields(
    task: PortableTask, head: HeadClass, origin: str
) -> dict[str, Any]:
    fields: dict[str, Any] = {"finetuning_task": task.name}
    kind = base.find_kind(task.kind)
    if head.names_outputs:
        labels = task.labels if kind.outputs_are_labels else ("LABEL_0",)
        portable.require_labels(task.name, labels, origin)
        _require_labels(labels, f"{origin}: the task {task.name!r}")
        fields["id2label"] = dict(enumerate(labels))
        fields["label2id"] = {label: n for n, label in enumerate(labels)}
    if task.has_pairs:
        fields["text_pairs"] = True
    if kind.problem_type:
        fields["problem_type"] = kind.problem_type
    options = dataclasses.asdict(task.options)
    fields |= {k: v for k, v in options.items() if v is not None}
    told = _Config(problem_type=kind.problem_type)
    num_outputs = len(fields.get("id2label", ()))
    if _find_kind(told, head.name, num_outputs, CONFIG_FILE) is not kind:
        fields["electra_tf_kind"] = task.kind
    return fields
