"""Exports a trained model as a SavedModel that takes raw text.

The folder appears complete and checked, or not at all: it is written under a
temporary name, loaded in a fresh process, whose numbers must equal this
process' (`self_check`), and renamed. `export_metadata` describes the files.
"""

import dataclasses
import pathlib
from typing import Annotated, Any, NamedTuple

import tensorflow as tf
from absl import logging

from electra_tf import config
from electra_tf import installed
from electra_tf import version
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
from electra_tf.finetuning import trial as trial_lib
from electra_tf.formats import own_run
from electra_tf.formats import portable
from electra_tf.formats import reading
from electra_tf.objectives import registry
from electra_tf.processes import atomic
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.training import checkpoints


@schema.frozen
class ExportOptions:
    """Options of an export."""

    # `latest`, `best` (lowest held-out loss, or highest dev score), or the path
    # of a checkpoint's folder. A trial that stopped early by its dev score has
    # its best checkpoint as `latest`.
    checkpoint: str = "latest"
    use_average: bool = False  # take the moving average of the weights
    # Of matrix products; need not be the run's.
    precision: Annotated[str, schema.one_of(*config.PRECISIONS)] = "float32"
    # Tokens at which texts are cut, with [CLS] and [SEP]. 0: the positions of a
    # pre-trained model, the row length of a trial.
    max_length: int = 0
    # How kernels and tables are stored, see `stored_weights`.
    weights: Annotated[str, schema.one_of(*stored_weights.FORMATS)] = "float32"
    # See `exported_module.DEVICES`.
    device: Annotated[str, schema.one_of(*exported_module.DEVICES)] = "cpu"


_DEFAULTS = ExportOptions()


class ExportedModel(NamedTuple):
    """A finished export."""

    folder: pathlib.Path
    checkpoint: pathlib.Path  # the exported checkpoint
    # Between answers of this process and a fresh one, see `self_check`.
    largest_difference: float


class Trained(NamedTuple):
    """A trained model, and the descriptions for its export."""

    module: Any  # an `ExportedModule`
    checkpoint: pathlib.Path
    settings: str  # text of config.json
    metadata: export_metadata.ExportMetadata
    described: portable.PortableModel  # without tensors
    keras_model: Any = None  # the model of a task


def export(
    model_dir: pathlib.Path,
    export_dir: pathlib.Path,
    options: ExportOptions = _DEFAULTS,
    task: str = "",
) -> ExportedModel:
    """Exports a pre-training run, a trial, or the best trial of a fine-tuning.

    Args:
        model_dir: the folder of the run, trial or fine-tuning.
        export_dir: the folder to create.
        options: the flags of the command.
        task: which task to take of a trial with several.

    Raises:
        OSError: if `export_dir` exists or there is no model.
        ValueError: if the model's files do not fit each other.
        ExportError: if the loaded export gives other answers.
    """
    atomic.refuse_existing(export_dir, "--export_dir")
    trial = results.find_trial(model_dir, task)
    if trial is not None:
        trained = load_task(trial, task, options)
    else:
        schema.require(
            not task,
            f"Only fine-tuned trials have tasks. Received: --task={task} for "
            f"{model_dir}, which is no trial. Leave --task out.",
        )
        trained = load_run(model_dir, options)
    module = trained.module
    module.prepare(options.weights, options.device)
    target = export_dir, installed.EXPORTED, "--export_dir"
    with atomic.creating_folder(*target) as folder:
        extra = folder / export_metadata.EXTRA_FOLDER
        try:
            _save_graphs(module, folder, options.device)
            extra.mkdir()
            module.tokenizer.vocabulary.save(extra)
            (extra / "config.json").write_text(trained.settings, "utf-8")
            serving_folder.write_warm_up(extra, module)
            trained.metadata.write(folder)
        except (OSError, tf.errors.OpError) as error:
            raise atomic.not_written(export_dir, error) from error
        tolerance = self_check.TOLERANCES[options.precision]
        difference = self_check.check(folder, module, tolerance)
    return ExportedModel(export_dir, trained.checkpoint, difference)


