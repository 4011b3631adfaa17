"""Forward passes of pre-training models, and what `training` adds.

A folder describes one configuration. Its model is built from the original's
hyperparameters and checkpoint, and everything between the masks and the losses
is compared. Not compared: `disc_auc` and `disc_loss` of the reference's
evaluation metrics, which count padding and average over rows where ours count
tokens.

In a two-tower model some numbers are a matter of rounding. The tower that
reads from the right sees nothing but padding from a padding position: every
key loses 10000, to which float32 rounds in steps of 0.001. The prediction for
the token before such a position takes its state. These entries have a line of
their own; everything beside them is held to the tolerance of all others.
"""

import numpy as np
import tensorflow as tf

from electra_tf.formulas import accuracies
from electra_tf.formulas import losses
from electra_tf.inputs import masking
from electra_tf.modeling.encoder import EncoderOutput
from electra_tf.training import step as step_lib
from tests.golden import loading
from tests.golden.checks import training
from tests.golden.checks.replay import Replay
from tests.golden.checks.replay import split_all
from tests.golden.comparison import Line
from tests.golden.comparison import guard

_TOLERANCE = 1e-5  # absolute and relative
_ROUNDED_TOLERANCE = 3e-3  # absolute, where rounding decides
# What float arrays are about, by the start of their names; the first fits.
_GROUPS = {
    "losses": ("mlm_loss", "cloze_loss", "disc_loss", "total_loss"),
    "masks and generator": ("mask", "gen_", "mlm_", "cloze_", "log_q"),
    "discriminator": ("disc_",),
}
# The reference's name, and what counts hidden and kept tokens.
_ACCURACIES = (
    ("masked_lm_accuracy", "masked_correct", "kept_correct"),
    ("sampled_masked_lm_accuracy", "sampled_correct", "kept_sampled_correct"),
)
_OTHER_METRICS = ("disc_auc", "disc_loss")  # defined otherwise, see above


def check_configuration(folder):
    """Everything that there is of one configuration."""
    replay = Replay(folder)
    yield from guard(replay.name, _check_pass, replay)
    for name, check, *arguments in training.list_checks(replay):
        yield from guard(f"{replay.name}, {name}", check, replay, *arguments)


def _check_pass(replay):
    expected = loading.read_arrays(replay.folder / "outputs.npz")
    ours, numbers = _compute_outputs(replay)
    yield _check_sizes(replay)
    yield from _compare_outputs(replay, ours, expected)
    line = Line(f"{replay.name}, metrics", _TOLERANCE)
    for name, value in replay.info["eval_metrics"].items():
        if name not in _OTHER_METRICS:
            line.compare(name, numbers.get(name, np.inf), value)
    yield line


def _check_sizes(replay):
    """Resolved hyperparameters and the shapes of all variables, exactly."""
    info, settings, model = replay.info, replay.settings, replay.model
    line = Line(f"{replay.name}, hyperparameters and variables")
    encoders, generator = {"bert_config": settings.encoder}, settings.generator
    if generator.weight_tying != "all" and not generator.uniform_generator:
        own = generator.encoder_config(settings.encoder)
        encoders["generator_config"] = own
    for name, encoder in encoders.items():
        for field, value in info[name].items():
            # Dropout is off here, and there is no other activation.
            if "dropout" not in field and field != "hidden_act":
                line.add(f"{name}.{field}", getattr(encoder, field) != value)
    slots = masking.max_predictions_per_seq(
        settings.masking.mask_prob, settings.data.max_seq_length
    )
    line.compare("N", slots, info["max_predictions_per_seq"])
    names = ("[CLS]", "[SEP]", "[MASK]")
    ids = tuple(info["special_token_ids"][name] for name in names)
    line.add("special ids", model.masking.special_ids != ids)
    line.compare("[MASK]", model.mask_id, ids[-1])
    weights = split_all(model, model.trainable_variables)
    shapes = {name: weight.shape for name, weight in weights.items()}
    line.compare_all(shapes, info["variables"])
    return line


