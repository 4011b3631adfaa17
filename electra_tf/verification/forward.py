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
import tensorflow as tf

from electra_tf import config
from electra_tf.export import parameter_names
from electra_tf.inputs import masking
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.pretraining import losses
from electra_tf.pretraining import objective as objective_lib
from electra_tf.training import step as step_lib
from electra_tf.verification import comparison
from electra_tf.verification import fed_model
from electra_tf.verification import reference
from electra_tf.verification.report import CheckResult

KIND = "forward"
TOLERANCE = 1e-5  # absolute and relative

# What float arrays are about, by the start of their names; the first fits.
_GROUPS = {
    "losses": ("mlm_loss", "disc_loss", "total_loss"),
    "masks and generator": ("mask", "gen_", "mlm_"),
    "discriminator": ("disc_",),
}
# Recorded for some configurations only.
_OPTIONAL = ("gen_attention_probs", "disc_attention_probs")
# The reference's name of a metric and ours.
_METRICS = {
    "masked_lm_accuracy": "masked_accuracy",
    "masked_lm_loss": "gen_loss",
    "sampled_masked_lm_accuracy": "sampled_accuracy",
    "disc_accuracy": "disc_accuracy",
    "disc_precision": "disc_precision",
    "disc_recall": "disc_recall",
}

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
    ours, metrics = compute_outputs(configuration)
    return [
        _check_sizes(configuration),
        *_compare_outputs(configuration.name, ours, expected),
        _check_metrics(configuration, metrics),
    ]


def compute_outputs(
    configuration: fed_model.Configuration,
) -> tuple[Arrays, dict[str, float]]:
    """Our side of `outputs.npz`, by its names, and the metrics."""
    model = configuration.model
    prepared = model.prepare(
        configuration.features(), tf.constant(0, tf.int64), is_training=True
    )
    sums = model.compute_losses(prepared, None)
    outputs = _masking_outputs(model, prepared)
    outputs |= _generator_outputs(model, prepared)
    outputs |= _discriminator_outputs(model, prepared)
    weights = model.loss_weights(prepared)
    means = {
        name: step_lib.weighted_mean(total, weights[name])
        for name, total in sums.losses.items()
    }
    outputs["mlm_loss"] = means["gen_loss"]
    outputs["disc_loss"] = means["disc_loss"]
    outputs["total_loss"] = tf.add_n(
        [
            factor * means[name]
            for name, factor in model.loss_coefficients.items()
        ]
    )
    statistics = {n: value.numpy() for n, value in sums.statistics.items()}
    arrays = {name: np.asarray(value) for name, value in outputs.items()}
    return arrays, model.summarize(statistics)


def _masking_outputs(
    model: fed_model.FedModel, prepared: objective_lib.PreparedBatch
) -> dict[str, Any]:
    masked = prepared.masked
    eligible = masking.eligible_positions(
        masked.original_ids, masked.input_mask, model.special_ids
    ).numpy()
    num_candidates = eligible.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        log_probs = np.log(eligible / num_candidates)
    return {
        "mask_sample_log_probs": log_probs,
        "masked_lm_positions": masked.masked_positions,
        "masked_lm_weights": masked.masked_weights,
        "masked_lm_ids": masked.masked_ids,
        "masked_input_ids": masked.input_ids,
    }


def _generator_outputs(
    model: fed_model.FedModel, prepared: objective_lib.PreparedBatch
) -> dict[str, Any]:
    masked, output = prepared.masked, model.trace.generator
    outputs = {
        "mlm_logits": output.logits,
        "mlm_preds": tf.argmax(output.logits, -1, output_type=tf.int32),
        "mlm_per_example_loss": _losses_by_slot(
            output.logits, masked.masked_ids
        ),
        "sampled_ids": model.trace.sampled,
    }
    if output.encoder_output is not None:
        outputs |= _encoder_outputs(
            "gen_",
            model.generator.encoder,
            output.encoder_output,
            masked.input_mask,
        )
    return outputs


