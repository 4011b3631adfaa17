"""Settings: typed, refused when they cannot work, saved and read back."""

import json
import re

import pytest
from absl import flags

from electra_tf import command_line
from electra_tf import config
from electra_tf import errors
from electra_tf.config import finetuning
from electra_tf.objectives import registry
from tests import script_modules

CONFIGS = script_modules.ROOT / "configs" / "pretrain"


def _load(name: str, argument: str = "") -> config.ExperimentConfig:
    return config.load_file(CONFIGS / f"{name}.py", argument)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.py")))
def test_every_config_loads_and_survives_json(path):
    settings = config.load_file(path)
    assert config.freeze(json.loads(config.to_json(settings))) == settings
    assert config.freeze(config.to_config_dict(settings)) == settings


@pytest.mark.parametrize(
    "variant",
    [
        "adversarial:annealed", "adversarial:straight_through",
        "bert_base:80_10_10", "electra_small:recipe", "scaled:192x3",
        "scaled:128x2:40M", "scaled:mlm:128x2",
        "generators:uniform", "generators:two_tower",
        "weight_tying:none", "weight_tying:embeddings",
    ],
)  # fmt: skip
def test_every_variant_of_a_config_is_another_run(variant):
    name, _, argument = variant.partition(":")
    assert _load(name, argument) != _load(name)
    with pytest.raises(errors.ConfigError, match="all_of_it"):
        _load(name, "all_of_it")


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("small", (12, 256, 1024, 4, 128, 64, 0.15, 5e-4, 128, 10**6)),
        ("base", (12, 768, 3072, 12, 768, 256, 0.15, 2e-4, 256, 766_000)),
        ("large", (24, 1024, 4096, 16, 1024, 256, 0.25, 2e-4, 2048, 400_000)),
    ],
)
def test_configs_hold_table_6_of_the_paper(name, row):
    settings = _load(f"electra_{name}")
    encoder, optimizer = settings.encoder, settings.optimizer
    generator = settings.generator.encoder_config(encoder)
    assert row == (
        encoder.num_hidden_layers, encoder.hidden_size,
        encoder.intermediate_size, encoder.num_attention_heads,
        encoder.embedding_size, generator.hidden_size,
        settings.masking.mask_prob, optimizer.learning_rate,
        settings.training.train_batch_size, settings.training.num_train_steps,
    )  # fmt: skip
    assert optimizer.num_warmup_steps == 10_000
    assert (optimizer.weight_decay_rate, optimizer.epsilon) == (0.01, 1e-6)
    assert generator.num_hidden_layers == encoder.num_hidden_layers
    assert generator.intermediate_size == 4 * generator.hidden_size
    assert generator.num_attention_heads == generator.hidden_size // 64


