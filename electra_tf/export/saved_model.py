"""Exports a trained model as a SavedModel that takes raw text.

The folder appears complete and checked, or not at all: it is written under
another name, loaded in a fresh process that must give this process' numbers
(`self_check`), and renamed. `export_metadata` describes the files.
"""

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
from electra_tf.finetuning import results
from electra_tf.finetuning import task_data
from electra_tf.finetuning import trial as trial_lib
from electra_tf.formats import own_run
from electra_tf.objectives import registry
from electra_tf.processes import atomic
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints


@schema.frozen
class ExportOptions:
    """Options of an export."""

    # `latest`, `best` (lowest held-out loss, or highest dev score), or the path
    # of a checkpoint's folder. `latest` is the best one of a trial that stopped
    # early by the dev score.
    checkpoint: str = "latest"
    use_average: bool = False  # take the moving average of the weights
    # Of the products, whatever the run trained with.
    precision: Annotated[str, schema.one_of(*config.PRECISIONS)] = "float32"
    # Longest text in tokens, [CLS] and [SEP] included; longer ones are cut. 0:
    # the positions of a pre-trained model, the row length of a trial.
    max_length: int = 0
    # How kernels and tables are stored, see `stored_weights`.
    weights: Annotated[str, schema.one_of(*stored_weights.FORMATS)] = "float32"
    # See `exported_module.DEVICES`.
    device: Annotated[str, schema.one_of(*exported_module.DEVICES)] = "cpu"


_DEFAULTS = ExportOptions()


class ExportedModel(NamedTuple):
    """A finished export."""

    folder: pathlib.Path  # where it is
    checkpoint: pathlib.Path  # the checkpoint that it was made from
    # Between this process and a fresh one, see `self_check.TOLERANCES`.
    largest_difference: float


class Trained(NamedTuple):
    """A trained model, and what its export tells of it."""

    module: Any  # an `ExportedModule`
    checkpoint: pathlib.Path
    settings: str  # text of config.json
    origin: dict[str, Any]  # fields of `ExportMetadata`
    model: Any = None  # of a task, as a Keras model

    def describe(
        self, folder: pathlib.Path, options: ExportOptions
    ) -> export_metadata.ExportMetadata:
        """Describes an export of it; `folder` is that of the run or trial."""
        module, checkpoint = self.module, self.checkpoint
        return export_metadata.ExportMetadata(
            kind=module.kind,
            signatures=tuple(module.signature_names),
            checkpoint=f"{folder.resolve().name}/{checkpoint.name}",
            step=checkpoints.step_of(checkpoint),
            precision=options.precision,
            stored_weights=options.weights,
            device=options.device,
            max_length=module.max_length,
            num_positions=module.num_positions,
            electra_tf=version.VERSION,
            tensorflow=tf.__version__,
            **self.origin,
        )


def export(
    model_dir: pathlib.Path,
    export_dir: pathlib.Path,
    options: ExportOptions = _DEFAULTS,
    task: str = "",
) -> ExportedModel:
    """Exports a pre-training run, a trial, or the best trial of a fine-tuning.

    `export_dir` is created. `task` is one of a trial with several. Raises
    `OSError` if `export_dir` exists or there is no model, `ValueError` if its
    files do not fit each other, `ExportError` if the saved model answers
    otherwise when loaded.
    """
    atomic.refuse_existing(export_dir, "--export_dir")
    trial = results.find_trial(model_dir, task)
    if trial is not None:
        trained = load_task(trial, task, options)
    elif task:
        raise ValueError(
            f"Only fine-tuned trials have tasks. Received: --task={task} for "
            f"{model_dir}, which is none. Leave it out, or name a trial."
        )
    else:
        trained = load_run(model_dir, options)
    module = trained.module
    module.prepare(options.weights, options.device)
    metadata = trained.describe(trial or model_dir, options)
    target = export_dir, installed.EXPORTED, "--export_dir"
    with atomic.creating_folder(*target) as folder:
        extra = folder / export_metadata.EXTRA_FOLDER
        try:
            _save_graphs(module, folder, options.device)
            extra.mkdir()
            module.tokenizer.vocabulary.save(extra)
            (extra / "config.json").write_text(trained.settings, "utf-8")
            serving_folder.write_warm_up(extra, module)
            metadata.write(folder)
        except (OSError, tf.errors.OpError) as error:
            raise atomic.not_written(export_dir, error) from error
        difference = self_check.check(
            folder, module, self_check.TOLERANCES[options.precision]
        )
    return ExportedModel(export_dir, trained.checkpoint, difference)


