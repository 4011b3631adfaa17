"""A new objective takes one new file and one config."""

import pathlib

import pytest
import tensorflow as tf

from electra_tf import config
from electra_tf.pretraining import cost as cost_lib
from electra_tf.pretraining import model as model_lib
from electra_tf.pretraining import run
from tests import tiny

# All there is to it: the example of the page.
_PAGE = pathlib.Path(__file__).parents[2] / "CONTRIBUTING.md"
_OBJECTIVE = _PAGE.read_text("utf-8").split("```python\n")[1].split("```")[0]

_CONFIG = '''
"""Detection of random tokens, tiny."""

from electra_tf import config


def get_config():
    settings = config.to_config_dict(config.ExperimentConfig())
    settings.objective.name = "my_objectives.random_tokens"
    settings.masking.replace_prob = 0.0
    settings.masking.random_prob = 1.0
    return settings
'''


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """The config, its sizes those of the tiny model."""
    package = tmp_path / "my_objectives"
    package.mkdir()
    (package / "random_tokens.py").write_text(_OBJECTIVE)
    (tmp_path / "random_tokens_config.py").write_text(_CONFIG)
    monkeypatch.syspath_prepend(tmp_path)
    loaded = config.load_file(tmp_path / "random_tokens_config.py")
    sizes = tiny.build_settings()
    return config.ExperimentConfig(
        encoder=sizes.encoder,
        masking=loaded.masking,
        objective=loaded.objective,
        data=sizes.data,
        optimizer=config.OptimizerConfig(
            learning_rate=1e-2, num_warmup_steps=0
        ),
        training=sizes.training,
    )


def test_an_objective_in_one_file_trains_with_one_config(settings):
    model = run.build_model_and_optimizer(settings, tiny.VOCABULARY)
    assert type(model).__name__ == "RandomTokenDetection"
    step = tf.function(model.training_step, autograph=False)
    features = tiny.deal(tiny.build_features())
    losses = []
    for _ in range(12):
        statistics = {n: v.numpy() for n, v in step(features).items()}
        losses.append(model.summarize(statistics)["loss"])
    # It starts near log 2, the loss of knowing nothing.
    assert losses[0] == pytest.approx(0.69, abs=0.15)
    assert losses[-1] < 0.8 * losses[0]
    num_tokens = features["input_mask"].numpy().sum()
    assert statistics["disc_loss_normalizer"] == num_tokens


def test_its_cost_is_known_as_that_of_any_other(settings):
    cost = cost_lib.Cost(model_lib.resolve(settings, tiny.VOCABULARY.size))
    expected = cost.convention.trained(cost.convention.discriminator())
    assert cost.row_flops(0) == expected > 0
