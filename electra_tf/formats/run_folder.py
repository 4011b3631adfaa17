"""The settings of a pre-training run, in the folder of the run."""

import pathlib

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.objectives import registry
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints

_SAFE_TO_CHANGE = checkpoints.SAFE_TO_CHANGE | {
    "training.eval_steps",
    "training.num_eval_batches",
    "training.peak_flops",
    "data.dataset_dir",
}


def load_settings(model_dir: pathlib.Path) -> config.ExperimentConfig:
    """The settings of the run in a folder, as they were saved.

    Raises:
        ModelError: if there is no run.
    """
    path = model_dir / checkpoints.CONFIG_FILE
    if not path.is_file() or "model_type" in schema.read_object(path):
        raise errors.ModelError(
            f"No run in {model_dir}: expected its config.json there. Give the "
            "folder of a run; electra-convert makes one of other models."
        )
    return schema.read_file(config.ExperimentConfig, path)


def check(
    model_dir: pathlib.Path,
    settings: config.ExperimentConfig,
    vocabulary: vocabulary_lib.Vocabulary,
    may_extend: bool = False,
) -> list[str]:
    """Checks that the folder is free or already this run's; writes nothing.

    More steps than the run has are refused, unless it `may_extend`. Returns
    the settings that differ, each as `section.field: there, now`.
    """
    if not checkpoints.has_config(model_dir, "run", "--model_dir"):
        return []
    old = registry.complete(load_settings(model_dir))
    settings = registry.complete(settings)
    now, there = (s.training.num_train_steps for s in (settings, old))
    extended = {"training.num_train_steps"} if now > there else set()
    safe = _SAFE_TO_CHANGE | extended
    changed = checkpoints.require_same_settings(
        model_dir, old, settings, safe, "--model_dir"
    )
    if extended and not may_extend:
        raise errors.ModelError(
            f"{model_dir} holds a run of {there} steps. Received: "
            f"training.num_train_steps={now}. --extend stretches its learning-"
            "rate schedule over all of them: the rate jumps up. Or warm up and "
            f"decay anew, in another --model_dir with --init_from={model_dir}."
        )
    if (model_dir / "vocab.txt").exists():
        checkpoints.require_same_vocabulary(model_dir, vocabulary)
    return changed