def load_run(
    model_dir: pathlib.Path, options: ExportOptions = _DEFAULTS
) -> Trained:
    """Loads the main network of a pre-training run, on the CPU."""
    settings = own_run.load_settings(model_dir)
    checkpoint = checkpoints.find(model_dir, options.checkpoint)
    objective = registry.find(settings)
    last = objective.stages(registry.complete(settings))[-1]
    if last and checkpoints.step_of(checkpoint) <= last:
        logging.warning(
            "%s was saved before the objective's last stage, which begins at "
            "step %d. Variables that only this stage trains are untrained.",
            checkpoint,
            last,
        )
    model = own_run.read_model(model_dir, str(checkpoint), options.use_average)
    # On the CPU, as another process may use the accelerator.
    with tf.device("/CPU:0"):
        main = reading.build_networks(model, options.precision).main
    tokenizer = tokenizer_lib.Tokenizer(model.require_vocabulary())
    module = pretrained.build_module(
        objective.answer, main, tokenizer, options.max_length
    )
    metadata = _describe(
        module,
        checkpoint,
        options,
        trained_length=settings.data.max_seq_length,
        objective=settings.objective["name"],
        weights="average" if options.use_average else "model",
    )
    described = dataclasses.replace(model, tensors={})
    text = config.to_json(settings)
    return Trained(module, checkpoint, text, metadata, described)


def load_task(
    folder: pathlib.Path, name: str = "", options: ExportOptions = _DEFAULTS
) -> Trained:
    """Loads a task of a trial, on the CPU; an empty name means the only one."""
    if options.use_average:
        raise ValueError(
            "Only pre-training has averaged weights. Received: --use_average "
            f"for the fine-tuned trial {folder}. Leave --use_average out; "
            "fine-tuning can start from averaged weights."
        )
    model = portable_trial.read_trial(folder, name, options.checkpoint)
    history: portable_trial.History = model.history
    task, length = history.prepared, history.row_length
    seed = history.description.settings.training.seed
    with tf.device("/CPU:0"):
        encoder = reading.build_encoder(model, options.precision)
        width, dtype = encoder.hidden_size, encoder.dtype_policy
        head = task.build_head(width, seed, dtype)
        reading.assign({v.path: v for v in head.variables}, model)
        module = finetuned.FinetunedModule(
            encoder,
            head,
            tokenizer_lib.Tokenizer(model.require_vocabulary()),
            task,
            options.max_length or length,
        )
        keras_model = finetuning_model.FinetuningModel(
            encoder, {task.name: head}
        )
    scores = history.result.scores.get(task.name, {}) if history.result else {}
    metadata = _describe(
        module,
        history.checkpoint,
        options,
        trained_length=length,
        task=task.name,
        labels=tuple(task.labels),
        scores={split: dict(s.metrics) for split, s in scores.items()},
        seed=seed,
        source=history.description.source,
        **task.describe_export(),
    )
    text = schema.to_json(trial_lib.read_description(folder))
    described = dataclasses.replace(model, tensors={})
    return Trained(
        module, history.checkpoint, text, metadata, described, keras_model
    )


def _describe(
    module: exported_module.ExportedModule,
    checkpoint: pathlib.Path,
    options: ExportOptions,
    **fields: Any,
) -> export_metadata.ExportMetadata:
    folder = checkpoint.resolve().parents[1]
    return export_metadata.ExportMetadata(
        kind=module.kind,
        signatures=tuple(module.signature_names),
        checkpoint=f"{folder.name}/{checkpoint.name}",
        step=checkpoints.step_of(checkpoint),
        precision=options.precision,
        stored_weights=options.weights,
        device=options.device,
        max_length=module.max_length,
        num_positions=module.num_positions,
        electra_tf=version.VERSION,
        tensorflow=tf.__version__,
        **fields,
    )


def _save_graphs(
    module: exported_module.ExportedModule, folder: pathlib.Path, device: str
) -> None:
    # The attributes of a module are saved with it.
    module.unbucketed = module.trace_unbucketed()
    # Buckets run on the CPU, and need their weights there.
    is_cpu = device == "cpu"
    with tf.device("/CPU:0" if is_cpu else None):
        functions = module.trace_signatures()
    policy = tf.saved_model.experimental.VariablePolicy.SAVE_VARIABLE_DEVICES
    saved = policy if is_cpu else None
    options = tf.saved_model.SaveOptions(experimental_variable_policy=saved)
    tf.saved_model.save(module, str(folder), functions, options)
