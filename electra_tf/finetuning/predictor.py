"""Rows to what the heads say of them, on all devices of a host."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.finetuning import batches
from electra_tf.finetuning import model as model_lib
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks import task as task_lib


class Predictor:
    """Runs a model's heads over rows; each is traced once.

    Args:
        strategy: where; the model was built in its scope. Every host of
            several predicts all rows, so that all of them know the scores.
        model: what.
        batch_size: rows of a batch, on all local devices together.
        static_length: pad all batches to it, for devices that compile for
            every length; 0 pads each to its own longest row.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: model_lib.FinetuningModel,
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

    def predict(self, name: str, rows: rows_lib.Rows) -> task_lib.Outputs:
        """What the head of a task says of each row, in the order of the rows.

        Args:
            name: of the task.
            rows: its rows.

        Returns:
            See `task.Outputs`.
        """
        if not rows.num_rows:
            return {}
        head = self._model.heads[name]
        columns = {c: head.columns[c] for c in head.prediction_columns}
        table = batches.RowTable({name: rows}, {name: columns})
        order = batches.order_for_prediction(rows.lengths, self._batch_size)
        found: dict[str, list[Any]] = {}
        for chosen, length in zip(order.rows, order.lengths, strict=True):
            length = self._static_length or int(length)
            outputs = self._run(name, table, chosen, length)
            for key, value in outputs.items():
                slots = found.setdefault(key, [None] * rows.num_rows)
                for row, output in zip(chosen, value, strict=True):
                    slots[row] = output
        for key, feature in head.padded_outputs.items():
            if key in found:
                lengths = _lengths_of(rows, feature)
                found[key] = [
                    output[:length]
                    for output, length in zip(found[key], lengths, strict=True)
                ]
        return found

    def _run(
        self, name: str, table: batches.RowTable, rows: np.ndarray, length: int
    ) -> Mapping[str, np.ndarray]:
        parts = np.split(rows, self._num_local)
        features = [table.batch(tf.constant(part), length) for part in parts]
        if name not in self._functions:
            self._functions[name] = self._build(name, features[0])
        replicas = self._functions[name](features)
        return {
            key: np.concatenate([output[key].numpy() for output in replicas])
            for key in replicas[0]
        }

    def _build(self, name: str, features: Mapping[str, tf.Tensor]) -> Any:
        """A function from each local replica's features to its outputs.

        It is traced for batches of any length.
        """

        def predict(own: Any) -> Any:
            return self._model.predict_task(name, own)

        if self._num_local == 1:
            signature = {
                key: tf.TensorSpec([None] * value.shape.rank, value.dtype)
                for key, value in features.items()
            }
            traced = tf.function(
                predict, input_signature=[signature], autograph=False
            )
            return lambda features: [traced(features[0])]
        # Values of replicas have no signature; their shapes are relaxed.
        together = tf.function(
            lambda values: self._strategy.run(predict, args=(values,)),
            autograph=False,
            reduce_retracing=True,
        )

        def run(features: Any) -> Any:
            def take(context: Any) -> Any:
                index = context.replica_id_in_sync_group % self._num_local
                return features[index]

            values = (
                self._strategy.experimental_distribute_values_from_function(
                    take
                )
            )
            outputs = together(values)
            return _unpack(self._strategy, outputs, self._num_local)

        return run


def _unpack(
    strategy: tf.distribute.Strategy, outputs: Mapping[str, Any], count: int
) -> list[dict[str, tf.Tensor]]:
    local = {
        key: strategy.experimental_local_results(value)
        for key, value in outputs.items()
    }
    return [
        {key: values[index] for key, values in local.items()}
        for index in range(count)
    ]


def _lengths_of(rows: rows_lib.Rows, feature: str) -> np.ndarray:
    """The unpadded length of a feature in every row."""
    if feature == "input_ids":
        return rows.lengths
    return rows.ragged[feature].lengths
