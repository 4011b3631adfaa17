"""Converts all tensors of a model from one checkpoint format to another.

The written model is read back and must be equal bit by bit. The output folder
appears complete and checked, or not at all.
"""

import dataclasses
import operator
import pathlib
import re
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import huggingface_hub
import numpy as np
import safetensors
import tensorflow as tf

from electra_tf import errors
from electra_tf import installed
from electra_tf import storage
from electra_tf import version as version_lib
from electra_tf.config import schema
from electra_tf.export import export_metadata
from electra_tf.export import saved_model
from electra_tf.finetuning import portable_trial
from electra_tf.finetuning import results
from electra_tf.formats import hugging_face
from electra_tf.formats import pairs
from electra_tf.formats import portable
from electra_tf.formats import reading
from electra_tf.formats import tokenizer_files
from electra_tf.formats.portable import PortableModel
from electra_tf.processes import atomic
from electra_tf.tasks import base
from electra_tf.tasks.sentences import glue
from electra_tf.text import vocabulary as vocabulary_lib

SAVED_MODEL = "saved_model"
"""A SavedModel that takes raw text; see `saved_model.export`."""
SAVED_FORMATS = (*reading.FORMATS, SAVED_MODEL)
# Errors that the writing libraries raise when the disk is full.
_ERRORS = OSError, RuntimeError, safetensors.SafetensorError, tf.errors.OpError


@dataclasses.dataclass(frozen=True)
class ConversionOptions:
    """Options of a conversion, the flags of its command."""

    source_format: str = ""  # one of `reading.FORMATS`; empty: detected
    generator_input: str = ""  # path of the model's generator, a masked LM
    vocab_file: str = ""  # `vocab.txt` or its folder
    labels: Sequence[str] = ()  # replace the labels in the files
    text_pairs: bool = False  # the classifier reads pairs of texts
    drop: str = ""  # regular expression of paths of tensors to leave out
    checkpoint: str = "latest"  # of our runs: `latest`, `best` or a folder
    use_average: bool = False  # of our runs: take the moving average
    task: str = ""  # which task to take of a trial with several
    weights: str = "float32"  # `bfloat16` rounds them


def convert(
    source: pathlib.Path,
    target_format: str,
    output_dir: pathlib.Path,
    options: ConversionOptions | None = None,
) -> PortableModel:
    """Writes a model in another format.

    Args:
        source: a run, trial, checkpoint, model folder or name on the hub.
        target_format: one of `reading.FORMATS`.
        output_dir: the folder to create.
        options: the flags of the command.

    Returns:
        The model as written, with notes on the changes.

    Raises:
        OSError: if `source` is missing, or `output_dir` exists or cannot be
            written.
        ValueError: if the source is damaged or incomplete, if the format
            cannot hold it, or if it reads back with other values.
    """
    options = options or ConversionOptions()
    schema.require_choice("format", target_format, reading.FORMATS)
    atomic.refuse_existing(output_dir, "--output_dir")
    model = read_model(source, options)
    if options.vocab_file:
        path = storage.path(options.vocab_file)
        # The path may also be a model folder of any format.
        sizes, own = model.encoder, model.vocabulary
        vocabulary = tokenizer_files.load_if_there(path, sizes)
        if vocabulary is None:
            vocabulary = vocabulary_lib.Vocabulary.load(path)
            vocabulary = tokenizer_files.fit_rows(vocabulary, sizes, path)
        if own and not tokenizer_files.are_alike(own, vocabulary):
            count = sum(map(operator.ne, own.tokens, vocabulary.tokens))
            model = model.with_notes(
                f"{path} replaces the model's vocabulary: {count} of "
                f"{own.size} tokens differ, {vocabulary.settings}"
            )
        model = dataclasses.replace(model, vocabulary=vocabulary)
    model = _set_task_options(model, options)
    if options.weights == "bfloat16":
        model = portable.round_weights(model)
    if options.drop:
        model = _drop(model, options.drop)
    return save(model, target_format, output_dir)


def save(
    model: PortableModel, target_format: str, output_dir: pathlib.Path
) -> PortableModel:
    """Writes a model in one of `SAVED_FORMATS`; see `convert` for the rest."""
    schema.require_choice("format", target_format, SAVED_FORMATS)
    if target_format == SAVED_MODEL:
        with tempfile.TemporaryDirectory() as scratch:
            trained = pathlib.Path(scratch) / "model"
            written = save(model, reading.OURS, trained)
            saved_model.export(trained, output_dir)
        return written
    with atomic.creating_folder(output_dir, refuses="folder") as folder:
        try:
            written = write(model, target_format, folder)
            if target_format == reading.HUGGING_FACE:
                write_card(written, folder, output_dir.name)
        except _ERRORS as error:
            raise atomic.not_written(output_dir, error) from error
        require_equal(written, read_model(folder))
    return written


