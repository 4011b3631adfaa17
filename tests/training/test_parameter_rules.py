"""Rules over variable paths: who decays, and who learns how fast."""

import pytest

from electra_tf.training import parameter_rules


def test_the_first_matching_rule_wins():
    rules = (("layer_1/", 0.5), ("kernel", 2.0), (".*", 1.0))
    paths = ["encoder/layer_1/kernel", "encoder/layer_10/kernel", "bias"]
    values = parameter_rules.resolve_rules(rules, paths, "rate")
    assert values == [0.5, 2.0, 1.0]


def test_variables_without_a_rule_are_named_in_the_error():
    with pytest.raises(ValueError, match=r"2 that match none.*'b', 'c'"):
        parameter_rules.resolve_rules((("a", 1.0),), ["a", "b", "c"], "rate")


def resolve_layerwise(paths, **options):
    rules = parameter_rules.layerwise_learning_rate_rules(**options)
    return parameter_rules.resolve_rules(rules, paths, "learning rate")


PATHS = [
    "electra/embeddings/word_embeddings",
    "electra/embeddings_project/kernel",
    "electra/encoder/layer_0/kernel",
    "electra/encoder/layer_1/kernel",
    "electra/encoder/layer_11/kernel",
    "task_specific/squad/kernel",
]


def test_contiguous_exponents_leave_no_gap_above_the_last_layer():
    values = resolve_layerwise(
        PATHS, layer_decay=0.5, num_layers=12, is_contiguous=True
    )
    assert values == [0.5**k for k in (13, 13, 12, 11, 1, 0)]
