"""Planned memory and time, against counted variables and measured runs."""

import json
import re
import types

import pytest

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.modeling import flops
from electra_tf.pretraining import model as model_lib
from electra_tf.pretraining import plan
from electra_tf.pretraining import run
from electra_tf.training import devices
from tests import script_modules
from tests import tiny
from tests import tiny_run

run_pretraining = script_modules.load("run_pretraining")

_GB = 1e9


def _load(name, vocab_size=30_522, **sections):
    settings = config.load_file(f"configs/pretrain/{name}.py")
    encoder = {"vocab_size": vocab_size}
    return schema.replace_fields(settings, encoder=encoder, **sections)


def _find(name, precision):
    (found,) = [d for d in devices.DEVICES if d[:2] == (name, precision)]
    return found


@pytest.mark.parametrize(
    "objective", ["electra", "two_tower", "unigram", "adversarial"]
)
def test_the_state_is_what_the_variables_take(objective):
    settings = tiny.with_objective(tiny.build_settings(), objective)
    settings = model_lib.resolve(settings, tiny.VOCABULARY.size)
    weights = plan.count_weights(settings)
    model = run.build_model_and_optimizer(settings, tiny.VOCABULARY, [1] * 50)
    moments = [v for v in model.optimizer.variables if v.shape.rank]
    values = 2 * [v.value for v in model.trainable_variables]
    sizes = [v.shape.num_elements() for v in [*values, *moments]]
    planned = plan.plan(settings, devices.DEVICES[0], 1, weights)
    assert planned.state_bytes == 4 * sum(sizes)
    assert plan.CHECKPOINT_BYTES * weights == 3 * planned.state_bytes / 4


def test_a_block_keeps_inputs_of_products_and_three_scores():
    sizes = {"hidden_size": 8, "num_layers": 1, "length": 5, "num_heads": 2}
    sizes["intermediate_size"] = 32
    # 6 x 8 + 32 entries of a token, 2 x 5 scores.
    for options, expected in (
        ({}, 4 * 80 + 12 * 10),
        ({"entry_bytes": 2}, 2 * 80 + 8 * 10),
    ):
        block = flops.SavedTransformer(**sizes, **options).block()
        assert block == 5 * expected


@pytest.mark.parametrize(
    ("name", "length", "measured"),
    [("electra_small", 128, 41.8), ("electra_small", 512, 311.7),
     ("tiny", 32, 7.39)],
)  # fmt: skip
def test_activations_are_near_those_measured(name, length, measured):
    settings = _load(name, data={"max_seq_length": length})
    if name == "tiny":
        encoder = {"max_position_embeddings": 32}
        settings = schema.replace_fields(settings, encoder=encoder)
    saved = model_lib.Cost(settings, "saved").row_flops(0) / 2**20
    assert saved == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize(
    ("device", "precision", "short", "long"),
    [
        ("V100", "float32", 116, 24), ("V100", "float16", 444, 84),
        ("A100", "float32", 533, 90), ("A100", "bfloat16", 955, 171),
    ],
)  # fmt: skip
def test_speed_is_near_that_of_nvidias_base(device, precision, short, long):
    for length, rows_per_second in ((128, short), (512, long)):
        settings = _load("electra_base", data={"max_seq_length": length})
        found = plan.plan(settings, _find(device, precision), 1, 119_000_000)
        speed = found.tokens_per_second / length
        assert speed == pytest.approx(rows_per_second, rel=0.15)
        tokens = 766_000 * 256 * length
        seconds = tokens / found.tokens_per_second
        assert found.hours == pytest.approx(seconds / 3600)


def test_devices_share_rows_and_time_but_not_the_state():
    settings, device = _load("electra_base"), _find("A100", "bfloat16")
    one, eight = (plan.plan(settings, device, n, 10**8) for n in (1, 8))
    assert eight.hours == pytest.approx(one.hours / 8)
    assert eight.state_bytes == one.state_bytes == 1.6 * _GB
    assert eight.cut.num_parts == 1 < one.cut.num_parts
    # Each part has gradients of its own.
    whole = (one.activation_bytes - 4e8) * one.cut.num_parts
    assert eight.activation_bytes == pytest.approx(whole / 8)
    with pytest.raises(errors.ConfigError, match="replicas=3.*num_streams="):
        plan.plan(settings, device, 3, 10**8)


def test_processors_work_on_as_many_parts(monkeypatch):
    settings, cpu = _load("electra_small"), _find("CPU", "float32")
    found = []
    for count in (1, 4, 64):
        monkeypatch.setattr(devices, "num_processors", lambda n=count: n)
        found.append(plan.plan(settings, cpu, 1, 10**7))
    one, four, all_at_once = (p.activation_bytes for p in found)
    assert {p.cut.num_parts for p in found} == {16}
    assert four == pytest.approx(4 * one)
    assert all_at_once == pytest.approx(16 * one)


def test_cpus_take_a_batch_in_parts_of_a_thousand_tokens():
    small = _load("electra_small")
    for rows, count, is_cpu, expected in (
        (16, 1, True, 2), (16, 2, True, 1), (48, 1, True, 4),
        (128, 1, True, 16), (2**16, 1, True, 16), (128, 1, False, 1),
    ):  # fmt: skip
        settings = schema.replace_fields(
            small, training={"train_batch_size": rows}
        )
        cut = plan.cut_batch(settings, count, is_cpu)
        assert cut.num_parts == expected
        assert cut.at_a_time == (devices.num_processors() if is_cpu else 1)
    # A number that is wanted, one after the other; XLA takes the whole.
    for wanted, expected in (
        ({"num_micro_batches": 8}, 8), ({"jit_compile": "on"}, 1),
    ):  # fmt: skip
        settings = schema.replace_fields(small, training=wanted)
        for is_cpu in (False, True):
            assert plan.cut_batch(settings, 1, is_cpu) == (expected, 1)


