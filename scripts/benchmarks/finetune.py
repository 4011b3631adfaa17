"""The fine-tuning step of a classifier: ours and transformers'."""

from typing import Any

from benchmarks import pretrain
from benchmarks import side
from electra_tf import config


def build(settings: dict[str, Any]) -> side.Built:
    """Our step on random rows, with the head that transformers has."""
    import tensorflow as tf

    from electra_tf.finetuning import model as model_lib
    from electra_tf.modeling import layers
    from electra_tf.modeling import task_heads
    from electra_tf.pretraining import run
    from electra_tf.training import distribution

    experiment = config.freeze(settings)
    training, sizes = experiment.training, experiment.encoder
    distribution.configure_process(training)
    encoder = model_lib.build_encoder(sizes, training.precision)
    head = task_heads.ClassificationHead(
        2, 1, True, dtype=layers.dtype_policy(training.precision)
    )
    head.build((None, None, sizes.hidden_size))
    model = model_lib.FinetuningModel(
        encoder, {"own": head}, clip_norm=experiment.optimizer.clip_norm
    )
    model.optimizer = run.build_optimizer(experiment)
    model.optimizer.build(model.trained_variables)
    rows, length = training.train_batch_size, experiment.data.max_seq_length
    ids = tf.random.stateless_uniform(
        [rows, length], [1, 2], 5, sizes.vocab_size, tf.int32
    )
    features = {
        "input_ids": ids,
        "input_mask": tf.ones_like(ids),
        "segment_ids": tf.zeros_like(ids),
        "task_id": tf.zeros([rows], tf.int32),
        "own/label": tf.range(rows) % 2,
    }
    work = {
        "rows": rows,
        "length": length,
        "weights": sum(v.numpy().size for v in model.trained_variables),
        "dropout": sizes.hidden_dropout_prob,
    }
    return pretrain.build_step(model, features, training, work)


if __name__ == "__main__":
    side.serve({"finetune": build})
