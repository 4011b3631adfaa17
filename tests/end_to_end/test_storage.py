"""The whole way without a local folder, bit for bit as with local ones."""

import dataclasses
import os
import random
import signal
import tempfile

import numpy as np
import pytest

import electra_tf
from electra_tf import config
from electra_tf import storage
from electra_tf.export import conversion
from electra_tf.export import saved_model
from electra_tf.export.clients import text_models
from electra_tf.finetuning import finetune
from electra_tf.pretraining import run
from electra_tf.records import corpus as corpus_lib
from electra_tf.records import manifest
from electra_tf.records import shards
from electra_tf.records import writer
from electra_tf.text import vocabulary_training
from electra_tf.training import checkpoints
from electra_tf.training import reporting
from tests import tiny
from tests import tiny_run
from tests.finetuning import little_task

TEXT = "the cat [MASK] some bread ."
CLOUD = "ram://electra/whole"


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """A run on this machine that nothing stopped."""
    top = tmp_path_factory.mktemp("local")
    with tiny.eagerly():
        assert run.pretrain(build_records(top), top / "model")
    return top


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    """One in a store that was stopped, and what was made of it.

    The present folder and that of temporary files stay empty.
    """
    here, top = tmp_path_factory.mktemp("here"), storage.path(CLOUD)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.setattr(tempfile, "tempdir", str(here))
        settings = build_records(top)
        with tiny.eagerly():
            train_to_a_stop(settings, top / "model")
            assert run.pretrain(settings, top / "model")
        saved_model.export(top / "model", top / "export")
        conversion.convert(top / "model", "huggingface", top / "hf")
        yield top
        # AutoGraph keeps what it has generated until the process ends.
        its_own = "__autograph", "__pycache__"
        left = [p for p in here.rglob("*") if not p.name.startswith(its_own)]
        assert not left


def write_text(folder):
    """Sentences of one simple grammar, so that a wrong word can be learned."""
    folder.mkdir(parents=True, exist_ok=True)
    nouns, verbs = ("cat", "dog", "bird"), ("eats", "sees", "wants")
    lines = [f"the {n} {v} some bread ." for n in nouns for v in verbs]
    choose = random.Random(0)
    for name in ("one.txt", "two.txt"):
        documents = ["\n".join(choose.choices(lines, k=8)) for _ in range(40)]
        (folder / name).write_text("\n\n".join(documents), "utf-8")


def build_records(top):
    """Text, vocabulary and records; returns the settings of a run on them."""
    write_text(top / "text")
    corpus = corpus_lib.open_corpus(f"{top}/text")
    lines = [
        line
        for source in corpus.sources
        for document in corpus_lib.open_source(source, corpus.options)
        for line in document.lines
    ]
    vocabulary_training.train_vocabulary(lines, 120).save(f"{top}/vocabulary")
    writer.build_dataset(_build_settings(top))
    manifest.verify_dataset(f"{top}/records")
    steps = {"num_train_steps": 12, "keep_checkpoints": 2}
    settings = tiny_run.build_settings(top / "records", **steps)
    settings = tiny_run.replace(settings, objective={"name": "mlm"})
    return dataclasses.replace(settings, generator=config.GeneratorConfig())


def _build_settings(top):
    return shards.BuildSettings(
        corpus=(f"{top}/text",), vocabulary=f"{top}/vocabulary",
        output_dir=f"{top}/records", max_seq_length=16, num_out_files=3,
        validation_fraction=0.1, deduplicate="exact",
    )  # fmt: skip


def train_to_a_stop(settings, model_dir):
    """Trains until SIGTERM comes in one of the first steps."""
    write = reporting.RunReport.write

    def write_and_stop(self, split, step, *arguments):
        write(self, split, step, *arguments)
        if step == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reporting.RunReport, "write", write_and_stop)
        assert not run.pretrain(settings, model_dir)
    assert checkpoints.step_of(checkpoints.latest(model_dir)) < 12


def _shard_bytes(top):
    paths = sorted((top / "records").glob("*/pretrain_data*"))
    return {path.name: path.read_bytes() for path in paths}


def test_every_bit_is_that_of_a_local_run(cloud, local):
    assert _shard_bytes(cloud) == _shard_bytes(local) and _shard_bytes(local)
    tiny_run.require_equal_runs(cloud / "model", local / "model")
    picture = (cloud / "model" / "training_curves.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert list((cloud / "model" / "tensorboard" / "train").iterdir())
    assert len(checkpoints.all_checkpoints(cloud / "model")) == 2


def test_a_model_is_loaded_from_where_it_lies(cloud, local):
    probabilities = [
        [filling.probability for filling in fillings]
        for folder in (cloud / "model", cloud / "hf", local / "model")
        for (fillings,) in electra_tf.load(folder).fill_masks([TEXT])
    ]
    np.testing.assert_allclose(probabilities[1:], probabilities[:1] * 2, 1e-5)
    exported = text_models.LoadedExport(f"{cloud}/export")
    assert exported.metadata.step == 12


def test_a_shard_that_is_gone_is_written_again(cloud):
    path = sorted((cloud / "records" / "train").glob("pretrain_data*"))[1]
    before = path.read_bytes()
    path.unlink()
    writer.build_dataset(_build_settings(cloud), resume=True)
    assert path.read_bytes() == before


@pytest.mark.slow
def test_a_fine_tuning_lives_there_and_goes_on(cloud, tmp_path):
    data = cloud / "task"
    data.mkdir()
    for path in little_task.write_files(tmp_path).iterdir():
        storage.copy(path, data / path.name)
    folders = data, cloud / "hf", cloud / "tuned"
    request = little_task.build_request(
        *folders, {"num_train_epochs": 1.0}, actions=finetune.ACTIONS
    )
    outcome = finetune.finetune(request)
    assert finetune.finetune(request).scores == outcome.scores
    model = electra_tf.load(f"{cloud}/tuned")
    before = model.predict(["the fine cat ."])
    conversion.convert(cloud / "tuned", "huggingface", cloud / "tuned_hf")
    after = electra_tf.load(f"{cloud}/tuned_hf").predict(["the fine cat ."])
    assert before[0].label == after[0].label
