import numpy as np
import pytest
import tensorflow as tf

from electra_tf.export import saved_model
from electra_tf.export.models import stored_weights
from tests.export import conftest

COMPACT = ("bfloat16", "int8")
TEXTS = tf.constant(["the cat sat on the mat", "", "unaffable dog !"])


@pytest.mark.parametrize("axis", [0, 1])
def test_int8_is_off_by_half_a_scale_at_most(axis):
    generator = np.random.default_rng(0)
    scales = 10.0 ** generator.uniform(-3, 3, (40, 1))
    values = (scales * generator.normal(size=(40, 12))).astype(np.float32)
    multiples, scales = stored_weights.quantize(values, axis)
    assert multiples.dtype == np.int8
    assert scales.shape == ((40, 1) if axis == 0 else (1, 12))
    errors = np.abs(multiples * scales - values)
    assert np.all(errors <= 0.5001 * scales)
    # Every scale is as small as it can be.
    assert np.all(np.abs(multiples).max(axis=1 - axis) == 127)


@pytest.mark.parametrize("weights", COMPACT)
def test_answers_are_those_of_rounded_float32_weights(tiny_run, weights):
    compact = conftest.build_module(tiny_run, conftest.load_network(tiny_run))
    compact.prepare(weights, "any")
    rounded = conftest.load_network(tiny_run)
    for variable in rounded.variables:
        if len(variable.shape) == 2:
            values = variable.value.numpy()
            if weights == "bfloat16":
                values = tf.cast(tf.cast(values, tf.bfloat16), tf.float32)
            else:
                axis = 1 if variable.name == "kernel" else 0
                values = np.multiply(*stored_weights.quantize(values, axis))
            variable.assign(values)
    expected = conftest.build_module(tiny_run, rounded)
    for signature in ("score_text", "features_text"):
        conftest.assert_close(
            compact.run(signature, texts=TEXTS),
            expected.run(signature, texts=TEXTS),
        )


def size_of(export_dir):
    return sum(f.stat().st_size for f in (export_dir / "variables").iterdir())


@pytest.mark.parametrize(
    ("weights", "share"), [("bfloat16", 0.62), ("int8", 0.5)]
)
def test_a_compact_export_is_small(
    tiny_run, exported, tmp_path, without_graphs, weights, share
):
    folder = tmp_path / "export"
    conftest.export_unchecked(
        tiny_run.model_dir, folder, saved_model.ExportOptions(weights=weights)
    )
    reader = tf.train.load_checkpoint(str(folder / "variables" / "variables"))
    dtypes = reader.get_variable_to_dtype_map()
    shapes = reader.get_variable_to_shape_map().items()
    matrices = {dtypes[n] for n, s in shapes if len(s) == 2 and 1 not in s}
    assert matrices == {tf.as_dtype(weights)}
    assert size_of(folder) < share * size_of(exported)
    readme = (folder / "README.md").read_text().split()
    assert f"stored as {weights}" in " ".join(readme)
