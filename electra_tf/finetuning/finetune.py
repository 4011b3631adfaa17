"""Fine-tuning from a config and two folders: trials, scores, predictions.

`output_dir` has a folder for each task of a benchmark, each combination of a
search and each trial. A trial that is done is only read.
"""

import dataclasses
import functools
import gc
import os
import pathlib
import typing
from collections.abc import Callable, Mapping, Sequence

import pydantic

from electra_tf import errors
from electra_tf import storage
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.finetuning import model as model_lib
from electra_tf.finetuning import portable_trial
from electra_tf.finetuning import results
from electra_tf.finetuning import task_data
from electra_tf.finetuning import trial as trial_lib
from electra_tf.finetuning import trial_training
from electra_tf.processes import locks
from electra_tf.processes import pool as pool_lib
from electra_tf.processes import stopping
from electra_tf.tasks.sentences import glue
from electra_tf.training import distribution

ACTIONS = ("train", "eval", "predict")
Path: typing.TypeAlias = typing.Annotated[
    pathlib.Path, pydantic.PlainValidator(storage.path)
]
Result: typing.TypeAlias = results.Summary | results.Report | results.Ranking


@schema.frozen
class Request:
    """A fine-tuning: settings, folders and numbers of trials."""

    settings: finetuning_config.FinetuningConfig  # with the first trial's seed
    output_dir: Path  # where everything goes
    # A pre-trained model of any format, or a fine-tuned one, whose encoder is
    # taken; None if nothing is trained.
    pretrained_dir: Path | None = None
    checkpoint: str = "latest"  # of it; or `best`, or a folder
    use_average: bool = False  # take the moving average of its weights
    is_random: bool = False  # take its sizes and vocabulary, not its weights
    num_trials: schema.Positive = 1  # trainings with different seeds
    num_parallel: schema.Positive = 1  # of them that run side by side
    actions: tuple[str, ...] = ("train", "eval")  # some of `ACTIONS`
    splits: tuple[str, ...] = ()  # to predict; empty: all that have files
    # Numbers to try, by field: see `build_grid`.
    search: Mapping[str, tuple[int | float, ...]] | None = None

    def __post_init__(self) -> None:
        refuse_model(self.output_dir)
        asked = f"--do={','.join(self.actions)}"
        trains, is_parallel = "train" in self.actions, self.num_parallel > 1
        strategy = self.settings.training.strategy
        schema.require(
            bool(self.actions) and {*self.actions} <= {*ACTIONS},
            f"`--do` must name some of {ACTIONS}. Received: {asked}.",
        )
        schema.require(
            not trains or self.pretrained_dir is not None,
            "Training starts from a pre-trained model. Received: no "
            "--pretrained_dir. Name its folder (with --random_init to take its "
            "sizes alone).",
        )
        schema.require(
            not self.is_random
            or (self.checkpoint == "latest" and not self.use_average),
            "Random weights come from no checkpoint. Received: --random_init "
            "with --checkpoint or --use_average. Drop one.",
        )
        schema.require(
            not self.splits or "predict" in self.actions,
            f"`--splits` says what is predicted. Received: {asked}. Add "
            "predict, or leave --splits out.",
        )
        schema.require(
            trains or not is_parallel,
            f"`--parallel_trials` trains. Received: {asked}. Leave it out.",
        )
        schema.require(
            not is_parallel or strategy == "one_device",
            "Trials side by side have one device each. Received: strategy="
            f"{strategy}. Set training.strategy=one_device.",
        )

    def folder(self, number: int) -> pathlib.Path:
        """Returns the folder of a trial, counted from 1."""
        return self.output_dir / f"trial_{number:02d}"

    def trial_settings(self, number: int) -> finetuning_config.FinetuningConfig:
        """Returns the settings of a trial: its seed is seed + number - 1."""
        seed = self.settings.training.seed + number - 1
        return schema.replace_fields(self.settings, training={"seed": seed})

    def parts(self) -> dict[str, "Request"]:
        """Splits it by task of a benchmark, or else combination of a search.

        Each part has a folder of its own, called like the part.
        """
        search = self.search
        parts = {
            name: schema.replace_fields(self.settings, task={"names": name})
            for name in results.benchmark_tasks(self.settings.task.names)
        }
        if search and not parts:
            parts = finetuning_config.build_grid(self.settings, search)
            search = None
        return {
            name: dataclasses.replace(
                self,
                settings=own,
                output_dir=self.output_dir / name,
                search=search,
            )
            for name, own in parts.items()
        }


