"""What is killed: a command, where it can be hit, and what it leaves."""

import json
import pathlib
import re
import socket
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import numpy as np

from electra_tf import config
from electra_tf.analysis import study_report  # noqa: F401  (before a fork)
from electra_tf.analysis import study_runner  # noqa: F401
from electra_tf.config import schema
from electra_tf.export import conversion  # noqa: F401
from electra_tf.export import saved_model  # noqa: F401
from electra_tf.finetuning import finetune  # noqa: F401
from electra_tf.finetuning import model as finetuning_model
from electra_tf.pretraining import run  # noqa: F401
from electra_tf.records import corpus as corpus_lib
from electra_tf.text import vocabulary as vocabulary_lib
from tests import tiny
from tests import tiny_run
from tests.drill import victims
from tests.finetuning import conftest as finetuning_data
from tests.finetuning import little_task
from tests.records import conftest as records_data

_RUN = "electra_tf.training.training_run:TrainingRun"
_STUDY = """from electra_tf import config
from electra_tf.analysis import studies
def get_study():
    return studies.Study(
        name="toy", question="?", base=config.from_json({base!r}),
        arms={{"electra": {{}}, "mlm": studies.MASKED_LM_ARM}},
        budget="flops", reference_arm="electra", seeds=(1,))
"""
# Of a run; what tells of times, and the pictures of them, is left out.
_TIMES = re.compile("timing|share_of_peak|.*seconds?|minutes|seconds_.*")


class Kind(NamedTuple):
    """A command, with `{}` for the folder that it makes."""

    command: list[str]
    # In which a kill is aimed, with the seconds that each takes.
    places: Mapping[str, float] = {}
    num_workers: int = 1
    prepare: Callable[[], None] = lambda: None
    is_created: bool = False  # at the end, and refused if it exists

    def start(
        self,
        folder: pathlib.Path,
        prepare: Callable[[], Any] = lambda: None,
        worker: int = 0,
    ) -> list[victims.Victim]:
        """Starts it, on all hosts; `prepare` is called on one of them."""

        def prepare_all() -> None:
            self.prepare()
            prepare()

        clusters = _clusters(self.num_workers)
        return [
            victims.start(
                [part.replace("{}", str(folder)) for part in self.command],
                folder.with_name(f"{folder.name}-{index}.log"),
                prepare_all if index == worker else self.prepare,
                cluster,
            )
            for index, cluster in enumerate(clusters)
        ]


def _clusters(count: int) -> list[dict[str, str]]:
    if count == 1:
        return [{}]
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    hosts = [f"127.0.0.1:{own.getsockname()[1]}" for own in sockets]
    for own in sockets:
        own.close()
    return [
        {
            "TF_CONFIG": json.dumps(
                {
                    "cluster": {"worker": hosts},
                    "task": {"type": "worker", "index": index},
                }
            )
        }
        for index in range(count)
    ]


def _small_units() -> None:
    plan_units = corpus_lib.plan_units
    corpus_lib.plan_units = lambda corpus: plan_units(corpus, 1500)


def _write_config(path: pathlib.Path, settings: Any) -> str:
    path.write_text(
        "import json, ml_collections\ndef get_config():\n"
        f"    text = {schema.to_json(settings)!r}\n"
        "    return ml_collections.ConfigDict(json.loads(text)).lock()\n"
    )
    return f"--config={path}"


def write_inputs(home: pathlib.Path) -> None:
    """Writes what the commands read; it computes, so call it in a fork."""
    tiny_run.write_dataset(home / "dataset")
    records_data.write_corpus(home / "corpus")
    letters = [*records_data.LETTERS, *map("##{}".format, records_data.LETTERS)]
    vocabulary_lib.Vocabulary((*vocabulary_lib.SPECIAL_TOKENS, *letters)).save(
        home / "vocabulary"
    )
    little_task.write_files(home / "task")
    settings = tiny.with_dropout(tiny.build_settings())
    vocabulary = finetuning_data.VOCABULARY
    encoder = finetuning_model.random_encoder(settings.encoder, vocabulary, 5)
    finetuning_data.write_run(
        home / "pretrained", settings, encoder.encoder.variables
    )


