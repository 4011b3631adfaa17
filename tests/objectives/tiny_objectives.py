"""Tiny models of every objective, with weights that make a difference."""

import numpy as np
import tensorflow as tf

from electra_tf.modeling import encoder as encoder_lib
from electra_tf.pretraining import run
from electra_tf.training import step as step_lib
from tests import tiny
from tests import tiny_run

UNTIED = {"untied_generator_embeddings": True}
NO_WARMUP = {"num_warmup_steps": 0, "warmup_proportion": 0.0}
# What each objective needs beside its name.
SECTIONS = {
    **dict.fromkeys(
        ("electra", "electra_15", "sentence_order", "adversarial",
         "replace_mlm", "all_tokens_mlm"),
        {"generator": UNTIED},
    ),
    "straight_through": {
        "generator": UNTIED,
        "objective": {
            "name": "adversarial",
            "adversarial_estimator": "straight_through",
        },
    },
    "two_stage": {
        **tiny.OBJECTIVES["two_stage"], "objective": {"generator_steps": 10},
    },
    "mlm": {"generator": {"generator_hidden_size": 0.25}},
    "electric": {"generator": {"two_tower_generator": True, **UNTIED}},
    "fast_electra": tiny.OBJECTIVES["fast_electra"],
}  # fmt: skip


def build_settings(name, **sections):
    """The tiny settings with one of `SECTIONS`; one layer, four slots a row."""
    own = SECTIONS[name]
    merged = {
        section: own.get(section, {}) | sections.get(section, {})
        for section in own.keys() | sections.keys()
    }
    kind = merged.get("generator", {})
    if kind.get("uniform_generator") or kind.get("unigram_generator"):
        # What has no weights has no size: back to the default.
        merged["generator"] = {"generator_hidden_size": 0.25} | kind
    defaults = {
        "objective": {"name": name},
        "encoder": {"num_hidden_layers": 1},
        "masking": {"mask_prob": 0.3},
    }
    for section, fields in defaults.items():
        merged[section] = fields | merged.get(section, {})
    return tiny_run.replace(tiny.build_settings(), **merged)


def build_model(name, token_counts=None, is_packed=False, **sections):
    """A model with its optimizer and with random weights."""
    # Tests ask how large effects are, which depends on the weights.
    tf.keras.utils.set_random_seed(3)
    settings = build_settings(name, **sections)
    model = run.build_model_and_optimizer(
        settings, tiny.VOCABULARY, token_counts, is_packed
    )
    randomize(model.trainable_variables)
    return model


def loss_of(model, prepared):
    """Loss sums without dropout."""
    return model.compute_losses(prepared, None).losses


def fake_data(model, prepared):
    """The text with the generator's samples in it, without dropout."""
    logits = model.generator(prepared.masked).logits
    return model._get_fake_data(prepared, logits)


def randomize(variables, scale=0.2):
    """Adds noise, so that no bias is 0 and no logits are all alike."""
    generator = np.random.default_rng(3)
    for variable in variables:
        noise = generator.normal(0.0, scale, variable.shape)
        variable.assign(variable.numpy() + noise.astype(np.float32))


def prepare(model, step=0, num_rows=8):
    """The masked batch of a step, of rows that are always the same."""
    features = tiny.deal(tiny.build_features(num_rows))
    return model.prepare(features, tf.constant(step, tf.int64), True)


def chosen_positions(prepared):
    """`[B, S]` bool, where a used slot points, by plain loops."""
    masked = prepared.masked
    chosen = np.zeros(masked.original_ids.shape, bool)
    positions = masked.masked_positions.numpy()
    for row, slot in np.argwhere(masked.masked_weights.numpy()):
        chosen[row, positions[row, slot]] = True
    return chosen


def gradients_of(model, prepared, names=None):
    """Gradients of the mean losses by path, before clipping; 0 for none."""
    normalizers = model.loss_normalizers(prepared)
    factors = model.loss_factors(model.optimizer.iterations.value)
    with tf.GradientTape() as tape:
        sums = loss_of(model, prepared)
        mean = step_lib.weighted_mean
        means = {n: mean(sums[n], normalizers[n]) for n in names or factors}
        loss = tf.add_n([factors[n] * means[n] for n in means])
    variables = {v.path: v.value for v in model.trainable_variables}
    found = tape.gradient(loss, variables, unconnected_gradients="zero")
    return {n: tf.convert_to_tensor(g).numpy() for n, g in found.items()}


class EncoderWatch:
    """Records the calls of a model's encoders: ids and seeds by name."""

    def __init__(self, monkeypatch):
        self.ids, self.seeds = {}, {}
        original = encoder_lib.Encoder.call

        def call(encoder, ids, *rest):
            self.ids[encoder.name] = ids.numpy()
            self.seeds[encoder.name] = rest[2] if len(rest) > 2 else None
            return original(encoder, ids, *rest)

        monkeypatch.setattr(encoder_lib.Encoder, "call", call)
