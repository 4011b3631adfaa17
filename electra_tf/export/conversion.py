"""Converts a model from one checkpoint format to another, every tensor of it.

    read -> join the generator, give vocabulary and labels, drop -> write
         -> read back: equal bit by bit -> name

The output folder appears complete and checked, or not at all.
"""

import dataclasses
import pathlib
import re
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np
import safetensors
import tensorflow as tf

from electra_tf import errors
from electra_tf import installed
from electra_tf.config import schema
from electra_tf.finetuning import portable_trial
from electra_tf.finetuning import results
from electra_tf.formats import own_run
from electra_tf.formats import portable
from electra_tf.formats import reading
from electra_tf.formats import tokenizer_files
from electra_tf.processes import atomic
from electra_tf.tasks.sentences import glue
from electra_tf.text import vocabulary as vocabulary_lib

# What the libraries that write raise where a disk is full.
_WRITE_ERRORS = (
    OSError,
    RuntimeError,
    safetensors.SafetensorError,
    tf.errors.OpError,
)


@dataclasses.dataclass(frozen=True)
class ConversionOptions:
    """How a model is converted."""

    source_format: str = ""  # one of `reading.FORMATS`; empty to find out
    # A masked LM that was the generator, where the format keeps the two apart.
    generator_path: pathlib.Path | None = None
    # `vocab.txt` or its folder, instead of what lies beside the weights.
    vocabulary_path: pathlib.Path | None = None
    # Of a fine-tuned model, instead of what its files say.
    labels: Sequence[str] = ()
    # Whether a classifier whose files do not say it takes pairs.
    has_pairs: bool = False
    # Regular expression; tensors whose path here begins with a match are left
    # out.
    drop: str = ""
    checkpoint: str = "latest"  # of a run of ours: `latest`, `best` or a folder
    use_average: bool = False  # of a run of ours, take the moving average
    task: str = ""  # of a trial with several, the one to take
    is_rounded: bool = False  # whether weights are rounded to bfloat16


def convert(
    source: pathlib.Path,
    target_format: str,
    output_dir: pathlib.Path,
    options: ConversionOptions | None = None,
) -> portable.PortableModel:
    """Writes a model in another format.

    Returns:
        What was written; its notes say what was left out.

    Raises:
        OSError: if `output_dir` exists or cannot be written, or if there is no
            such source.
        ValueError: if the source is damaged or partial, if the format cannot
            hold it, or if it reads back otherwise. Nothing is written then.
    """
    options = options or ConversionOptions()
    schema.require_choice("format", target_format, reading.FORMATS)
    atomic.refuse_existing(output_dir, "--output_dir")
    model = read(source, options)
    model = _settle_pairs(_override(model, options))
    with atomic.creating_folder(output_dir) as folder:
        try:
            written = write(model, target_format, folder)
        except _WRITE_ERRORS as error:
            first_line = (str(error).splitlines() or [""])[0]
            raise OSError(
                f"{output_dir} could not be written: {type(error).__name__}: "
                f"{first_line}. Nothing was kept. Free space or repair the "
                "disk, then start the same command again."
            ) from error
        require_equal(written, read(folder))
        # Another process may have made it while this one was at work.
        atomic.refuse_existing(output_dir, "--output_dir")
    return written


