"""The order of the examples, a pure function of shards, seed and position.

Without a shuffle buffer two integers describe the position. In each epoch:

1. The shards are permuted and joined to a ring, which is cut open at a random
   example of the first shard.
2. The N examples of the ring are divided into C ranges of `n = N // C`
   examples, one for each stream. The last `N % C` examples are left out.
3. Each stream shuffles its range in blocks of `shuffle_block` examples.
4. Global batch k holds the next `B / C` examples of every stream, the rows of
   one stream side by side. An incomplete batch at the end is left out.

Replica r of R reads streams `r * C / R` to `(r + 1) * C / R - 1`, so the global
batches are the same for every R that divides C.
"""

import tensorflow as tf

from electra_tf.config import schema
from electra_tf.inputs import randomness

# The message of a shard that ends too early; `dataset.py` looks for it.
MISSING_RECORDS = "A shard holds fewer records than its manifest says."


@schema.frozen
class Position:
    """The position in the input that a checkpoint saves."""

    epoch: schema.Count = 0  # from 0
    batch: schema.Count = 0  # the number of consumed batches of this epoch

    def advance(self, num_batches: int, batches_per_epoch: int) -> "Position":
        """Returns the position after `num_batches` more global batches."""
        epochs, batch = divmod(self.batch + num_batches, batches_per_epoch)
        return Position(self.epoch + epochs, batch)


@schema.frozen
class StreamOrder:
    """The order of the examples for one dataset, seed and batch size."""

    shard_sizes: tuple[int, ...]  # examples of each shard
    num_streams: schema.Positive  # C
    global_batch_size: schema.Positive  # rows, B, a multiple of C
    seed: int  # of the run
    shuffle_block: schema.Positive  # examples that a stream shuffles together

    def __post_init__(self) -> None:
        schema.require(
            self.batches_per_epoch > 0
            and self.global_batch_size % self.num_streams == 0,
            "The batch size must be a multiple of the number of streams, and "
            f"examples must fill a batch. Received: {self.num_examples} "
            f"examples, a batch of {self.global_batch_size}, "
            f"{self.num_streams} streams. Build more examples or change one.",
        )

    @property
    def num_examples(self) -> int:
        """The number of examples of the dataset, N."""
        return sum(self.shard_sizes)

    @property
    def examples_per_stream(self) -> int:
        """The number of examples of a stream, n."""
        return self.num_examples // self.num_streams

    @property
    def rows_per_stream(self) -> int:
        """The rows of a stream in a global batch, B / C."""
        return self.global_batch_size // self.num_streams

    @property
    def batches_per_epoch(self) -> int:
        """The number of global batches of an epoch."""
        return self.examples_per_stream // self.rows_per_stream

    @property
    def _num_blocks(self) -> int:
        return -(-self.examples_per_stream // self.shuffle_block)

    def stream_pieces(
        self, epoch: tf.Tensor, stream: tf.Tensor, first_block: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Finds the records that a stream reads, from `first_block` on.

        Returns:
            Shards, first records and numbers of records, `[k]` int64 each: the
            stream reads k pieces of shards, in this order.
        """
        shards, starts, counts = self._ring(epoch)
        ends = tf.cumsum(counts)
        begins = ends - counts
        low = stream * self.examples_per_stream
        high = low + self.examples_per_stream
        low += first_block * self.shuffle_block
        begins_inside = tf.maximum(begins, low)
        sizes_inside = tf.minimum(ends, high) - begins_inside
        inside = tf.reshape(tf.where(sizes_inside > 0), [-1])
        return (
            tf.gather(shards, inside),
            tf.gather(starts + begins_inside - begins, inside),
            tf.gather(sizes_inside, inside),
        )

    def _ring(self, epoch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns shards, first records and numbers of records of the ring."""
        shards = tf.range(len(self.shard_sizes), dtype=tf.int64)
        shards = _shuffle(shards, self._seed(epoch, 0))
        sizes = tf.gather(tf.constant(self.shard_sizes, tf.int64), shards)
        seed, high = self._seed(epoch, 1), tf.maximum(sizes[0], 1)
        opening = tf.random.stateless_uniform(
            [1], seed, 0, high, tf.int64, alg="philox"
        )
        starts = tf.concat([opening, tf.zeros_like(sizes)], axis=0)
        counts = tf.concat([sizes[:1] - opening, sizes[1:], opening], axis=0)
        return tf.concat([shards, shards[:1]], axis=0), starts, counts

    def shuffle(
        self,
        records: tf.Tensor,
        epoch: tf.Tensor,
        stream: tf.Tensor,
        block: tf.Tensor,
        first_example: tf.Tensor,
    ) -> tf.Tensor:
        """Shuffles the `[m]` records of a block and removes unused ones.

        Unused are records before `first_example` of the stream, which earlier
        steps consumed, and an incomplete batch at the end of the epoch.
        """
        begin = block * self.shuffle_block
        tf.debugging.assert_equal(
            tf.size(records, tf.int64),
            tf.minimum(self.examples_per_stream - begin, self.shuffle_block),
            MISSING_RECORDS,
        )
        seed = self._seed(epoch, 2 + stream * self._num_blocks + block)
        num_used = self.batches_per_epoch * self.rows_per_stream
        first = tf.maximum(first_example - begin, 0)
        last = tf.maximum(num_used - begin, first)
        return _shuffle(records, seed)[first:last]

    def _seed(self, epoch: tf.Tensor, number: tf.Tensor | int) -> tf.Tensor:
        """Returns the `[2]` int64 seed of a draw of an epoch."""
        num_draws = 2 + self.num_streams * self._num_blocks
        key = randomness.purpose_key(self.seed, randomness.DATA_ORDER)
        counter = tf.cast(epoch, tf.int64) * num_draws + number
        return tf.stack([tf.constant(key, tf.int64), counter])


def _shuffle(values: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    return tf.random.experimental.stateless_shuffle(
        values, seed=seed, alg="philox"
    )
