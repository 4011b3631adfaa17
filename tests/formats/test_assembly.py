"""Layers get the weights of a model, and share what it shares."""

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.formats import assembly
from electra_tf.modeling import generators
from tests.formats import tiny_models


@pytest.mark.parametrize(
    "kind", [k for k in tiny_models.PRETRAINED if k != "encoder"]
)
def test_all_weights_of_a_model_are_in_its_layers(kind):
    model = tiny_models.build(kind)
    built = assembly.build_towers(model)
    towers = [t for t in (built.main, built.generator) if t is not None]
    found = {v.path: v for tower in towers for v in tower.variables}
    assert found.keys() == model.tensors.keys()
    for path, value in model.tensors.items():
        np.testing.assert_array_equal(found[path], value)


def test_shared_weights_are_one_variable():
    built = assembly.build_towers(tiny_models.build("all"))
    assert built.generator.encoder is built.main.encoder
    built = assembly.build_towers(tiny_models.build("embeddings"))
    assert built.generator.encoder.embeddings is built.main.encoder.embeddings
    built = assembly.build_towers(tiny_models.build("none"))
    mine, other = (
        {id(v) for v in tower.variables}
        for tower in (built.generator, built.main)
    )
    assert not mine & other


def test_a_masked_lm_alone_is_the_main_tower():
    built = assembly.build_towers(tiny_models.build("masked_lm"))
    assert isinstance(built.main, generators.MaskedLMGenerator)
    assert built.generator is None


def test_products_have_the_precision_and_weights_are_float32():
    model = tiny_models.build("discriminator")
    main = assembly.build_towers(model, "bfloat16").main
    assert {v.dtype for v in main.variables} == {"float32"}
    ids = np.ones([1, 4], np.int32)
    one, other = (
        tower(ids, ids, ids * 0).logits.numpy()
        for tower in (main, assembly.build_towers(model).main)
    )
    assert np.abs(one - other).max() > 1e-4


def test_an_encoder_alone_is_no_tower():
    with pytest.raises(errors.ModelError, match="needs a head.*tiny enc"):
        assembly.build_towers(tiny_models.build("encoder"))


def test_a_weight_that_is_missing_is_named():
    model = tiny_models.build("discriminator")
    del model.tensors["discriminator_predictions/dense_1/bias"]
    with pytest.raises(errors.ModelError, match="dense_1/bias"):
        assembly.build_towers(model)
