"""Parts to TFRecord shards."""

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Sequence

import numpy as np

from electra_tf.processes.pool import Report
from electra_tf.records.atomic import replacing_file
from electra_tf.records.examples import Examples
from electra_tf.records.examples import build_features
from electra_tf.records.examples import join_examples
from electra_tf.records.examples import select_examples
from electra_tf.records.manifest import Shard
from electra_tf.records.manifest import file_sha256
from electra_tf.records.parts import load_shard_examples
from electra_tf.records.plan import BuildPlan
from electra_tf.records.schema import serialize_examples

_EXAMPLES_AT_ONCE = 1024


@dataclasses.dataclass(frozen=True)
class ShardTask:
    """The order to write one shard.

    Attributes:
      split: `train` or `validation`.
      index: number of the shard.
      residues: for each part, which of its examples belong to the shard: those
        with this number modulo the number of shards.
    """

    split: str
    index: int
    residues: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.split} shard {self.index}"


def shard_name(index: int, num_shards: int) -> str:
    """Returns the file name of a shard.

    Example:
      >>> shard_name(3, 12)
      'pretrain_data.tfrecord-00003-of-00012'
    """
    return f"pretrain_data.tfrecord-{index:05d}-of-{num_shards:05d}"


def shard_path(plan: BuildPlan, split: str, index: int) -> pathlib.Path:
    """Returns the final path of a shard."""
    name = shard_name(index, plan.num_shards[split])
    return pathlib.Path(plan.output_folder, split, name)


def find_shard(plan: BuildPlan, split: str, index: int) -> Shard | None:
    """Returns what is known of a finished shard; None if it is to be written.

    A file counts as finished if this build noted it down and its size still
    is the same.
    """
    note = _note_path(plan, split, index)
    path = shard_path(plan, split, index)
    if not note.is_file() or not path.is_file():
        return None
    shard = Shard(**json.loads(note.read_text("utf-8")))
    return shard if path.stat().st_size == shard.num_bytes else None


def write_shard(plan: BuildPlan, task: ShardTask, report: Report) -> Shard:
    """Writes one shard; it appears under its name when it is complete.

    Its examples come from all parts and are shuffled, except in the original's
    order.

    Args:
      plan: the plan of the whole dataset; all parts must be finished.
      task: which shard.
      report: called with the examples written, as work and as count.
    """
    import tensorflow as tf

    report(0, 0)
    examples = join_examples(
        [
            load_shard_examples(plan, index, task.split, residue)
            for index, residue in enumerate(task.residues)
        ]
    )
    order = _shuffled(plan, task, len(examples.first_lengths))
    path = shard_path(plan, task.split, task.index)
    path.parent.mkdir(exist_ok=True)
    num_tokens = 0
    with replacing_file(path) as partial:
        with tf.io.TFRecordWriter(str(partial)) as writer:
            for begin in range(0, len(order), _EXAMPLES_AT_ONCE):
                chosen = order[begin : begin + _EXAMPLES_AT_ONCE]
                rows = _rows(plan, select_examples(examples, chosen))
                for record in serialize_examples(rows):
                    writer.write(record)
                num_tokens += int(rows["input_mask"].sum())
                report(len(chosen), len(chosen))
        shard = Shard(
            name=path.name,
            num_examples=len(order),
            num_tokens=num_tokens,
            num_bytes=partial.stat().st_size,
            sha256=file_sha256(partial),
        )
    _note_shard(plan, task.split, task.index, shard)
    return shard


def _shuffled(
    plan: BuildPlan, task: ShardTask, num_examples: int
) -> np.ndarray:
    """Returns the order of a shard's examples: `[num_examples]` int64."""
    order = np.arange(num_examples)
    if not plan.original_order:
        name = f"{plan.seed} {task.split} {task.index}"
        digest = hashlib.sha256(name.encode()).digest()
        # The one generator of numpy whose numbers are promised to stay.
        rng = np.random.RandomState(np.frombuffer(digest, np.uint32))
        rng.shuffle(order)
    return order


def note_shards(plan: BuildPlan, split: str, written: Sequence[Shard]) -> None:
    """Notes down the shards of a dataset that was completed before."""
    for index, shard in enumerate(written):
        _note_shard(plan, split, index, shard)


def _note_shard(plan: BuildPlan, split: str, index: int, shard: Shard) -> None:
    """Notes down a finished shard, so that it is not written again."""
    with replacing_file(_note_path(plan, split, index)) as partial:
        partial.write_text(json.dumps(dataclasses.asdict(shard)), "utf-8")


def _rows(plan: BuildPlan, examples: Examples) -> dict[str, np.ndarray]:
    """Returns the padded features of the examples."""
    vocabulary = plan.vocabulary
    return build_features(
        examples,
        plan.max_seq_length,
        vocabulary.cls_id,
        vocabulary.sep_id,
        vocabulary.pad_id,
    )


def _note_path(plan: BuildPlan, split: str, index: int) -> pathlib.Path:
    """Returns where a finished shard is noted down."""
    return pathlib.Path(
        plan.build_folder, "shards", f"{split}-{index:05d}.json"
    )