def _compare_outputs(replay, ours, expected):
    title = replay.name
    integers = Line(f"{title}, ids, positions, labels")
    groups = {name: Line(f"{title}, {name}", _TOLERANCE) for name in _GROUPS}
    rounded = Line(f"{title}, next to nothing but padding", _ROUNDED_TOLERANCE)
    # Of a copy of a reference, arrays may be left out.
    optional = {*replay.info.get("outputs_left_out", ())}
    # Only Electric needs the probability of what the discriminator sees.
    optional |= set() if replay.is_electric else {"log_q"}
    optional |= {name for name in ours if name.endswith("attention_probs")}
    for key in sorted({*(ours.keys() - optional), *expected}):
        if key not in expected or key not in ours:
            integers.add(f"{key} on one side only", np.inf)
            continue
        own, theirs, line = ours[key], expected[key], integers
        if theirs.dtype.kind == "f":
            line = groups[_find_group(key)]
        is_rounded = _find_rounded(replay, key)
        if is_rounded is not None and own.shape == theirs.shape:
            errors = np.where(is_rounded, _score_errors(key, ours, theirs), 0)
            rounded.add(key, np.max(errors, initial=0))
            theirs = np.where(is_rounded, own, theirs)
        line.compare(key, own, theirs)
    lines = (integers, *groups.values(), rounded)
    yield from (line for line in lines if line.errors)


def _find_group(key):
    return next(g for g, starts in _GROUPS.items() if key.startswith(starts))


def _find_rounded(replay, key):
    """Marks the entries of an array that follow from rounding, or None."""
    is_padding = replay.inputs["input_mask"] == 0
    if key in ("gen_rtl_layer_outputs", "gen_rtl_sequence_output"):
        return is_padding[:, :, np.newaxis]
    if key == "gen_rtl_attention_probs":
        return is_padding[:, np.newaxis, :, np.newaxis]
    # States wrap around: the last position takes that of the first.
    is_before_padding = np.roll(is_padding, -1, axis=1)
    if key == "cloze_logits":
        return is_before_padding[:, :, np.newaxis]
    names = ("cloze_per_token_loss", "cloze_preds", "log_q")
    if replay.is_electric:
        names += ("disc_logits", "disc_probs", "disc_preds")
    return is_before_padding if key in names else None


def _score_errors(key, ours, theirs):
    if key == "cloze_preds":
        logits = ours["cloze_logits"]
        chosen = np.take_along_axis(logits, theirs[..., np.newaxis], axis=-1)
        # Both scores may be off.
        return (np.max(logits, axis=-1) - chosen[..., 0]) / 2
    if key == "disc_preds":
        return np.where(ours[key] != theirs, np.abs(ours["disc_logits"]), 0.0)
    return np.abs(ours[key].astype(np.float64) - theirs)


def _compute_outputs(replay):
    """Our side of `outputs.npz`, by its names, and the metrics.

    Losses of single rows and tokens are made by the functions of the step.
    """
    model = replay.model

    def run_pass():
        step = tf.constant(0, tf.int64)
        prepared = model.prepare(replay.features, step, is_training=True)
        return model.compute_statistics(prepared)

    statistics, trace = replay.run(run_pass)
    factors, means = model.loss_coefficients, {}
    for name in factors:
        weight = statistics[step_lib.normalizer_of(name)][0]
        means[name] = step_lib.weighted_mean(statistics[name][0], weight)
    outputs = {
        **_masking_outputs(trace),
        **_generator_outputs(replay, trace),
        **_discriminator_outputs(replay, trace),
        **training.name_losses(replay, trace, means),
        "total_loss": sum(factors[name] * means[name] for name in means),
    }
    numbers = model.summarize(statistics) | _count_all_chosen(statistics)
    numbers["masked_lm_loss"] = outputs["mlm_loss"]
    return {name: np.asarray(value) for name, value in outputs.items()}, numbers