def refuse_model(output_dir: pathlib.Path) -> None:
    """Raises `ConfigError` for a model's folder, which trials would hide."""
    names = "config.json", "discriminator", "*.index"
    model_files = [p.name for name in names for p in output_dir.glob(name)]
    schema.require(
        not model_files,
        "A fine-tuning goes into a folder without a model. Received: "
        f"{output_dir} with {', '.join(model_files)}. Give another "
        "--output_dir; a fine-tuned model that is to be scored is the "
        "--pretrained_dir, beside --do=eval.",
    )


class Session:
    """The trials of one process; tasks are read and tokenized once.

    `tell` gets what was understood of the data, before the first step.
    """

    def __init__(
        self,
        request: Request,
        tell: Callable[[str], None] = print,
    ) -> None:
        self.request, self._tell = request, tell
        training = request.settings.training
        distribution.configure_process(training)
        self.strategy = distribution.build_strategy(training)
        self.is_chief = distribution.is_chief(self.strategy)
        values = schema.list_values(request.settings)
        distribution.require_same(self.strategy, values)
        self._prepared: task_data.PreparedTasks | None = None
        self._is_described = False  # whether its data were, on the terminal
        # By trial: scores on other data, or by another threshold, than its
        # folder keeps.
        self.rescored: dict[int, trial_lib.TrialResult] = {}

    def run(self, number: int, stop: stopping.StopRequest) -> bool:
        """Does a trial's training and scoring; False if asked to stop."""
        with (
            locks.hold(self.request.folder(number), self.is_chief),
            distribution.naming_lost_workers(self.strategy),
        ):
            if "train" in self.request.actions:
                trial = self.start(number)
                return trial_training.run_trial(trial, stop) is not None
            if "eval" in self.request.actions:
                trial = self.load(number)
                scores = trial.evaluate()
                done = trial_lib.read_result(trial.folder)
                if done is not None and self.is_chief:
                    # A model from elsewhere did not have the metrics.
                    done = dataclasses.replace(
                        done, scores=scores, metrics=trial.deciding_metrics
                    )
                    if trial.is_rescored:
                        self.rescored[number] = done
                    else:
                        trial_lib.write_result(trial.folder, done)
            return True

    def start(self, number: int) -> trial_lib.Trial:
        """Makes a trial that begins at the pre-trained weights."""
        request = self.request
        training = request.trial_settings(number).training
        # A request to train has one.
        path = typing.cast(pathlib.Path, request.pretrained_dir)
        seed = training.seed if request.is_random else None
        how = request.checkpoint, training.precision, request.use_average, seed
        is_plain = how == ("latest", training.precision, False, None)
        fine_tuned = results.find_trial(path)
        with self.strategy.scope():
            if fine_tuned is not None and is_plain:
                loaded = trial_lib.load_encoder(fine_tuned, training.precision)
            else:
                loaded = model_lib.load_encoder(fine_tuned or path, *how)
        source = "random weights"
        if not request.is_random:
            digest = model_lib.checksum(loaded.encoder.variables)
            source = f"weights of sha256 {digest}"
        trial = self._build(number, loaded)
        if trial_lib.read_result(trial.folder) is None:
            understood = trial.check()
            if self.is_chief and not self._is_described:
                self._tell("\n".join(understood))
                self._is_described = True
        prepared = trial.prepared
        description = trial_lib.TrialDescription(
            trial.settings,
            loaded.settings,
            prepared.labels,
            source,
            prepared.conventions,
            prepared.digests("train"),
        )
        vocabulary = loaded.vocabulary.sha256, loaded.vocabulary.settings
        same = {"data": description.data, "vocabulary": vocabulary}
        distribution.require_same(self.strategy, same | {"weights": source})
        if self.is_chief:
            trial_lib.claim(trial.folder, description, loaded.vocabulary)
        return trial

    def load(self, number: int) -> trial_lib.Trial:
        """Loads a trial as its training left it."""
        folder = self.request.folder(number)
        settings = self.request.trial_settings(number)
        described = trial_lib.read_description(folder)
        wanted = dataclasses.replace(described, settings=settings)
        changed = set[str]()
        if not described.is_converted:
            changed = trial_lib.require_same(folder, wanted)
        with self.strategy.scope():
            loaded = trial_lib.load_encoder(folder, settings.training.precision)
        trial = self._build(
            number, loaded, described.labels, described.conventions
        )
        safe, known = trial_lib.SAFE_TO_RESUME, described.data
        if known is not None:
            safe = safe | trial_lib.PLACES
        trial.is_rescored = not changed <= safe
        if "eval" in self.request.actions and known is not None:
            trial.is_rescored |= any(
                known.get(name, {}).get(split) != digest
                for name, splits in trial.prepared.digests().items()
                for split, digest in splits.items()
            )
        trial.load_weights(trial_lib.final_checkpoint(folder, settings))
        return trial

    def _build(
        self, number: int, loaded: model_lib.LoadedEncoder, *known: typing.Any
    ) -> trial_lib.Trial:
        request = self.request
        has_more = request.num_trials > request.num_parallel == 1
        if self._prepared is None:
            most = loaded.settings.max_position_embeddings
            self._prepared = task_data.PreparedTasks(
                request.settings, loaded.vocabulary, most, *known
            )
        return trial_lib.Trial(
            request.trial_settings(number),
            loaded,
            self._prepared,
            self.strategy,
            request.folder(number),
            f"Trial {number} of {request.num_trials}" if has_more else "",
        )


