"""Training steps of an ELECTRA made of KerasHub's layers."""

from collections.abc import Callable
from typing import Any

import keras
import keras_hub
import tensorflow as tf

from benchmarks import ours
from benchmarks import pretrain as steps
from benchmarks import side
from electra_tf import config

_MASK_ID = 4


class Encoder(keras.layers.Layer):
    """The embeddings, a projection where widths differ, and the blocks."""

    def __init__(self, encoder: dict[str, Any], shared: list[Any]) -> None:
        super().__init__()
        width = encoder["hidden_size"]
        self.blocks = [
            keras_hub.layers.TransformerEncoder(
                encoder["intermediate_size"], encoder["num_attention_heads"],
                dropout=encoder["hidden_dropout_prob"], activation=_gelu,
                layer_norm_epsilon=1e-12,
            )
            for _ in range(encoder["num_hidden_layers"])
        ]  # fmt: skip
        if width != encoder["embedding_size"]:
            self.blocks.insert(0, keras.layers.Dense(width))
        self.shared = shared

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns `[B, S, H]` of ids `[B, S]`."""
        tokens, segments, *others = self.shared
        states = tokens(ids) + segments(tf.zeros_like(ids))
        for layer in others + self.blocks:
            states = layer(states)
        return states


def _build_embeddings(encoder: dict[str, Any]) -> list[Any]:
    """Layers that embed tokens and segments; both networks share them."""
    width = encoder["embedding_size"]
    return [
        keras_hub.layers.TokenAndPositionEmbedding(
            encoder["vocab_size"], encoder["max_position_embeddings"], width
        ),
        keras.layers.Embedding(encoder["type_vocab_size"], width),
        keras.layers.LayerNormalization(epsilon=1e-12),
        keras.layers.Dropout(encoder["hidden_dropout_prob"]),
    ]


def _gelu(states: tf.Tensor) -> tf.Tensor:
    return keras.activations.gelu(states, approximate=True)


def pretrain(settings: dict[str, Any], generator: dict[str, Any]) -> side.Built:
    """Builds the joint step: masked LM, sampling, replaced token detection."""
    experiment = _configure(settings)
    encoder, masking = settings["encoder"], settings["masking"]
    shared = _build_embeddings(encoder)
    main, small = Encoder(encoder, shared), Encoder(generator, shared)
    lm_head = keras_hub.layers.MaskedLMHead(
        token_embedding=shared[0].token_embedding, intermediate_activation=_gelu
    )
    dense, width = keras.layers.Dense, encoder["hidden_size"]
    head = keras.Sequential([dense(width, _gelu), dense(1)])
    ids = steps.random_rows(experiment)["input_ids"]
    rows, length = ids.shape
    slots = int((masking["mask_prob"] + 0.005) * length)

    def compute_loss() -> tf.Tensor:
        # Position 0 holds [CLS].
        order = tf.random.uniform([rows, length - 1])
        positions = tf.math.top_k(order, slots, sorted=False).indices + 1
        truth = tf.gather(ids, positions, batch_dims=1)
        draw = tf.random.uniform(positions.shape)
        shown = tf.where(draw < masking["replace_prob"], _MASK_ID, truth)
        states = small(_put(ids, positions, shown), training=True)
        logits = tf.cast(lm_head(states, positions), tf.float32)
        gen_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(truth, logits)
        uniform = tf.random.uniform(logits.shape, 1e-9, 1.0)
        noise = -tf.math.log(-tf.math.log(uniform))
        sampled = tf.argmax(logits + noise, -1, output_type=tf.int32)
        corrupted = _put(ids, positions, sampled)
        disc_logits = tf.cast(head(main(corrupted, training=True)), tf.float32)
        labels = tf.cast(corrupted != ids, tf.float32)[..., None]
        cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits
        disc_loss = cross_entropy(labels, disc_logits)
        weights = settings["objective"]
        both = weights["gen_weight"] * tf.reduce_mean(gen_loss)
        return both + weights["disc_weight"] * tf.reduce_mean(disc_loss)

    layers = [main, small, lm_head, head]
    return _build(experiment, layers, compute_loss, masked=slots)


def finetune(settings: dict[str, Any], generator: Any) -> side.Built:
    """Builds the step of a classifier with two classes."""
    del generator
    experiment, encoder = _configure(settings), settings["encoder"]
    main = Encoder(encoder, _build_embeddings(encoder))
    dense, width = keras.layers.Dense, encoder["hidden_size"]
    rate, dropout = encoder["hidden_dropout_prob"], keras.layers.Dropout
    layers = dropout(rate), dense(width, _gelu), dropout(rate), dense(2)
    head = keras.Sequential([*layers])
    ids = steps.random_rows(experiment)["input_ids"]
    labels = tf.range(ids.shape[0]) % 2

    def compute_loss() -> tf.Tensor:
        states = main(ids, training=True)[:, 0]
        logits = tf.cast(head(states, training=True), tf.float32)
        cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
        return tf.reduce_mean(cross_entropy(labels, logits))

    return _build(experiment, [main, head], compute_loss)


def _configure(settings: dict[str, Any]) -> config.ExperimentConfig:
    name = settings["training"]["precision"]
    policy = name if name == "float32" else f"mixed_{name}"
    keras.config.set_dtype_policy(policy)
    return config.freeze(settings)


def _put(ids: tf.Tensor, positions: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
    rows = tf.broadcast_to(tf.range(ids.shape[0])[:, None], positions.shape)
    places = tf.stack([rows, positions], -1)
    return tf.tensor_scatter_nd_update(ids, places, new)


def _build(
    settings: config.ExperimentConfig,
    layers: list[keras.layers.Layer],
    compute_loss: Callable[[], tf.Tensor],
    **sizes: Any,
) -> side.Built:
    """Builds a step of loss, gradients, clipping and AdamW; runs it once."""
    options = settings.optimizer
    adam = keras.optimizers.AdamW(
        options.learning_rate, options.weight_decay_rate, options.beta_1,
        options.beta_2, options.epsilon,
        global_clipnorm=options.clip_norm or None,
    )  # fmt: skip
    adam.exclude_from_weight_decay(var_names=["bias", "norm"])
    # The first call creates the weights.
    compute_loss()
    found = [v for layer in layers for v in layer.trainable_variables]
    weights = {id(variable): variable for variable in found}.values()
    adam.build([*weights])

    # Not on CPUs, where XLA's products are slow.
    is_gpu = bool(tf.config.list_physical_devices("GPU"))

    @tf.function(autograph=False, jit_compile=is_gpu)
    def train() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = compute_loss()
        values = [v.value for v in weights]
        adam.apply(tape.gradient(loss, values))
        return loss

    packages = "keras-hub", "keras", "tensorflow"
    return ours.build_step(train, weights, settings, packages, **sizes)


if __name__ == "__main__":
    side.serve({"pretrain": pretrain, "finetune": finetune})
