"""Sides do the same work in turn, and are summed up by what they say."""

import json
import sys

import pytest
from benchmarks import device_compiler
from benchmarks import pretrain
from benchmarks import programs
from benchmarks import timing

from electra_tf import config
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from tests import script_modules
from tests import tiny

_TINY = schema.replace_fields(
    tiny.build_settings(), encoder={"vocab_size": 100}
)
NEEDS_TORCH = pytest.mark.extra("torch")


def _side(name, group, **fields):
    return timing.Side(name, group, {}, **fields)


def _block(*seconds, units=2):
    units = [units] * len(seconds)
    return {"seconds": [*seconds], "units": units, "processor": sum(seconds)}


def test_medians_spreads_and_ratios_within_a_group():
    ours = _side("ours", "x", flops_per_unit=3.0, peak_rates={"flops": 60.0})
    ours.rounds = [_block(0.1, 0.2, 0.3), _block(0.4, 0.4, 0.4)]
    theirs = _side("theirs", "x", peak_rates={"flops": 120.0})
    # Twice and then three times as long, of units twice as large.
    theirs.rounds = [_block(0.8, 0.8, 9.9, units=4), _block(2.4, units=4)]
    alone = _side("alone", "y", flops_per_unit=3.0, rounds=[_block(5.0)])
    first, second, third = timing.summarize([ours, theirs, alone])
    assert first.pop("ratios") == third["ratios"] == (1.0, 1.0, 1.0)
    expected = {
        "median": 0.35, "low": 0.125, "high": 0.4, "processor": 0.3,
        "rate": 2 / 0.35,
        # The highest peak of the group, and the operations of its first side.
        "share_of_peak": 2 / 0.35 * 3 / 120,
    }  # fmt: skip
    assert {n: first[n] for n in expected} == pytest.approx(expected)
    assert second["share_of_peak"] == pytest.approx(4 / 1.6 * 3 / 120)
    assert second["ratios"] == pytest.approx((2.5, 2.0, 3.0))
    assert third["share_of_peak"] is None


def _tiny(**training):
    settings = tiny.with_dropout(tiny.build_settings(**training))
    values = config.to_config_dict(settings)
    return pretrain.prepare(values, "float32", 6)


def test_a_step_of_ours_starts_in_a_process_and_says_its_sizes():
    sides = pretrain.list_sides(_tiny(), ["electra_tf"])
    timing.time_starts(sides, 1)
    (side,) = sides
    assert side.rounds[0]["seconds"][0] > side.rounds[0]["processor"] / 99
    expected = {"batch": [6, tiny.LENGTH], "masked": 2, "dropout": 0.1}
    assert side.sizes | expected == side.sizes
    assert side.flops_per_unit > 1e5
    assert side.peak_memory > 1 << 26
    assert "tensorflow" in side.versions


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pretrain", "finetune"])
@pytest.mark.parametrize(
    "peer", [pytest.param("transformers", marks=NEEDS_TORCH), "keras_hub"]
)
def test_others_do_the_same_work(kind, peer):
    names = ["electra_tf", peer]
    sides = pretrain.list_sides(_tiny(), names, kind, "sdpa", sys.executable)
    timing.time_starts(sides, 1)
    assert sides[0].sizes == sides[1].sizes