def finetune(request: Request) -> Result | None:
    """Does what is asked, prints and returns the scores; None without any.

    One model learns several tasks together; those of a benchmark get a model
    each, as do combinations of a search. Raises `ValueError` for settings, data
    or folders that do not fit, `BlockingIOError` for a trial that another
    process runs, `Stopped` after a signal, `NonFiniteLossError` if a loss stops
    being a number.
    """
    parts, task = request.parts(), request.settings.task
    if not parts:
        return _finetune_model(request)
    names = results.benchmark_tasks(task.names)
    _require_ready(request, names)
    done: dict[str, results.Summary] = {}
    lines: list[results.Line] = []
    report: results.Report | results.Ranking | None = None
    for place, (name, own) in enumerate(parts.items(), 1):
        print(f"{name}, {place} of {len(parts)}:", flush=True)
        outcome = finetune(own)
        if isinstance(outcome, results.Ranking):
            outcome = outcome.best
        if isinstance(outcome, results.Summary):
            done[name] = outcome
            # After each, as the next one may take days.
            if names:
                lines.append(results.line_of(name, task.data_dir, outcome))
                report = results.build_report(lines)
            else:
                report = results.rank(done)
            if outcome.is_kept:
                results.write_report(
                    request.output_dir, report, request.settings
                )
    if report is not None:
        print(f"\n{report.format_table()}", flush=True)
    return report


def _require_ready(request: Request, names: Sequence[str]) -> None:
    """Looks at what would stop several trainings, before they begin."""
    schema.require(
        not request.splits or not names,
        "The tasks of a benchmark have splits of their own. Received: --splits="
        f"{','.join(request.splits)}. Without it, all there are is predicted.",
    )
    schema.require(
        request.settings.training.strategy != "multi_worker",
        "A benchmark or search runs on one host. Received: strategy="
        "multi_worker. Run its parts one by one, or set another "
        "training.strategy.",
    )
    wanted = {"train": ("train", "dev"), "eval": ("dev",), "predict": ()}
    beginnings = tuple(b for action in request.actions for b in wanted[action])
    data_dir, missing = request.settings.task.data_dir, {}
    for name in names:
        spec, absent = glue.TASKS[name], []
        for split in (s for s in spec.splits if s.startswith(beginnings)):
            try:
                glue.require_split(spec, data_dir, split)
            except FileNotFoundError:
                absent.append(split)
        if absent:
            missing[name] = f"{spec.title} ({', '.join(absent)})"
    if missing:
        present = ",".join(name for name in names if name not in missing)
        raise FileNotFoundError(
            f"Expected the official files of each task in {data_dir}. "
            f"Received: none of {', '.join(missing.values())}. Add them, name "
            "another task.data_dir, or run the tasks that are there: "
            f"task.names={results.BENCHMARK}:{present or 'TASK'}"
        )


def _finetune_model(request: Request) -> results.Summary | None:
    """Makes one model of all tasks named."""
    if "train" not in request.actions:
        request = _adopt_model(request)
    rescored: Mapping[int, trial_lib.TrialResult] = {}
    numbers = range(1, request.num_trials + 1)
    was_done = "train" in request.actions and all(
        trial_lib.read_result(request.folder(number)) for number in numbers
    )
    if request.num_parallel > 1:
        _run_side_by_side(request)
    else:
        session = Session(request)
        _run_in_turn(session)
        if not session.is_chief:
            return None
        rescored = session.rescored
    actions, summary, best = set(request.actions), None, None
    if {"train", "eval"} & actions:
        summary = results.summarize(request.output_dir, rescored)
        if request.settings.own.test_file:
            best = _load_best(request, summary.best_trial)
            test = best.evaluate(best.prepared.labelled_test_splits())
            summary = dataclasses.replace(summary, test=test)
        if summary.is_kept:
            results.write_report(request.output_dir, summary, request.settings)
        if was_done:
            print("Nothing to train: all trials are done. Their scores:")
        print(f"\n{summary.format_table()}", flush=True)
    splits: tuple[str, ...] = ()
    if "predict" in actions:
        number = results.best_trial(results.read_trials(request.output_dir))
        best, splits = best or _load_best(request, number), request.splits
    elif best is not None and summary is not None and not summary.test:
        # A test file without labels is there to be predicted.
        splits = ("test",)
    else:
        return summary
    trial_lib.write_predictions(best, request.output_dir, splits)
    return summary


