"""The towers as Keras models: a dict of rows in, one tensor out.

What a user builds on, with `compile`, `fit` and the functional API. The layers
inside are those of the towers themselves, so weights that towers share are
shared here too. A saved model of a user's (`model.save`) that holds one of
these loads again once this module was imported.
"""

import abc
import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from electra_tf import config
from electra_tf.modeling import discriminator as discriminator_lib
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import generators
from electra_tf.modeling import layers
from electra_tf.modeling import towers

FEATURES = ("input_ids", "input_mask", "segment_ids")
# A step's dropout counters leave room for the sites within it, as those of
# `inputs.randomness` do.
_SITES_PER_CALL = 1024


class TakesRows(keras.Model):
    """A model of `[B, S]` rows: `input_ids`, `input_mask`, `segment_ids`.

    Dropout's seeds come from a generator of the model's own, so equal
    `keras.utils.set_random_seed` before the model is made gives equal noise.
    """

    seed_generator: keras.random.SeedGenerator

    def draw_dropout_seed(self, training: bool | None) -> tf.Tensor | None:
        """The seed of a call's dropout, `[2]` int64; None for inference."""
        if not training:
            return None
        seed = tf.convert_to_tensor(self.seed_generator.next())
        return tf.cast(seed, tf.int64) * tf.constant(
            [1, _SITES_PER_CALL], tf.int64
        )

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


class RowsModel(TakesRows, abc.ABC):
    """A network as a Keras model: a dict of rows in, one tensor out."""

    def __init__(
        self, layer: Any, settings: config.EncoderConfig, **kwargs: Any
    ) -> None:
        kwargs.setdefault("dtype", layer.dtype_policy)
        super().__init__(**kwargs)
        self.settings = settings
        self.layer = layer
        self.seed_generator = keras.random.SeedGenerator()
        self.built = True

    def call(
        self, features: Mapping[str, tf.Tensor], training: bool | None = None
    ) -> tf.Tensor:
        """Computes the model's tensor for `[B, S]` rows."""
        rows = check_rows(features, self.settings.max_position_embeddings)
        return self.compute(rows, self.draw_dropout_seed(training))

    @abc.abstractmethod
    def compute(
        self, rows: Sequence[tf.Tensor], dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """The model's tensor for checked rows, `FEATURES` in their order."""

    def get_config(self) -> dict[str, Any]:
        """Sizes and precision; the weights are saved beside them."""
        return {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": self.dtype_policy.name,
            "settings": dataclasses.asdict(self.settings),
        }

    @classmethod
    @abc.abstractmethod
    def build_layer(cls, settings: config.EncoderConfig, dtype: str) -> Any:
        """A layer of these sizes, with fresh weights."""

    @classmethod
    def from_config(
        cls, config_dict: dict[str, Any], custom_objects: Any = None
    ) -> "RowsModel":
        """A model of these sizes, with fresh weights and ties to no other."""
        del custom_objects
        values = dict(config_dict)
        settings = config.EncoderConfig(**values.pop("settings"))
        layer = cls.build_layer(settings, values["dtype"])
        return cls(layer, settings, **values)


@layers.register
class EncoderModel(RowsModel):
    """The encoder: hidden states of the last layer, `[B, S, D]`.

    `model(features)[:, 0]` is `[CLS]`, what classifiers build on. States at
    padding mean nothing.
    """

    layer: encoder_lib.Encoder

    def compute(
        self, rows: Sequence[tf.Tensor], dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Hidden states."""
        return self.layer(*rows, dropout_seed).sequence_output

    @classmethod
    def build_layer(cls, settings: config.EncoderConfig, dtype: str) -> Any:
        """A main encoder."""
        return encoder_lib.build_encoder(
            settings, towers.MAIN_ENCODER, dtype=dtype
        )


@layers.register
class DiscriminatorModel(RowsModel):
    """The discriminator: logits that tokens were replaced, `[B, S]` float32.

    `tf.sigmoid` of them is the probability. Logits at padding mean nothing.
    """

    layer: discriminator_lib.Discriminator

    def compute(
        self, rows: Sequence[tf.Tensor], dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Replaced-token logits."""
        return self.layer(*rows, dropout_seed).logits

    @classmethod
    def build_layer(cls, settings: config.EncoderConfig, dtype: str) -> Any:
        """A discriminator."""
        return towers.build_discriminator(settings, dtype)


@layers.register
class MaskedLMModel(RowsModel):
    """A masked language model: logits of the vocabulary, `[B, S, V]` float32.

    At every position, whether the input holds `[MASK]` there or not.
    """

    layer: generators.MaskedLMGenerator

    def compute(
        self, rows: Sequence[tf.Tensor], dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Logits of the vocabulary."""
        return self.layer.score_tokens(rows, dropout_seed)

    @classmethod
    def build_layer(cls, settings: config.EncoderConfig, dtype: str) -> Any:
        """A masked language model with embeddings of its own."""
        return towers.build_masked_lm(settings, "generator_predictions", dtype)


def check_rows(
    features: Mapping[str, tf.Tensor], num_positions: int
) -> list[tf.Tensor]:
    """The features in their order, as int32, or a `ValueError`."""
    names = sorted(features) if isinstance(features, Mapping) else features
    if names != sorted(FEATURES):
        raise ValueError(
            f"`features` must be a dict of {', '.join(FEATURES)}, as "
            f"`electra_tf.load(...).tokenize(texts)` makes it. Received: "
            f"{names!r:.200}."
        )
    rows = []
    for name in FEATURES:
        tensor = tf.convert_to_tensor(features[name])
        length = tensor.shape[1] if tensor.shape.rank == 2 else None
        if tensor.shape.rank != 2 or not tensor.dtype.is_integer:
            raise ValueError(
                f"`features[{name!r}]` must be [B, S] integers. Received: "
                f"{tensor.dtype.name} of shape {tensor.shape}. In a "
                "functional model: keras.Input([None], dtype='int32')."
            )
        if length is not None and length > num_positions:
            raise ValueError(
                f"`features[{name!r}]` must have at most {num_positions} "
                f"columns, the model's positions. Received: {length}. Cut "
                "the rows, for example by `tokenize(texts, max_length=...)`."
            )
        rows.append(tf.cast(tensor, tf.int32))
    return rows