def _two_stages(num_warmup_steps, generator_steps):
    """A run of 200 steps."""
    own = {"initialize_from_generator": False, "freeze_generator": False}
    own |= {"name": "two_stage", "generator_steps": generator_steps}
    optimizer = {"num_warmup_steps": num_warmup_steps}
    training = {"num_train_steps": 200}
    return {"objective": own, "optimizer": optimizer, "training": training}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"trainig": {}}, "Unknown section 'trainig'. Did you mean 'training'"),
        ({"training": {"seeed": 1}}, "Did you mean 'seed'"),
        ({"training": {"seed": "1"}}, "be a whole number. Received: '1'"),
        ({"training": {"seed": 2**32}}, "be less than 4294967296"),
        ({"training": {"tpu": "node"}}, "tpu` needs `strategy=tpu`"),
        ({"generator": {"init_from": "run"}}, "generator with its own"),
        ({"objective": {"name": "fast_electra", "gen_weight": 2.0}},
         "no effect on 'fast_electra'"),
        ({"encoder": {"hidden_size": 250}}, "heads`.*Use hidden_size=248"),
        ({"data": {"max_seq_length": 1024}}, "exceed `encoder.max_position"),
        ({"data": {"phases": "64x128"}}, "LENGTHxROWS:STEPS.*'64x128'"),
        ({"data": {"phases": "64x128:9,96x128:1000000"}}, "last rows"),
        ({"data": {"phases": "64x100:9"}}, "64x100:9: .*num_streams=10"),
        ({"training": {"train_batch_size": 30}}, "multiple.*num_streams=15"),
        ({"training": {"num_micro_batches": 3}}, "replicas=1, num_micro_bat"),
        ({"generator": {"untied_generator": False,
                        "untied_generator_embeddings": True}},
         "need `generator.untied_generator`"),
        ({"generator": {"uniform_generator": True,
                        "untied_generator": False}},
         "uniform_generator` has no weights"),
        ({"generator": {"uniform_generator": True,
                        "unigram_generator": True}}, "At most one of"),
        ({"masking": {"replace_prob": 0.8, "random_prob": 0.3}}, "exceed 1"),
        (_two_stages(50, 150), "50 steps.*num_warmup_steps=0 "),
        (_two_stages(0, 195), "10 warm-up.*num_warmup_steps=1"),
        ({"training": {"num_train_steps": 200},
          "optimizer": {"num_warmup_steps": 200}},
         "shorter than the run.*200 warm-up steps, 200 steps.*steps=0"),
        ({"optimizer": {"warmup_proportion": 1.0}}, "1000000 warm-up steps"),
        ({"encoder": {"hidden_size": 896, "num_attention_heads": 14}},
         "generator_hidden_size.*3 heads in 224"),
        ({"objective": {"final_temperature": 2.0}}, "temperature_steps"),
        ({"masking": {"final_mask_prob": 0.3}},
         "`masking.final_mask_prob` needs `mask_prob_steps` above 0"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_with_a_remedy(settings, message):
    with pytest.raises(errors.ConfigError, match=message):
        registry.complete(config.freeze(settings))


@pytest.fixture
def parse(monkeypatch):
    """Reads the flags of a command, of which one is a config."""
    monkeypatch.setattr(flags, "FLAGS", flags.FlagValues())
    flags.DEFINE_string("config", None, "", flag_values=flags.FLAGS)

    def parse_flags(*given, **options):
        return command_line.parse(["command", *given], **options)

    return parse_flags


@pytest.fixture
def refuse(parse, capsys):
    """Returns the one line that a command says of wrong flags."""

    def refuse_flags(*given, **options):
        with pytest.raises(SystemExit, match="2"):
            parse(*given, **options)
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return refuse_flags


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("settings.training.seeed = 3", "There is no 'seeed'.*mean 'seed'?"),
        ("config.EncoderConfg()", "no 'EncoderConfg'.*mean 'EncoderConfig'?"),
        ("config.EncoderConfig(hiden_size=8)", "Unknown field 'hiden_size'"),
        ("settings.training.seed = '3'", "'seed'.*'str'.*'int'"),
        ("settings.training.seed = (", r"'\(' was never closed"),
        ("config.load_file('pretrain/scaled.py', '12')", "Expected WIDTHx"),
    ],
)
def test_a_mistake_in_a_config_file_names_file_and_line(
    line, message, tmp_path, refuse
):
    path = tmp_path / "own.py"
    path.write_text(f"""from electra_tf import config
def get_config():
    settings = config.to_config_dict(config.ExperimentConfig())
    {line}
    return settings
""")
    said = refuse(f"--config={path}")
    assert re.match(f"error: {path}, line 4: .*{message}", said)