def read(
    path: pathlib.Path, options: ConversionOptions | None = None
) -> portable.PortableModel:
    """Reads a model of any format, pre-trained or fine-tuned.

    Beyond what `reading.read` takes, `path` may be the folder of a trial, or of
    a fine-tuning, which means its best trial.
    """
    options = options or ConversionOptions()
    path = installed.find_model(path)
    of_run = {
        "--use_average": options.use_average,
        "--checkpoint": options.checkpoint.removeprefix("latest"),
    }
    trial = results.find_trial(path)
    if trial is not None:
        of_run["--generator_input"] = options.generator_path
        _refuse_idle(of_run, "a pre-training run of ours")
        if options.source_format not in ("", reading.OURS):
            raise ValueError(
                f"{path} is a trial of ours. Received: "
                f"--from={options.source_format}. Leave it out."
            )
        return portable_trial.read(trial, options.task)
    _refuse_idle({"--task": options.task}, "a trial of ours")
    format_name = options.source_format or reading.detect(path)
    if format_name == reading.OURS:
        model = own_run.read(path, options.checkpoint, options.use_average)
    else:
        _refuse_idle(of_run, "a run of ours")
        model = reading.read(path, format_name)
    if options.generator_path is not None:
        model = portable.join(model, reading.read(options.generator_path))
    return portable_trial.with_known_labels(model)


def _refuse_idle(flags: Mapping[str, object], owner: str) -> None:
    for flag, value in flags.items():
        if value:
            raise ValueError(
                f"{flag} is for {owner}. Received: {flag}={value} for a model "
                "of another kind. Leave it out."
            )


def _override(
    model: portable.PortableModel, options: ConversionOptions
) -> portable.PortableModel:
    """The model with what the options give, without what they drop."""
    if options.vocabulary_path is not None:
        vocabulary = _load_vocabulary(options.vocabulary_path, model)
        model = dataclasses.replace(model, vocabulary=vocabulary)
    if options.labels or options.has_pairs:
        model = _describe_task(model, options)
    if options.is_rounded:
        model = portable.round_weights(model)
    return _drop(model, options.drop) if options.drop else model


def _load_vocabulary(
    path: pathlib.Path, model: portable.PortableModel
) -> vocabulary_lib.Vocabulary:
    """Of a file, or of a folder of any format."""
    if path.is_dir():
        found = tokenizer_files.load_if_there(path, model.encoder)
        if found is not None:
            return found
    vocabulary = vocabulary_lib.Vocabulary.load(path)
    return tokenizer_files.fit_rows(vocabulary, model.encoder, path)


def _describe_task(
    model: portable.PortableModel, options: ConversionOptions
) -> portable.PortableModel:
    """The model with what is known of its task."""
    task, labels = model.task, tuple(options.labels)
    kind = task.kind if task else "no"
    if labels and kind not in ("classification", "tagging"):
        raise ValueError(
            "--labels are those of classification or tagging. Received: "
            f"--labels={','.join(labels)} for a model of {kind} task. Leave "
            "them out."
        )
    if options.has_pairs and kind not in ("classification", "regression"):
        raise ValueError(
            "--text_pairs is for classification and regression. Received: it "
            f"for a model of {kind} task. Leave it out."
        )
    if task is None:
        return model
    if len(set(labels)) < len(labels):
        raise ValueError(f"--labels must differ. Received: {','.join(labels)}.")
    task = dataclasses.replace(
        task,
        labels=labels or task.labels,
        has_pairs=task.has_pairs or options.has_pairs,
    )
    model = dataclasses.replace(model, task=task)
    portable.check(model)
    return model


def _settle_pairs(model: portable.PortableModel) -> portable.PortableModel:
    """The model; whether named tasks have pairs is known, not told."""
    task = model.task
    if task is None or not task.has_pairs or task.name not in glue.TASKS:
        return model
    if not glue.TASKS[task.name].has_pairs:
        raise errors.ModelError(
            f"The task {task.name!r} reads single texts. Received: text pairs "
            f"for {model.origin}. Leave --text_pairs out, or call the task "
            "`own` in its files."
        )
    task = dataclasses.replace(task, has_pairs=False)
    return dataclasses.replace(model, task=task)


