"""The folder of a run: whose it is, and with which settings.

`model_dir/config.json` holds the settings. A later start with other settings
is refused unless only fields of `SAFE_TO_CHANGE` differ. The vocabulary is
copied beside it, so that the folder can be exported without the dataset.
"""

import dataclasses
import pathlib
from typing import Any

from electra_tf import config
from electra_tf import errors
from electra_tf.processes import atomic
from electra_tf.text import vocabulary as vocabulary_lib

# Fields that may differ when a run is resumed: they change neither the model
# nor the masks, samples and order of the examples. (Another number of devices
# changes rounding and the noise of dropout.)
SAFE_TO_CHANGE = frozenset(
    {
        "training.strategy",
        "training.tpu",
        "training.steps_per_loop",
        "training.log_steps",
        "training.eval_steps",
        "training.num_eval_batches",
        "training.save_checkpoints_steps",
        "training.keep_checkpoints",
        "training.peak_flops",
        "training.num_micro_batches",
        "training.jit_compile",
        "data.dataset_dir",
    }
)


def check(
    model_dir: pathlib.Path,
    settings: config.ExperimentConfig,
    vocabulary: vocabulary_lib.Vocabulary,
) -> None:
    """Checks that the folder is free or already this run's; writes nothing.

    Raises:
        ModelError: if the folder holds a run with other settings or another
            vocabulary (names the differences), or no run but files.
    """
    if (model_dir / "config.json").exists():
        _require_same_run(model_dir, settings)
        if (model_dir / "vocab.txt").exists():
            require_same_vocabulary(model_dir, vocabulary)
    elif model_dir.is_dir() and any(
        atomic.PARTIAL_MARK not in path.name for path in model_dir.iterdir()
    ):
        raise errors.ModelError(
            f"{model_dir} is not empty and holds no config.json of a run. "
            "Choose a new or empty --model_dir."
        )


def claim(
    model_dir: pathlib.Path,
    settings: config.ExperimentConfig,
    vocabulary: vocabulary_lib.Vocabulary,
) -> None:
    """Writes settings and vocabulary to a folder that `check` let pass.

    Call it when nothing else can be wrong: a run that failed before may then
    be started again with other settings.
    """
    path = model_dir / "config.json"
    if not path.exists():
        model_dir.mkdir(parents=True, exist_ok=True)
        with atomic.replacing_file(path) as partial:
            partial.write_text(config.to_json(settings), "utf-8")
    atomic.remove_partial(model_dir)
    vocabulary.save(model_dir)


def load_settings(model_dir: pathlib.Path) -> config.ExperimentConfig:
    """The settings of the run in a folder.

    Raises:
        ModelError: if there is no run.
        ConfigError: if its config is damaged.
    """
    path = model_dir / "config.json"
    if not path.is_file():
        raise errors.ModelError(
            f"No run in {model_dir}: expected config.json there. Give the "
            "--model_dir of a run."
        )
    return config.load_json(path)


def _require_same_run(
    model_dir: pathlib.Path, settings: config.ExperimentConfig
) -> None:
    changed = differences(load_settings(model_dir), settings)
    if changed:
        listed = "; ".join(
            f"{name} was {was!r}, now {now!r}"
            for name, (was, now) in changed.items()
        )
        raise errors.ModelError(
            f"{model_dir} holds a run with other settings: {listed}. Choose "
            "another --model_dir, or restore these settings."
        )


def require_same_vocabulary(
    model_dir: pathlib.Path, vocabulary: vocabulary_lib.Vocabulary
) -> None:
    """Raises `ModelError` unless a run was trained with this vocabulary."""
    own = vocabulary_lib.Vocabulary.load(model_dir)
    if own.sha256 != vocabulary.sha256:
        different = f"sha256 {own.sha256[:12]}", vocabulary.sha256[:12]
    elif own.settings != vocabulary.settings:
        different = str(own.settings), str(vocabulary.settings)
    else:
        return
    raise errors.ModelError(
        f"{model_dir} was trained with another vocabulary than the dataset's: "
        f"{different[0]} there, now {different[1]}. Use a dataset made with "
        "the vocabulary of the run, or another --model_dir."
    )


def differences(
    old: Any, new: Any, safe_to_change: frozenset[str] = SAFE_TO_CHANGE
) -> dict[str, tuple[Any, Any]]:
    """Fields that differ and may not: `section.field` to (old, new)."""
    before, after = dataclasses.asdict(old), dataclasses.asdict(new)
    return {
        f"{section}.{key}": (before[section][key], after[section][key])
        for section in before
        for key in before[section]
        if before[section][key] != after[section][key]
        and f"{section}.{key}" not in safe_to_change
    }
