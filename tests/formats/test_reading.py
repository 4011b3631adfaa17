"""What lies at a path is told by what lies there."""

import pytest

from electra_tf import errors
from electra_tf.export import conversion
from electra_tf.finetuning import portable_trial
from electra_tf.formats import hugging_face
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


def test_a_prefix_is_a_checkpoint_of_the_originals(tmp_path):
    conversion.write(tiny_models.build("encoder"), "tf1", tmp_path)
    assert reading.detect(tmp_path / "model.ckpt") == "tf1"
    assert reading.detect(str(tmp_path / "model.ckpt")) == "tf1"


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


def test_a_format_that_there_is_not_is_refused(tmp_path):
    with pytest.raises(ValueError, match="tf1, electra_tf.*'onnx'"):
        reading.read(tmp_path, "onnx")


def test_the_present_folder_is_a_path(tmp_path, monkeypatch):
    hugging_face.write(tiny_models.build("discriminator"), tmp_path)
    monkeypatch.chdir(tmp_path)
    assert reading.detect(".") == reading.HUGGING_FACE
    assert reading.read("./").parts == ("discriminator_predictions", "electra")


def test_a_trial_is_named_as_what_it_is(tmp_path):
    portable_trial.write(tiny_models.build("tagging"), tmp_path)
    with pytest.raises(errors.ModelError, match="fine-tuned trial"):
        reading.read(tmp_path)


def test_a_model_is_what_its_own_config_says(tmp_path):
    hugging_face.write(tiny_models.build("discriminator"), tmp_path)
    (tmp_path / "discriminator").mkdir()
    assert reading.read(tmp_path).tensors
