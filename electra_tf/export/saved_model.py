"""Exports a trained model as a SavedModel that takes raw text.

    export_dir/
        saved_model.pb, variables/     what TensorFlow loads
        assets.extra/                  vocabulary, config, origin, warm-up
        README.md, signatures.json     the public format (`signatures`)

The folder appears complete and checked, or not at all: it is written under
another name, loaded in a fresh process that must give this process' numbers
(`self_check`), and renamed.
"""

import dataclasses
import pathlib
from typing import Any
from typing import NamedTuple

import tensorflow as tf
from absl import logging

import electra_tf
from electra_tf import config
from electra_tf.config import schema
from electra_tf.export import export_metadata
from electra_tf.export import self_check
from electra_tf.export import serving_folder
from electra_tf.export.models import exported_module
from electra_tf.export.models import finetuned
from electra_tf.export.models import pretrained
from electra_tf.export.models import stored_weights
from electra_tf.finetuning import model as finetuning_model
from electra_tf.finetuning import portable_trial
from electra_tf.finetuning import results
from electra_tf.finetuning import task_data
from electra_tf.finetuning import trial as trial_lib
from electra_tf.pretraining import model as model_lib
from electra_tf.processes import atomic
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints
from electra_tf.training import model_dir as model_dir_lib

_MODULES: dict[str, type[finetuned.FinetunedModule]] = {
    "classification": finetuned.SentenceModule,
    "regression": finetuned.SentenceModule,
    "tagging": finetuned.TaggingModule,
    "qa": finetuned.AnsweringModule,
}


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """How a model is exported."""

    # `latest`, `best` (lowest held-out loss, or highest dev score), or the path
    # of a checkpoint's folder.
    checkpoint: str = "latest"
    use_average: bool = False  # take the moving average of the weights
    precision: str = "float32"  # of the products, whatever the run trained with
    # Tokens at which texts are cut, with [CLS] and [SEP]; 0 is the model's
    # number of positions, of a trial the length of its rows.
    max_length: int = 0
    # How kernels and tables are stored, see `stored_weights`.
    weights: str = "float32"
    device: str = "cpu"  # see `exported_module.DEVICES`

    def __post_init__(self) -> None:
        """Raises `ValueError` for unknown choices."""
        for name, known in (
            ("device", exported_module.DEVICES),
            ("weights", stored_weights.FORMATS),
            ("precision", config.PRECISIONS),
        ):
            schema.require_choice(name, getattr(self, name), known)


class ExportedModel(NamedTuple):
    """A finished export."""

    folder: pathlib.Path  # where it is
    checkpoint: pathlib.Path  # the checkpoint that it was made from
    # Between this process and a fresh one, see `self_check.TOLERANCES`.
    largest_difference: float


def export(
    model_dir: pathlib.Path,
    export_dir: pathlib.Path,
    options: ExportOptions | None = None,
    task: str = "",
) -> ExportedModel:
    """Exports the model of a pre-training run or of a fine-tuned trial.

    Args:
        model_dir: of a pre-training run, of a trial, or the output_dir of a
            fine-tuning, whose best trial is taken.
        export_dir: folder to create.
        options: None takes the defaults.
        task: of a trial with several.

    Raises:
        FileExistsError: if `export_dir` exists.
        FileNotFoundError: if `model_dir` lacks what a training leaves there.
        ValueError: if weights, config and vocabulary do not fit each other,
            or for an unknown task.
        ExportError: if the saved model answers otherwise when loaded.
    """
    options = options or ExportOptions()
    atomic.refuse_existing(export_dir, "--export_dir")
    trial = results.find_trial(model_dir)
    if trial is not None:
        return _export_trial(trial, export_dir, options, task)
    if task:
        raise ValueError(
            "Only fine-tuned trials have tasks. Received: "
            f"--task={task} for {model_dir}, which is none. Leave it out, or "
            "name the folder of a trial."
        )
    return _export_run(model_dir, export_dir, options)


def _export_run(
    model_dir: pathlib.Path, export_dir: pathlib.Path, options: ExportOptions
) -> ExportedModel:
    settings = model_dir_lib.load_settings(model_dir)
    vocabulary = vocabulary_lib.Vocabulary.load(model_dir)
    checkpoint = checkpoints.find(model_dir, options.checkpoint)
    _warn_of_early_phase(settings, checkpoint)
    network = pretrained.load_network(
        settings,
        vocabulary,
        checkpoint,
        options.precision,
        options.use_average,
    )
    module = pretrained.build_module(
        settings.objective.name,
        network,
        tokenizer_lib.Tokenizer(vocabulary),
        options.max_length,
    )
    difference = _write(
        module,
        export_dir,
        options,
        config.to_json(settings),
        checkpoint=f"{model_dir.resolve().name}/{checkpoint.name}",
        step=checkpoints.step_of(checkpoint),
        trained_length=settings.data.max_seq_length,
        objective=settings.objective.name,
        weights="average" if options.use_average else "model",
    )
    return ExportedModel(export_dir, checkpoint, difference)


