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


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (("(", 1.0), "regular expression"),
        (("a", "fast"), "number"),
        (("a",), "regular expression"),
        (("a", float("nan")), "finite"),
    ],
)
def test_malformed_rules_are_refused(rule, message):
    with pytest.raises(ValueError, match=message):
        parameter_rules.resolve_rules([rule], ["a"], "rate")


@pytest.mark.parametrize(
    ("path", "multiplier"),
    [
        ("electra/embeddings/word_embeddings", 1.0),
        ("electra/encoder/layer_0/attention/self/query/kernel", 1.0),
        ("electra/encoder/layer_0/attention/self/query/bias", 0.0),
        ("electra/embeddings/LayerNorm/gamma", 0.0),
        ("electra/encoder/layer_norm/scale", 0.0),
        ("generator_predictions/output_bias", 0.0),
        ("bias_correction/kernel", 0.0),
    ],
)
def test_decay_skips_names_that_contain_an_excluded_word(path, multiplier):
    rules = parameter_rules.weight_decay_rules()
    resolved = parameter_rules.resolve_rules(rules, [path], "weight decay")
    assert resolved == [multiplier]


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


def test_layerwise_exponents_are_the_originals():
    values = resolve_layerwise(PATHS, layer_decay=0.5, num_layers=12)
    assert values == [0.5**k for k in (14, 14, 13, 12, 2, 0)]


def test_contiguous_exponents_leave_no_gap_above_the_last_layer():
    values = resolve_layerwise(
        PATHS, layer_decay=0.5, num_layers=12, is_contiguous=True
    )
    assert values == [0.5**k for k in (13, 13, 12, 11, 1, 0)]


def test_exponents_count_from_the_configured_depth_not_the_present_layers():
    values = resolve_layerwise(
        ["encoder/layer_0/kernel"], layer_decay=0.8, num_layers=24
    )
    assert values == [0.8**25]


def test_a_variable_without_a_layer_is_an_error():
    with pytest.raises(ValueError, match="encoder/layer_12/kernel"):
        resolve_layerwise(
            ["encoder/layer_12/kernel"], layer_decay=0.8, num_layers=12
        )


def test_keys_of_other_models_can_be_given():
    values = resolve_layerwise(
        ["tower/token/table", "tower/block.1/kernel", "head/kernel"],
        layer_decay=0.5,
        num_layers=2,
        embedding_keys=("token/",),
        layer_key="block.{layer}/",
        task_key="head/",
    )
    assert values == [0.5**4, 0.5**2, 1.0]


@pytest.mark.parametrize(
    ("layer_decay", "num_layers"), [(0.0, 12), (1.1, 12), (0.8, 0)]
)
def test_layerwise_settings_out_of_range_are_refused(layer_decay, num_layers):
    with pytest.raises(ValueError, match="must be"):
        parameter_rules.layerwise_learning_rate_rules(layer_decay, num_layers)


def test_the_table_has_one_aligned_line_per_variable():
    table = parameter_rules.format_parameter_table(
        ["dense/kernel", "bias"], {"shape": [(2, 3), (3,)], "rate": [1.0, 0.8]}
    )
    assert table.split("\n") == [
        "variable       shape  rate",
        "dense/kernel  (2, 3)     1",
        "bias            (3,)   0.8",
    ]
