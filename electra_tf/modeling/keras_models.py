"""Networks as Keras models: a dict of rows in, one tensor out.

Users build their own models on them. Networks that share weights share them
here, too. Import this module before you load a saved model that contains one.
"""

import abc
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import randomness
from electra_tf.modeling import layers

FEATURES = ("input_ids", "input_mask", "segment_ids")


class TakesRows(keras.Model, abc.ABC):
    """A model of `[B, S]` rows: `input_ids`, `input_mask`, `segment_ids`."""

    seed_generator: keras.random.SeedGenerator
    num_positions: int  # the most tokens that a row may have

    @abc.abstractmethod
    def read_rows(self, rows: layers.Inputs, seed: layers.Seed) -> tf.Tensor:
        """The model's tensor for checked rows, `FEATURES` in their order."""

    def call(
        self, features: Mapping[str, tf.Tensor], training: bool | None = None
    ) -> tf.Tensor:
        """The model's tensor for `[B, S]` rows."""
        rows = _check_rows(features, self.num_positions)
        if not training:
            return self.read_rows(rows, None)
        seed = tf.convert_to_tensor(self.seed_generator.next())
        key, number = tf.unstack(tf.cast(seed, tf.int64))
        context = tf.distribute.get_replica_context()
        part = context.replica_id_in_sync_group if context else 0
        place = [key, tf.cast(part, tf.int64), number * randomness.MAX_SITES]
        return self.read_rows(rows, tf.stack(place))

    def export(self, filepath: Any, *args: Any, **kwargs: Any) -> None:
        """As in Keras, for rows of any number and length unless told."""
        rows = keras.InputSpec("int32", (None, None))
        kwargs.setdefault("input_signature", [dict.fromkeys(FEATURES, rows)])
        super().export(filepath, *args, **kwargs)


class _LayerModel(TakesRows):
    """A layer as a Keras model, of the layer's precision."""

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        super().__init__(**{"dtype": layer.dtype_policy} | kwargs)
        self.layer = layer
        self.settings: config.EncoderConfig = layer.settings
        self.num_positions = self.settings.max_position_embeddings
        self.seed_generator = keras.random.SeedGenerator()
        self.built = True

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

    def read_rows(self, rows: layers.Inputs, seed: layers.Seed) -> tf.Tensor:
        """Hidden states."""
        return self.layer(*rows, seed).sequence_output


@layers.register
class DiscriminatorModel(_LayerModel):
    """The discriminator: logits that tokens were replaced, `[B, S]` float32.

    `tf.sigmoid` of them is the probability. Logits at padding mean nothing.
    """

    def read_rows(self, rows: layers.Inputs, seed: layers.Seed) -> tf.Tensor:
        """Replaced-token logits."""
        return self.layer(*rows, seed).logits


@layers.register
class MaskedLMModel(_LayerModel):
    """A masked LM: vocabulary logits everywhere, `[B, S, V]` float32."""

    def read_rows(self, rows: layers.Inputs, seed: layers.Seed) -> tf.Tensor:
        """Logits of the vocabulary."""
        return self.layer.score_tokens(rows, seed)


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
        is_matrix = row.shape.rank == 2 and row.dtype.is_integer
        if not is_matrix or (row.shape[1] or 0) > num_positions:
            raise ValueError(
                f"`features[{name!r}]` must be [B, S] integers, S at most "
                f"{num_positions}, the model's positions. Received: "
                f"{row.dtype.name} of shape {row.shape}. Cut rows, as by "
                "`tokenize(texts, max_length=...)`; in a functional model "
                "begin with keras.Input([None], dtype='int32')."
            )
    return [tf.cast(row, tf.int32) for row in rows]