def settings_of(home: pathlib.Path, **training: Any) -> config.ExperimentConfig:
    """The settings of the trainer: 44 steps in two stages, 11 saves."""
    common = {"num_train_steps": 44, "eval_steps": 6, "keep_checkpoints": 99}
    common |= {"save_checkpoints_steps": 4}
    settings = tiny_run.build_settings(home / "dataset", **common, **training)
    settings = tiny_run.replace(settings, optimizer={"num_warmup_steps": 2})
    settings = tiny.with_objective(settings, "two_stage")
    return tiny_run.replace(settings, objective={"generator_steps": 22})


def all_kinds(home: pathlib.Path) -> dict[str, Kind]:
    """What can be killed, by name; writes the configs of it."""
    data, trained = f"--dataset_dir={home}/dataset", home / "whole-trainer"
    places = {f"{_RUN}.{n}": s for n, s in _PLACES.items()}
    own = little_task.build_settings(home / "task", deterministic=True)
    workers = settings_of(home, strategy="multi_worker")
    base = tiny_run.build_settings(pathlib.Path(), num_train_steps=12)
    base = tiny_run.replace(base, data={"dataset_dir": ""})
    (home / "study.py").write_text(_STUDY.format(base=config.to_json(base)))
    pretrain = ["run_pretraining", "--model_dir={}"]
    return {
        "trainer": Kind(
            [*pretrain, _write_config(home / "one.py", settings_of(home))],
            places,
        ),
        "worker": Kind(
            [*pretrain, _write_config(home / "two.py", workers)], places, 2
        ),
        "builder": Kind(
            [
                *("build_pretraining_dataset", "--resume", "--output_dir={}"),
                *(f"--corpus={home}/corpus", "--num_processes=2"),
                *(f"--vocab_file={home}/vocabulary", "--max_seq_length=32"),
                *("--num_out_files=4", "--validation_fraction=0.2"),
            ],
            prepare=_small_units,
        ),
        "finetuning": Kind(
            [
                *("run_finetuning", "--output_dir={}", "--trials=2"),
                f"--pretrained_dir={home}/pretrained",
                "--do=train,eval,predict",
                _write_config(home / "task.py", own),
            ],
            places,
        ),
        "study": Kind(
            [
                *("run_study", f"--study={home}/study.py", data),
                *("--output_dir={}", "--num_parallel=2"),
            ],
            places,
        ),
        "conversion": Kind(
            [
                *("convert_checkpoint", f"--input={trained}"),
                *("--to=huggingface", "--output_dir={}"),
            ],
            is_created=True,
        ),
        "export": Kind(
            ["export_saved_model", f"--model_dir={trained}", "--export_dir={}"],
            is_created=True,
        ),
    }


# Seconds that each takes here at most.
_PLACES = {"evaluate": 0.8, "save": 0.1, "_enter_phase": 0.3, "_restore": 0.2}


def snapshot(folder: pathlib.Path) -> dict[str, Any]:
    """What must not depend on a fault: all files but pictures and times."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        is_told = path.suffix in (".json", ".jsonl")
        if path.is_dir() or "tensorboard" in name or path.suffix in _UNTOLD:
            continue
        if path.name == ".lock" or "fingerprint" in name:
            continue
        if is_told:
            text = path.read_text("utf-8").replace(str(folder), "")
            lines = text.splitlines() if path.suffix == ".jsonl" else [text]
            found[name] = [_timeless(json.loads(line)) for line in lines]
        elif path.suffix == ".npz":
            with np.load(path) as arrays:
                found[name] = {k: arrays[k].tobytes() for k in arrays}
        else:
            found[name] = path.read_bytes()
    return found


_UNTOLD = (".png", ".txt", ".md", ".pb")


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _timeless(part)
            for key, part in value.items()
            if not _TIMES.fullmatch(key)
        }
    if isinstance(value, list):
        return [*map(_timeless, value)]
    return value


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Names of files that are not the same in both."""
    return [
        name
        for name in sorted(one.keys() | other.keys())
        if one.get(name) != other.get(name)
    ]
