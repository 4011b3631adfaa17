"""Planned memory, time and operations, against counts and measured runs."""

import json

import pytest

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.modeling import flops
from electra_tf.objectives import base
from electra_tf.pretraining import cost
from electra_tf.pretraining import run
from electra_tf.training import devices
from tests import script_modules
from tests import tiny
from tests import tiny_run


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
    settings = base.resolve(settings, tiny.VOCABULARY.size)
    weights = cost.count_weights(settings)
    model = run.build_model_and_optimizer(settings, tiny.VOCABULARY, [1] * 50)
    moments = [v for v in model.optimizer.variables if v.shape.rank]
    values = 2 * [v.value for v in model.trainable_variables]
    sizes = [v.shape.num_elements() for v in [*values, *moments]]
    planned = cost.estimate(settings, devices.DEVICES[0], 1, weights)
    assert planned.state_bytes == 4 * sum(sizes)
    assert cost.CHECKPOINT_BYTES * weights == 3 * planned.state_bytes / 4


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
    saved = cost.Cost(settings, "saved").row_flops(0) / 2**20
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
        own = _find(device, precision)
        found = cost.estimate(settings, own, 1, 119_000_000)
        speed = found.tokens_per_second / length
        assert speed == pytest.approx(rows_per_second, rel=0.15)
        assert found.hours == pytest.approx(766_000 * 256 / speed / 3600)


def test_devices_share_rows_and_time_but_not_the_state():
    settings, device = _load("electra_base"), _find("A100", "bfloat16")
    one, eight = (cost.estimate(settings, device, n, 10**8) for n in (1, 8))
    assert eight.hours == pytest.approx(one.hours / 8)
    assert eight.state_bytes == one.state_bytes == 1.6e9
    assert eight.cut.num_parts == 1 < one.cut.num_parts
    # Each part has gradients of its own.
    whole = (one.activation_bytes - 4e8) * one.cut.num_parts
    assert eight.activation_bytes == pytest.approx(whole / 8)
    with pytest.raises(errors.ConfigError, match="replicas=3.*num_streams="):
        cost.estimate(settings, device, 3, 10**8)


def test_cpus_take_a_batch_in_parts_of_a_thousand_tokens():
    small = _load("electra_small")
    for rows, count, is_cpu, expected in (
        (16, 1, True, 2), (16, 2, True, 1), (48, 1, True, 4),
        (128, 1, True, 16), (2**16, 1, True, 16), (128, 1, False, 1),
    ):  # fmt: skip
        training = {"train_batch_size": rows}
        settings = schema.replace_fields(small, training=training)
        cut = devices.cut_batch(settings, count, is_cpu)
        assert cut.num_parts == expected
        assert cut.at_a_time == (devices.num_processors() if is_cpu else 1)
    # A number that is wanted, one after the other; XLA takes the whole.
    for wanted, expected in (
        ({"num_micro_batches": 8}, 8), ({"jit_compile": "on"}, 1),
    ):  # fmt: skip
        settings = schema.replace_fields(small, training=wanted)
        for is_cpu in (False, True):
            assert devices.cut_batch(settings, 1, is_cpu) == (expected, 1)


def test_the_fewest_micro_batches_that_fit_are_taken():
    settings = _load("electra_base")
    device = _find("A100", "bfloat16")
    whole = cost.estimate(settings, device, 32, 10**8).activation_bytes * 32

    def count(room, **training):
        asked = schema.replace_fields(settings, training=training)
        memory = (1.6 + whole / 1e9 * room) / 0.8
        other = device._replace(memory=memory)
        cut = cost.estimate(asked, other, 1, 10**8).cut
        return cut and cut.num_parts

    assert count(1.001) == 1
    assert count(0.999) == 2
    assert count(0.3) == 4
    assert count(1 / 32.1) is None
    assert count(1.001, num_micro_batches=8) == 8


def test_the_command_plans_one_device_and_quotes_its_compiler(tmp_path):
    flops = cost.Cost(_load("tiny")).step_flops()
    times = {"product_seconds": 1, "memory_seconds": 3600}
    memory = {"arguments": 2e9, "program": 1e9, "temporary": 3e9}
    core = {"name": "A100", "flops": flops / 4, **times, **memory}
    path = tmp_path / "compiled.json"
    path.write_text(json.dumps({"cores": [core]}))
    flags = "--device=A100", "--count=2", f"--compiled={path}"
    done = script_modules.run("plan", "configs/pretrain/tiny.py", *flags)
    head, table = done.stdout.split("\n\n")
    assert "30,522 entries" in head
    assert "5,000 steps of 64 rows of 32 tokens: 10 M tokens" in head
    estimated, quoted = (line.split() for line in table.splitlines()[1:])
    assert estimated[:3] == ["2", "A100", "float32"]
    assert quoted[1:6] == ["A100", "bfloat16", "2", "2.00", "4.00"]
    # 5,000 steps of two parts, an hour each, of 64 rows of 32 tokens.
    assert quoted[6:] == ["0", "10,000"]


def _settings(**generator):
    settings = tiny_run.replace(
        tiny.build_settings(),
        # Two slots of the 16 tokens of a row.
        masking={"mask_prob": 0.125},
        generator={"generator_hidden_size": 0.25} | generator,
    )
    return base.resolve(settings, tiny.VOCABULARY.size)


def test_what_the_original_has_no_formula_for_is_composed_of_its_formulas():
    settings = _settings(generator_hidden_size=0.5, two_tower_generator=True)
    original = flops.Convention("original", settings)
    s, v, e, h, wide = tiny.LENGTH, tiny.VOCABULARY.size, 12, 16, 2 * 8
    encoder = flops.OriginalTransformer(8, 2, s, v, e, 32, 1).encoder()
    head = s * (2 * e * v + 2 * wide * e + 14 * e + 7 * v)
    assert original.generator().forward == 2 * encoder + head
    main = flops.OriginalTransformer(h, 2, s, v, e, 32, 2).encoder()
    head = s * (2 * e * v + 2 * h * e + 14 * e + 7 * v)
    assert original.copying_masked_lm().forward == main + head + s * 2 * h
    assert original.masked_lm().forward == main + 0.15625 * head
    for kind in ("uniform_generator", "unigram_generator"):
        fixed = flops.Convention("original", _settings(**{kind: True}))
        assert fixed.generator().total == 0
