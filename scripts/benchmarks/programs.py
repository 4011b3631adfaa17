"""Models of ours on random rows, and their programs for a device's compiler."""

import pathlib
import re
from typing import Any
from unittest import mock

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from benchmarks import pretrain as steps
from electra_tf import config
from electra_tf import fusion
from electra_tf.modeling import flops
from electra_tf.pretraining import cost
from electra_tf.pretraining import run
from electra_tf.text import vocabulary as vocabulary_lib

# Numbers of labels of a head, and of rows in a comparison.
_NUM_LABELS, _GROUP = 4, 4
_TASK = "own"


class _Replica:
    """The context of the first of some replicas, whose sums XLA compiles."""

    replica_id_in_sync_group = 0

    def __init__(self, count: int) -> None:
        self.num_replicas_in_sync = count

    def all_reduce(self, how: str, values: Any) -> Any:
        """The sum or mean of the replicas' values."""
        return tf.nest.map_structure(
            lambda value: gen_xla_ops.xla_all_reduce(
                input=value,
                group_assignment=[[*range(self.num_replicas_in_sync)]],
                reduce_op={"SUM": "Add", "MEAN": "Mean"}[how],
                mode="CrossReplica",
            ),
            values,
        )


def write_program(
    settings: config.ExperimentConfig,
    path: pathlib.Path,
    accelerator: str,
    work: str = "pretrain",
    kind: str = "classification",
    num_replicas: int = 1,
) -> float:
    """Writes the HLO that the compiler of a device gets.

    Args:
        settings: as `pretrain.prepare` gives them; the batch is a replica's.
        path: of the file.
        accelerator: TPU or GPU, which get different programs.
        work: `pretrain`, `evaluate`, `finetune` or `predict`.
        kind: of the task that is fine-tuned or predicted.
        num_replicas: more than 1 add up their gradients and statistics.

    Returns:
        The operations of its matrix products. `ValueError` if XLA does not know
        an operation.
    """
    if work in ("pretrain", "evaluate"):
        model, features, row = build_pretraining(settings)
    else:
        model, features, row = build_finetuning(settings, kind)
    if work in ("evaluate", "predict"):
        row /= 3  # the gradients take two of three products
    calls = {
        "evaluate": lambda rows: model.evaluation_step(
            rows, tf.zeros([], tf.int64)
        ),
        "predict": lambda rows: model.predict_task(_TASK, rows),
    }
    model.xla_scope = fusion.Scope.STEP
    replica = _Replica(num_replicas)
    with (
        fusion.switched(fusion.Scope.STEP),
        mock.patch.object(
            tf.distribute, "get_replica_context", lambda: replica
        ),
        mock.patch.object(fusion, "accelerator", lambda: accelerator),
    ):
        step = calls.get(work, model.training_step)
        call = tf.function(step, autograph=False, jit_compile=True)
        try:
            write = call.experimental_get_compiler_ir(features)
            path.write_bytes(write(stage="hlo_serialized"))
        except ValueError as error:
            refused = re.findall(r"(\w+) \(No registered", str(error))
            if not refused:
                raise
            raise ValueError(
                f"XLA must know every operation of {work}. Received: "
                f"{', '.join(refused)}. Use TensorFlow operations that XLA has."
            ) from error
    return row * settings.training.train_batch_size


def build_pretraining(
    settings: config.ExperimentConfig,
) -> tuple[Any, dict[str, tf.Tensor], float]:
    """The model of a config, a batch of random rows, a row's operations."""
    vocab_size = settings.encoder.vocab_size
    special = vocabulary_lib.SPECIAL_TOKENS
    tokens = (f"[unused{i}]" for i in range(vocab_size - len(special)))
    model = run.build_model_and_optimizer(
        settings, vocabulary_lib.Vocabulary((*special, *tokens))
    )
    data = settings.data
    features = {
        name: tf.reshape(rows, [data.num_streams, -1, data.max_seq_length])
        for name, rows in steps.random_rows(settings).items()
    }
    numbers = tf.range(data.num_streams, dtype=tf.int64)
    row_flops = cost.Cost(settings).row_flops()
    return model, features | {"stream_ids": numbers}, row_flops


def build_finetuning(
    settings: config.ExperimentConfig, kind: str, num_labels: int = _NUM_LABELS
) -> tuple[Any, dict[str, tf.Tensor], float]:
    """The same of a model with the head of a kind of task."""
    # Here, because they would count in the start of `pretrain`.
    from electra_tf.finetuning import model as finetuning_model
    from electra_tf.tasks import base

    encoder = finetuning_model.build_encoder(
        settings.encoder, settings.training.precision
    )
    head = base.find_kind(kind).restore_head(
        num_labels, {}, True, seed=1, dtype=encoder.dtype_policy
    )
    head.build((None, None, settings.encoder.hidden_size))
    model = finetuning_model.FinetuningModel(
        encoder, {_TASK: head}, clip_norm=settings.optimizer.clip_norm
    )
    model.optimizer = run.build_optimizer(settings)
    model.optimizer.build(model.trained_variables)
    rows = settings.training.train_batch_size
    length = settings.data.max_seq_length
    groups = rows // _GROUP if "relevance" in head.columns else rows
    shapes = {"labels": [rows, num_labels], "relevance": [groups, _GROUP]}
    features = {"task_id": tf.zeros([groups], tf.int32)}
    for name, column in head.columns.items():
        shape = [rows, length // 2] if column.is_ragged else [rows]
        features[f"{_TASK}/{name}"] = tf.ones(
            shapes.get(name, shape), column.dtype
        )
    count = flops.Convention("exact", settings)
    # The head takes the first token alone.
    others = (length - 1) * count.row_head().total
    row_flops = count.discriminator().total - others
    return model, steps.random_rows(settings) | features, row_flops