@pytest.mark.parametrize(
    ("path", "override", "expected", "received"),
    [
        ("pretrain/tiny.py", "task.names=own", finetuning.FinetuningConfig,
         "task"),
        ("finetune/own.py:qa", "data.dataset_dir=a", config.ExperimentConfig,
         "data"),
    ],
)  # fmt: skip
def test_a_config_of_another_command_gets_one_line(
    path, override, expected, received, refuse
):
    given = f"--config={path}", f"--config.{override}"
    said = refuse(*given, schema=expected)
    assert said.startswith("error: --config must have the sections ")
    assert re.search(rf"missing or other sections .*\b{received}\W", said)


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        ("", "config.py", "config.py must have a function get_config()."),
        ("def get_config(): return 3", "config.py", "'int' object has no"),
        ("def get_config(): pass", "config.py:a", "=config.py:a: TypeError: g"),
        ("", "", "There is no config ''."),
        ("", "pretrain/electra_smal.py:a",
         "There is no config pretrain/electra_smal.py. Did you mean "
         "'configs/pretrain/electra_small.py'?"),
    ],
)  # fmt: skip
def test_what_is_no_config_gets_one_line(
    text, given, message, refuse, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.py").write_text(text)
    said = refuse(f"--config={given}")
    assert said.startswith("error: ") and message in said


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--config.objective.label_smoothing=0.5", 0.5),
        ("--config.objective.temperature -1", -1),
        ("--config.objective.disallow_correct --config.training.seed=2", True),
        ("--config.objective.name=1.5", "1.5"),
        ("--config.objective.order=a_module.b", "a_module.b"),
        ("--noconfig.training.deterministic", False),
        ("-config.generator.uniform_generator", True),
        ("--config.training.deterministic=False", False),
        ("--config.optimizer.learning_rate=1", 1),
        ("--config.data.dataset_dir=7", "7"),
        ("--config.training.seed=one", "one"),
    ],
)
def test_flags_set_fields(given, expected, parse):
    small = "--config=pretrain/electra_small.py"
    assert parse(small, *given.split()) == ["command"]
    section, field = re.search(r"config\.(\w+)\.(\w+)", given).groups()
    assert flags.FLAGS.config[section][field] == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("optimizer.learnign_rate=1", "mean '--config.optimizer.learning_rate"),
        ("optimizer=1", "There is no setting --config.optimizer."),
        ("trainin.seed=1", "There is no setting --config.trainin.seed. "),
        ("objective=1", "There is no setting --config.objective. "),
        ("objective.a.b=1", "There is no setting --config.objective.a.b. "),
    ],
)
def test_an_unknown_override_names_the_nearest_setting(given, message, refuse):
    said = refuse("--config=pretrain/tiny.py", f"--config.{given}")
    assert message in said


def test_the_dial_follows_from_a_size_and_a_budget():
    settings = _load("scaled", "256x4:300M")
    encoder, training = settings.encoder, settings.training
    assert (encoder.hidden_size, encoder.num_hidden_layers) == (256, 4)
    assert (encoder.num_attention_heads, encoder.embedding_size) == (8, 128)
    assert settings.generator.encoder_config(encoder) == encoder
    tokens = training.num_train_steps * training.train_batch_size * 128
    assert tokens == pytest.approx(300e6, rel=1e-3)
    # A step grows before there are more than 20,000 of them.
    assert training.num_train_steps <= 20_000 < 2 * training.num_train_steps
    assert settings.optimizer.learning_rate == pytest.approx(2e-3 / 2**0.5)
    # Any width, length and budget.
    settings = _load("scaled", "200x3:20B:1024")
    encoder, training = settings.encoder, settings.training
    # 200 is no multiple of 6 heads.
    assert encoder.num_attention_heads == 5
    assert encoder.max_position_embeddings == 1024
    assert training.train_batch_size * 1024 == 131_072
    assert training.num_train_steps == round(20e9 / 131_072)
    assert _load("scaled", "64x1:1M:512").training.train_batch_size == 16


@pytest.mark.parametrize(
    ("size", "base", "argument"),
    [("base", "electra_base", ""), ("96x2:4M:64", "scaled", "96x2:4M:64")],
)
def test_a_new_config_runs_with_all_its_lines(size, base, argument, tmp_path):
    path = tmp_path / "a folder" / "own.py"
    arguments = "new_config", path, f"--size={size}"
    assert script_modules.run(*arguments).returncode == 0
    assert config.load_file(path) == _load(base, argument)
    text = path.read_text("utf-8")
    assert f"--config='{path}' " in text
    path.write_text(text.replace("# settings.", "settings."), "utf-8")
    assert config.load_file(path) == _load(base, argument)
    again = script_modules.run(*arguments)
    assert again.returncode == 1 and "exists" in again.stderr