def test_a_run_in_one_phase_is_planned_like_its_phases():
    plain = _load("electra_small")
    length, rows = plain.data.max_seq_length, plain.training.train_batch_size
    parts = schema.replace_fields(
        plain, data={"phases": f"{length}x{rows}:1000,{length}x{rows}:1"}
    )
    device = _find("A100", "bfloat16")
    one, three = (plan.plan(s, device, 1, 10**7) for s in (plain, parts))
    assert three[1:] == pytest.approx(one[1:])
    assert three.cut == one.cut


def test_the_fewest_micro_batches_that_fit_are_taken():
    settings = _load("electra_base")
    device = _find("A100", "bfloat16")
    whole = plan.plan(settings, device, 32, 10**8).activation_bytes * 32

    def count(room, **training):
        asked = schema.replace_fields(settings, training=training)
        memory = (1.6 + whole / _GB * room) / 0.8
        other = device._replace(memory=memory)
        cut = plan.plan(asked, other, 1, 10**8).cut
        return cut and cut.num_parts

    assert count(1.001) == 1
    assert count(0.999) == 2
    assert count(0.3) == 4
    assert count(1 / 32.1) is None
    assert count(1.001, num_micro_batches=8) == 8


def test_the_command_plans_one_device():
    flags = "--device=A100", "--count=2"
    done = script_modules.run("plan", "configs/pretrain/tiny.py", *flags)
    head, table = done.stdout.split("\n\n")
    assert "30,522 entries" in head
    assert "5,000 steps of 64 rows of 32 tokens: 10 M tokens" in head
    assert [line.split()[:3] for line in table.splitlines()[1:]] == [
        ["2", "A100", "float32"], ["2", "A100", "bfloat16"],
    ]  # fmt: skip


def _read(text, **training):
    training = {"precision": "bfloat16"} | training
    return plan.read_topology(text, config.TrainingConfig(**training))


@pytest.mark.parametrize(
    ("text", "hosts", "local", "memory", "strategy"),
    [
        ("v2-8", 1, 8, 8, "tpu"), ("v3-32", 4, 8, 16, "tpu"),
        ("v4-32", 4, 4, 32, "tpu"), ("4x8xA100", 4, 8, 40, "multi_worker"),
        ("1x8xA100", 1, 8, 40, "mirrored"), ("1x1xCPU", 1, 1, 16, "one_device"),
    ],
)  # fmt: skip
def test_a_topology_is_hosts_of_replicas(text, hosts, local, memory, strategy):
    found = _read(text)
    assert found[1:] == (hosts, local, strategy)
    assert (found.device.memory, found.device.precision) == (memory, "bfloat16")


def test_what_no_topology_has_is_refused():
    for text in ("v4-12", "v5-8", "8xA100", "0x8xA100"):
        with pytest.raises(errors.ConfigError, match=f"v4-32, or .*'{text}'"):
            _read(text)
    with pytest.raises(errors.ConfigError, match="precision on TPUv4"):
        _read("v4-8", precision="float16")
    with pytest.raises(errors.ConfigError, match="--topology=v4-8"):
        _read("", strategy="tpu")


def test_without_a_name_it_is_this_machine(monkeypatch):
    found = _read("", strategy="mirrored")
    assert (found.device.name, found.num_replicas) == ("CPU", 1)
    own = {"cluster": {"worker": ["a:1", "b:1", "c:1"]}}
    own["task"] = {"type": "worker", "index": 1}
    monkeypatch.setenv("TF_CONFIG", json.dumps(own))
    assert _read("", strategy="multi_worker").num_hosts == 3


def test_a_dry_run_tells_what_each_host_does_and_writes_nothing(
    tmp_path, monkeypatch, capsys
):
    dataset = tiny_run.write_dataset(tmp_path / "dataset")
    settings = tiny_run.build_settings(dataset)
    flags = types.SimpleNamespace(topology="2x2xA100")
    monkeypatch.setattr(run_pretraining, "FLAGS", flags)
    # What this machine would cut the batch into is no matter there.
    monkeypatch.setattr(plan, "_CPU_TOKENS", 1)
    run_pretraining._dry_run(*config.split_phases(settings))
    replicas, rows, memory, time, _, *hosts, dealt, traced = (
        capsys.readouterr().out.splitlines()
    )
    assert replicas == (
        "Replicas: 4 of A100, float32; hosts: 2; "
        "--config.training.strategy=multi_worker."
    )
    assert rows == (
        "A replica: 2 rows of 16 tokens in micro-batches of 2; streams: 1 of 4."
    )
    assert memory.endswith(" of 40.") and "20 steps, 1.54 epochs" in time
    assert [line.split()[:3] for line in hosts] == [
        ["0", "0-1", "52"], ["1", "2-3", "52"],
    ]  # fmt: skip
    assert "all 3 of them" in dealt
    assert re.fullmatch(r"Traced, .* from 0 on, [\d,]+ operations\.", traced)
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]