def _export_trial(
    folder: pathlib.Path,
    export_dir: pathlib.Path,
    options: ExportOptions,
    name: str,
) -> ExportedModel:
    if options.use_average:
        raise ValueError(
            "Averaged weights are those of pre-training. Received: "
            f"--use_average for the fine-tuned trial {folder}. Leave it out; "
            "fine-tuning can start from them."
        )
    # The CPU always has room, an accelerator may be in use.
    with tf.device("/CPU:0"):
        trained = load_task(
            folder,
            name,
            options.checkpoint,
            options.precision,
            options.max_length,
        )
    task, checkpoint = trained.module.task, trained.checkpoint
    result = trial_lib.read_result(folder)
    scores = result.scores.get(task.name, {}) if result else {}
    difference = _write(
        trained.module,
        export_dir,
        options,
        schema.to_json(trained.description),
        checkpoint=f"{folder.resolve().name}/{checkpoint.name}",
        step=checkpoints.step_of(checkpoint),
        trained_length=trained.row_length,
        task=task.name,
        labels=tuple(task.labels),
        scores={split: dict(s.metrics) for split, s in scores.items()},
        seed=trained.description.settings.training.seed,
        source=trained.description.source,
        **task.describe_export(),
    )
    return ExportedModel(export_dir, checkpoint, difference)


def _write(
    module: exported_module.ExportedModule,
    export_dir: pathlib.Path,
    options: ExportOptions,
    settings: str,
    **origin: Any,
) -> float:
    """Writes, checks and names a SavedModel; returns the largest difference.

    `settings` is the text of config.json, `origin` the fields of
    `ExportMetadata` that tell where the model comes from.
    """
    module.prepare(options.weights, options.device)
    metadata = export_metadata.ExportMetadata(
        kind=module.kind,
        signatures=tuple(module.signature_names),
        precision=options.precision,
        stored_weights=options.weights,
        device=options.device,
        max_length=module.max_length,
        num_positions=module.num_positions,
        electra_tf=electra_tf.__version__,
        tensorflow=tf.__version__,
        **origin,
    )
    with atomic.creating_folder(export_dir) as folder:
        # What an object has when it is saved is saved with it.
        module.unbucketed = module.trace_unbucketed()
        _save_graphs(module, folder, options.device)
        extra = folder / export_metadata.EXTRA_FOLDER
        extra.mkdir()
        module.tokenizer.vocabulary.save(extra)
        (extra / "config.json").write_text(settings, "utf-8")
        serving_folder.write_warm_up(extra, module)
        metadata.write(folder)
        difference = self_check.check(
            folder, module, self_check.TOLERANCES[options.precision]
        )
        # Another process may have made it while this one was at work.
        atomic.refuse_existing(export_dir, "--export_dir")
    return difference


def _save_graphs(
    module: exported_module.ExportedModule, folder: pathlib.Path, device: str
) -> None:
    # Buckets run on the CPU, and weights must be where they are read.
    is_cpu = device == "cpu"
    with tf.device("/CPU:0" if is_cpu else None):
        functions = module.trace_signatures()
    policy = tf.saved_model.experimental.VariablePolicy.SAVE_VARIABLE_DEVICES
    options = tf.saved_model.SaveOptions(
        experimental_variable_policy=policy if is_cpu else None
    )
    tf.saved_model.save(module, str(folder), functions, options)


def _warn_of_early_phase(
    settings: config.ExperimentConfig, checkpoint: pathlib.Path
) -> None:
    last = model_lib.find_objective(settings).phases(settings)[-1]
    if last and checkpoints.step_of(checkpoint) <= last:
        logging.warning(
            "%s was made before the objective's last phase, which begins at "
            "step %d. What earlier phases do not train is exported as it "
            "stands.",
            checkpoint,
            last,
        )


class TrainedTask(NamedTuple):
    """One task of a trial, with the trial's weights."""

    module: finetuned.FinetunedModule
    description: trial_lib.TrialDescription
    checkpoint: pathlib.Path
    row_length: int  # most tokens of the rows that it was trained on


def load_task(
    folder: pathlib.Path,
    name: str = "",
    checkpoint: str = "latest",
    precision: str = "float32",
    max_length: int = 0,
) -> TrainedTask:
    """Loads a task of a trial, without its data files.

    Args:
        folder: of the trial.
        name: of the task; may be empty if there is one.
        checkpoint: as of `ExportOptions`; `latest` is the best one where
            training stopped early by the dev score.
        precision, max_length: as of `ExportOptions`.
    """
    description = trial_lib.read_description(folder)
    vocabulary = vocabulary_lib.Vocabulary.load(folder)
    prepared = task_data.PreparedTasks(
        description.settings,
        vocabulary,
        description.encoder.max_position_embeddings,
        description.labels,
    )
    name = portable_trial.choose_task(folder, list(prepared.tasks), name)
    task = prepared.tasks[name]
    if task.kind not in _MODULES:
        raise ValueError(
            "Tasks that can be exported are those of classification, "
            "regression, tagging and question answering. Received: "
            f"{task.name!r}, a {type(task).__name__}. Write a FinetunedModule "
            "for it."
        )
    encoder = finetuning_model.build_encoder(description.encoder, precision)
    head = task.build_head(
        description.encoder.hidden_size,
        description.settings.training.seed,
        encoder.dtype_policy,
    )
    path = (
        trial_lib.final_checkpoint(folder, description.settings)
        if checkpoint == "latest"
        else checkpoints.find(folder, checkpoint)
    )
    checkpoints.load_weights(
        path, {v.path: v for v in [*encoder.variables, *head.variables]}
    )
    length = prepared.lengths[name]
    module = _MODULES[task.kind](
        encoder,
        head,
        tokenizer_lib.Tokenizer(vocabulary),
        task,
        max_length or length,
    )
    return TrainedTask(module, description, path, length)
