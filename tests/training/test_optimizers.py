"""The update rules by hand, under XLA and in Keras; rates, and accuracies."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from electra_tf.formulas import accuracies
from electra_tf.training import schedules
from electra_tf.training.optimizers import LAMB
from electra_tf.training.optimizers import AdamWeightDecay
from electra_tf.training.optimizers import AddonsAdamW
from electra_tf.training.optimizers import clip_by_global_norm
from electra_tf.training.schedules import PolynomialDecayTimesWarmup

SCHEDULE = PolynomialDecayTimesWarmup(0.1, 20, num_warmup_steps=3)
BUILDERS = {
    "adam": lambda: AdamWeightDecay(SCHEDULE),
    "addons_adamw": lambda: AddonsAdamW(SCHEDULE, weight_decay=0.01),
    "lamb": lambda: LAMB(SCHEDULE, weight_decay=0.01),
}


@pytest.fixture(params=BUILDERS)
def build_optimizer(request):
    return BUILDERS[request.param]


def test_the_ratio_of_lamb_is_1_where_a_norm_is_0():
    variables = [keras.Variable([value]) for value in (0.0, 2.0)]
    optimizer = LAMB(0.1)
    optimizer.build(variables)
    gradients = [tf.constant([value]) for value in (0.5, 0.0)]
    optimizer.apply_in_replica_context(gradients)
    np.testing.assert_allclose(variables, [[-0.1], [2.0]], rtol=1e-5)


def test_clipping_scales_to_the_true_norm_of_summed_rows():
    rows = tf.IndexedSlices(
        tf.constant([[1.0], [2.0]]), tf.constant([1, 1]), tf.constant([3, 1])
    )
    clipped, norm = clip_by_global_norm([rows, tf.constant([4.0])], 1.0)
    assert float(norm) == 5.0
    np.testing.assert_allclose(clipped[0], [[0.0], [0.6], [0.0]], rtol=1e-6)
    np.testing.assert_allclose(clipped[1], [0.8], rtol=1e-6)


def build(build_optimizer):
    """An optimizer and its variables."""
    variables = [
        keras.Variable([[0.5, -0.3], [0.2, 0.1]], name="kernel"),
        keras.Variable([0.1, -0.2], name="bias"),
    ]
    optimizer = build_optimizer()
    optimizer.build(variables)
    return optimizer, variables


def gradients_of(step):
    numbers = np.random.default_rng(step).normal(size=[3, 2])
    return [tf.constant(n, tf.float32) for n in (numbers[:2], numbers[2])]


@pytest.mark.parametrize("jit_compile", [False, True])
def test_graph_and_xla_give_the_eager_numbers(build_optimizer, jit_compile):
    optimizer, variables = build(build_optimizer)
    eager, expected = build(build_optimizer)
    apply, options = optimizer.apply_in_replica_context, {"autograph": False}
    update = tf.function(apply, jit_compile=jit_compile, **options)
    for step in range(5):
        update(gradients_of(step))
        eager.apply_in_replica_context(gradients_of(step))
    assert update.experimental_get_tracing_count() == 1
    for value, other in zip(variables, expected, strict=True):
        np.testing.assert_allclose(value, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "optimizer",
    [
        AdamWeightDecay(
            SCHEDULE, weight_decay=0.02, beta_1=0.8, beta_2=0.99, epsilon=1e-5,
            exclude_from_weight_decay=["x"],
            learning_rate_multipliers=[("a", 0.5), (".*", 1.0)],
        ),
        AddonsAdamW(
            0.01, weight_decay=SCHEDULE, weight_decay_multipliers=[(".*", 0.3)],
        ),
        LAMB(
            0.01, weight_decay=0.1, exclude_from_weight_decay=["a"],
            exclude_from_layer_adaptation=["b"], name="lamb",
        ),
    ],
    ids=lambda optimizer: type(optimizer).__name__,
)  # fmt: skip
def test_an_optimizer_survives_serialization(optimizer):
    config = keras.optimizers.serialize(optimizer)
    copy = keras.optimizers.deserialize(config)
    assert type(copy) is type(optimizer)
    assert copy.get_config() == optimizer.get_config()


def test_what_an_optimizer_would_not_do_is_refused():
    optimizer = AdamWeightDecay(0.1)
    with pytest.raises(ValueError, match="constructor's argument.*'bias'"):
        optimizer.exclude_from_weight_decay(var_names=["bias"])
    half = keras.Variable(np.ones(2), dtype="bfloat16", name="kernel")
    with pytest.raises(ValueError, match="kernel of bfloat16.*mixed"):
        optimizer.build([half])
    with pytest.raises(ValueError, match="`weight_decay` a number of at least"):
        AdamWeightDecay(0.1, weight_decay=-0.1)
    with pytest.raises(ValueError, match="`warmup_proportion` in"):
        PolynomialDecayTimesWarmup(0.1, 9, warmup_proportion=1.5)
    with pytest.raises(ValueError, match=r"2 that match none.*'b', 'c'"):
        schedules.resolve_rules((("a", 1.0),), ["a", "b", "c"], "rate")


def test_contiguous_exponents_leave_no_gap_above_the_last_layer():
    rules = schedules.layerwise_learning_rate_rules(0.5, 12, is_contiguous=True)
    exponents = {
        "electra/embeddings/word_embeddings": 13,
        "electra/embeddings_project/kernel": 13,
        "electra/encoder/layer_0/kernel": 12,
        "electra/encoder/layer_1/kernel": 11,
        "electra/encoder/layer_11/kernel": 1,
        "task_specific/squad/kernel": 0,
    }
    values = schedules.resolve_rules(rules, exponents, "learning rate")
    assert values == [0.5**k for k in exponents.values()]


# Four steps down from 1, then five down from 2 after a warm-up of 2.
RESTARTED = schedules.Restarted(
    [
        PolynomialDecayTimesWarmup(1.0, 4),
        PolynomialDecayTimesWarmup(2.0, 5, num_warmup_steps=2),
    ],
    [0, 4],
)


@pytest.mark.parametrize(
    ("steps", "power"), [(10, 1.0), (7, 0.5), (1000, 2.0), (1_000_000, 1.0)]
)
def test_rates_are_exact_to_float32_also_near_the_end(steps, power):
    warmup = max(4, steps // 100)
    schedule = PolynomialDecayTimesWarmup(5e-4, steps, warmup, power=power)
    for t in (0, 1, 2, steps // 3, steps - 2, steps - 1, steps, steps + 5):
        decay = (1 - min(t, steps) / steps) ** power
        expected = 5e-4 * decay * min(1, t / warmup)
        rate = float(schedule(tf.constant(t, tf.int64)))
        assert rate == pytest.approx(expected, rel=1e-6)


def test_a_restarted_schedule_counts_each_part_from_its_start():
    rates = [float(RESTARTED(step)) for step in range(11)]
    first = [1.0, 0.75, 0.5, 0.25]
    second = [0.0, 0.8, 1.2, 0.8, 0.4]
    np.testing.assert_allclose(rates, [*first, *second, 0, 0], atol=1e-6)


@pytest.mark.parametrize(
    "schedule", [PolynomialDecayTimesWarmup(0.1, 50, 3, 0.2, 2.0), RESTARTED]
)
def test_a_schedule_survives_serialization(schedule):
    config = keras.saving.serialize_keras_object(schedule)
    copy = keras.saving.deserialize_keras_object(config)
    for step in (0, 3, 4, 6, 17):
        assert float(copy(step)) == float(schedule(step))


def test_detection_scores_are_a_worked_example():
    # Predictions: fake, fake, real, real as for 0; the last is padding.
    logits = tf.constant([[2.0, 1.0, 0.0, -2.0, 3.0]])
    labels = tf.constant([[1, 0, 1, 0, 1]])
    weights = tf.constant([[1.0, 1.0, 1.0, 1.0, 0.0]])
    counts = accuracies.detection_statistics(logits, labels, weights)
    assert accuracies.summarize_detection(counts) == {
        "disc_accuracy": 0.5, "majority_share": 0.5, "disc_precision": 0.5,
        "disc_recall": 0.5, "disc_auc": 0.75, "replaced_fraction": 0.5,
    }  # fmt: skip


def test_auc_equals_the_rank_statistic():
    rng = np.random.default_rng(0)
    fake, real = rng.normal(1, 1, 400), rng.normal(0, 1, 900)
    logits = np.concatenate([fake, real]).astype("float32")
    labels = np.repeat([1, 0], [400, 900])
    counts = accuracies.detection_statistics(
        tf.constant(logits[None]), tf.constant(labels[None]), tf.ones([1, 1300])
    )
    expected = stats.mannwhitneyu(fake, real).statistic / (400 * 900)
    auc = accuracies.compute_auc(
        counts["fake_histogram"].numpy(), counts["real_histogram"].numpy()
    )
    assert float(auc) == pytest.approx(expected, abs=2e-3)
    # Where a class is absent.
    assert float(accuracies.compute_auc(tf.zeros([9]), tf.ones([9]))) == 0.5