_PROGRAM = """HloModule step

%put (stack: f32[3,100], row: f32[1,100], turn: s32[]) -> f32[3,100] {
  %stack = f32[3,100]{1,0} parameter(0)
  %row = f32[1,100]{1,0} parameter(1)
  %turn = s32[] parameter(2)
  ROOT %new = f32[3,100]{1,0} dynamic-update-slice(%stack, %row, %turn)
}

%take (stack: f32[3,100], turn: s32[]) -> f32[1,50] {
  %stack = f32[3,100]{1,0} parameter(0)
  %turn = s32[] parameter(1)
  %same = f32[3,100]{1,0} bitcast(%stack)
  ROOT %row = f32[1,50]{1,0:S(1)} dynamic-slice(%same, %turn)
}

%body (p: (s32[], f32[3,100])) -> (s32[], f32[3,100]) {
  %p = (s32[], f32[3,100]{1,0}) parameter(0)
  %turn = s32[] get-tuple-element(%p), index=0
  %stack = f32[3,100]{1,0} get-tuple-element(%p), index=1
  %row = f32[1,50]{1,0:S(1)} fusion(%stack, %turn), calls=%take
  %new = ((s32[]), s32[]) fusion-start(%stack, %row, %turn), calls=%put
  %done = f32[3,100]{1,0} fusion-done(%new)
  ROOT %t = (s32[], f32[3,100]{1,0}) tuple(%turn, %done)
}

%less (p: s32[], limit: s32[]) -> pred[] {
  %p = s32[] parameter(0)
  %limit = s32[] parameter(1)
  ROOT %less = pred[] compare(%p, %limit), direction=LT
}

%three (p: (s32[], f32[3,100])) -> pred[] {
  %p = (s32[], f32[3,100]{1,0}) parameter(0)
  %limit = s32[] constant(3)
  ROOT %less = pred[] compare(%limit, %limit), direction=LT
}

%as_often (p: (s32[], s32[])) -> pred[] {
  %p = (s32[], s32[]) parameter(0)
  %turn = s32[] get-tuple-element(%p), index=0
  %limit = s32[] get-tuple-element(%p), index=1
  ROOT %less = pred[] fusion(%turn, %limit), calls=%less
}

ENTRY %main (a: bf16[1000]) -> bf16[1000] {
  %a = bf16[1000]{0} parameter(0)
  %zero = s32[] constant(0)
  %b = (bf16[1000]{0}, s8[4096]{0}) custom-call(%a), custom_call_target="gemm"
  %c = bf16[1000]{0} get-tuple-element(%b), index=0
  %start = (s32[], f32[3,100]{1,0}) tuple(%zero, %c)
  %w = (s32[], f32[3,100]{1,0}) while(%start), condition=%three, body=%body
  %count = s32[] get-tuple-element(%w), index=0
  %next = (s32[], s32[]) tuple(%zero, %count)
  %v = (s32[], s32[]) while(%next), condition=%as_often, body=%body
  ROOT %copy = bf16[1000]{0} copy(%c)
}
"""


def test_a_loop_moves_the_rows_of_its_stacks_in_every_turn():
    # The entry reads and writes 2,000 bytes twice. Each of two times three
    # turns reads half a row of 400 bytes, which lies in the core's own memory
    # then, and writes the row; both read the number of the turn.
    turn = 200 + 400 + 2 * 4
    assert device_compiler.count_bytes(_PROGRAM) == 4 * 2000 + 6 * turn


@pytest.mark.parametrize(
    ("work", "kind", "num_replicas"),
    [("pretrain", "qa", 8), ("evaluate", "qa", 1), ("finetune", "ranking", 8)]
    + [("predict", kind, 1) for kind in finetuning_config.TASK_KINDS],
)
def test_every_step_has_a_program(work, kind, num_replicas, tmp_path):
    path = tmp_path / "step.hlo"
    programs.write_program(_TINY, path, "TPU", work, kind, num_replicas)
    assert (b"all-reduce" in path.read_bytes()) == (num_replicas > 1)


@pytest.mark.extra("compilers")
def test_small_fits_one_core_of_a_tpu(tmp_path):
    path = tmp_path / "v4.json"
    # In a process without the settings of the tests.
    given = "--config=configs/pretrain/electra_small.py --batch_size=128 "
    given += f"--devices=v4 --peer_python={sys.executable} --output={path}"
    script_modules.run("benchmark", "compile", *given.split())
    (facts,) = json.loads(path.read_text())["cores"]
    assert facts["program"] < 40 * 2**20
    assert facts["temporary"] < 2.5 * 2**30
    assert facts["moved"] < 12e9
