r"""Times training steps, exports, dataset builds, input, or start-up.

    electra-benchmark pretrain --config=configs/pretrain/electra_small.py \
        --peer_python=PYTHON
    electra-benchmark finetune --config=CONFIG --batch_size=32
    electra-benchmark infer --saved_model=EXPORT --texts=FILE \
        --peer_dir=HF_FOLDER --peer_python=PYTHON
    electra-benchmark build --texts=FILE --vocab_file=VOCABULARY
    electra-benchmark input --config=CONFIG --dataset_dir=DATASET
    electra-benchmark startup --config=CONFIG --peer_python=PYTHON
    electra-benchmark curve --config=CONFIG --batch_size=2
    electra-benchmark compile --config=CONFIG --batch_size=128 \
        --devices=v3,v4 --peer_python=PYTHON

electra_tf, transformers and KerasHub do the same work in turn: compare ratios
within one run. --peer_python is an interpreter with torch and transformers;
`compile` needs one with jax and the compilers of TPUs and GPUs, which estimate
a step in bfloat16. docs/performance.md explains kinds and columns.
"""

import contextlib
import dataclasses
import json
import sys
from typing import Any

from absl import flags
from benchmarks import compile as compile_lib
from benchmarks import curve
from benchmarks import pretrain
from benchmarks import report
from benchmarks import timing

from electra_tf import command_line
from electra_tf import installed
from electra_tf import storage
from electra_tf.export import export_metadata
from electra_tf.processes import atomic
from electra_tf.records import manifest

FLAGS = flags.FLAGS
# By kind: the unit of rates, and the required flags.
_KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "pretrain": ("tokens", ("config",)),
    "finetune": ("tokens", ("config",)),
    "infer": ("texts", ("saved_model", "texts")),
    "build": ("examples", ("texts", "vocab_file")),
    "input": ("tokens", ("config", "dataset_dir")),
    "startup": ("starts", ("config",)),
    "curve": ("tokens", ("config",)),
    "compile": ("tokens", ("config", "peer_python")),
}
_NUM_COMPARED = 64  # texts whose scores are compared before the timing
flags.DEFINE_enum("kind", None, [*_KINDS], "Also the first argument.")
flags.DEFINE_string("config", None, "A pre-training config.")
flags.DEFINE_integer("batch_size", 16, "Rows of a step.", 1)
flags.DEFINE_integer("rounds", 5, "Rounds; each side has a block in each.", 1)
flags.DEFINE_integer("num_steps", 5, "Steps, batches or builds a round.", 1)
flags.DEFINE_list("precisions", ["float32", "bfloat16"], "Precisions of steps.")
flags.DEFINE_multi_enum("sides", [], pretrain.SIDES, "Libraries to time.")
flags.DEFINE_string("peer_python", "", "Interpreter with transformers.")
flags.DEFINE_enum("peer_attention", "sdpa", ["sdpa", "eager"], "Transformers'.")
flags.DEFINE_list("devices", [*compile_lib.DEVICES], "compile: kinds of cores.")
flags.DEFINE_enum("work", "pretrain", compile_lib.WORKS, "compile: the step.")
flags.DEFINE_string("task", "classification", "compile: a kind of task.")
flags.DEFINE_enum("replicas", "1", ["1", "8"], "compile: number of replicas.")
flags.DEFINE_string("saved_model", None, "infer: an export.")
flags.DEFINE_string("peer_dir", "", "infer: the same weights for transformers.")
flags.DEFINE_list("batch_sizes", ["1", "64"], "infer: texts of a batch.")
flags.DEFINE_string("texts", None, "infer, build: a file, a text on each line.")
flags.DEFINE_string("vocab_file", None, "build: vocab.txt, or its folder.")
flags.DEFINE_list("processes", ["1", "2"], "build: numbers of processes.")
flags.DEFINE_string("dataset_dir", None, "input: a dataset.")
flags.DEFINE_string("output", "", "JSON file with all samples.")
flags.DEFINE_string("picture", "", "PNG file with bars.")


def main() -> None:
    """Prints one table."""
    unit, needed = _KINDS[FLAGS.kind]
    if missing := [name for name in needed if not FLAGS[name].value]:
        raise ValueError(f"{FLAGS.kind} needs --{' and --'.join(missing)}.")
    if FLAGS.texts and not storage.path(FLAGS.texts).is_file():
        raise FileNotFoundError(
            f"--texts must be a file. Received: {FLAGS.texts}, no such file."
        )
    if FLAGS.kind == "compile":
        _compile()
    else:
        _compare(unit)


def _compare(unit: str) -> None:
    machine, sides = report.describe_machine(), _list_sides()
    if FLAGS.kind == "startup":
        timing.time_starts(sides, FLAGS.rounds)
    elif FLAGS.kind == "curve":
        # One after another, as all together may need too much memory.
        for side in sides:
            with side.started():
                _time([side])
    else:
        with contextlib.ExitStack() as stack:
            for side in sides:
                stack.enter_context(side.started())
            sides = _time(sides)
    print(report.build_table(sides, unit))
    versions = {k: v for side in sides for k, v in side.versions.items()}
    facts = {**machine, **sides[0].sizes, **versions}
    lines = [", ".join(f"{name} {value}" for name, value in facts.items())]
    print("\n".join(lines + report.describe_peaks(sides)))
    if FLAGS.kind == "curve":
        print(curve.fit(sides).round(2).to_string(index=False))
    _write_json(unit=unit, machine=machine, sides=report.list_results(sides))
    if FLAGS.picture:
        draw = curve.draw if FLAGS.kind == "curve" else report.draw
        draw(storage.path(FLAGS.picture), sides, unit)


