"""Models of the hub are taken by name, from a stand-in of it."""

import pathlib

import pytest
from huggingface_hub import constants

from electra_tf import installed
from electra_tf.formats import hugging_face
from tests import hub_server
from tests.formats import tiny_models

NAME = "google/electra-small-discriminator"
GENERATOR = "google/electra-small-generator"
COMMIT = "0" * 40


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with both networks, asked from an empty folder."""
    for name, value in {
        "HF_HUB_CACHE": str(tmp_path / "cache"),
        "HF_TOKEN_PATH": str(tmp_path / "token"),
        "HF_HUB_DISABLE_XET": True,
    }.items():
        monkeypatch.setattr(constants, name, value)
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with hub_server.serve() as server:
        for name, kind in ((NAME, "discriminator"), (GENERATOR, "masked_lm")):
            folder = tmp_path / kind
            folder.mkdir()
            hugging_face.write(tiny_models.build(kind), folder)
            for other in ("README.md", "pytorch_model.bin", "flax.msgpack"):
                (folder / other).write_text(other)
            server.add(name, folder)
        _set_endpoint(monkeypatch, server.url)
        yield server


def _set_endpoint(monkeypatch, url):
    monkeypatch.setattr(constants, "ENDPOINT", url)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


def _refuses(name, message, kind=FileNotFoundError):
    with pytest.raises(kind, match=message) as caught:
        installed.find_model(name)
    assert len(str(caught.value).splitlines()) == 1


def test_only_what_is_needed_is_fetched_once(hub):
    folder = installed.find_model(NAME)
    files = {"config.json", "vocab.txt", "tokenizer.json",
             "tokenizer_config.json", "model.safetensors"}  # fmt: skip
    assert {path.name for path in folder.iterdir()} == files
    assert sorted(hub.fetched) == sorted(f"{NAME}/{file}" for file in files)
    assert installed.find_model(f"{NAME}@{COMMIT}") == folder
    assert len(hub.fetched) == len(files)


def test_what_lies_here_goes_first_and_is_not_asked_for(hub):
    folder = pathlib.Path(NAME)
    folder.mkdir(parents=True)
    assert installed.find_model(NAME) == folder
    # Beside it a folder is meant, not a model of the hub.
    _refuses(GENERATOR, f"Received: {GENERATOR}, none of these")
    assert not hub.fetched


def test_a_model_that_the_hub_does_not_give_is_refused_in_a_sentence(
    hub, monkeypatch
):
    page = f"{hub.url}/{NAME}"
    _refuses("google/electra-tiny", "electra-tiny. Received: neither")
    _refuses(f"{NAME}@v9", "Received: neither, or no such revision")
    hub.gated.add(NAME)
    _refuses(NAME, f"{page}. .* or gated model get access")
    hub.private.add(NAME)
    _refuses(NAME, "private or gated .*HF_TOKEN")
    monkeypatch.setenv("HF_TOKEN", hub_server.TOKEN)
    assert installed.find_model(NAME).name == COMMIT


def test_without_the_hub_the_cache_is_used_or_named(hub, monkeypatch):
    folder = installed.find_model(NAME)
    _set_endpoint(monkeypatch, "http://127.0.0.1:9")
    assert installed.find_model(NAME) == folder
    cache = constants.HF_HUB_CACHE
    _refuses(
        GENERATOR,
        f"hub, http://127.0.0.1:9/{GENERATOR}. .* copy in the cache {cache}"
        rf", and no answer of the hub \(ConnectError.* folder {GENERATOR} here",
    )
