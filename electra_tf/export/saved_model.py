"""A model as a SavedModel that takes raw text: a run's main tower here.

    export_dir/
        saved_model.pb, variables/     what TensorFlow loads
        assets.extra/                  vocabulary, config, origin, warm-up
        README.md, signatures.json     the public format (`signatures`)

The folder appears complete and checked, or not at all: it is written under
another name, loaded in a fresh process that must give this process' numbers
(`self_check`), and renamed.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from absl import logging

import electra_tf
from electra_tf import config
from electra_tf.export import documentation
from electra_tf.export import signature_module
from electra_tf.export.checks import self_check
from electra_tf.export.checks import warm_up
from electra_tf.export.compute import stored_weights
from electra_tf.export.pretrained import serving_module
from electra_tf.export.pretrained import tower_answers
from electra_tf.export.pretrained import trained_run
from electra_tf.pretraining import model as model_lib
from electra_tf.records import atomic
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints
from electra_tf.training import model_dir as model_dir_lib

# Servers ignore this folder of a SavedModel.
EXTRA_FOLDER = "assets.extra"


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """How a run is exported.

    Attributes:
        checkpoint: `latest`, `best` (lowest held-out loss), or the path of a
            checkpoint's folder.
        use_average: take the moving average of the weights.
        precision: of the products; one of `config.PRECISIONS`, whatever the
            run trained with. Outputs are float32.
        max_length: tokens at which texts are cut, with [CLS] and [SEP]; 0 is
            the model's number of positions.
        weights: how kernels and tables are stored, one of
            `stored_weights.FORMATS`.
        device: `cpu` makes an export that runs on the CPU and is fast there,
            rows in groups of like length (`row_groups`) and blocks in parts
            (`parallel_blocks`); `any` one that computes a batch at once, on
            whatever device there is.
    """

    checkpoint: str = "latest"
    use_average: bool = False
    precision: str = "float32"
    max_length: int = 0
    weights: str = "float32"
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Raises `ValueError` for what is unknown."""
        if self.device not in signature_module.DEVICES:
            raise ValueError(
                "`device` must be one of "
                f"{', '.join(signature_module.DEVICES)}. Received: "
                f"{self.device!r}."
            )
        stored_weights.require_format(self.weights)
        if self.precision not in config.PRECISIONS:
            raise ValueError(
                "`precision` must be one of "
                f"{', '.join(config.PRECISIONS)}. Received: "
                f"{self.precision!r}."
            )


@dataclasses.dataclass(frozen=True)
class ExportedModel:
    """A finished export.

    Attributes:
        folder: where it is.
        checkpoint: the checkpoint that it was made from.
        largest_difference: between this process and a fresh one, see
            `self_check.TOLERANCES`.
    """

    folder: pathlib.Path
    checkpoint: pathlib.Path
    largest_difference: float


def export_run(
    model_dir: pathlib.Path,
    export_dir: pathlib.Path,
    options: ExportOptions | None = None,
) -> ExportedModel:
    """Exports the main tower of a pre-training run, whatever its objective.

    Args:
        model_dir: the run's folder: config.json, vocabulary, checkpoints.
        export_dir: folder to create.
        options: which weights, how precisely, how long; None takes the
            defaults.

    Raises:
        FileExistsError: if `export_dir` exists.
        FileNotFoundError: if `model_dir` lacks what a run leaves there.
        ValueError: if weights, config and vocabulary do not fit each other.
        ExportError: if the saved model answers otherwise when loaded.
    """
    options = options or ExportOptions()
    refuse_existing(export_dir)
    settings = model_dir_lib.load_settings(model_dir)
    vocabulary = vocabulary_lib.Vocabulary.load(model_dir)
    checkpoint = checkpoints.find(model_dir, options.checkpoint)
    objective = model_lib.find_objective(settings)
    step = checkpoints.step_of(checkpoint)
    _warn_of_early_phase(objective.phases(settings)[-1], checkpoint, step)
    tower = trained_run.load_main_tower(
        settings,
        vocabulary,
        checkpoint,
        options.precision,
        options.use_average,
    )
    difference = save(
        tower_answers.build_answers(objective, tower, vocabulary),
        vocabulary,
        settings,
        export_dir,
        options,
        origin={
            "checkpoint": f"{model_dir.resolve().name}/{checkpoint.name}",
            "step": step,
        },
    )
    return ExportedModel(export_dir, checkpoint, difference)


