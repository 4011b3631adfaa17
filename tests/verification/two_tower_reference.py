"""A tiny two-tower model in plain NumPy, float64, written as formulas.

Shares nothing with the package. Gradients are finite differences of the whole
loss.
"""

import math

import numpy as np
from scipy import special

SLOTS = 3
HEADS = 2  # of the discriminator; the generator's towers have one
MASK_PROB, GEN_WEIGHT, DISC_WEIGHT = 0.25, 2.0, 5.0
SPECIAL = {"[PAD]": 0, "[CLS]": 9, "[SEP]": 4, "[MASK]": 12, "[UNK]": 2}
STEP = 1e-6  # of the finite differences


def normalize(weights, scope, x):
    centered = x - x.mean(-1, keepdims=True)
    scale = np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-12)
    scope = f"{scope}/LayerNorm"
    return (
        centered / scale * weights[f"{scope}/gamma"] + weights[f"{scope}/beta"]
    )


def dense(weights, scope, x):
    return x @ weights[f"{scope}/kernel"] + weights[f"{scope}/bias"]


def gelu(x):
    return x * (1 + special.erf(x / math.sqrt(2))) / 2


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def attend(weights, scope, x, is_visible, heads):
    def split(name):
        y = dense(weights, f"{scope}/self/{name}", x)
        return y.reshape(*y.shape[:2], heads, -1).transpose(0, 2, 1, 3)

    query, key, value = split("query"), split("key"), split("value")
    scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(query.shape[-1])
    scores = scores - 10000.0 * ~is_visible[:, np.newaxis]
    context = (softmax(scores) @ value).transpose(0, 2, 1, 3).reshape(x.shape)
    update = dense(weights, f"{scope}/output/dense", context)
    return normalize(weights, f"{scope}/output", x + update)


def encode(weights, scope, embeddings, ids, inputs, heads, direction="both"):
    """Named intermediates of one encoder of a single layer."""
    scope_e = f"{embeddings}/embeddings"
    embedded = normalize(
        weights,
        scope_e,
        weights[f"{scope_e}/word_embeddings"][ids]
        + weights[f"{scope_e}/position_embeddings"][: ids.shape[1]]
        + weights[f"{scope_e}/token_type_embeddings"][inputs["segment_ids"]],
    )
    x = embedded
    if f"{scope}/embeddings_project/kernel" in weights:
        x = dense(weights, f"{scope}/embeddings_project", x)
    query, key = np.indices((ids.shape[1], ids.shape[1]))
    allowed = {
        "both": key >= 0,
        "left_to_right": key <= query,
        "right_to_left": key >= query,
    }[direction]
    is_visible = allowed & (inputs["input_mask"][:, np.newaxis] == 1)
    layer = f"{scope}/encoder/layer_0"
    y = attend(weights, f"{layer}/attention", x, is_visible, heads)
    inner = gelu(dense(weights, f"{layer}/intermediate/dense", y))
    update = dense(weights, f"{layer}/output/dense", inner)
    y = normalize(weights, f"{layer}/output", y + update)
    return {
        "embedding_layernorm_output": embedded,
        "embedding_output": x,
        "layer_outputs": y[np.newaxis],
        "sequence_output": y,
    }


def cloze_logits(weights, ltr, rtl, table):
    """Position i: what the towers know of i - 1 and i + 1, cyclically."""
    last = ltr.shape[1] - 1
    states = [
        np.concatenate([ltr[:, i - 1], rtl[:, 0 if i == last else i + 1]], -1)
        for i in range(last + 1)
    ]
    hidden = gelu(
        dense(weights, "cloze_predictions/dense", np.stack(states, 1))
    )
    hidden = normalize(weights, "cloze_predictions", hidden)
    return hidden @ table.T + weights["cloze_predictions/output_bias"]


def take(log_probs, ids):
    return np.take_along_axis(log_probs, ids[..., np.newaxis], -1)[..., 0]


def mean(values, weights, axis=None):
    return (values * weights).sum(axis) / (weights.sum(axis) + 1e-6)


def put_in(ids, samples, positions):
    """Samples at their positions; averages, rounded down, where several."""
    updated, is_put = ids.copy(), np.zeros_like(ids)
    for row, position in np.ndindex(ids.shape):
        here = samples[row][positions[row] == position]
        if position and here.size:
            updated[row, position] = here.sum() // here.size
            is_put[row, position] = 1
    return updated, is_put


def mask(inputs):
    """Positions, weights, ids and the masked text, from the fed numbers."""
    ids, lengths = inputs["input_ids"], inputs["input_mask"].sum(1)
    counts = np.minimum(np.round(lengths * MASK_PROB), SLOTS)
    used = np.arange(SLOTS) < np.maximum(counts, 1)[:, np.newaxis]
    positions = inputs["drawn_positions"] * used
    masked = ids.copy()
    for row, slot in np.argwhere(used & (inputs["replace_uniform"] < 0.85)):
        masked[row, positions[row, slot]] = SPECIAL["[MASK]"]
    kept_out = [SPECIAL[name] for name in ("[CLS]", "[SEP]", "[MASK]")]
    candidates = ~np.isin(ids, kept_out) & (inputs["input_mask"] == 1)
    with np.errstate(divide="ignore"):
        log_probs = np.log(candidates / candidates.sum(1, keepdims=True))
    return {
        "mask_sample_log_probs": log_probs,
        "masked_lm_positions": positions,
        "masked_lm_weights": used.astype(float),
        "masked_lm_ids": np.take_along_axis(ids, positions, 1) * used,
        "masked_input_ids": masked,
        "cloze_weights": candidates.astype(float),
    }