def _count_all_chosen(statistics):
    """The reference's accuracies, which count kept tokens like hidden ones."""
    num_chosen = statistics["masked_tokens"] + statistics["kept_tokens"]
    return {
        name: accuracies.ratio(
            statistics[hidden] + statistics[kept], num_chosen
        )
        for name, hidden, kept in _ACCURACIES
        if hidden in statistics
    }


def _masking_outputs(trace):
    masked, eligible = trace.masked, trace.masked.eligible.numpy()
    with np.errstate(divide="ignore"):
        log_probs = np.log(eligible / eligible.sum(axis=1, keepdims=True))
    return {
        "mask_sample_log_probs": log_probs,
        "masked_lm_positions": masked.masked_positions,
        "masked_lm_weights": masked.masked_weights,
        "masked_lm_ids": masked.masked_ids,
        "masked_input_ids": masked.input_ids,
        "updated_input_ids": trace.updated_ids,
        "sampled_ids": trace.sampled,
        "is_fake": trace.labels,
    }


def _generator_outputs(replay, trace):
    """Of the generator, or of the masked language model without one."""
    masked, generated = trace.masked, trace.generated
    cloze = generated.prediction_logits
    loss, logits = losses.masked_lm_loss, generated.logits
    by_slot = _losses_by_weight(loss, logits, masked.masked_ids)
    outputs = {
        "mlm_logits": logits,
        "mlm_preds": tf.argmax(logits, -1),
        "mlm_per_example_loss": by_slot,
    }
    prefixes = ["gen_"] if generated.encoder_outputs else []
    if replay.is_two_tower:
        prefixes = ["gen_ltr_", "gen_rtl_"]
        targets = replay.model.generator.targets(masked)
        outputs |= {
            "cloze_logits": cloze,
            "cloze_preds": tf.argmax(cloze, -1),
            "cloze_weights": targets.weights,
            "cloze_per_token_loss": _losses_by_weight(loss, cloze, targets.ids),
            "log_q": -_losses_by_weight(loss, cloze, trace.updated_ids),
        }
    for number, prefix in enumerate(prefixes):
        outputs |= _encoder_outputs(prefix, number, trace)
    return outputs


def _discriminator_outputs(replay, trace):
    if not trace.judged:
        return {}
    (logits, labels, _), _ = trace.judged[-1]
    weights = tf.cast(trace.masked.input_mask, tf.float32)
    by_token = _losses_by_weight(losses.replaced_token_loss, logits, labels)
    sums = (tf.reduce_sum(rows, 1) for rows in (by_token * weights, weights))
    return {
        "disc_logits": logits,
        "disc_probs": tf.sigmoid(logits),
        "disc_preds": logits > 0,
        "disc_per_example_loss": step_lib.weighted_mean(*sums),
    } | _encoder_outputs("disc_", len(trace.encoded) - 1, trace)


def _losses_by_weight(loss, logits, labels):
    """Every token's own loss: how the sum moves with the token's weight."""
    weights = tf.ones(labels.shape)
    with tf.GradientTape() as tape:
        tape.watch(weights)
        total = loss(logits, labels, weights)
    none = tf.UnconnectedGradients.ZERO
    return tape.gradient(total, weights, unconnected_gradients=none)


def _encoder_outputs(prefix, number, trace):
    """Intermediates of the encoder that was called as the `number`th."""
    (encoder, *_), output = trace.encoded[number]
    first = sum(len(args[0].blocks) for args, _ in trace.encoded[:number])
    attention = trace.attention[first : first + len(encoder.blocks)]
    arrays = {name: getattr(output, name) for name in EncoderOutput._fields}
    arrays["attention_probs"] = [probs for _, probs in attention]
    return {prefix + name: tf.stack(array) for name, array in arrays.items()}
