"""What lies at a path is told by what lies there, and becomes layers."""

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.export import conversion
from electra_tf.finetuning import portable_trial
from electra_tf.formats import reading
from tests.formats import tiny_models


@pytest.mark.parametrize("format_name", reading.FORMATS)
@pytest.mark.parametrize("kind", ["embeddings", "encoder"])
def test_every_format_is_told_by_its_files(tmp_path, format_name, kind):
    if (format_name, kind) == ("keras_hub", "embeddings"):
        pytest.skip("KerasHub has the encoder alone")
    model = tiny_models.build(kind)
    written = conversion.write(model, format_name, tmp_path)
    assert reading.detect(tmp_path) == format_name
    tiny_models.require_same(reading.read(tmp_path), written)
    others = set(reading.FORMATS) - {format_name}
    for other in sorted(others):
        with pytest.raises((ValueError, FileNotFoundError)):
            reading.read(tmp_path, other)


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent, which is nothing"):
        reading.detect(tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileNotFoundError, match="file, which is nothing"):
        reading.detect(tmp_path / "file")
    with pytest.raises(errors.ModelError, match=r"Received: file\."):
        reading.detect(tmp_path)
    (tmp_path / "config.json").write_text('{"class_name": "x"}')
    with pytest.raises(errors.ModelError, match=r"config\.json, file\."):
        reading.detect(tmp_path)
    (tmp_path / "model.ckpt.index").write_text("")
    assert reading.detect(str(tmp_path / "model.ckpt")) == "tf1"
    with pytest.raises(ValueError, match="tf1, electra_tf.*'onnx'"):
        reading.read(tmp_path, "onnx")
    portable_trial.write(tiny_models.build("tagging"), tmp_path / "trial")
    with pytest.raises(errors.ModelError, match="fine-tuned trial"):
        reading.read(tmp_path / "trial")


@pytest.mark.parametrize(
    "kind", ["embeddings", "none", "all", "electric", "masked_lm"]
)
def test_all_weights_of_a_model_are_in_its_layers(kind):
    model = tiny_models.build(kind)
    built = reading.build_towers(model)
    towers = [t for t in (built.main, built.generator) if t is not None]
    found = {v.path: v for tower in towers for v in tower.variables}
    assert found.keys() == model.tensors.keys()
    for path, value in model.tensors.items():
        np.testing.assert_array_equal(found[path], value)


def test_shared_weights_are_one_variable():
    built = reading.build_towers(tiny_models.build("all"))
    assert built.generator.encoder is built.main.encoder
    built = reading.build_towers(tiny_models.build("embeddings"))
    assert built.generator.encoder.embeddings is built.main.encoder.embeddings


def test_products_have_the_precision_and_weights_are_float32():
    model = tiny_models.build("discriminator")
    main = reading.build_towers(model, "bfloat16").main
    assert {v.dtype for v in main.variables} == {"float32"}
    ids = np.ones([1, 4], np.int32)
    one, other = (
        tower(ids, ids, ids * 0).logits.numpy()
        for tower in (main, reading.build_towers(model).main)
    )
    assert np.abs(one - other).max() > 1e-4


def test_an_encoder_alone_is_no_tower():
    with pytest.raises(errors.ModelError, match="needs a head.*tiny enc"):
        reading.build_towers(tiny_models.build("encoder"))