def _discriminator_outputs(
    model: fed_model.FedModel, prepared: objective_lib.PreparedBatch
) -> dict[str, Any]:
    masked, fake = prepared.masked, model.trace.fake
    output = model.trace.discriminator
    logits = output.logits
    return {
        "updated_input_ids": fake.input_ids,
        "is_fake": fake.is_fake_tokens,
        "disc_logits": logits,
        "disc_probs": tf.sigmoid(logits),
        "disc_preds": tf.cast(logits > 0, tf.int32),
        "disc_per_example_loss": _losses_by_row(
            logits, fake.is_fake_tokens, masked.input_mask
        ),
        **_encoder_outputs(
            "disc_",
            model.discriminator.encoder,
            output.encoder_output,
            masked.input_mask,
        ),
    }


def _losses_by_slot(logits: tf.Tensor, ids: tf.Tensor) -> np.ndarray:
    """The masked-LM loss of every slot alone, `[B, P]`."""
    one = tf.ones([1, 1])
    values = [
        losses.masked_lm_loss(
            logits[row, slot][tf.newaxis, tf.newaxis],
            ids[row, slot][tf.newaxis, tf.newaxis],
            one,
        )
        for row in range(ids.shape[0])
        for slot in range(ids.shape[1])
    ]
    return np.reshape(values, ids.shape)


def _losses_by_row(
    logits: tf.Tensor, is_fake: tf.Tensor, input_mask: tf.Tensor
) -> np.ndarray:
    """The discriminator's mean loss of every row alone, `[B]`."""
    weights = tf.cast(input_mask, tf.float32)
    rows = [slice(row, row + 1) for row in range(logits.shape[0])]
    return np.array(
        [
            step_lib.weighted_mean(
                losses.replaced_token_loss(
                    logits[row], is_fake[row], weights[row]
                ),
                tf.reduce_sum(weights[row]),
            )
            for row in rows
        ]
    )


def _encoder_outputs(
    prefix: str,
    encoder: encoder_lib.Encoder,
    output: encoder_lib.EncoderOutput,
    input_mask: tf.Tensor,
) -> dict[str, Any]:
    width = encoder.hidden_size
    bias = encoder_lib.compute_attention_bias(input_mask)
    block_inputs = [output.embedding_output, *output.layer_outputs]
    attention = [
        block.compute_attention_probs(tf.reshape(states, [-1, width]), bias)
        for block, states in zip(encoder.blocks, block_inputs, strict=False)
    ]
    arrays = {
        "embedding_layernorm_output": output.embedding_layernorm_output,
        "embedding_output": output.embedding_output,
        "layer_outputs": tf.stack(output.layer_outputs),
        "sequence_output": output.sequence_output,
        "attention_probs": tf.stack(attention),
    }
    return {prefix + name: array for name, array in arrays.items()}


def _compare_outputs(
    name: str, ours: Arrays, expected: Arrays
) -> list[CheckResult]:
    """A line for whole numbers, and one for each group of floats."""
    integers = comparison.Comparison(KIND, f"{name}, ids, positions, labels")
    groups = {
        group: comparison.Comparison(KIND, f"{name}, {group}", TOLERANCE)
        for group in _GROUPS
    }
    needed = ours.keys() - set(_OPTIONAL)
    for key in sorted({*needed, *expected}):
        if key not in expected:
            integers.add(f"{key} missing in the reference", np.inf)
        elif key not in ours:
            integers.add(f"{key} unknown here", np.inf)
        elif expected[key].dtype.kind == "f":
            error = comparison.compute_error(ours[key], expected[key])
            groups[_find_group(key)].add(key, error)
        else:
            error = comparison.count_unequal(ours[key], expected[key])
            integers.add(key, error)
    return [line.result() for line in (integers, *groups.values())]


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
    special_ids = (ids["[CLS]"], ids["[SEP]"], ids["[MASK]"])
    line.add("special ids", model.special_ids != special_ids)
    line.add("[MASK]", model.mask_id != ids["[MASK]"])
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
    for theirs, ours in _METRICS.items():
        error = comparison.compute_error(
            np.array(metrics[ours]), np.array(expected[theirs])
        )
        line.add(theirs, error)
    return line.result()