def read_model(
    path: pathlib.Path, options: ConversionOptions | None = None
) -> PortableModel:
    """Reads a model of any format, or the best trial of a fine-tuning."""
    options = options or ConversionOptions()
    path = installed.find_model(path)
    trial = results.find_trial(path, options.task)
    unused: dict[str, object] = {"--task": options.task}
    if trial is not None:
        unused = {
            "--use_average": options.use_average,
            "--checkpoint": options.checkpoint.removeprefix("latest"),
            "--generator_input": options.generator_input,
            "--from": options.source_format.replace(reading.OURS, ""),
        }
    given = " ".join(f"{flag}={v}" for flag, v in unused.items() if v)
    if given:
        raise ValueError(
            f"{path} is {'a' if trial else 'no'} trial of ours, and some flags "
            f"do not apply to it. Received: {given}. Leave them out."
        )
    if trial is not None:
        return portable_trial.read_trial(trial, options.task)
    model = reading.read_model(
        path, options.source_format, options.checkpoint, options.use_average
    )
    if options.generator_input:
        model = pairs.join(model, reading.read_model(options.generator_input))
    return portable_trial.with_known_labels(model)


def _set_task_options(
    model: PortableModel, options: ConversionOptions
) -> PortableModel:
    """Applies --labels and --text_pairs to the task of a model."""
    task, labels = model.task, tuple(options.labels)
    kind = base.find_kind(task.kind) if task else None
    takes_labels = bool(kind and kind.outputs_are_labels) or not labels
    takes_pairs = bool(kind and kind.takes_pairs) or not options.text_pairs
    schema.require(
        takes_labels and takes_pairs,
        "--labels is for classification and tagging, --text_pairs for "
        "classification and regression. Received: one of these flags for a "
        f"model of {task.kind if task else 'no'} task. Leave it out.",
    )
    if task is None:
        return model
    outputs = model.tensors.get(f"{task.head}/dense/bias", task.labels)
    schema.require(
        not labels or len(set(labels)) == len(labels) == len(outputs),
        f"--labels must be {len(outputs)} different names, one for each "
        f"output of the model. Received: {','.join(labels)}.",
    )
    has_pairs = task.has_pairs or options.text_pairs
    if has_pairs and (known := glue.TASKS.get(task.name)):
        # A task of the package says itself whether it has pairs.
        schema.require(
            known.has_pairs,
            f"The task {task.name!r} reads single texts. Received: text pairs "
            f"for {model.origin}. Leave --text_pairs out, or name the task "
            "`own` in the model's files.",
        )
        has_pairs = False
    labels = labels or task.labels
    task = dataclasses.replace(task, labels=labels, has_pairs=has_pairs)
    model = dataclasses.replace(model, task=task)
    portable.check(model)
    return model


def _drop(model: PortableModel, pattern: str) -> PortableModel:
    try:
        dropped = [p for p in model.tensors if re.match(pattern, p)]
        if not dropped:
            raise re.error(f"none of {', '.join(model.parts)} matches")
    except re.error as error:
        raise ValueError(
            "--drop must be a regular expression that matches tensors. "
            f"Received: {pattern!r}: {error}."
        ) from error
    tensors = {p: v for p, v in model.tensors.items() if p not in dropped}
    rest = dataclasses.replace(model, tensors=tensors)
    if portable.TASK_HEADS not in rest.parts:
        rest = dataclasses.replace(rest, task=None)
    own = {portable.GENERATOR, portable.TOWER_PARTS[0]}
    own |= {portable.MASKED_LM_HEAD} if model.tying == "all" else set()
    if own.isdisjoint(rest.parts):
        rest = dataclasses.replace(rest, generator=None, tying="embeddings")
    try:
        portable.check(rest)
        if rest.generator is None and rest.has_both_heads:
            raise errors.ModelError(
                "the generator's head lacks its encoder: give "
                f"--drop={portable.GENERATOR}"
            )
    except errors.ModelError as error:
        raise ValueError(
            f"--drop must leave whole parts. Received: {pattern!r}: {error}"
        ) from error
    note = f"dropped {len(dropped)} tensors by --drop={pattern}"
    return rest.with_notes(note)


