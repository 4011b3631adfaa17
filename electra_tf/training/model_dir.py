"""The folder of a run: whose it is, and with which settings.

`model_dir/config.json` holds the settings. A later start with other settings
is refused unless only fields of `SAFE_TO_CHANGE` differ. The vocabulary is
copied beside it, so that the folder can be exported without the dataset.
"""

import pathlib
from collections.abc import Collection
from typing import Any

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.processes import atomic
from electra_tf.text import vocabulary as vocabulary_lib

CONFIG_FILE = "config.json"

# Fields that may differ when a run is resumed: they change neither the model
# nor the masks, samples and order of the examples. (Another number of devices
# changes rounding and the noise of dropout.)
SAFE_TO_CHANGE = {
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


def check(
    model_dir: pathlib.Path,
    settings: config.ExperimentConfig,
    vocabulary: vocabulary_lib.Vocabulary,
) -> None:
    """Checks that the folder is free or already this run's; writes nothing."""
    if not has_config(model_dir, "run", "--model_dir"):
        return
    old = load_settings(model_dir)
    require_same(model_dir, old, settings, SAFE_TO_CHANGE, "--model_dir")
    if (model_dir / "vocab.txt").exists():
        require_same_vocabulary(model_dir, vocabulary)


def has_config(folder: pathlib.Path, what: str, flag: str) -> bool:
    """Whether a folder is that of a run; refuses one of other files."""
    if (folder / CONFIG_FILE).exists():
        return True
    if folder.is_dir() and any(
        atomic.PARTIAL_MARK not in path.name for path in folder.iterdir()
    ):
        raise errors.ModelError(
            f"{folder} is not empty and holds no {CONFIG_FILE} of a {what}. "
            f"Choose a new or empty {flag}."
        )
    return False


def claim(
    folder: pathlib.Path, content: Any, vocabulary: vocabulary_lib.Vocabulary
) -> None:
    """Writes config and vocabulary to a folder that was checked before.

    Call it last: a run that failed before can have other settings next time.
    """
    path = folder / CONFIG_FILE
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with atomic.replacing_file(path) as partial:
            partial.write_text(schema.to_json(content), "utf-8")
    atomic.remove_partial(folder)
    vocabulary.save(folder)


def load_settings(model_dir: pathlib.Path) -> config.ExperimentConfig:
    """The settings of the run in a folder, or `ModelError` if there is none."""
    path = model_dir / CONFIG_FILE
    if not path.is_file():
        raise errors.ModelError(
            f"No run in {model_dir}: expected config.json there. Give the "
            "--model_dir of a run."
        )
    return schema.read(config.ExperimentConfig, path)


def require_same(
    folder: pathlib.Path,
    old: Any,
    new: Any,
    safe_to_change: Collection[str],
    flag: str,
) -> None:
    """Raises `ModelError` if fields differ that are not safe to change."""
    changed = [
        difference
        for difference in schema.find_differences(old, new)
        if difference.partition(":")[0] not in safe_to_change
    ]
    if changed:
        raise errors.ModelError(
            f"{folder} was made with other settings (there, now): "
            f"{'; '.join(changed)}. Choose another {flag}, or restore these "
            "settings."
        )


def require_same_vocabulary(
    model_dir: pathlib.Path, vocabulary: vocabulary_lib.Vocabulary
) -> None:
    """Raises `ModelError` unless a run was trained with this vocabulary."""
    own = vocabulary_lib.Vocabulary.load(model_dir)
    for there, now in (
        (own.sha256[:12], vocabulary.sha256[:12]),
        (own.settings, vocabulary.settings),
    ):
        if there != now:
            raise errors.ModelError(
                f"{model_dir} was trained with another vocabulary than the "
                f"dataset's: {there} there, now {now}. Use a dataset made with "
                "the vocabulary of the run, or another --model_dir."
            )