def _compile() -> None:
    FLAGS.config.training.jit_compile = "on"  # as accelerators do
    facts = compile_lib.compile_step(
        pretrain.prepare(FLAGS.config, "bfloat16", FLAGS.batch_size),
        FLAGS.devices,
        FLAGS.peer_python,
        int(FLAGS.replicas),
        work=FLAGS.work,
        kind=FLAGS.task,
    )
    table = compile_lib.tabulate(facts)
    if len(table):
        print(table.to_string(float_format="{:,.1f}".format))
    for fact in facts:
        if "error" in fact:
            print(f"{fact['name']}: {fact['error']}")
    _write_json(cores=facts)
    if FLAGS.picture and len(table):
        compile_lib.draw(storage.path(FLAGS.picture), table)


def _write_json(**facts: Any) -> None:
    if FLAGS.output:
        with atomic.replacing_file(storage.path(FLAGS.output)) as partial:
            facts = {"kind": FLAGS.kind, **facts}
            partial.write_text(json.dumps(facts, indent=1))


def _list_sides() -> list[timing.Side]:
    if FLAGS.kind == "build":
        build = {"corpus": FLAGS.texts, "vocab_file": FLAGS.vocab_file}
        return [
            _own_side(f"processes: {n}", num_processes=int(n), **build)
            for n in FLAGS.processes
        ]
    if FLAGS.kind == "input":
        manifest.Index.load(storage.path(FLAGS.dataset_dir))
        FLAGS.config.data.dataset_dir = FLAGS.dataset_dir
        settings = pretrain.prepare(FLAGS.config, "float32", FLAGS.batch_size)
        return [_own_side(settings=dataclasses.asdict(settings))]
    if FLAGS.kind == "infer":
        return _list_scorers()
    if FLAGS.kind == "curve":
        precision = FLAGS.precisions[0]
        return [*curve.list_sides(FLAGS.config, precision, FLAGS.batch_size)]
    return _list_training_steps()


def _list_scorers() -> list[timing.Side]:
    export = installed.find_export(FLAGS.saved_model)
    sides = [_own_side(folder=str(export))]
    if FLAGS.peer_dir:
        length = export_metadata.read_metadata(export).max_length
        peer = {"folder": FLAGS.peer_dir, "attention": FLAGS.peer_attention}
        side = _own_side("transformers", max_length=length, **peer)
        side.module = "torch_peer"
        side.python = FLAGS.peer_python or sys.executable
        sides.append(side)
    return sides


def _list_training_steps() -> list[timing.Side]:
    names = FLAGS.sides or list(pretrain.SIDES)
    if not FLAGS.peer_python:
        print("Without --peer_python, transformers is not timed.")
        others = [n for n in FLAGS.sides if n not in pretrain.TORCH_SIDES]
        names = others or ["electra_tf"]
    return [
        side
        for precision in FLAGS.precisions
        for side in pretrain.list_sides(
            pretrain.prepare(FLAGS.config, precision, FLAGS.batch_size),
            names,
            "finetune" if FLAGS.kind == "finetune" else "pretrain",
            FLAGS.peer_attention,
            FLAGS.peer_python,
        )
    ]


def _own_side(name: str = "electra_tf", **described: Any) -> timing.Side:
    return timing.Side(name, "", {"kind": FLAGS.kind, **described})


def _time(sides: list[timing.Side]) -> list[timing.Side]:
    timing.require_same_work(sides)
    if FLAGS.kind != "infer":
        block = [None] * FLAGS.num_steps
        # A build warms up only the system's cache of files.
        warm_up = block[: 1 if FLAGS.kind == "build" else 3]
        timing.take_turns(sides, [warm_up, *[block] * FLAGS.rounds])
        return sides
    lines = storage.path(FLAGS.texts).read_text("utf-8").splitlines()
    if not (texts := [line.strip() for line in lines if line.strip()]):
        raise ValueError(
            "--texts must be a file with a text on every line. Received: "
            f"{FLAGS.texts}, without any text."
        )
    if len(sides) > 1:
        difference = timing.largest_difference(sides, texts[:_NUM_COMPARED])
        print(f"Largest difference of the probabilities: {difference:.1e}")
    timed = []
    for size in map(int, FLAGS.batch_sizes):
        group = f"{size} text{'s' * (size > 1)}"
        now = [dataclasses.replace(s, group=group, rounds=[]) for s in sides]
        blocks = timing.deal(texts, size, FLAGS.num_steps, FLAGS.rounds)
        timing.take_turns(now, blocks)
        timed += now
    return timed


if __name__ == "__main__":
    command_line.run(main, required=["kind"], first="kind")
