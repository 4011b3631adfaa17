"""How a device takes its part of a batch: whole, or in micro-batches."""

from typing import NamedTuple

from electra_tf import config
from electra_tf.training import devices

# Of a micro-batch on a CPU: smaller ones are slower (docs/performance.md).
_CPU_TOKENS = 1024


class Cut(NamedTuple):
    """How a device takes its part of a batch."""

    num_parts: int  # micro-batches
    at_a_time: int = 1  # of them, side by side

    @property
    def is_shared(self) -> bool:
        """Whether each of several processors has parts of its own."""
        return 1 < self.at_a_time <= self.num_parts


def cut_batch(
    settings: config.ExperimentConfig, count: int, is_cpu: bool
) -> Cut:
    """How each of `count` devices takes its part of a batch.

    In `training.num_micro_batches` parts, one after the other. Where that is 0,
    whole; on CPUs in as many parts as have enough tokens, side by side.
    """
    training, data = settings.training, settings.data
    is_whole = not is_cpu or training.jit_compile == "on"
    if training.num_micro_batches or is_whole:
        return Cut(training.num_micro_batches or 1)
    shares = data.num_streams // count
    num_tokens = training.train_batch_size * data.max_seq_length // count
    most = max(1, min(shares, num_tokens // _CPU_TOKENS))
    number = next(n for n in range(most, 0, -1) if shares % n == 0)
    return Cut(number, devices.num_processors())
