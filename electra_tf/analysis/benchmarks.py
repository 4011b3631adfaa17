"""How fast a step, the input pipeline and an export are on this machine."""

import contextlib
import functools
import itertools
import json
import pathlib
import resource
import statistics
import subprocess
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.analysis import transformers_peer
from electra_tf.export import export_metadata
from electra_tf.export.clients import text_models
from electra_tf.inputs import dataset
from electra_tf.inputs import pipeline
from electra_tf.inputs import streams
from electra_tf.pretraining import cost
from electra_tf.pretraining import model as model_lib
from electra_tf.pretraining import run
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import distribution

_SIGNATURE = "score_text"
# Threads that have just worked wait for more, and slow down the other side.
_PAUSE_SECONDS = 0.3
_NUM_WARM_UP_BATCHES = 3
# Texts whose answers are compared before.
_NUM_COMPARED = 64

AskFn = Callable[..., dict[str, Any]]
"""`transformers_peer.answer` of one side: takes `texts` and `batch_size`."""


class StepTiming(NamedTuple):
    """What `time_training_step` measured; rates are at the median step."""

    startup_seconds: float  # building, tracing, compiling, the first step
    step_seconds: tuple[float, ...]  # each further step, in order
    tokens_per_second: float
    share_of_peak: float  # of the device's matrix products
    peak_memory_bytes: int  # of the accelerator, or of the process on a CPU
    last_losses: dict[str, float]  # metrics of the last step


def time_training_step(
    settings: config.ExperimentConfig, num_steps: int, vocab_size: int = 30522
) -> StepTiming:
    """Times the training step on random ids, one device, one call per step."""
    start = time.perf_counter()
    if settings.training.deterministic:
        tf.config.experimental.enable_op_determinism()
    tokens = tuple(f"[unused{i}]" for i in range(vocab_size - 5))
    vocabulary = vocabulary_lib.Vocabulary(
        vocabulary_lib.SPECIAL_TOKENS + tokens
    )
    model = run.build_model_and_optimizer(settings, vocabulary)
    num_streams = settings.data.num_streams
    rows = settings.training.train_batch_size // num_streams
    shape = [num_streams, rows, settings.data.max_seq_length]
    ids = tf.random.stateless_uniform(shape, [1, 2], 5, vocab_size, tf.int32)
    features = {
        "input_ids": ids,
        "input_mask": tf.ones_like(ids),
        "segment_ids": tf.zeros_like(ids),
        "stream_ids": tf.range(num_streams, dtype=tf.int64),
    }
    step = tf.function(
        model.training_step,
        autograph=False,
        jit_compile=distribution.compiles_with_xla(settings.training) or None,
    )
    seconds = []
    for _ in range(num_steps + 1):
        sums = {name: value.numpy() for name, value in step(features).items()}
        seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
    median = statistics.median(seconds[1:])
    operations = cost.Cost(model_lib.resolve(settings, vocab_size))
    device = distribution.device_description(tf.distribute.get_strategy())
    peak = distribution.peak_flops(device, settings.training.precision)
    return StepTiming(
        startup_seconds=seconds[0],
        step_seconds=tuple(seconds[1:]),
        tokens_per_second=tf.size(ids).numpy() / median,
        share_of_peak=operations.step_flops() / median / peak if peak else 0.0,
        peak_memory_bytes=_peak_memory(),
        last_losses=model.summarize(sums),
    )


def time_input_pipeline(
    dataset_dir: pathlib.Path,
    settings: config.ExperimentConfig,
    num_batches: int,
) -> float:
    """Tokens per second that the input pipeline alone delivers."""
    vocabulary = dataset.load_vocabulary(dataset_dir)
    length = settings.data.max_seq_length
    split = dataset.open_split(dataset_dir / "train", vocabulary, length)
    rows = settings.training.train_batch_size
    data, seed = settings.data, settings.training.seed
    order = streams.StreamOrder(
        split.shard_sizes, data.num_streams, rows, seed, data.shuffle_block
    )
    iterator = iter(pipeline.build_training_dataset(split, order))
    next(iterator)
    start = time.perf_counter()
    for _ in range(num_batches):
        next(iterator)
    return num_batches * rows * length / (time.perf_counter() - start)


