"""The fine-tuning step of a classifier with the head of transformers."""

from typing import Any

from benchmarks import pretrain
from benchmarks import side
from electra_tf import config


def build(settings: dict[str, Any], generator: Any = None) -> side.Built:
    """Builds our step on random rows of a config's size and runs it once."""
    import tensorflow as tf

    from electra_tf.finetuning import model as model_lib
    from electra_tf.modeling import flops
    from electra_tf.modeling import task_heads
    from electra_tf.pretraining import run
    from electra_tf.training import distribution

    experiment = config.freeze(settings)
    distribution.configure_process(experiment.training)
    encoder = model_lib.build_encoder(
        experiment.encoder, experiment.training.precision
    )
    head = task_heads.ClassificationHead(
        2, seed=1, has_hidden_layer=True, dtype=encoder.dtype_policy
    )
    head.build((None, None, experiment.encoder.hidden_size))
    norm = experiment.optimizer.clip_norm
    model = model_lib.FinetuningModel(encoder, {"own": head}, clip_norm=norm)
    model.optimizer = run.build_optimizer(experiment)
    model.optimizer.build(model.trained_variables)
    numbers = tf.range(experiment.training.train_batch_size)
    features = pretrain.random_rows(experiment) | {
        "task_id": tf.zeros_like(numbers),
        "own/label": numbers % 2,
    }
    count = flops.Convention("exact", experiment)
    row, one = count.discriminator().total, count.row_head().total
    # The head is applied to the first token only, not to all of them.
    length = experiment.data.max_seq_length
    per_token = (row - (length - 1) * one) / length
    return pretrain.build_step(model, features, experiment, per_token)


if __name__ == "__main__":
    side.serve({"finetune": build})
