"""The fine-tuned model: a pre-trained encoder with a head for each task.

A batch may mix rows of several tasks; each row has a loss from its task's head.
The loss of a batch is the sum over rows, as in the original
(`run_finetuning.py`). A mean would train differently, because gradients are
clipped to norm 1.
"""

import dataclasses
import hashlib
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.config import finetuning as finetuning_config
from electra_tf.finetuning import adaptation
from electra_tf.finetuning import task_data
from electra_tf.formats import reading
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import keras_models
from electra_tf.modeling import layers
from electra_tf.modeling import networks
from electra_tf.modeling import task_heads
from electra_tf.tasks import base
from electra_tf.tasks import rows as rows_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import optimizers
from electra_tf.training import schedules
from electra_tf.training import step as step_lib

# Dropout seeds below this number belong to the encoder.
_FIRST_HEAD_SITE = 512


class LoadedEncoder(NamedTuple):
    """An encoder with its vocabulary and settings."""

    encoder: encoder_lib.Encoder  # weights are float32 at any precision
    vocabulary: vocabulary_lib.Vocabulary
    settings: config.EncoderConfig
    origin: str  # number of restored variables, and their source


def load_encoder(
    path: pathlib.Path,
    which: str = "latest",
    precision: str = "float32",
    use_average: bool = False,
    random_seed: int | None = None,
) -> LoadedEncoder:
    """Loads the encoder of the main network of a model of any format.

    `which` is a checkpoint of a run: `latest`, `best` (lowest held-out loss) or
    a folder. `use_average` takes the moving average of the weights.
    `random_seed` replaces the weights by random ones.
    """
    model = reading.read_model(path, "", which, use_average)
    vocabulary = model.require_vocabulary()
    if random_seed is not None:
        return random_encoder(model.encoder, vocabulary, random_seed, precision)
    encoder = reading.build_encoder(model, precision)
    count = len(encoder.variables)
    restored = f"{count} of {count} encoder variables restored from "
    origin = "; ".join([f"{restored}{model.origin}", *model.notes])
    return LoadedEncoder(encoder, vocabulary, model.encoder, origin)


def random_encoder(
    settings: config.EncoderConfig,
    vocabulary: vocabulary_lib.Vocabulary,
    seed: int,
    precision: str = "float32",
) -> LoadedEncoder:
    """Builds an encoder with random weights; `seed` sets global generators."""
    keras.utils.set_random_seed(seed)
    sizes = networks.resolve_vocab_size(settings, vocabulary.size)
    encoder = build_encoder(sizes, precision)
    origin = (
        f"0 of {len(encoder.variables)} encoder variables restored: random "
        f"weights from seed {seed}"
    )
    return LoadedEncoder(encoder, vocabulary, sizes, origin)


def build_encoder(
    settings: config.EncoderConfig, precision: str = "float32"
) -> encoder_lib.Encoder:
    """Builds the encoder of a main network with new weights."""
    return encoder_lib.build_encoder(
        settings, networks.MAIN_ENCODER, dtype=layers.dtype_policy(precision)
    )


def checksum(variables: Iterable[Any]) -> str:
    """Returns 16 hex digits of the SHA-256 of the variables' values."""
    digest = hashlib.sha256()
    for variable in variables:
        digest.update(np.asarray(variable).tobytes())
    return digest.hexdigest()[:16]


