"""Keras models that map a dict of rows to one tensor, for users' own models.

They wrap the encoder and the networks of the paper's section 2, and share their
weights. Import this module before you load a saved model that contains them.
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
    """A model of `[B, S]` `input_ids`, `input_mask` and `segment_ids`."""

    seed_generator: keras.random.SeedGenerator
    num_positions: int  # the most tokens that a row may have

    @abc.abstractmethod
    def read_rows(self, rows: layers.Inputs, seed: layers.Seed) -> tf.Tensor:
        """Computes the output for checked rows, in the order of `FEATURES`."""

    def call(
        self, features: Mapping[str, tf.Tensor], training: bool | None = None
    ) -> tf.Tensor:
        """Checks `[B, S]` rows and computes the output for them."""
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
        """Exports as Keras does; by default for any batch size and length."""
        rows = keras.InputSpec("int32", (None, None))
        kwargs.setdefault("input_signature", [dict.fromkeys(FEATURES, rows)])
        super().export(filepath, *args, **kwargs)


class _LayerModel(TakesRows):
    """A Keras model around one layer, with the layer's dtype policy."""

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
        # Keras loads the weights of the new layer afterwards.
        layer = keras.saving.deserialize_keras_object(
            config_dict["layer"], custom_objects
        )
        if not layer.built:
            layer.build()
        return cls(**config_dict | {"layer": layer})


@layers.register
class EncoderModel(_LayerModel):
    """Returns the encoder's last hidden states, `[B, S, D]`.

    Classifiers take the state of [CLS], `model(features)[:, 0]`. States at
    padding have no meaning.
    """

    def read_rows(self, rows: layers.Inputs, seed: layers.Seed) -> tf.Tensor:
        """Computes the hidden states."""
        return self.layer(*rows, seed).sequence_output


@layers.register
class DiscriminatorModel(_LayerModel):
    """Returns the discriminator's logits, `[B, S]` float32.

    `tf.sigmoid(logits)` is the probability that each token was replaced.
    Logits at padding have no meaning.
    """

    def read_rows(self, rows: layers.Inputs, seed: layers.Seed) -> tf.Tensor:
        """Computes the replaced-token logits."""
        return self.layer(*rows, seed).logits


@layers.register
class MaskedLMModel(_LayerModel):
    """Returns a masked LM's logits at every position, `[B, S, V]` float32."""

    def read_rows(self, rows: layers.Inputs, seed: layers.Seed) -> tf.Tensor:
        """Computes the vocabulary logits."""
        return self.layer.score_tokens(rows, seed)


def _check_rows(
    features: Mapping[str, tf.Tensor], num_positions: int
) -> list[tf.Tensor]:
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
