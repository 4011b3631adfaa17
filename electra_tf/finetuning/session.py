"""What is asked of a fine-tuning, and the trials of one process."""

import dataclasses
import hashlib
import pathlib
import typing
from collections.abc import Mapping

from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.finetuning import encoders
from electra_tf.finetuning import task_data
from electra_tf.finetuning import trial as trial_lib
from electra_tf.finetuning import trial_dir as trial_dir_lib
from electra_tf.processes import stopping
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import distribution

ACTIONS = ("train", "eval", "predict")


@schema.frozen
class Request:
    """What is asked for."""

    settings: finetuning_config.FinetuningConfig  # with the first trial's seed
    output_dir: pathlib.Path  # where everything goes
    # Of a pre-trained model of any format; None if nothing is trained.
    pretrained_dir: pathlib.Path | None = None
    checkpoint: str = "latest"  # of it; or `best`, or a folder
    use_average: bool = False  # take the moving average of its weights
    is_random: bool = False  # take its sizes and vocabulary, not its weights
    num_trials: schema.Positive = 1  # trainings with different seeds
    num_parallel: schema.Positive = 1  # of them that run side by side
    actions: tuple[str, ...] = ("train", "eval")  # some of `ACTIONS`
    splits: tuple[str, ...] = ()  # to predict; empty: all that have files

    def __post_init__(self) -> None:
        asked = f"--do={','.join(self.actions)}"
        trains = "train" in self.actions
        is_parallel = self.num_parallel > 1
        has_choice = self.checkpoint != "latest" or self.use_average
        strategy = self.settings.training.strategy
        for holds, message in (
            (
                bool(self.actions) and {*self.actions} <= {*ACTIONS},
                f"`--do` must name some of {', '.join(ACTIONS)}. Received: "
                f"{asked}.",
            ),
            (
                not trains or self.pretrained_dir is not None,
                "Training starts from a pre-trained model. Received: no "
                "--pretrained_dir. Name its folder (with --random_init to take "
                "its sizes alone).",
            ),
            (
                not self.is_random or not has_choice,
                "Random weights come from no checkpoint. Received: "
                "--random_init with --checkpoint or --use_average. Leave one "
                "out.",
            ),
            (
                not self.splits or "predict" in self.actions,
                f"`--splits` says what is predicted. Received: {asked}. Add "
                "predict, or leave --splits out.",
            ),
            (
                trains or not is_parallel,
                f"`--parallel_trials` trains. Received: {asked}. Leave it out.",
            ),
            (
                not is_parallel or strategy == "one_device",
                "Trials side by side have one device each. Received: strategy="
                f"{strategy}. Set --parallel_trials=1, or "
                "--config.training.strategy=one_device.",
            ),
        ):
            schema.require(holds, message)

    def folder(self, number: int) -> pathlib.Path:
        """Returns the folder of a trial, counted from 1."""
        return self.output_dir / f"trial_{number:02d}"


class Session:
    """The trials of one process; tasks are read and tokenized once."""

    def __init__(self, request: Request) -> None:
        self.request = request
        training = request.settings.training
        distribution.configure_process(training)
        self.strategy = distribution.build_strategy(training)
        self.is_chief = distribution.is_chief(self.strategy)
        self._prepared: task_data.PreparedTasks | None = None

    def run(self, number: int, stop: stopping.StopRequest) -> bool:
        """Does a trial's training and scoring; False if asked to stop."""
        request = self.request
        if "train" in request.actions:
            trial = self.start(number)
            return trial_lib.run_trial(trial, stop) is not None
        if "eval" in request.actions:
            folder = request.folder(number)
            done = trial_dir_lib.read_result(folder)
            scores = self.load(number).evaluate()
            if done is not None and self.is_chief:
                trial_dir_lib.write_result(
                    folder, dataclasses.replace(done, scores=scores)
                )
        return True

    def start(self, number: int) -> trial_lib.Trial:
        """Makes a trial that begins at the pre-trained weights."""
        settings = trial_lib.with_seed(self.request.settings, number)
        with self.strategy.scope():
            loaded = self._load_encoder(settings)
        prepared = self._prepare(
            loaded.vocabulary, loaded.settings.max_position_embeddings
        )
        folder = self.request.folder(number)
        description = trial_dir_lib.TrialDescription(
            settings, loaded.settings, prepared.labels, self._source(loaded)
        )
        if self.is_chief:
            trial_dir_lib.claim(folder, description, loaded.vocabulary)
        return trial_lib.Trial(
            settings, loaded, prepared, self.strategy, folder
        )

    def load(self, number: int) -> trial_lib.Trial:
        """Loads a trial as its training left it."""
        folder = self.request.folder(number)
        described = trial_dir_lib.load(folder)
        settings = trial_lib.with_seed(self.request.settings, number)
        now = dataclasses.replace(described, settings=settings)
        trial_dir_lib.require_same(folder, described, now)
        vocabulary = vocabulary_lib.Vocabulary.load(folder)
        prepared = self._prepare(
            vocabulary,
            described.encoder.max_position_embeddings,
            described.labels,
        )
        with self.strategy.scope():
            encoder = encoders.build_encoder(
                described.encoder, settings.training.precision
            )
        checkpoint = trial_dir_lib.final_checkpoint(folder, settings)
        loaded = encoders.LoadedEncoder(
            encoder, vocabulary, described.encoder, f"all of {checkpoint}"
        )
        trial = trial_lib.Trial(
            settings, loaded, prepared, self.strategy, folder
        )
        trial.load_weights(checkpoint)
        return trial

    def _prepare(
        self,
        vocabulary: vocabulary_lib.Vocabulary,
        num_positions: int,
        labels: Mapping[str, tuple[str, ...]] | None = None,
    ) -> task_data.PreparedTasks:
        if self._prepared is None:
            self._prepared = task_data.PreparedTasks(
                self.request.settings, vocabulary, num_positions, labels
            )
        return self._prepared

    def _load_encoder(
        self, settings: finetuning_config.FinetuningConfig
    ) -> encoders.LoadedEncoder:
        training = settings.training
        # A request to train has one.
        pretrained_dir = typing.cast(pathlib.Path, self.request.pretrained_dir)
        if self.request.is_random:
            model = encoders.read_model(pretrained_dir)
            return encoders.random_encoder(
                model.encoder,
                encoders.require_vocabulary(model),
                training.seed,
                training.precision,
            )
        return encoders.load_encoder(
            pretrained_dir,
            self.request.checkpoint,
            training.precision,
            self.request.use_average,
        )

    def _source(self, loaded: encoders.LoadedEncoder) -> str:
        """Names the encoder's first weights, wherever they lay."""
        if self.request.is_random:
            return "random weights"
        digest = hashlib.sha256()
        for variable in loaded.encoder.variables:
            digest.update(variable.numpy().tobytes())
        return f"weights of sha256 {digest.hexdigest()[:16]}"
