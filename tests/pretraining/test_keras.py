"""The models in the hands of a Keras user, on batches that differ."""

import importlib.util

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.modeling import keras_models
from electra_tf.objectives import registry
from electra_tf.records import corpus as corpus_lib
from electra_tf.training import optimizers
from electra_tf.training import step as step_lib
from tests import tiny
from tests import tiny_run

README = tiny_run.REPOSITORY / "README.md"
EXAMPLE = tiny_run.REPOSITORY / "examples" / "pretrain_electra.py"
NUM_BATCHES = 2


def _dataset(num_batches=NUM_BATCHES, seed=0):
    """Batches of other rows each, of 8 x 16 tokens."""
    rows = tiny.build_features(8 * num_batches, seed)
    dataset = tf.data.Dataset.from_tensor_slices(rows)
    return dataset.batch(8, drop_remainder=True)


def _settings(name="electra", **training):
    encoder = {"num_hidden_layers": 1, "hidden_dropout_prob": 0.1}
    settings = tiny.build_settings(**training)
    settings = tiny_run.replace(settings, encoder=encoder)
    return tiny.with_objective(settings, name)


def _build(rate=3e-3, is_traced=False, **training):
    keras.utils.set_random_seed(5)
    model = registry.build_model(_settings(**training), tiny.VOCABULARY)
    # Most of what is tested here needs no graph, whose tracing takes longest.
    optimizer = optimizers.AdamWeightDecay(rate)
    model.compile(optimizer=optimizer, run_eagerly=not is_traced)
    return model


def _evaluate(model, dataset):
    return model.evaluate(dataset, verbose=0, return_dict=True)


@pytest.fixture(scope="module")
def model():
    return _build()


def test_evaluate_gives_the_means_over_all_batches(model):
    losses, sums = [], []
    for number, rows in enumerate(_dataset()):
        stream = step_lib.as_one_stream(rows)
        prepared = model.prepare(stream, tf.constant(number, tf.int64), False)
        sums.append(model.compute_statistics(prepared))
        losses.append(model.summarize(sums[-1])["loss"])
    total = {name: sum(own[name] for own in sums) for name in sums[0]}
    measured = _evaluate(model, _dataset())
    assert measured == pytest.approx(model.summarize(total), rel=1e-4)
    # The batches differ, and the last is not the mean.
    assert len(set(losses)) == NUM_BATCHES
    assert abs(measured["loss"] - losses[-1]) > 1e-3
    # A second evaluation begins anew; as a list the loss comes first.
    assert model.evaluate(_dataset(), verbose=0)[0] == measured["loss"]
    # Equal batches have masks of their own.
    one, both = (_evaluate(model, _dataset(1).repeat(n)) for n in (1, 2))
    assert one["gen_loss"] != both["gen_loss"]


def test_callbacks_see_the_mean_of_the_epoch(tmp_path):
    model = _build(rate=3e-2)
    held_out = _dataset(seed=1)
    seen = []
    path, callbacks = tmp_path / "best.keras", keras.callbacks
    history = model.fit(
        _dataset(),
        validation_data=held_out,
        epochs=2,
        verbose=0,
        callbacks=[
            callbacks.LambdaCallback(
                on_epoch_end=lambda _, logs: seen.append(dict(logs))
            ),
            callbacks.ModelCheckpoint(path, "val_loss", save_best_only=True),
            callbacks.TensorBoard(tmp_path / "tensorboard"),
        ],
    ).history
    losses = history["val_loss"]
    assert history["loss"][-1] < history["loss"][0]
    assert [logs["val_loss"] for logs in seen] == losses
    assert {"gen_loss", "val_disc_auc", "val_masked_accuracy"} <= set(history)
    assert _evaluate(model, held_out)["loss"] == losses[-1]
    best = _evaluate(keras.models.load_model(path), held_out)["loss"]
    assert best == pytest.approx(min(losses), rel=1e-6)
    assert list((tmp_path / "tensorboard").rglob("events.*"))