@keras.saving.register_keras_serializable("electra_tf")
class FinetuningModel(step_lib.TrainableModel):
    """An encoder with the heads of one or several tasks.

    The inputs are batches of `RowTable.batch`; `task_id` is an index of
    `heads`.
    """

    loss_coefficients = {"loss": 1.0}

    def __init__(
        self,
        encoder: encoder_lib.Encoder,
        heads: Mapping[str, task_heads.TaskHead],
        seed: int = 1,
        num_micro_batches: int = 1,
        clip_norm: float = 1.0,
    ) -> None:
        super().__init__(
            seed=seed,
            num_micro_batches=num_micro_batches,
            clip_norm=clip_norm,
            name="finetuning",
        )
        self.encoder = encoder
        # Keras wraps this dict, so `task_names` keeps the order of the heads.
        self.heads = dict(heads)
        self.task_names = tuple(heads)
        self.lora = adaptation.LoRA()
        # For each task: the sum of the losses of its rows, and their number.
        self.extra_sizes = dict.fromkeys(("task_loss", "task_rows"), len(heads))
        self.built = True

    @property
    def trained_variables(self) -> list[Any]:
        """The variables that are not frozen, and those of the adapters."""
        return [*self.trainable_variables, *self.lora.variables.values()]

    def prepare(
        self, features: step_lib.Tensors, step: tf.Tensor, is_training: bool
    ) -> step_lib.Tensors:
        """Returns the features of a batch."""
        if "stream_ids" not in features:
            return features
        # Keras' `fit` adds an axis: all rows are one stream.
        return {n: v[0] for n, v in features.items() if n != "stream_ids"}

    def loss_normalizers(self, prepared: step_lib.Tensors) -> step_lib.Tensors:
        """Returns the number of rows; only the reported loss is a mean."""
        return {"loss": tf.reduce_sum(self._count_rows(prepared))}

    def compute_losses(
        self, prepared: step_lib.Tensors, dropout_seed: tf.Tensor | None
    ) -> step_lib.LossSums:
        """Computes the loss sum and statistics of one micro-batch."""
        losses = self.compute_task_losses(prepared, dropout_seed)
        by_task = tf.reduce_sum(losses, 0)
        return step_lib.LossSums(
            {"loss": tf.reduce_sum(by_task)},
            {"task_loss": by_task, "task_rows": self._count_rows(prepared)},
        )

    def _count_rows(self, prepared: step_lib.Tensors) -> tf.Tensor:
        """Counts the rows of each task, `[tasks]` float32."""
        counts = tf.one_hot(prepared["task_id"], len(self.task_names))
        return tf.reduce_sum(counts, 0)

    def compute_task_losses(
        self, features: step_lib.Tensors, dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Computes losses, `[B, tasks]` float32; 0 for tasks of other rows."""
        hidden = self.encode(features, dropout_seed)
        losses = []
        for number, name in enumerate(self.task_names):
            seed = layers.add_to_seed(dropout_seed, _FIRST_HEAD_SITE + number)
            columns = _of_task(name, features)
            loss = self.heads[name].compute_losses(hidden, columns, seed)
            has_task = tf.equal(features["task_id"], number)
            losses.append(tf.where(has_task, loss, 0.0))
        return tf.stack(losses, 1)

    def encode(
        self, features: step_lib.Tensors, dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Computes the output of the encoder's last layer, `[B, S, D]`."""
        tokens = (features[name] for name in keras_models.FEATURES)
        with keras.StatelessScope(self.lora.compute_kernels()):
            return self.encoder(*tokens, dropout_seed).sequence_output

    def predict_task(
        self, name: str, features: step_lib.Tensors
    ) -> dict[str, tf.Tensor]:
        """Returns the predictions of a task's head, without dropout."""
        hidden, columns = self.encode(features, None), _of_task(name, features)
        return self.heads[name].predict(hidden, columns)

    def derive_metrics(self, statistics: step_lib.Tensors) -> step_lib.Tensors:
        """Computes the mean loss of a row, in total and for each task."""
        mean = tf.math.divide_no_nan
        rows = statistics[step_lib.normalizer_of("loss")][0]
        losses = {"loss": mean(statistics["loss"][0], rows)}
        if len(self.task_names) > 1:
            means = mean(statistics["task_loss"], statistics["task_rows"])
            for number, name in enumerate(self.task_names):
                losses[f"{name}_loss"] = means[number]
        return losses

    def call(self, features: step_lib.Tensors) -> step_lib.Tensors:
        """Returns the predictions of all heads as `<task>/<output>`."""
        hidden = self.encode(features, None)
        named: dict[str, tf.Tensor] = {}
        for task, head in self.heads.items():
            outputs = head.predict(hidden, _of_task(task, features))
            named |= {f"{task}/{name}": v for name, v in outputs.items()}
        return named

    def total_loss(
        self,
        sums: step_lib.Tensors,
        normalizers: step_lib.Tensors,
        step: tf.Tensor,
    ) -> tf.Tensor:
        """Returns the sum of the losses of all tasks."""
        return sums["loss"]

    def get_config(self) -> dict[str, Any]:
        """Returns the settings of the encoder and the heads."""
        return {
            "encoder": dataclasses.asdict(self.encoder.settings),
            "dtype": self.encoder.dtype_policy.name,
            "heads": {
                name: keras.saving.serialize_keras_object(head)
                for name, head in self.heads.items()
            },
            "seed": self.seed,
            "num_micro_batches": self.num_micro_batches,
            "clip_norm": self.clip_norm,
        }

    @classmethod
    def from_config(
        cls, values: dict[str, Any], custom_objects: Any = None
    ) -> "FinetuningModel":
        """Builds the model of a config with new weights."""
        values = dict(values)
        sizes = config.EncoderConfig(**values.pop("encoder"))
        encoder = encoder_lib.build_encoder(
            sizes, networks.MAIN_ENCODER, dtype=values.pop("dtype")
        )
        with keras.name_scope("task_specific"):
            heads = {
                name: keras.saving.deserialize_keras_object(h, custom_objects)
                for name, h in values.pop("heads").items()
            }
        return cls(encoder, heads, **values)

    def export(self, filepath: Any, *args: Any, **kwargs: Any) -> None:
        """Exports as Keras does; by default rows may have any length."""
        columns = {
            f"{task}/{name}": head.columns[name]
            for task, head in self.heads.items()
            for name in head.prediction_columns
        } | dict.fromkeys(
            keras_models.FEATURES, task_heads.Column(is_ragged=True)
        )
        signature = {
            name: keras.InputSpec(
                dtype=np.dtype(column.dtype).name,
                shape=(None, None) if column.is_ragged else (None,),
            )
            for name, column in columns.items()
        }
        kwargs.setdefault("input_signature", [signature])
        super().export(filepath, *args, **kwargs)


def _of_task(task: str, features: step_lib.Tensors) -> step_lib.Tensors:
    """Selects the tokens and a task's columns, without the task's prefix."""
    prefix = f"{task}/"
    return {name: features[name] for name in keras_models.FEATURES} | {
        name.removeprefix(prefix): value
        for name, value in features.items()
        if name.startswith(prefix)
    }


def build_optimizer(
    options: finetuning_config.FinetuningOptimizerConfig,
    num_steps: int,
    num_layers: int,
) -> keras.optimizers.Optimizer:
    """Builds the optimizer with its schedule and layer-wise rates."""
    schedule = schedules.PolynomialDecayTimesWarmup(
        options.learning_rate,
        num_steps,
        warmup_proportion=options.warmup_proportion,
        power=options.lr_decay_power,
    )
    rules = schedules.layerwise_learning_rate_rules(
        options.layerwise_lr_decay, num_layers, options.contiguous_lr_decay
    )
    return optimizers.build(options, schedule, learning_rate_multipliers=rules)


class Predictor:
    """Predicts rows; every host predicts all rows.

    Batches are padded to `static_length`, for devices that compile each length
    anew; if it is 0, to their longest row.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: FinetuningModel,
        batch_size: int,
        static_length: int = 0,
    ) -> None:
        self._strategy = strategy
        self._model = model
        self._static_length = static_length
        workers = getattr(strategy.extended, "_num_workers", 1)
        self._num_local = strategy.num_replicas_in_sync // max(workers, 1)
        self._batch_size = -(-batch_size // self._num_local) * self._num_local
        self._functions: dict[str, Any] = {}

    def predict(
        self,
        name: str,
        rows: rows_lib.EncodedRows,
        before_batch: Callable[[], None] = lambda: None,
    ) -> base.Outputs:
        """Returns the outputs of a task's head for each row, in order."""
        if not rows.num_rows:
            return {}
        head = self._model.heads[name]
        columns = {c: head.columns[c] for c in head.prediction_columns}
        # A head predicts each row separately.
        rows = dataclasses.replace(rows, group_size=1)
        table = task_data.RowTable({name: rows}, {name: columns})
        order = task_data.order_for_prediction(rows.lengths, self._batch_size)
        rows_by_output: dict[str, list[Any]] = {}
        for chosen, length in zip(order.rows, order.lengths, strict=True):
            before_batch()
            features = table.batch(
                tf.constant(chosen), self._static_length or int(length)
            )
            if name not in self._functions:
                self._functions[name] = self._build(name, features)
            for key, parts in self._functions[name](features).items():
                slots = rows_by_output.setdefault(key, [None] * rows.num_rows)
                parts = self._strategy.experimental_local_results(parts)
                for row, output in zip(
                    chosen, np.concatenate(parts), strict=True
                ):
                    slots[row] = output
        ragged = {"input_ids": rows.ids} | dict(rows.ragged)
        for key in head.padded_outputs.keys() & rows_by_output.keys():
            lengths = ragged[head.padded_outputs[key]].lengths
            pairs = zip(rows_by_output[key], lengths, strict=True)
            rows_by_output[key] = [output[:length] for output, length in pairs]
        return rows_by_output

    def _build(self, name: str, features: task_data.Tensors) -> Any:
        """Compiles a head's prediction; local replicas share a batch."""

        def predict(features: task_data.Tensors) -> task_data.Tensors:
            context = tf.distribute.get_replica_context()
            replica = context.replica_id_in_sync_group % self._num_local
            share = {
                key: tf.stack(tf.split(value, self._num_local))[replica]
                for key, value in features.items()
            }
            return self._model.predict_task(name, share)

        def describe(value: tf.Tensor) -> tf.TensorSpec:
            shape = value.shape
            if not self._static_length:
                shape = shape[:1] + [None] * (shape.rank - 1)
            return tf.TensorSpec(shape, value.dtype)

        return tf.function(
            lambda batch: self._strategy.run(predict, args=(batch,)),
            input_signature=[tf.nest.map_structure(describe, features)],
            autograph=False,
        )