def save(
    answers: tower_answers.TowerAnswers,
    vocabulary: vocabulary_lib.Vocabulary,
    settings: config.ExperimentConfig,
    export_dir: pathlib.Path,
    options: ExportOptions,
    origin: dict[str, Any],
) -> float:
    """Writes, checks and names a SavedModel.

    Args:
        answers: of a tower built in `options.precision`, with its weights.
        vocabulary: the one that it was trained with.
        settings: of the run, kept beside the model.
        export_dir: folder to create.
        options: as for `export_run`.
        origin: `checkpoint` and `step`, for the documentation.

    Returns:
        The largest difference that the self-check found.

    Raises:
        FileExistsError: if `export_dir` exists.
        ExportError: if the saved model answers otherwise when loaded; the
            folder is removed then.
    """
    module = serving_module.ServingModule(
        answers, tokenizer_lib.Tokenizer(vocabulary), options.max_length
    )
    facts = origin | {
        "objective": settings.objective.name,
        "kind": answers.kind,
        "weights": "average" if options.use_average else "model",
        "trained_length": settings.data.max_seq_length,
    }
    return write(
        module, vocabulary, export_dir, options, facts, config.to_json(settings)
    )


def write(
    module: signature_module.SignatureModule,
    vocabulary: vocabulary_lib.Vocabulary,
    export_dir: pathlib.Path,
    options: ExportOptions,
    facts: Mapping[str, Any],
    settings: str,
) -> float:
    """Writes, checks and names a SavedModel.

    Args:
        module: with its weights.
        vocabulary: of the model.
        export_dir: folder to create.
        options: how it is stored.
        facts: what export.json says beside what the module and the options
            tell: where the model comes from, `kind` among them.
        settings: text of config.json.

    Returns:
        The largest difference that the self-check found.

    Raises:
        FileExistsError: if `export_dir` exists.
        ExportError: if the saved model answers otherwise when loaded; the
            folder is removed then.
    """
    refuse_existing(export_dir)
    module.prepare(options.weights, options.device)
    facts = {
        **facts,
        "signatures": list(module.signature_names),
        "precision": options.precision,
        "stored_weights": options.weights,
        "device": options.device,
        "max_length": module.max_length,
        "num_positions": module.num_positions,
        "electra_tf": electra_tf.__version__,
        "tensorflow": tf.__version__,
    }
    with atomic.creating_folder(export_dir) as folder:
        # What an object has when it is saved is saved with it.
        module.ungrouped = module.trace_ungrouped()
        _save_graphs(module, folder, options.device)
        extra = folder / EXTRA_FOLDER
        extra.mkdir()
        vocabulary.save(extra)
        warm_up.write(extra / warm_up.FILE_NAME, module)
        for path, text in {
            extra / "config.json": settings,
            extra / "export.json": json.dumps(facts, indent=2) + "\n",
            folder / "signatures.json": documentation.render_signatures(
                facts["signatures"]
            ),
            folder / "README.md": documentation.render_readme(facts),
        }.items():
            path.write_text(text, "utf-8")
        difference = self_check.check(
            folder, module, self_check.TOLERANCES[options.precision]
        )
        # Another process may have made it while this one was at work.
        refuse_existing(export_dir)
    return difference


def _save_graphs(
    module: signature_module.SignatureModule, folder: pathlib.Path, device: str
) -> None:
    if device == "any":
        tf.saved_model.save(
            module, str(folder), signatures=module.trace_signatures()
        )
        return
    with tf.device("/CPU:0"):
        functions = module.trace_signatures()
    policy = tf.saved_model.experimental.VariablePolicy.SAVE_VARIABLE_DEVICES
    tf.saved_model.save(
        module,
        str(folder),
        signatures=functions,
        # Groups run on the CPU, and weights must be where they are read.
        options=tf.saved_model.SaveOptions(experimental_variable_policy=policy),
    )


def _warn_of_early_phase(
    last: int, checkpoint: pathlib.Path, step: int
) -> None:
    if last and step <= last:
        logging.warning(
            "%s was made before the objective's last phase, which begins at "
            "step %d. What earlier phases do not train is exported as it "
            "stands.",
            checkpoint,
            last,
        )


def refuse_existing(export_dir: pathlib.Path) -> None:
    """Raises `FileExistsError` if a folder to create is there."""
    if export_dir.exists() or export_dir.is_symlink():
        raise FileExistsError(
            f"The export folder must not exist yet. Received: {export_dir}. "
            "Give another --export_dir, or remove that one."
        )
