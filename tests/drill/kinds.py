"""Kinds of victims: a command, where it is killed, what it leaves."""

import json
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from electra_tf.export import conversion  # noqa: F401
from electra_tf.finetuning import model as finetuning_model
from electra_tf.pretraining import run  # noqa: F401
from electra_tf.records import corpus as corpus_lib
from electra_tf.studies import runner  # noqa: F401  (before a fork)
from electra_tf.text import vocabulary as vocabulary_lib
from tests import tiny
from tests import tiny_run
from tests.drill import victims
from tests.finetuning import conftest as finetuning_data
from tests.finetuning import little_task
from tests.records import conftest as records_data

# In which a kill is aimed, with the seconds that each takes here at most.
_RUN = "electra_tf.training.training_run:TrainingRun."
_PLACES = {
    f"{_RUN}evaluate": 0.8,
    f"{_RUN}save": 0.1,
    f"{_RUN}_enter_stage": 0.3,
    f"{_RUN}_restore": 0.2,
}
_UNTOLD = (".png", ".txt", ".md", ".pb", ".lock")
_TIMES = re.compile("timing|share_of_peak|.*seconds?|minutes|seconds_.*")


class Kind(NamedTuple):
    """A command, with `{}` for the folder that it makes."""

    command: list[str]
    places: Mapping[str, float] = {}
    num_workers: int = 1
    prepare: Callable = lambda: None
    is_created: bool = False  # at the end, and refused if it exists

    def start(self, folder, prepare=lambda: None, worker=0):
        """Starts it, on all hosts; `prepare` is called on one of them."""

        def prepare_all():
            self.prepare()
            prepare()

        places = tiny_run.write_clusters(self.num_workers)
        return [
            victims.start(
                [part.replace("{}", str(folder)) for part in self.command],
                folder.with_name(f"{folder.name}-{index}.log"),
                prepare_all if index == worker else self.prepare,
                {"TF_CONFIG": place} if self.num_workers > 1 else {},
            )
            for index, place in enumerate(places)
        ]


def _small_units():
    plan_units = corpus_lib.plan_units
    corpus_lib.plan_units = lambda corpus: plan_units(corpus, 1500)


def write_inputs(home):
    """Writes what the commands read; it computes, so call it in a fork."""
    tiny_run.write_dataset(home / "dataset")
    records_data.write_corpus(home / "corpus")
    letters = [*records_data.LETTERS, *map("##{}".format, records_data.LETTERS)]
    tokens = *vocabulary_lib.SPECIAL_TOKENS, *letters
    vocabulary_lib.Vocabulary(tokens).save(home / "vocabulary")
    little_task.write_files(home / "task")
    settings = tiny.with_dropout(tiny.build_settings())
    vocabulary = finetuning_data.VOCABULARY
    loaded = finetuning_model.random_encoder(settings.encoder, vocabulary, 5)
    variables = loaded.encoder.variables
    finetuning_data.write_run(home / "pretrained", settings, variables)


def _settings(home, **training):
    """44 steps in two stages with about 15 saves."""
    common = {"num_train_steps": 44, "eval_steps": 6, "keep_checkpoints": 99}
    common |= {"save_checkpoints_steps": 4}
    settings = tiny_run.build_settings(home / "dataset", **common, **training)
    settings = tiny_run.replace(settings, optimizer={"num_warmup_steps": 2})
    settings = tiny.with_objective(settings, "two_stage")
    return tiny_run.replace(settings, objective={"generator_steps": 22})


def all_kinds(home):
    """Writes the configs of all kinds; returns the kinds by name."""
    trained = home / "whole-trainer"
    one = tiny_run.write_config(home / "one.py", _settings(home))
    two = _settings(home, strategy="multi_worker")
    two = tiny_run.write_config(home / "two.py", two)
    own = little_task.build_settings(home / "task", deterministic=True)
    own = tiny_run.write_config(home / "task.py", own)
    base = tiny_run.build_settings(pathlib.Path(), num_train_steps=12)
    base = tiny_run.replace(base, data={"dataset_dir": ""})
    tiny_run.write_study(home / "study.py", base, {})
    pretrain = "run_pretraining --model_dir={} --config="
    build = (
        "build_pretraining_dataset --resume --output_dir={} "
        f"--corpus={home}/corpus --num_processes=2 --max_seq_length=32 "
        f"--vocab_file={home}/vocabulary --num_out_files=4 "
        "--validation_fraction=0.2"
    )
    finetune = (
        "run_finetuning --output_dir={} --trials=2 --do=train,eval,predict "
        f"--pretrained_dir={home}/pretrained --config={own}"
    )
    study = (
        f"run_study --study={home}/study.py --dataset_dir={home}/dataset "
        "--output_dir={} --num_parallel=2"
    )
    convert = f"convert_checkpoint --input={trained} --to=huggingface "
    export = f"export_saved_model --model_dir={trained} " + "--export_dir={}"
    return {
        "trainer": Kind(f"{pretrain}{one}".split(), _PLACES),
        "worker": Kind(f"{pretrain}{two}".split(), _PLACES, 2),
        "builder": Kind(build.split(), prepare=_small_units),
        "finetuning": Kind(finetune.split(), _PLACES),
        "study": Kind(study.split(), _PLACES),
        "conversion": Kind(
            (convert + "--output_dir={}").split(), is_created=True
        ),
        "export": Kind(export.split(), is_created=True),
    }


def snapshot(folder):
    """All that no fault may change: files without pictures and times."""
    contents = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        is_untold = path.name.endswith(_UNTOLD)
        if path.is_dir() or is_untold or re.search("tensorboard|finger", name):
            continue
        if path.suffix in (".json", ".jsonl"):
            text = path.read_text("utf-8").replace(str(folder), "")
            lines = text.splitlines() if path.suffix == ".jsonl" else [text]
            contents[name] = [_timeless(json.loads(line)) for line in lines]
        elif path.suffix == ".npz":
            with np.load(path) as arrays:
                contents[name] = {k: arrays[k].tobytes() for k in arrays}
        else:
            contents[name] = path.read_bytes()
    return contents


def _timeless(value):
    if isinstance(value, list):
        return [*map(_timeless, value)]
    if not isinstance(value, dict):
        return value
    names = [name for name in value if not _TIMES.fullmatch(name)]
    return {name: _timeless(value[name]) for name in names}


def differences(one, other):
    """Names of files that are not the same in both."""
    names = sorted(one.keys() | other.keys())
    return [name for name in names if one.get(name) != other.get(name)]
