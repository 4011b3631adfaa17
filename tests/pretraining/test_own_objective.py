"""An objective in one file outside the package, with a setting of its own."""

import pytest
import tensorflow as tf

from electra_tf import config
from electra_tf import errors
from electra_tf.export import saved_model
from electra_tf.export.clients import text_models
from electra_tf.formats import own_run
from electra_tf.objectives import base
from electra_tf.objectives import registry
from electra_tf.pretraining import cost
from electra_tf.pretraining import run
from tests import tiny
from tests import tiny_run
from tests.objectives import tiny_objectives

_NAME = "my_objectives.random_tokens"


@pytest.fixture(scope="module")
def settings(dataset, tmp_path_factory):
    """With the example of the page as the only file."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "my_objectives").mkdir()
    page = (tiny_run.REPOSITORY / "CONTRIBUTING.md").read_text("utf-8")
    code = page.split("```python\n")[1].split("```")[0]
    (folder / "my_objectives" / "random_tokens.py").write_text(code)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield tiny_run.replace(
            tiny_run.build_settings(dataset, num_train_steps=20, eval_steps=0),
            objective={"name": _NAME, "label_smoothing": 0.1},
            generator=vars(config.GeneratorConfig()),
            masking={"replace_prob": 0.0, "random_prob": 1.0},
            optimizer=tiny_objectives.NO_WARMUP | {"learning_rate": 1e-2},
        )


def test_it_trains_resumes_exports_and_scores(settings, tmp_path):
    folder = tmp_path / "run"
    shorter = tiny_run.replace(settings, training={"num_train_steps": 10})
    assert run.pretrain(shorter, folder)
    saved = own_run.load_settings(folder).objective
    assert saved["label_smoothing"] == 0.1
    other = tiny_run.replace(shorter, objective={"label_smoothing": 0.2})
    with pytest.raises(errors.ModelError, match="objective.label_smoothing"):
        run.pretrain(other, folder)
    assert run.pretrain(settings, folder, may_extend=True)
    losses = [m["loss"] for m in tiny_run.reproducible_metrics(folder)]
    # It starts near log 2, the loss of knowing nothing.
    assert losses[0] < 0.8 and losses[-1] < 0.9 * losses[0]
    saved_model.export(folder, tmp_path / "export")
    export = text_models.LoadedExport(tmp_path / "export")
    (text,) = export.score(["w1 w2"])
    chances = [word.replaced_probability for word in text.words]
    assert len(chances) == 2 and 0 < min(chances) < max(chances) < 1


def test_its_setting_is_used_and_counted(settings):
    resolved, losses = base.resolve(settings, tiny.VOCABULARY.size), set()
    for smoothing in (0.0, 0.1):
        objective = {"label_smoothing": smoothing}
        own = tiny_run.replace(resolved, objective=objective)
        tf.keras.utils.set_random_seed(3)
        model = run.build_model_and_optimizer(own, tiny.VOCABULARY)
        tiny_objectives.randomize(model.trainable_variables)
        prepared = tiny_objectives.prepare(model)
        loss = tiny_objectives.loss_of(model, prepared)["disc_loss"]
        losses.add(round(float(loss), 2))
    assert len(losses) == 2
    work = cost.Cost(resolved)
    expected = work.convention.discriminator().total
    assert work.row_flops(0) == expected > 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"label_smoothing": 2.0}, "objective.label_smoothing` must be at mo"),
        ({"label_smooth": 0.1}, "Did you mean 'label_smoothing'"),
        ({"disc_weight": 1.0}, "`objective.disc_weight` has no effect on"),
    ],
)
def test_a_wrong_or_unread_setting_is_refused(settings, fields, message):
    wrong = tiny_run.replace(settings, objective=fields)
    with pytest.raises(errors.ConfigError, match=message):
        registry.complete(wrong)
    fitting = tiny_run.replace(settings, objective={"disc_weight": 50.0})
    assert "disc_weight" not in registry.complete(fitting).objective
