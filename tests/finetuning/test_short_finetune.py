"""A short fine-tune learns, is repeatable, and has the paper's head."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.finetuning import encoders
from electra_tf.finetuning import short_finetune
from electra_tf.finetuning import tasks
from electra_tf.training import optimizers
from electra_tf.training import parameter_rules
from electra_tf.training import step as step_lib
from tests.finetuning.conftest import VOCABULARY
from tests.finetuning.test_probing import _features


def _tune(loaded, data, **options):
    defaults = {"num_steps": 40, "seed": 1, "learning_rate": 3e-3}
    return short_finetune.fine_tune(
        loaded.encoder, *data, **(defaults | options)
    )


@pytest.mark.parametrize("name", ["sst2", "chunking"])
def test_a_label_that_follows_from_one_word_is_learnt(tasks_dir, loaded, name):
    assert _tune(loaded, _features(tasks_dir, name)) > 0.9


def test_equal_seeds_give_equal_bits(tasks_dir, settings):
    data = _features(tasks_dir, "cola")
    weights = []
    for seed in (1, 1, 2):
        loaded = encoders.random_encoder(settings, VOCABULARY, seed=5)
        _tune(loaded, data, num_steps=4, seed=seed)
        values = [v.numpy().ravel() for v in loaded.encoder.variables]
        weights.append(np.concatenate(values))
    np.testing.assert_array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], weights[2])


def test_the_whole_encoder_is_trained(tasks_dir, loaded):
    before = [variable.numpy() for variable in loaded.encoder.variables]
    _tune(loaded, _features(tasks_dir, "cola"), num_steps=3)
    for value, variable in zip(before, loaded.encoder.variables, strict=True):
        assert not np.array_equal(value, variable.numpy()), variable.path


def _build_model(loaded, name):
    return short_finetune.LabellingModel(
        loaded.encoder, tasks.TASKS[name], seed=1
    )


def test_the_head_is_one_layer_on_the_first_vector(tasks_dir, loaded):
    _, _, dev = _features(tasks_dir, "cola")
    model = _build_model(loaded, "cola")
    hidden = loaded.encoder(dev.input_ids, dev.input_mask, dev.segment_ids)
    first = hidden.sequence_output.numpy()[:, 0]
    expected = first @ model.head.kernel.numpy() + model.head.bias.numpy()
    logits = model(dev.batch(np.arange(dev.num_rows), 16)).numpy()
    np.testing.assert_allclose(logits[:, 0], expected, atol=1e-5)


def test_the_head_follows_the_seed(loaded):
    kernels = [
        short_finetune.LabellingModel(
            loaded.encoder, tasks.TASKS["cola"], seed
        ).head.kernel.numpy()
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(kernels[0], kernels[1])
    assert not np.array_equal(kernels[0], kernels[2])


def test_the_head_has_the_name_that_the_rules_know(loaded):
    path = _build_model(loaded, "cola").head.kernel.path
    assert path == "task_specific/cola/dense/kernel"
    assert parameter_rules.TASK_KEY in path


@pytest.mark.parametrize(
    ("name", "drops"), [("cola", True), ("chunking", False)]
)
def test_only_classification_drops_out_before_the_head(
    tasks_dir, loaded, name, drops
):
    _, _, dev = _features(tasks_dir, name)
    model = _build_model(loaded, name)
    for block in loaded.encoder.blocks:
        block.hidden_dropout_prob = block.attention_probs_dropout_prob = 0.0
    loaded.encoder.embeddings.dropout_prob = 0.0
    batch = dev.batch(np.arange(8))
    seed = tf.constant([1, 0], tf.int64)
    logits = model.compute_logits(batch, seed).numpy()
    assert np.allclose(logits, model(batch).numpy(), atol=1e-6) != drops


def test_the_loss_is_the_mean_over_labels_without_empty_slots(
    tasks_dir, loaded
):
    _, train, _ = _features(tasks_dir, "chunking")
    batch = train.batch(np.arange(8))
    batch["label_mask"][:4, 2:] = 0
    model = _build_model(loaded, "chunking")
    logits = model(batch).numpy().astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    picked = np.take_along_axis(log_probs, batch["labels"][..., None], -1)
    expected = -picked[..., 0][batch["label_mask"] > 0].mean()
    streams = {k: tf.constant(v)[tf.newaxis] for k, v in batch.items()}
    prepared = model.prepare(streams, tf.constant(0, tf.int64), True)
    sums = model.compute_losses(prepared, None)
    weight = model.loss_weights(prepared)["loss"]
    loss = step_lib.weighted_mean(sums.losses["loss"], weight)
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    summary = model.summarize(
        {k: v.numpy() for k, v in sums.statistics.items()}
    )
    assert summary["loss"] == pytest.approx(expected, rel=1e-5)
    hits = (logits.argmax(-1) == batch["labels"])[batch["label_mask"] > 0]
    assert summary["accuracy"] == pytest.approx(hits.mean())


def test_keras_fit_trains_it_too(tasks_dir, loaded):
    _, train, _ = _features(tasks_dir, "sst2")
    model = _build_model(loaded, "sst2")
    model.compile(optimizer=optimizers.AdamWeightDecay(3e-3))
    dataset = tf.data.Dataset.from_tensor_slices(
        train.batch(np.arange(train.num_rows))
    ).batch(32, drop_remainder=True)
    history = model.fit(dataset, epochs=6, verbose=0).history
    assert history["loss"][-1] < 0.7 * history["loss"][0]


def test_every_row_is_drawn_before_one_comes_again():
    drawn = list(short_finetune._draw_rows(48, 3, seed=3))
    assert [len(rows) for rows in drawn] == [32, 32, 32]
    flat = np.concatenate(drawn)
    assert sorted(flat[:48]) == sorted(flat[48:]) == list(range(48))
    assert flat[:48].tolist() != flat[48:].tolist()


def test_no_step_is_refused(tasks_dir, loaded):
    with pytest.raises(ValueError, match="num_steps"):
        _tune(loaded, _features(tasks_dir, "cola"), num_steps=0)


def test_a_diverging_fine_tune_is_an_error(tasks_dir, loaded):
    loaded.encoder.variables[0].assign(loaded.encoder.variables[0] * np.nan)
    with pytest.raises(ArithmeticError, match="steps 1 and 1"):
        _tune(loaded, _features(tasks_dir, "cola"))