def load_run(
    model_dir: pathlib.Path, options: ExportOptions = _DEFAULTS
) -> Trained:
    """Loads the main network of a pre-training run, on the CPU."""
    settings = own_run.load_settings(model_dir)
    vocabulary = vocabulary_lib.Vocabulary.load(model_dir)
    checkpoint = checkpoints.find(model_dir, options.checkpoint)
    objective = registry.find(settings)
    last = objective.stages(registry.complete(settings))[-1]
    if last and checkpoints.step_of(checkpoint) <= last:
        logging.warning(
            "%s was made before the objective's last stage, which begins at "
            "step %d. What earlier stages do not train is exported as it "
            "stands.",
            checkpoint,
            last,
        )
    how = options.precision, options.use_average
    network = pretrained.load_network(settings, vocabulary, checkpoint, *how)
    module = pretrained.build_module(
        objective.answer if hasattr(network, "head") else None,
        network,
        tokenizer_lib.Tokenizer(vocabulary),
        options.max_length,
    )
    origin = {
        "trained_length": settings.data.max_seq_length,
        "objective": settings.objective["name"],
        "weights": "average" if options.use_average else "model",
    }
    return Trained(module, checkpoint, config.to_json(settings), origin)


def load_task(
    folder: pathlib.Path, name: str = "", options: ExportOptions = _DEFAULTS
) -> Trained:
    """Loads a task of a trial, on the CPU; an empty name means the only one."""
    if options.use_average:
        raise ValueError(
            "Averaged weights are those of pre-training. Received: "
            f"--use_average for the fine-tuned trial {folder}. Leave it out; "
            "fine-tuning can start from them."
        )
    description = trial_lib.read_description(folder)
    settings, sizes = description.settings, description.encoder
    vocabulary = vocabulary_lib.Vocabulary.load(folder)
    known = description.labels, description.conventions
    prepared = task_data.PreparedTasks(
        settings, vocabulary, sizes.max_position_embeddings, *known
    )
    name = results.choose_task(folder, list(prepared.tasks), name)
    task, length = prepared.tasks[name], prepared.lengths[name]
    checkpoint = (
        trial_lib.final_checkpoint(folder, settings)
        if options.checkpoint == "latest"
        else checkpoints.find(folder, options.checkpoint)
    )
    # The CPU always has room, an accelerator may be in use.
    with tf.device("/CPU:0"):
        encoder = finetuning_model.build_encoder(sizes, options.precision)
        head = task.build_head(
            sizes.hidden_size, settings.training.seed, encoder.dtype_policy
        )
        variables = [*encoder.variables, *head.variables]
        checkpoints.load_weights(checkpoint, {v.path: v for v in variables})
        module = finetuned.FinetunedModule(
            encoder,
            head,
            tokenizer_lib.Tokenizer(vocabulary),
            task,
            options.max_length or length,
        )
        model = finetuning_model.FinetuningModel(encoder, {name: head})
    result = trial_lib.read_result(folder)
    scores = result.scores.get(name, {}) if result else {}
    origin = {
        "trained_length": length,
        "task": name,
        "labels": tuple(task.labels),
        "scores": {split: dict(s.metrics) for split, s in scores.items()},
        "seed": settings.training.seed,
        "source": description.source,
        **task.describe_export(),
    }
    text = schema.to_json(description)
    return Trained(module, checkpoint, text, origin, model)


def _save_graphs(
    module: exported_module.ExportedModule, folder: pathlib.Path, device: str
) -> None:
    # What an object has when it is saved is saved with it.
    module.unbucketed = module.trace_unbucketed()
    # Buckets run on the CPU, and weights must be where they are read.
    is_cpu = device == "cpu"
    with tf.device("/CPU:0" if is_cpu else None):
        functions = module.trace_signatures()
    policy = tf.saved_model.experimental.VariablePolicy.SAVE_VARIABLE_DEVICES
    options = tf.saved_model.SaveOptions(
        experimental_variable_policy=policy if is_cpu else None
    )
    tf.saved_model.save(module, str(folder), functions, options)