def write(
    model: PortableModel, target_format: str, folder: pathlib.Path
) -> PortableModel:
    """Writes a model, and returns the model that the format can express."""
    task = model.task
    if task and target_format == reading.OURS:
        return portable_trial.write_trial(model, folder)
    if task and task.labels and target_format == reading.TF1:
        # TF1 files have no labels; a reader assumes the task's usual ones.
        unnamed = dataclasses.replace(task, labels=())
        stored = dataclasses.replace(model, task=unnamed)
        known = portable_trial.with_known_labels(stored).task
        if known and known.labels not in ((), task.labels):
            raise errors.ModelError(
                f"A TF1 checkpoint of {task.name!r} has outputs for "
                f"{', '.join(known.labels)}, in this order. Received: "
                f"{', '.join(task.labels)} in {model.origin}. Choose another "
                "format, or leave the head out: "
                f"{portable.without(portable.TASK_HEADS)}."
            )
    written: PortableModel = reading.MODULES[target_format].write(model, folder)
    return written


def require_equal(written: PortableModel, stored: PortableModel) -> None:
    """Raises `ModelError` unless the stored model is equal bit by bit."""
    none = np.empty(0)
    problems = []
    for path in sorted(written.tensors.keys() | stored.tensors.keys()):
        one, other = (m.tensors.get(path, none) for m in (written, stored))
        is_alike = (one.shape, one.dtype) == (other.shape, other.dtype)
        if not is_alike or one.tobytes() != other.tobytes():
            problems.append(f"{path} differs")
    if written.task and stored.task and not stored.task.labels:
        # TF1 files have no labels.
        unnamed = dataclasses.replace(written.task, labels=())
        written = dataclasses.replace(written, task=unnamed)
    problems += [
        f"{name} is {getattr(stored, name)}, was {getattr(written, name)}"
        for name in ("encoder", "generator", "tying", "task")
        if getattr(stored, name) != getattr(written, name)
    ]
    before, after = written.vocabulary, stored.vocabulary
    if before is not None and not tokenizer_files.are_alike(before, after):
        problems.append("the vocabulary differs")
    if problems:
        raise errors.ModelError(
            f"The written model differs from {written.origin} "
            f"({len(problems)} problems): {'; '.join(problems[:8])}. Nothing "
            "was kept. Please report this."
        )


def write_card(model: PortableModel, folder: pathlib.Path, name: str) -> None:
    """Writes a README.md, the hub's model card, beside every model's config."""
    table = export_metadata.read_table("readme.toml")["card"]
    task, sizes, history = model.task, model.encoder, model.history
    facts = (
        f"{sizes.num_hidden_layers} layers, {sizes.hidden_size} wide, "
        f"{sizes.vocab_size:,} tokens, {sizes.max_position_embeddings} "
        f"positions; {model.step:,} updates."
    )
    scores: Mapping[str, Any] = {}
    note, inputs, task_name = "", "text", ""
    if task is not None:
        task_name = task.name
        facts += f"\n\nTask `{task.name}`. {', '.join(task.labels)}"
        note = base.find_kind(task.kind).card_note(task.options)
        inputs = "pair" if portable_trial.reads_pairs(task) else inputs
    if history is not None:
        settings = history.description.settings
        training, optimizer = settings.training, settings.optimizer
        facts += (
            f"\n\nFine-tuning: train_batch_size {training.train_batch_size}, "
            f"seed {training.seed}, learning_rate {optimizer.learning_rate}, "
            f"layerwise_lr_decay {optimizer.layerwise_lr_decay}."
        )
        if history.result:
            scores = history.result.scores.get(task_name, {})
    for path in sorted(folder.rglob(hugging_face.CONFIG_FILE)):
        (architecture,) = schema.read_object(path)["architectures"]
        texts = {"example": table["pipeline_example"], "inputs": table[inputs]}
        texts |= table[architecture]
        results = [
            huggingface_hub.EvalResult(
                task_type=texts["pipeline"],
                dataset_type=task_name,
                dataset_name=task_name,
                dataset_split=split,
                metric_type=metric,
                metric_value=round(value, 4),
            )
            for split, score in scores.items()
            for metric, value in score.metrics.items()
        ]
        header = huggingface_hub.ModelCardData(
            library_name="transformers",
            pipeline_tag=texts["pipeline"],
            tags=["electra"],
            model_name=name,
            eval_results=results or None,
        )
        page = table["page"].format(
            header=header.to_yaml(),
            name=name,
            summary=texts["summary"],
            facts=facts,
            example=texts["example"].format(**texts, note=note),
            version=version_lib.VERSION,
        )
        (path.parent / "README.md").write_text(page, "utf-8")