def forward(weights, inputs, is_electric, fixed=None):
    """All arrays of `outputs.npz`.

    Args:
        weights: by the names of the original's checkpoints, float64.
        inputs: as in `inputs.npz`.
        is_electric: Electric's objective instead of ELECTRA's.
        fixed: outputs of a pass whose samples and log q are kept, because no
            gradient flows through them.
    """
    ids, out = inputs["input_ids"], mask(inputs)
    is_untied = "generator_ltr/embeddings/word_embeddings" in weights
    towers = {}
    for name, direction in (("ltr", "left_to_right"), ("rtl", "right_to_left")):
        scope = f"generator_{name}"
        embeddings = scope if is_untied else "electra"
        towers[name] = encode(
            weights, scope, embeddings, ids, inputs, 1, direction
        )
        out |= {f"gen_{name}_{k}": v for k, v in towers[name].items()}
    scope = "generator_ltr" if is_untied else "electra"
    logits = cloze_logits(
        weights,
        towers["ltr"]["sequence_output"],
        towers["rtl"]["sequence_output"],
        weights[f"{scope}/embeddings/word_embeddings"],
    )
    out["cloze_logits"] = logits
    out["cloze_preds"] = logits.argmax(-1)
    out["cloze_per_token_loss"] = -take(log_softmax(logits), ids)
    out["cloze_loss"] = mean(out["cloze_per_token_loss"], out["cloze_weights"])
    positions = out["masked_lm_positions"]
    logits = np.take_along_axis(logits, positions[..., np.newaxis], 1)
    out["mlm_logits"] = logits
    out["mlm_preds"] = logits.argmax(-1)
    out["mlm_per_example_loss"] = -take(
        log_softmax(logits), out["masked_lm_ids"]
    )
    out["mlm_loss"] = mean(
        out["mlm_per_example_loss"], out["masked_lm_weights"]
    )
    noise = -np.log(-np.log(inputs["gumbel_uniform"] + 1e-9) + 1e-9)
    sampled = (logits + noise).argmax(-1)
    out["sampled_ids"] = sampled if fixed is None else fixed["sampled_ids"]
    discriminate(weights, inputs, out, is_electric, fixed)
    out["total_loss"] = (
        GEN_WEIGHT * out["cloze_loss"] + DISC_WEIGHT * out["disc_loss"]
    )
    return out


def discriminate(weights, inputs, out, is_electric, fixed):
    """Adds the corrupted text and what the discriminator says of it."""
    ids, tokens = inputs["input_ids"], inputs["input_mask"].astype(float)
    updated, is_put = put_in(
        ids, out["sampled_ids"], out["masked_lm_positions"]
    )
    out["updated_input_ids"] = updated
    out["is_fake"] = is_put if is_electric else is_put * (updated != ids)
    encoded = encode(weights, "electra", "electra", updated, inputs, HEADS)
    out |= {f"disc_{name}": value for name, value in encoded.items()}
    scope = "discriminator_predictions"
    hidden = gelu(dense(weights, f"{scope}/dense", encoded["sequence_output"]))
    logits = dense(weights, f"{scope}/dense_1", hidden)[..., 0]
    if is_electric:
        out["log_q"] = take(log_softmax(out["cloze_logits"]), updated)
        log_q = out["log_q"] if fixed is None else fixed["log_q"]
        logits = logits + log_q + math.log(MASK_PROB / (1 - MASK_PROB))
    losses = np.logaddexp(0, logits) - logits * out["is_fake"]
    out["disc_logits"] = logits
    out["disc_probs"] = 1 / (1 + np.exp(-logits))
    out["disc_preds"] = (logits > 0).astype(int)
    out["disc_per_example_loss"] = mean(losses, tokens, 1)
    out["disc_loss"] = mean(losses, tokens)


def metrics(inputs, out):
    def rate(hits, weights):
        return float((hits * weights).sum() / max(weights.sum(), 1e-12))

    slots, tokens = out["masked_lm_weights"], inputs["input_mask"]
    predicted, fake = out["disc_preds"] * tokens, out["is_fake"] * tokens
    right = out["disc_preds"] == out["is_fake"]
    return {
        "masked_lm_accuracy": rate(
            out["mlm_preds"] == out["masked_lm_ids"], slots
        ),
        "masked_lm_loss": float(out["mlm_loss"]),
        "sampled_masked_lm_accuracy": rate(
            out["sampled_ids"] == out["masked_lm_ids"], slots
        ),
        "disc_accuracy": rate(right, tokens),
        "disc_precision": rate(right, predicted),
        "disc_recall": rate(right, fake),
    }


def gradients(weights, inputs, is_electric):
    """Differences, entry by entry; no gradient flows through the samples."""
    fixed = forward(weights, inputs, is_electric)
    slopes = {}
    for name, value in weights.items():
        slope = slopes[name] = np.zeros_like(value)
        for index in np.ndindex(value.shape):
            saved = value[index]
            value[index] = saved + STEP
            out = forward(weights, inputs, is_electric, fixed)
            value[index] = saved
            slope[index] = (out["total_loss"] - fixed["total_loss"]) / STEP
    return slopes
