"""The input pipeline alone: batches of a dataset, one after another."""

from typing import Any

from benchmarks import side
from electra_tf import config
from electra_tf import storage

# In a step: enough that the batches that were prefetched do not count.
_NUM_BATCHES = 50


def build(settings: dict[str, Any]) -> side.Built:
    """Returns a step that takes the next batches."""
    from electra_tf.inputs import dataset
    from electra_tf.inputs import pipeline
    from electra_tf.pretraining import run

    experiment = config.freeze(settings)
    data, rows = experiment.data, experiment.training.train_batch_size
    folder, length = storage.path(data.dataset_dir), data.max_seq_length
    split = dataset.open_dataset(folder, length).train
    order = run.build_order(experiment, split)
    iterator = iter(pipeline.build_training_dataset(split, order))

    def step(_: Any) -> float:
        for _ in range(_NUM_BATCHES):
            next(iterator)
        return _NUM_BATCHES * rows * length

    return side.Built(step, {"batch": [rows, length]}, ["tensorflow"])


if __name__ == "__main__":
    side.serve({"input": build})