def _adopt_model(request: Request) -> Request:
    """Takes a fine-tuned model from elsewhere as its trial if it has none."""
    folder = request.folder(1)
    if request.pretrained_dir is not None and not folder.exists():
        portable_trial.convert_to_trial(request.pretrained_dir, folder)
    settings = portable_trial.adopt_files(folder, request.settings)
    return dataclasses.replace(request, settings=settings)


def _load_best(request: Request, number: int) -> trial_lib.Trial:
    """Loads the best trial on one device: the chief alone works with it."""
    settings = request.settings
    if settings.training.strategy == "multi_worker":
        # The strategy would wait for the others.
        alone = {"strategy": "one_device"}
        settings = schema.replace_fields(settings, training=alone)
    own = dataclasses.replace(
        request, settings=settings, actions=("predict",), num_parallel=1
    )
    return Session(own).load(number)


def _run_in_turn(session: Session) -> None:
    """Runs trials one after another; raises `Stopped` after a signal."""
    request = session.request
    numbers = [*range(1, request.num_trials + 1)]
    if "train" not in request.actions:
        # All that there are, so that one table compares like with like.
        numbers = sorted(results.read_trials(request.output_dir))
    with stopping.StopRequest() as stop:
        for number in numbers:
            if not session.run(number, stop):
                raise errors.Stopped
            if len(numbers) > 1 and session.is_chief:
                told = trial_lib.describe_result(request.folder(number))
                print(f"Trial {number}: {told}", flush=True)
            gc.collect()  # A trained model is a heap of cycles.
    if stop.signal_name:
        raise errors.Stopped


def _list_gpus() -> list[str]:
    """Lists the GPUs of this host, as `CUDA_VISIBLE_DEVICES` names them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name for name in visible.split(",") if name]
    nodes = pathlib.Path("/dev").glob("nvidia[0-9]*")
    return [str(number) for number in range(len(list(nodes)))]


def _run_side_by_side(request: Request) -> None:
    """Runs trials in processes, with logs; raises `Stopped` after a signal."""

    def log_file(number: int) -> pathlib.Path:
        return request.output_dir / "logs" / f"trial_{number:02d}.txt"

    def say(number: int, what: str) -> None:
        print(f"Trial {number} {what}.", flush=True)

    told = set[str]()

    def tell(understood: str) -> None:
        if understood not in told:  # Every process has read the data.
            told.add(understood)
            print(understood, flush=True)

    # Two trials may have to share a device.
    growth = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    pool = pool_lib.ProcessPool(
        functools.partial(functools.partial, _run_trial, request),
        request.num_parallel,
        log_file,
        [{"CUDA_VISIBLE_DEVICES": name, **growth} for name in _list_gpus()],
    )
    failed: dict[int, Exception] = {}
    is_done = True
    with stopping.StopRequest() as stop, pool:
        for number, is_finished, error in pool.outcomes(
            range(1, request.num_trials + 1),
            tell,
            on_start=lambda n: say(n, f"started; its log is {log_file(n)}"),
            stop=stop,
        ):
            if error is not None and not stop.signal_name:
                failed[number] = error
                say(number, "has failed")
            elif is_finished:
                result = trial_lib.describe_result(request.folder(number))
                say(number, f"is done: {result}")
            else:
                is_done = False
                say(number, "has stopped; the same command goes on")
    if failed:
        first = min(failed)
        raise ValueError(
            f"{len(failed)} of {request.num_trials} trials failed: "
            f"{', '.join(map(str, sorted(failed)))}. Trial {first}: "
            f"{failed[first]} See {log_file(first)}."
        )
    if not is_done or stop.signal_name:
        raise errors.Stopped


def _run_trial(request: Request, number: int, report: pool_lib.Report) -> bool:
    """Runs a trial in its process; False if it was asked to stop."""
    with stopping.StopRequest() as stop:
        return Session(request, report).run(number, stop)
