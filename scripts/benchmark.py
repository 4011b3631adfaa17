r"""Times training steps, exports, the builder, the pipeline, or starts.

    electra-benchmark pretrain --config=configs/pretrain/electra_small.py \
        --peer_python=PATH
    electra-benchmark finetune --config=configs/pretrain/electra_small.py
    electra-benchmark infer --saved_model=EXPORT --texts=FILE \
        --peer_dir=HF_FOLDER --peer_python=PATH
    electra-benchmark build --texts=FILE --vocab_file=VOCABULARY
    electra-benchmark input --dataset_dir=DATASET --config=...
    electra-benchmark startup --config=... --peer_python=PATH

Ours and others (transformers, KerasHub) take turns and do the same work;
compare by ratio within one run, as machines differ and are noisy. transformers
and torch live where --peer_python is. docs/performance.md explains the columns.
"""

import contextlib
import dataclasses
import os
import sys

from absl import flags
from benchmarks import infer
from benchmarks import pretrain
from benchmarks import report
from benchmarks import startup
from benchmarks import timing
from ml_collections import config_flags

from electra_tf import command_line
from electra_tf import installed
from electra_tf import storage
from electra_tf.records import manifest

FLAGS = flags.FLAGS
# What is timed, and what a rate counts.
_UNITS = {
    "pretrain": "tokens",
    "finetune": "tokens",
    "infer": "texts",
    "build": "examples",
    "input": "tokens",
    "startup": "starts",
}
flags.DEFINE_enum("kind", None, [*_UNITS], "Also the first argument.")
config_flags.DEFINE_config_file(
    "config", "configs/pretrain/electra_small.py", "Sizes of the model."
)
flags.DEFINE_list("precisions", ["float32", "bfloat16"], "Of training steps.")
flags.DEFINE_integer("batch_size", 16, "Rows of a training step.", 1)
flags.DEFINE_list("sides", [*pretrain.SIDES], "Who trains.")
flags.DEFINE_integer("rounds", 5, "Rounds in which all take turns.", 1)
flags.DEFINE_integer("num_steps", 5, "Steps, batches or builds a round.", 1)
flags.DEFINE_string("peer_python", "", "Interpreter with transformers, torch.")
flags.DEFINE_integer(
    "peer_threads", len(os.sched_getaffinity(0)), "Threads of torch.", 1
)
flags.DEFINE_enum(
    "peer_attention", "sdpa", ["sdpa", "eager"], "How transformers attends."
)
flags.DEFINE_string("saved_model", None, "infer: an export, see --peer_dir.")
flags.DEFINE_string("peer_dir", "", "infer: its model for transformers.")
flags.DEFINE_string("texts", None, "infer, build: file with texts.")
flags.DEFINE_list("batch_sizes", ["1", "64"], "infer: texts of a batch.")
flags.DEFINE_string("vocab_file", None, "build: vocab.txt, or its folder.")
flags.DEFINE_list("processes", ["1", "2"], "build: numbers of processes.")
flags.DEFINE_string("dataset_dir", None, "input: a dataset.")
flags.DEFINE_string("output", "", "JSON file with all samples.")
flags.DEFINE_string("picture", "", "PNG file with bars.")


_NEEDED = {
    "infer": ("saved_model", "texts"),
    "build": ("texts", "vocab_file"),
    "input": ("dataset_dir",),
}


def main() -> None:
    """Times, and prints one table."""
    kind, machine = FLAGS.kind, report.describe_machine()
    if missing := [n for n in _NEEDED.get(kind, ()) if not FLAGS[n].value]:
        raise ValueError(f"{kind} needs --{' and --'.join(missing)}.")
    with contextlib.ExitStack() as stack:
        sides = _time(kind, stack)
    summaries = timing.summarize(sides)
    print(report.build_table(summaries, _UNITS[kind]))
    versions = {k: v for side in sides for k, v in side.versions.items()}
    facts = {**machine, **sides[0].sizes, **versions}
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    print(*report.describe_peaks(sides), sep="\n")
    if FLAGS.output:
        described = {"kind": kind, "unit": _UNITS[kind], "machine": machine}
        path = storage.path(FLAGS.output)
        report.write_json(path, sides, summaries, described)
    if FLAGS.picture:
        report.draw(storage.path(FLAGS.picture), summaries, _UNITS[kind])


def _time(kind: str, stack: contextlib.ExitStack) -> list[timing.Side]:
    if kind == "infer":
        return _time_inference()
    programs = _list_programs(kind)
    if kind == "startup":
        return startup.run(programs, FLAGS.rounds)
    sides = timing.start_all(programs, stack)
    block = [None] * FLAGS.num_steps
    # Builds have nothing to warm up but the files in memory.
    warm_up = [None] if kind == "build" else block[:3]
    timing.take_turns(sides, [warm_up, *[block] * FLAGS.rounds])
    return sides


def _list_programs(kind: str) -> list[timing.Program]:
    if kind == "build":
        corpus = {"corpus": FLAGS.texts, "vocab_file": FLAGS.vocab_file}
        return [
            timing.Program(
                "electra_tf",
                f"{number} processes",
                kind,
                {"kind": kind, "num_processes": int(number), **corpus},
            )
            for number in FLAGS.processes
        ]
    if kind == "input":
        manifest.require_dataset(storage.path(FLAGS.dataset_dir))
        FLAGS.config.data.dataset_dir = FLAGS.dataset_dir
        settings = pretrain.prepare(FLAGS.config, "float32", FLAGS.batch_size)
        described = {"kind": kind, "settings": dataclasses.asdict(settings)}
        return [timing.Program("electra_tf", "", kind, described)]
    variants = [
        pretrain.prepare(FLAGS.config, precision, FLAGS.batch_size)
        for precision in FLAGS.precisions
    ]
    return pretrain.programs(
        variants,
        _choose_sides(kind),
        {"attention": FLAGS.peer_attention, "num_threads": FLAGS.peer_threads},
        FLAGS.peer_python,
        "finetune" if kind == "finetune" else "pretrain",
    )


def _choose_sides(kind: str) -> list[str]:
    """Those of --sides that can run."""
    if unknown := set(FLAGS.sides) - {*pretrain.SIDES}:
        raise ValueError(
            f"--sides must be some of {', '.join(pretrain.SIDES)}. Received: "
            f"{', '.join(sorted(unknown))}."
        )
    chosen = list(FLAGS.sides)
    if kind == "finetune":
        chosen = [name for name in chosen if name != "keras_hub"]
    if not FLAGS.peer_python:
        print("Without --peer_python nothing is compared with transformers.")
        chosen = [n for n in chosen if not n.startswith("transformers")]
    return chosen


def _time_inference() -> list[timing.Side]:
    export = installed.find_export(FLAGS.saved_model)
    if not storage.path(FLAGS.texts).is_file():
        raise FileNotFoundError(
            f"--texts must be a file that is there. Received: {FLAGS.texts}."
        )
    peer = {
        "folder": FLAGS.peer_dir,
        "attention": FLAGS.peer_attention,
        "num_threads": FLAGS.peer_threads,
    }
    return infer.run(
        export,
        infer.read_texts(storage.path(FLAGS.texts)),
        [int(size) for size in FLAGS.batch_sizes],
        FLAGS.num_steps,
        FLAGS.rounds,
        peer if FLAGS.peer_dir else None,
        FLAGS.peer_python or sys.executable,
    )


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        sys.argv[1] = f"--kind={sys.argv[1]}"
    command_line.run(main, required=["kind"])
