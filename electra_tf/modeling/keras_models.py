"""Networks as Keras models: a dict of rows in, one tensor out.

What a user builds on, with `compile`, `fit` and the functional API. Weights
that networks share are shared here too. A saved model of a user's
(`model.save`) that holds one of these loads again once this module was
imported.
"""

import abc
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from electra_tf import config
from electra_tf.modeling import layers

FEATURES = ("input_ids", "input_mask", "segment_ids")
# A step's dropout counters leave room for the sites within it, as those of
# `inputs.randomness` do.
_SITES_PER_CALL = 1024


class TakesRows(keras.Model, abc.ABC):
    """A model of `[B, S]` rows: `input_ids`, `input_mask`, `segment_ids`.

    Dropout's seeds come from a generator of the model's own, so equal
    `keras.utils.set_random_seed` before the model is made gives equal noise.
    """

    seed_generator: keras.random.SeedGenerator

    @property
    @abc.abstractmethod
    def num_positions(self) -> int:
        """The most tokens that a row may have."""

    @abc.abstractmethod
    def read_rows(
        self, rows: Sequence[tf.Tensor], dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """The model's tensor for checked rows, `FEATURES` in their order."""

    def call(
        self, features: Mapping[str, tf.Tensor], training: bool | None = None
    ) -> tf.Tensor:
        """What the model says of `[B, S]` rows as they are."""
        rows = _check_rows(features, self.num_positions)
        if not training:
            return self.read_rows(rows, None)
        seed = tf.convert_to_tensor(self.seed_generator.next())
        steps = tf.constant([1, _SITES_PER_CALL], tf.int64)
        return self.read_rows(rows, tf.cast(seed, tf.int64) * steps)

    def export(
        self,
        filepath: Any,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """As in Keras, for rows of any number and length unless told."""
        if input_signature is None:
            rows = keras.InputSpec("int32", (None, None))
            input_signature = [dict.fromkeys(FEATURES, rows)]
        super().export(filepath, format, verbose, input_signature, **kwargs)


class _LayerModel(TakesRows):
    """A layer as a Keras model, of the layer's precision."""

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        super().__init__(**{"dtype": layer.dtype_policy} | kwargs)
        self.layer = layer
        self.settings: config.EncoderConfig = layer.settings
        self.seed_generator = keras.random.SeedGenerator()
        self.built = True

    @property
    def num_positions(self) -> int:
        return self.settings.max_position_embeddings

    def get_config(self) -> dict[str, Any]:
        layer = keras.saving.serialize_keras_object(self.layer)
        return {"name": self.name, "trainable": self.trainable, "layer": layer}

    @classmethod
    def from_config(
        cls, config_dict: dict[str, Any], custom_objects: Any = None
    ) -> "_LayerModel":
        # The layer has fresh weights and shares none; Keras loads them next.
        layer = keras.saving.deserialize_keras_object(
            config_dict["layer"], custom_objects
        )
        if not layer.built:
            layer.build()
        return cls(**config_dict | {"layer": layer})


@layers.register
class EncoderModel(_LayerModel):
    """The encoder: hidden states of the last layer, `[B, S, D]`.

    `model(features)[:, 0]` is `[CLS]`, what classifiers build on. States at
    padding mean nothing.
    """

    def read_rows(
        self, rows: Sequence[tf.Tensor], dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Hidden states."""
        return self.layer(*rows, dropout_seed).sequence_output


@layers.register
class DiscriminatorModel(_LayerModel):
    """The discriminator: logits that tokens were replaced, `[B, S]` float32.

    `tf.sigmoid` of them is the probability. Logits at padding mean nothing.
    """

    def read_rows(
        self, rows: Sequence[tf.Tensor], dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Replaced-token logits."""
        return self.layer(*rows, dropout_seed).logits


@layers.register
class MaskedLMModel(_LayerModel):
    """A masked language model: logits of the vocabulary, `[B, S, V]` float32.

    At every position, whether the input holds `[MASK]` there or not.
    """

    def read_rows(
        self, rows: Sequence[tf.Tensor], dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Logits of the vocabulary."""
        return self.layer.score_tokens(rows, dropout_seed)


def _check_rows(
    features: Mapping[str, tf.Tensor], num_positions: int
) -> list[tf.Tensor]:
    """The features in their order, as int32."""
    names = sorted(features) if isinstance(features, Mapping) else features
    if names != sorted(FEATURES):
        raise ValueError(
            f"`features` must be a dict of {', '.join(FEATURES)}, as "
            "`electra_tf.load(...).tokenize(texts)` makes it. Received: "
            f"{names!r:.200}."
        )
    rows = [tf.convert_to_tensor(features[name]) for name in FEATURES]
    for name, row in zip(FEATURES, rows, strict=True):
        if row.shape.rank != 2 or not row.dtype.is_integer:
            raise ValueError(
                f"`features[{name!r}]` must be [B, S] integers. Received: "
                f"{row.dtype.name} of shape {row.shape}. In a functional "
                "model: keras.Input([None], dtype='int32')."
            )
        if (row.shape[1] or 0) > num_positions:
            raise ValueError(
                f"`features[{name!r}]` must have at most {num_positions} "
                f"columns, the model's positions. Received: {row.shape[1]}. "
                "Cut the rows, as by `tokenize(texts, max_length=...)`."
            )
    return [tf.cast(row, tf.int32) for row in rows]
