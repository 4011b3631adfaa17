"""Models that transformers wrote, and what it computed with them."""

import json
import shutil

import numpy as np
import pytest

from electra_tf.formats import portable
from electra_tf.verification import hugging_face
from electra_tf.verification import runner

MODELS = ("pretraining", "question_answering", "sequence_classification")


@pytest.fixture
def folder(golden, tmp_path):
    """A copy that a test may spoil."""
    source = golden / "reference" / "huggingface"
    return shutil.copytree(source, tmp_path / "huggingface")


def _change(path, name, change):
    """Rewrites one array of an archive."""
    with np.load(path) as arrays:
        content = {key: arrays[key].copy() for key in arrays}
    change(content[name])
    np.savez(path, **content)


@pytest.mark.parametrize("model", MODELS)
def test_outputs_agree_with_those_of_transformers(folder, model):
    result = hugging_face.check_outputs(folder / model)
    assert result.passed, result
    assert result.num_cases >= 4


@pytest.mark.parametrize("model", MODELS)
def test_a_model_comes_back_from_all_formats_bit_by_bit(folder, model):
    result = hugging_face.check_round_trip(folder / model)
    assert result.passed, result
    assert result.num_cases > 30


def test_another_number_in_the_outputs_is_a_miss(folder):
    def add(logits):
        logits[0, 0] += 1e-3

    _change(folder / MODELS[0] / "outputs.npz", "logits", add)
    result = hugging_face.check_outputs(folder / MODELS[0])
    assert not result.passed
    assert "logits" in result.case


def test_an_output_that_is_not_computed_here_is_a_miss(folder):
    path = folder / MODELS[0] / "outputs.npz"
    with np.load(path) as arrays:
        np.savez(path, attentions=np.zeros(3), **arrays)
    result = hugging_face.check_outputs(folder / MODELS[0])
    assert not result.passed
    assert "attentions" in result.case


def test_a_config_with_other_heads_is_a_miss(folder):
    path = folder / MODELS[2] / "config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"num_attention_heads": 2}))
    assert not hugging_face.check_outputs(folder / MODELS[2]).passed


@pytest.mark.slow
def test_a_damaged_model_is_a_miss_of_its_case_alone(folder):
    path = folder / MODELS[1] / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(portable.FormatError, match="cut off"):
        hugging_face.check_outputs(folder / MODELS[1])
    results = runner.verify(folder.parent, only=["huggingface"])
    missed = [result.case for result in results if not result.passed]
    assert len(missed) == 2
    assert all(case.startswith(MODELS[1]) for case in missed)
    assert len(results) == 2 * len(MODELS)


def test_all_models_of_a_whole_reference_folder_pass(oracles):
    cases = list(hugging_face.list_cases(oracles / "huggingface"))
    assert len(cases) >= 18
    for name, check in cases:
        assert check().passed, name