def test_an_interrupted_fit_goes_on_to_the_same_weights(tmp_path):
    def fit(*callbacks):
        model = _build(ema_decay=0.9)
        model.fit(_dataset(), epochs=2, callbacks=callbacks, verbose=0)
        return model

    def backup():
        return keras.callbacks.BackupAndRestore(tmp_path / "backup")

    def interrupt(epoch, logs):
        if epoch == 1:
            raise KeyboardInterrupt

    whole = fit()
    with pytest.raises(KeyboardInterrupt):
        fit(keras.callbacks.LambdaCallback(on_epoch_end=interrupt), backup())
    resumed = fit(backup())
    assert int(resumed.optimizer.iterations.numpy()) == 2 * NUM_BATCHES
    values = (
        [*model.trainable_variables, *model.weight_average.averages]
        for model in (resumed, whole)
    )
    for ours, expected in zip(*values, strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_a_saved_config_with_the_settings_of_all_objectives_is_read(model):
    saved = model.get_config()
    older = saved["settings"]["objective"] | {"order_weight": 1.0}
    saved["settings"] |= {"objective": older}
    again = type(model).from_config(saved)
    assert again.objective == model.objective


def test_fit_on_two_replicas_counts_the_batches_of_both(two_devices):
    with two_devices.scope():
        model = _build(is_traced=True)
    held_out = _dataset(seed=1)
    history = model.fit(_dataset(), validation_data=held_out, verbose=0).history
    assert np.isfinite(list(history.values())).all()
    found = _evaluate(model, held_out)
    assert found["loss"] == pytest.approx(history["val_loss"][-1], rel=1e-6)
    total = found["gen_loss"] + 50 * found["disc_loss"]
    assert found["loss"] == pytest.approx(total, rel=1e-5)
    weights = model.trainable_variables[0].value
    first, second = two_devices.experimental_local_results(weights)
    np.testing.assert_array_equal(first, second)


def test_what_fit_cannot_do_is_refused():
    staged = registry.build_model(_settings("two_stage"), tiny.VOCABULARY)
    staged.compile(optimizer=optimizers.AdamWeightDecay(1e-3))
    with pytest.raises(ValueError, match="one stage"):
        staged.fit(_dataset(), verbose=0)
    rows = tf.data.Dataset.from_tensor_slices(tiny.build_features()).batch(8)
    with pytest.raises(ValueError, match="drop_remainder=True"):
        _build(is_traced=True).fit(rows, verbose=0)
    cut = _build(num_micro_batches=2)
    for use in (cut.fit, cut.evaluate):
        with pytest.raises(ValueError, match="no micro-batches.*batches=2"):
            use(_dataset(1), verbose=0)


def test_the_example_of_the_readme_runs_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = README.read_text("utf-8")
    block = text.split("the model is a Keras model:\n", 1)[1].split("\n\n[")[0]
    code = "\n".join(line[4:] for line in block.splitlines())
    names = {"settings": _settings(), "vocabulary": tiny.VOCABULARY}
    names |= {"dataset": _dataset(), "held_out": _dataset(seed=1)}
    exec(compile(code, str(README), "exec"), names)
    assert (tmp_path / "model.keras").is_file()


def test_the_example_to_read_first_trains_scores_and_exports(
    tmp_path, monkeypatch, capsys
):
    line = "the method returns a list of {} that the object holds {}\n"
    words = ["names", "values", "files", "strings", "numbers", "lines"]
    documents = (
        "".join(line.format(one, other) for other in words) * 4
        for one in words * 8
    )
    text = tmp_path / "text.txt"
    text.write_text("\n".join(documents))
    opened = corpus_lib.open_corpus([str(text)])
    monkeypatch.setattr(corpus_lib, "open_corpus", lambda _: opened)
    source = importlib.util.spec_from_file_location("example", EXAMPLE)
    example = importlib.util.module_from_spec(source)
    source.loader.exec_module(example)
    monkeypatch.setattr(example, "BATCH_SIZE", 16)
    monkeypatch.setattr(example, "HELD_OUT_SHARE", 0.5)
    folder = tmp_path / "run"
    history = example.main(
        [f"--output_dir={folder}", "--num_steps=2", "--vocab_size=150"]
    )
    assert np.isfinite(history["val_loss"]).all()
    printed = capsys.readouterr().out
    assert "garden" not in printed.split("method")[0]
    assert printed.count("0.") >= 8
    rows = dict.fromkeys(keras_models.FEATURES, tf.ones([2, 9], tf.int32))
    loaded = tf.saved_model.load(folder / "export")
    assert loaded.serve(rows).shape == (2, 9)
    assert len(EXAMPLE.read_text().splitlines()) <= 300