def _drop(
    model: portable.PortableModel, pattern: str
) -> portable.PortableModel:
    """The model without the parts that a pattern matches."""
    try:
        dropped = [p for p in model.tensors if re.match(pattern, p)]
    except re.error as error:
        raise ValueError(
            f"--drop must be a regular expression. Received: {pattern!r}: "
            f"{error}."
        ) from error
    if not dropped:
        raise ValueError(
            f"--drop must match tensors. Received: {pattern!r}, which none of "
            f"the parts {', '.join(model.parts)} begins with."
        )
    tensors = {p: v for p, v in model.tensors.items() if p not in dropped}
    parts = {path.split("/")[0] for path in tensors}
    has_generator = bool(
        parts & {portable.GENERATOR, "generator_ltr"}
        or (model.tying == "all" and portable.MASKED_LM_HEAD in parts)
    )
    rest = dataclasses.replace(
        model,
        tensors=tensors,
        generator=model.generator if has_generator else None,
        tying=model.tying if has_generator else "embeddings",
        task=model.task if portable.TASK_HEADS in parts else None,
    )
    heads = {portable.REPLACED_TOKEN_HEAD, portable.MASKED_LM_HEAD}
    try:
        portable.check(rest)
    except errors.ModelError as error:
        raise ValueError(
            f"--drop must leave whole parts. Received: {pattern!r}, after "
            f"which {error}"
        ) from error
    if rest.generator is None and heads <= parts:
        raise ValueError(
            "--drop must not part the generator's encoder from its head. "
            f"Received: {pattern!r}. Give --drop={portable.GENERATOR}."
        )
    return rest.with_notes(
        f"dropped {len(dropped)} tensors by --drop={pattern}"
    )


def write(
    model: portable.PortableModel, target_format: str, folder: pathlib.Path
) -> portable.PortableModel:
    """Writes a model, and returns it as the format states it."""
    if target_format == reading.OURS and model.task is not None:
        return portable_trial.write(model, folder)
    if target_format == reading.TF1:
        _require_known_labels(model)
    return reading.write(model, target_format, folder)


def _require_known_labels(model: portable.PortableModel) -> None:
    """TF1 files name no labels; a reader takes the task's usual ones."""
    task = model.task
    if task is None or not task.labels:
        return
    unnamed = dataclasses.replace(
        model, task=dataclasses.replace(task, labels=())
    )
    known = portable_trial.with_known_labels(unnamed).task
    if known is not None and known.labels not in ((), task.labels):
        raise errors.ModelError(
            f"A TF1 checkpoint of {task.name!r} has outputs for "
            f"{', '.join(known.labels)}, in this order. Received: "
            f"{', '.join(task.labels)} in {model.origin}. Leave the head out "
            f"with --drop={portable.TASK_HEADS}, or take another format."
        )


def require_equal(
    written: portable.PortableModel, found: portable.PortableModel
) -> None:
    """Raises `ModelError` unless what was read back is equal bit by bit."""
    problems = [
        f"{path} differs"
        for path in sorted(written.tensors.keys() | found.tensors.keys())
        if path not in written.tensors
        or path not in found.tensors
        or not _are_same_bits(written.tensors[path], found.tensors[path])
    ]
    problems += [
        f"{name} is {getattr(found, name)}, was {getattr(written, name)}"
        for name in ("encoder", "generator", "tying")
        if getattr(found, name) != getattr(written, name)
    ]
    before, after = written.vocabulary, found.vocabulary
    if before is not None and not tokenizer_files.are_alike(before, after):
        problems.append("the vocabulary differs")
    task = written.task
    if task is not None and found.task is not None and not found.task.labels:
        # TF1 files name no labels.
        task = dataclasses.replace(task, labels=())
    if task != found.task:
        problems.append(f"the task is {found.task}, was {task}")
    if problems:
        raise errors.ModelError(
            f"What was written does not read back as {written.origin} "
            f"({len(problems)} problems): {'; '.join(problems[:8])}. Nothing "
            "was kept. Please report this."
        )


def _are_same_bits(first: np.ndarray, second: np.ndarray) -> bool:
    return (
        first.shape == second.shape
        and first.dtype == second.dtype
        and first.tobytes() == second.tobytes()
    )
