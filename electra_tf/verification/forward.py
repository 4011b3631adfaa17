"""Forward passes of pre-training models against references.

Each folder of `forward/` describes one configuration. Its model is built from
the original's hyperparameters and checkpoint, and everything between the
masks and the losses is compared. Not compared: `disc_auc` and `disc_loss` of
the reference's evaluation metrics, which count padding and average over rows
where ours count tokens.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from electra_tf import config
from electra_tf.formats import parameter_names
from electra_tf.inputs import masking
from electra_tf.verification import comparison
from electra_tf.verification import fed_model
from electra_tf.verification import forward_outputs
from electra_tf.verification import reference
from electra_tf.verification import rounding
from electra_tf.verification.report import CheckResult

KIND = "forward"
TOLERANCE = 1e-5  # absolute and relative
# Absolute, where what is compared is a matter of rounding; see `rounding`.
ROUNDED_TOLERANCE = 3e-3
LEFT_OUT = "outputs_left_out"
"""Key of `info.json`: arrays that a copy of a reference goes without."""

# What float arrays are about, by the start of their names; the first fits.
_GROUPS = {
    "losses": ("mlm_loss", "cloze_loss", "disc_loss", "total_loss"),
    "masks and generator": ("mask", "gen_", "mlm_", "cloze_", "log_q"),
    "discriminator": ("disc_",),
}
# The reference's name of a metric and ours.
_METRICS = {
    "masked_lm_accuracy": "masked_lm_accuracy",
    "masked_lm_loss": "mlm_loss",
    "sampled_masked_lm_accuracy": "sampled_masked_lm_accuracy",
    "disc_accuracy": "disc_accuracy",
    "disc_precision": "disc_precision",
    "disc_recall": "disc_recall",
}
# Defined otherwise here, see above.
_OTHER_METRICS = ("disc_auc", "disc_loss")

Arrays = reference.Arrays


def check_forward(
    configuration: fed_model.Configuration,
) -> list[CheckResult]:
    """Everything that one forward pass computes.

    Args:
        configuration: as loaded.

    Returns:
        A line each for hyperparameters and variables, whole numbers, groups
        of float arrays, and metrics.
    """
    expected = reference.read_arrays(configuration.folder / "outputs.npz")
    ours, metrics = forward_outputs.compute_outputs(configuration)
    return [
        _check_sizes(configuration),
        *_compare_outputs(configuration, ours, expected),
        _check_metrics(
            configuration, metrics | {"mlm_loss": float(ours["mlm_loss"])}
        ),
    ]


def _compare_outputs(
    configuration: fed_model.Configuration, ours: Arrays, expected: Arrays
) -> list[CheckResult]:
    """A line for whole numbers, and one for each group of floats.

    What follows from rounding where nothing is seen gets a line of its own;
    everything beside it is held to the tolerance of all others.
    """
    name, model = configuration.name, configuration.model
    integers = comparison.Comparison(KIND, f"{name}, ids, positions, labels")
    groups = {
        group: comparison.Comparison(KIND, f"{name}, {group}", TOLERANCE)
        for group in _GROUPS
    }
    rounded = comparison.Comparison(
        KIND, f"{name}, next to nothing but padding", ROUNDED_TOLERANCE
    )
    optional = {*configuration.info.get(LEFT_OUT, ()), *_optional(model, ours)}
    for key in sorted({*(ours.keys() - optional), *expected}):
        if key not in expected:
            integers.add(f"{key} missing in the reference", np.inf)
            continue
        if key not in ours:
            integers.add(f"{key} unknown here", np.inf)
            continue
        is_rounded = rounding.find_rounded(
            key, configuration.inputs["input_mask"], model.is_electric
        )
        theirs = expected[key]
        if is_rounded is not None and ours[key].shape == theirs.shape:
            error = rounding.compute_error(key, ours, theirs, is_rounded)
            rounded.add(key, error)
            theirs = np.where(is_rounded, ours[key], theirs)
        if expected[key].dtype.kind == "f":
            error = comparison.compute_error(ours[key], theirs)
            groups[_find_group(key)].add(key, error)
        else:
            integers.add(key, comparison.count_unequal(ours[key], theirs))
    lines = [integers, *groups.values(), rounded]
    return [line.result() for line in lines if line.errors]


def _optional(model: fed_model.FedModel, ours: Arrays) -> set[str]:
    """What the reference need not hold of ours."""
    names = {name for name in ours if name.endswith("attention_probs")}
    # Only Electric needs the probability of what the discriminator sees.
    return names if model.is_electric else names | {"log_q"}


def _find_group(key: str) -> str:
    return next(
        group for group, prefixes in _GROUPS.items() if key.startswith(prefixes)
    )


def _check_sizes(configuration: fed_model.Configuration) -> CheckResult:
    """Resolved hyperparameters and the shapes of all variables, exactly."""
    info, settings = configuration.info, configuration.settings
    line = comparison.Comparison(
        KIND, f"{configuration.name}, hyperparameters and variables"
    )
    encoders = {"bert_config": settings.encoder}
    has_own_encoder = settings.generator.weight_tying != "all"
    if has_own_encoder and not settings.generator.uniform_generator:
        encoders["generator_config"] = settings.generator.encoder_config(
            settings.encoder
        )
    for name, encoder in encoders.items():
        _compare_sizes(line, name, encoder, info[name])
    slots = masking.max_predictions_per_seq(
        settings.masking.mask_prob, settings.data.max_seq_length
    )
    line.add("N", abs(slots - info["max_predictions_per_seq"]))
    model, ids = configuration.model, info["special_token_ids"]
    vocabulary = model.masking.vocabulary
    special_ids = (ids["[CLS]"], ids["[SEP]"], ids["[MASK]"])
    line.add("special ids", model.masking.special_ids != special_ids)
    line.add("[MASK]", vocabulary.mask_id != ids["[MASK]"])
    shapes = {
        name: list(value.shape)
        for variable in model.trainable_variables
        for name, value in parameter_names.split(
            variable.path, variable.numpy()
        ).items()
    }
    for name in {*shapes, *info["variables"]}:
        line.add(name, shapes.get(name) != info["variables"].get(name))
    return line.result()


def _compare_sizes(
    line: comparison.Comparison,
    name: str,
    encoder: config.EncoderConfig,
    expected: Mapping[str, Any],
) -> None:
    # Dropout is off here, and there is no other activation.
    for field, value in expected.items():
        if "dropout" not in field and field != "hidden_act":
            line.add(f"{name}.{field}", getattr(encoder, field) != value)


def _check_metrics(
    configuration: fed_model.Configuration, metrics: Mapping[str, float]
) -> CheckResult:
    line = comparison.Comparison(
        KIND, f"{configuration.name}, metrics", TOLERANCE
    )
    expected = configuration.info["eval_metrics"]
    for theirs, value in expected.items():
        if theirs in _OTHER_METRICS:
            continue
        ours = _METRICS.get(theirs, "")
        if ours not in metrics:
            line.add(f"{theirs} unknown here", np.inf)
            continue
        error = comparison.compute_error(
            np.array(metrics[ours]), np.array(value)
        )
        line.add(theirs, error)
    return line.result()
