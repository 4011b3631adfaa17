"""What our forward pass computes, by the names of the reference's arrays.

Most of it is kept while the training step's own code runs. What the step
never needs is made here by the functions that it is made of: losses of single
rows and tokens, and the masked positions' loss where the generator learns from
all tokens.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.inputs import masking
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.pretraining import losses
from electra_tf.training import metrics
from electra_tf.training import step as step_lib
from electra_tf.verification import fed_model
from electra_tf.verification import reference

Arrays = reference.Arrays


def compute_outputs(
    configuration: fed_model.Configuration,
) -> tuple[Arrays, dict[str, float]]:
    """Our side of `outputs.npz`, by its names, and the metrics."""
    model = configuration.model
    prepared = model.prepare(
        configuration.features(), tf.constant(0, tf.int64), is_training=True
    )
    sums = model.compute_losses(prepared, None)
    weights = model.loss_weights(prepared)
    means = {
        name: step_lib.weighted_mean(total, weights[name])
        for name, total in sums.losses.items()
    }
    factors = model.loss_coefficients
    outputs = {
        **_masking_outputs(model),
        **_generator_outputs(model),
        **_sampling_outputs(model),
        **name_losses(model, means),
        "total_loss": tf.add_n([factors[name] * means[name] for name in means]),
    }
    if model.is_two_tower:
        outputs |= _cloze_outputs(model)
    if "disc_loss" in means:
        outputs |= _discriminator_outputs(model)
    statistics = {n: value.numpy() for n, value in sums.statistics.items()}
    arrays = {name: np.asarray(value) for name, value in outputs.items()}
    return arrays, {
        **model.summarize(statistics),
        **_accuracies_of_all_chosen(statistics),
    }


def _accuracies_of_all_chosen(
    statistics: Mapping[str, np.ndarray],
) -> dict[str, float]:
    """The reference's accuracies, which count kept tokens like hidden ones."""
    num_chosen = statistics["masked_tokens"] + statistics["kept_tokens"]
    counted = {
        "masked_lm_accuracy": ("masked_correct", "kept_correct"),
        "sampled_masked_lm_accuracy": (
            "sampled_correct",
            "kept_sampled_correct",
        ),
    }
    return {
        name: metrics.ratio(statistics[hidden] + statistics[kept], num_chosen)
        for name, (hidden, kept) in counted.items()
        if hidden in statistics
    }


def name_losses(
    model: fed_model.FedModel, means: Mapping[str, Any]
) -> dict[str, Any]:
    """The losses of the latest pass by the reference's names.

    There the generator's loss is `mlm_loss`. A two-tower generator learns by
    `cloze_loss`; its `mlm_loss` is that of the masked positions, which the
    reference notes too.

    Args:
        model: after the pass.
        means: loss name to its mean, by our names.
    """
    named = dict(means)
    if "gen_loss" not in named:
        return named
    generator_loss = named.pop("gen_loss")
    if not model.is_two_tower:
        return named | {"mlm_loss": generator_loss}
    masked = model.trace.masked
    total = losses.masked_lm_loss(
        model.trace.generator.logits, masked.masked_ids, masked.masked_weights
    )
    mean = step_lib.weighted_mean(total, tf.reduce_sum(masked.masked_weights))
    return named | {"mlm_loss": mean, "cloze_loss": generator_loss}


def _masking_outputs(model: fed_model.FedModel) -> dict[str, Any]:
    masked = model.trace.masked
    eligible = masking.eligible_positions(
        masked.original_ids, masked.input_mask, model.masking.special_ids
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


def _generator_outputs(model: fed_model.FedModel) -> dict[str, Any]:
    masked, output = model.trace.masked, model.trace.generator
    outputs = {
        "mlm_logits": output.logits,
        "mlm_preds": tf.argmax(output.logits, -1, output_type=tf.int32),
        "mlm_per_example_loss": _losses_by_token(
            output.logits, masked.masked_ids
        ),
    }
    # Without a generator the main tower is what predicts.
    tower = model.generator or model.main
    if model.is_two_tower:
        encoders = {
            "gen_ltr_": tower.left_to_right,
            "gen_rtl_": tower.right_to_left,
        }
    elif output.encoder_outputs:
        encoders = {"gen_": tower.encoder}
    else:
        encoders = {}
    for (prefix, encoder), intermediates in zip(
        encoders.items(), output.encoder_outputs, strict=True
    ):
        outputs |= _encoder_outputs(
            prefix, encoder, intermediates, masked.input_mask
        )
    return outputs


def _cloze_outputs(model: fed_model.FedModel) -> dict[str, Any]:
    """The two-tower generator's view of every token."""
    trace = model.trace
    logits = trace.generator.prediction_logits
    targets = model.generator.targets(trace.masked)
    return {
        "cloze_logits": logits,
        "cloze_preds": tf.argmax(logits, -1, output_type=tf.int32),
        "cloze_weights": targets.weights,
        "cloze_per_token_loss": _losses_by_token(logits, targets.ids),
        "log_q": -_losses_by_token(logits, trace.fake.input_ids),
    }


def _sampling_outputs(model: fed_model.FedModel) -> dict[str, Any]:
    return {
        "sampled_ids": model.trace.sampled,
        "updated_input_ids": model.trace.fake.input_ids,
        "is_fake": model.detection_labels(),
    }


def _discriminator_outputs(model: fed_model.FedModel) -> dict[str, Any]:
    input_mask = model.trace.masked.input_mask
    logits = model.detection_logits()
    return {
        "disc_logits": logits,
        "disc_probs": tf.sigmoid(logits),
        "disc_preds": tf.cast(logits > 0, tf.int32),
        "disc_per_example_loss": _losses_by_row(
            logits, model.detection_labels(), input_mask
        ),
        **_encoder_outputs(
            "disc_",
            model.main.encoder,
            model.trace.discriminator.encoder_output,
            input_mask,
        ),
    }


def _losses_by_token(logits: tf.Tensor, ids: tf.Tensor) -> np.ndarray:
    """The loss of every predicted token alone, `[B, N]`."""
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
    logits: tf.Tensor, labels: tf.Tensor, input_mask: tf.Tensor
) -> np.ndarray:
    """The discriminator's mean loss of every row alone, `[B]`."""
    weights = tf.cast(input_mask, tf.float32)
    rows = [slice(row, row + 1) for row in range(logits.shape[0])]
    return np.array(
        [
            step_lib.weighted_mean(
                losses.replaced_token_loss(
                    logits[row], labels[row], weights[row]
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
    bias = encoder_lib.compute_attention_bias(input_mask, encoder.direction)
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