def _peak_memory() -> int:
    if tf.config.list_physical_devices("GPU"):
        return tf.config.experimental.get_memory_info("GPU:0")["peak"]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Amount(NamedTuple):
    """How much is timed at each batch size, on each side."""

    num_texts: int
    num_batches: int  # at most
    num_rounds: int  # in which the sides take turns

    def split(self, batch_size: int) -> list[int]:
        """Batches of every round, at least one."""
        total = min(-(-self.num_texts // batch_size), self.num_batches)
        rounds = min(self.num_rounds, total)
        ends = [total * number // rounds for number in range(rounds + 1)]
        return [end - begin for begin, end in itertools.pairwise(ends)]


def load_export(folder: pathlib.Path) -> tuple[transformers_peer.ScoreFn, int]:
    """What an exported discriminator says of texts; tokens that it takes."""
    model = text_models.load_saved_model(folder)
    if _SIGNATURE not in model.signatures:
        raise ValueError(
            f"The export must have the signature {_SIGNATURE!r}. Received: "
            f"{folder}. Export a run that trained a discriminator."
        )

    def score(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        batch = tf.constant(texts, tf.string)
        answers = model.signatures[_SIGNATURE](texts=batch)
        names = ("replaced_probability", "input_mask")
        probabilities, mask = (answers[name].numpy() for name in names)
        return probabilities, mask

    return score, export_metadata.read(folder).max_length


def peer_command(
    folder: pathlib.Path, python: str, attention: str, num_threads: int
) -> list[str]:
    """The command of `transformers_peer`, without its last argument."""
    script = transformers_peer.__file__
    return [python, "-P", script, str(folder), attention, str(num_threads)]


@contextlib.contextmanager
def run_peer(command: Sequence[str]) -> Iterator[tuple[AskFn, dict[str, str]]]:
    """A model in a process of its own, asked through pipes; its versions."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as peer:

        def ask(**request: Any) -> dict[str, Any]:
            # If it has ended, reading says so.
            with contextlib.suppress(BrokenPipeError):
                print(json.dumps(request), file=peer.stdin, flush=True)
            return read()

        def read() -> dict[str, Any]:
            line = peer.stdout.readline()  # type: ignore[union-attr]
            if line:
                return json.loads(line)
            raise RuntimeError(
                "The peer must answer, and needs torch and transformers for "
                f"that. It ended with {peer.wait()}; what it said stands "
                "above. Give an interpreter that has them as --peer_python."
            )

        try:
            yield ask, read()
        finally:
            peer.kill()


def time_export(
    export_dir: pathlib.Path,
    texts_file: pathlib.Path,
    batch_sizes: Sequence[int],
    amount: Amount,
    peer_command: Sequence[str] | None = None,
) -> Iterator[str]:
    """Times an export on the lines of a file, and says how fast it is.

    With a peer, both take the same texts in turn, a block of batches each, so
    that what else the machine does meets both: compare by ratio within one
    run. The question is which tokens look replaced; the export's answer
    (`score_text`) says too where in the text their words stand.
    """
    lines = map(str.strip, texts_file.read_text("utf-8").splitlines())
    texts = [line for line in lines if line]
    if not texts:
        raise ValueError(
            f"The file must have a text on every line. Received: {texts_file}, "
            "without any."
        )
    score_fn, max_length = load_export(export_dir)
    sides: list[AskFn] = [functools.partial(transformers_peer.answer, score_fn)]
    with contextlib.ExitStack() as stack:
        if peer_command is not None:
            command = [*peer_command, str(max_length)]
            ask, versions = stack.enter_context(run_peer(command))
            sides.append(ask)
            yield ", ".join(f"{k} {v}" for k, v in versions.items())
            difference = largest_difference(sides, texts[:_NUM_COMPARED])
            yield f"largest difference of the probabilities {difference:.1e}"
        for size in batch_sizes:
            yield f"batches of {size}"
            yield from describe(time_sides(sides, texts, size, amount))


def largest_difference(sides: Sequence[AskFn], texts: list[str]) -> float:
    """Of the probabilities that two sides give the same tokens."""
    first, second = (
        ask(texts=texts, batch_size=16, wants_answers=True)["answers"]
        for ask in sides
    )
    largest = 0.0
    for text, here, there in zip(texts, first, second, strict=True):
        if len(here) != len(there):
            raise ValueError(
                "Both sides must split a text into the same tokens. Received: "
                f"{len(here)} and {len(there)} for {text!r}. Take one "
                "vocabulary and the same tokenizer settings."
            )
        largest = max(largest, float(np.abs(np.subtract(here, there)).max()))
    return largest


def time_sides(
    sides: Sequence[AskFn],
    texts: Sequence[str],
    batch_size: int,
    amount: Amount,
) -> list[list[dict[str, Any]]]:
    """The replies of each side, one a round, to texts in an endless circle."""
    replies: list[list[dict[str, Any]]] = [[] for _ in sides]
    remaining = itertools.cycle(texts)
    for count in [_NUM_WARM_UP_BATCHES, *amount.split(batch_size)]:
        block = list(itertools.islice(remaining, count * batch_size))
        for ask, received in zip(sides, replies, strict=True):
            time.sleep(_PAUSE_SECONDS)
            received.append(ask(texts=block, batch_size=batch_size))
    # The first of each only warmed up.
    return [received[1:] for received in replies]


def describe(rounds: Sequence[Sequence[Mapping[str, Any]]]) -> list[str]:
    """Lines about each side, and the ratios of two; see `time_sides`."""
    lines, seconds, processor_seconds = [], [], []
    for name, replies in zip(("export", "transformers"), rounds, strict=False):
        own = np.concatenate([reply["seconds"] for reply in replies])
        processor, texts, tokens = (
            sum(reply[key] for reply in replies)
            for key in ("processor_seconds", "num_texts", "num_tokens")
        )
        seconds.append(own)
        processor_seconds.append(processor)
        lines.append(
            f"  {name:<12} {1e3 * np.median(own):9.1f} ms median, "
            f"{1e3 * np.quantile(own, 0.95):9.1f} ms p95, "
            f"{1e3 * processor / len(own):9.1f} ms of processors, "
            f"{texts / own.sum():8.1f} texts/s, "
            f"{tokens / own.sum():9.0f} tokens/s"
        )
    if len(rounds) == 2:
        ours, theirs = seconds
        sums = np.array([[sum(r["seconds"]) for r in own] for own in rounds])
        ratios = sums[1] / sums[0]
        lines.append(
            f"  the export is {np.median(theirs) / np.median(ours):.2f} times "
            f"faster by median, {theirs.sum() / ours.sum():.2f} in all, "
            f"{processor_seconds[1] / processor_seconds[0]:.2f} by processor "
            f"time; rounds {min(ratios):.2f} to {max(ratios):.2f}"
        )
    return lines
