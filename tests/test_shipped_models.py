"""Models that come with the package: found by name, stored in bfloat16."""

import json
import pathlib

import pytest

import electra_tf
from electra_tf import installed
from electra_tf.export import conversion
from electra_tf.finetuning import model as finetuning_model
from electra_tf.formats import own_run
from electra_tf.formats import portable
from electra_tf.formats import reading
from tests import tiny_electra
from tests.formats import tiny_models

NAME = "stand-in"


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A folder of shipped models, and the run that its model is from."""
    folder = tmp_path_factory.mktemp("models")
    tiny_electra.write_run(folder / "run")
    shipped = folder / "pretrained"
    shipped.mkdir()
    options = conversion.ConversionOptions(weights="bfloat16")
    conversion.convert(folder / "run", reading.OURS, shipped / NAME, options)
    (shipped / "no-model").mkdir()
    return shipped


@pytest.fixture
def shipped(pretrained, monkeypatch, tmp_path):
    """Its model is found by name, from an empty folder."""
    monkeypatch.setitem(installed._IN_WHEEL, "data/pretrained", pretrained)
    monkeypatch.chdir(tmp_path)
    return pretrained / NAME


def test_a_shipped_model_is_found_by_its_name(shipped):
    assert installed.model_names() == (NAME,)
    assert installed.find_model(NAME) == shipped
    assert installed.find_model("") == pathlib.Path("")
    # What lies at that path goes first.
    pathlib.Path(f"{NAME}.index").touch()
    assert installed.find_model(NAME) == pathlib.Path(NAME)


def test_another_name_is_answered_with_those_that_there_are(shipped):
    message = r"package \(stand-in\),.*Received: tiny-fr, none of these"
    for read in (
        electra_tf.load,
        reading.read_model,
        finetuning_model.load_encoder,
        lambda name: conversion.read_model(pathlib.Path(name)),
    ):
        with pytest.raises(FileNotFoundError, match=message):
            read("tiny-fr")


def test_a_rounded_model_takes_half_the_space(tmp_path):
    model = tiny_models.build("embeddings")
    rounded = portable.round_weights(model)
    sizes = []
    for name, stored in (("whole", model), ("rounded", rounded)):
        (tmp_path / name).mkdir()
        own_run.write(stored, tmp_path / name)
        tiny_models.require_same(own_run.read_model(tmp_path / name), stored)
        (data,) = (tmp_path / name).glob("checkpoints/*/variables.data*")
        sizes.append(data.stat().st_size)
    count = sum(value.size for value in model.tensors.values())
    assert sizes == [4 * count, 2 * count]


@pytest.mark.parametrize("name", installed.model_names() or [None])
def test_what_is_shipped_is_small_described_and_works(name):
    if name is None:
        pytest.skip("no model is in data/pretrained")
    folder = installed.find_model(name)
    assert (folder / "README.md").is_file()
    sizes = [p.stat().st_size for p in folder.rglob("*") if p.is_file()]
    assert sum(sizes) <= 10_000_000
    model = own_run.read_model(folder)
    tiny_models.require_same(portable.round_weights(model), model)
    (state,) = folder.rglob("*state*")
    content = json.loads(state.read_text())["state"]["dataset"]
    assert " /" not in content["converted from"]
    electra = electra_tf.load(name)
    assert electra.can_score and electra.can_fill_masks
    scored = electra.score(["The cat sat on the mat."])[0]
    assert max(word.replaced_probability for word in scored.words) < 1
