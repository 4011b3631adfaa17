"""The table of our parameter names and the original's."""

import numpy as np
import pytest

from electra_tf.formats import parameter_names

QKV = "electra/encoder/layer_1/attention/self/qkv"


def test_the_fused_kernel_is_query_key_value_side_by_side():
    value = np.arange(12.0).reshape(2, 6)
    parts = parameter_names.split(f"{QKV}/kernel", value)
    prefix = "electra/encoder/layer_1/attention/self"
    assert list(parts) == [
        f"{prefix}/query/kernel",
        f"{prefix}/key/kernel",
        f"{prefix}/value/kernel",
    ]
    np.testing.assert_array_equal(
        parts[f"{prefix}/key/kernel"], [[2, 3], [8, 9]]
    )


@pytest.mark.parametrize(
    "path",
    [f"{QKV}/bias", "generator/embeddings_project/kernel",
     "generator_predictions/output_bias"],
)  # fmt: skip
def test_join_undoes_split(path):
    value = np.random.default_rng(0).normal(size=[6])
    parts = parameter_names.split(path, value)
    np.testing.assert_array_equal(parameter_names.join(path, parts), value)


@pytest.mark.parametrize(
    "rules",
    [parameter_names.ORIGINAL_RULES, parameter_names.HUGGING_FACE_RULES],
)
@pytest.mark.parametrize(
    "path", [f"{QKV}/kernel", f"{QKV}/bias", "electra/embeddings_project/bias"]
)
def test_the_joined_shape_is_that_of_what_is_joined(path, rules):
    shape = (2, 6) if path.endswith("kernel") else (6,)
    parts = parameter_names.split(path, np.zeros(shape), rules)
    found = {
        parameter_names.joined_shape(path, part.shape, rules)
        for part in parts.values()
    }
    assert found == {shape}


def test_other_names_stay_as_they_are():
    path = "discriminator_predictions/dense_1/kernel"
    assert parameter_names.foreign_names(path) == (path,)


def test_a_variable_outside_the_table_is_refused():
    with pytest.raises(ValueError, match="'pooler/kernel'"):
        parameter_names.foreign_names("pooler/kernel")
