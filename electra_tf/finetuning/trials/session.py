"""What is asked of a fine-tuning, and the trials of one process."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Mapping

from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import sections as config_sections
from electra_tf.finetuning import encoders
from electra_tf.finetuning import prepared as prepared_lib
from electra_tf.finetuning.trials import trial as trial_lib
from electra_tf.finetuning.trials import trial_dir as trial_dir_lib
from electra_tf.processes import stopping
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import distribution

ACTIONS = ("train", "eval", "predict")


@dataclasses.dataclass(frozen=True)
class Request:
    """What is asked for.

    Attributes:
        settings: the config; its seed is that of the first trial.
        output_dir: where everything goes.
        pretrained_dir: of a pre-trained model of any format; None if nothing
            is trained.
        checkpoint: of it: `latest`, `best`, or a folder.
        use_average: take the moving average of its weights.
        is_random: take its sizes and vocabulary, but random weights.
        num_trials: trainings with different seeds.
        num_parallel: trials that run side by side.
        actions: some of `ACTIONS`.
        splits: to predict; empty: all for which there are files.
    """

    settings: finetuning_config.FinetuningConfig
    output_dir: pathlib.Path
    pretrained_dir: pathlib.Path | None = None
    checkpoint: str = "latest"
    use_average: bool = False
    is_random: bool = False
    num_trials: int = 1
    num_parallel: int = 1
    actions: tuple[str, ...] = ("train", "eval")
    splits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for action in self.actions:
            config_sections.require_choice("--do", action, ACTIONS)
        for name in ("num_trials", "num_parallel"):
            config_sections.require_range(name, getattr(self, name), 1)
        config_sections.require(
            "train" not in self.actions or self.pretrained_dir is not None,
            "Training starts from a pre-trained model. Received: no "
            "--pretrained_dir. Name its folder (with --random_init to take "
            "its sizes alone).",
        )
        config_sections.require(
            bool(self.actions),
            f"`--do` must name some of {', '.join(ACTIONS)}. Received: none.",
        )
        config_sections.require(
            not self.is_random
            or (self.checkpoint == "latest" and not self.use_average),
            "Random weights come from no checkpoint. Received: --random_init "
            "with --checkpoint or --use_average. Leave one out.",
        )
        config_sections.require(
            not self.splits or "predict" in self.actions,
            "`--splits` says what is predicted. Received: --do="
            f"{','.join(self.actions)}. Add predict, or leave --splits out.",
        )
        config_sections.require(
            self.num_parallel == 1 or "train" in self.actions,
            "`--parallel_trials` trains. Received: --do="
            f"{','.join(self.actions)}. Leave it out.",
        )
        config_sections.require(
            self.num_parallel == 1 or self.settings.training.strategy
            == "one_device",
            "Trials side by side have one device each. Received: strategy="
            f"{self.settings.training.strategy}. Set --parallel_trials=1, or "
            "--config.training.strategy=one_device.",
        )  # fmt: skip

    def folder(self, number: int) -> pathlib.Path:
        """The folder of a trial, counted from 1."""
        return self.output_dir / f"trial_{number:02d}"


class Session:
    """The trials of one process; tasks are read and tokenized once.

    Args:
        request: what is asked for.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        training = request.settings.training
        distribution.configure_process(training)
        self.strategy = distribution.build_strategy(training)
        self.is_chief = distribution.is_chief(self.strategy)
        self._prepared: prepared_lib.PreparedTasks | None = None

    def run(self, number: int, stop: stopping.StopRequest) -> bool:
        """Trains and evaluates a trial, or evaluates a trained one anew.

        Returns:
            False if it was asked to stop.
        """
        request = self.request
        if "train" in request.actions:
            trial = self.start(number)
            return trial_lib.run_trial(trial, stop) is not None
        if "eval" in request.actions:
            folder = request.folder(number)
            done = trial_dir_lib.read_result(folder)
            if done is None:
                raise FileNotFoundError(
                    f"{folder} must hold a finished trial. Received: a folder "
                    "without results.json. Train it with --do=train."
                )
            scores = self.load(number).evaluate()
            if self.is_chief:
                trial_dir_lib.write_result(
                    folder, dataclasses.replace(done, scores=scores)
                )
        return True

    def start(self, number: int) -> trial_lib.Trial:
        """A trial that begins at the pre-trained weights."""
        request = self.request
        if request.pretrained_dir is None:
            raise ValueError(
                "Training starts from a pre-trained model. Received: a request "
                "without `pretrained_dir`. Name its folder."
            )
        settings = trial_lib.with_seed(request.settings, number)
        with self.strategy.scope():
            loaded = self._load_encoder(request.pretrained_dir, settings)
        prepared = self._prepare(loaded.vocabulary, loaded.settings)
        folder = request.folder(number)
        description = trial_dir_lib.TrialDescription(
            settings, loaded.settings, prepared.labels, self._source(loaded)
        )
        if self.is_chief:
            trial_dir_lib.claim(folder, description, loaded.vocabulary)
        return trial_lib.Trial(
            settings, loaded, prepared, self.strategy, folder
        )

    def load(self, number: int) -> trial_lib.Trial:
        """A trial as its training left it."""
        folder = self.request.folder(number)
        described = trial_dir_lib.load(folder)
        settings = trial_lib.with_seed(self.request.settings, number)
        now = dataclasses.replace(described, settings=settings)
        trial_dir_lib.require_same(folder, described, now)
        vocabulary = vocabulary_lib.Vocabulary.load(folder)
        prepared = self._prepare(
            vocabulary, described.encoder, described.labels
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
        encoder: config_sections.EncoderConfig,
        labels: Mapping[str, tuple[str, ...]] | None = None,
    ) -> prepared_lib.PreparedTasks:
        if self._prepared is None:
            self._prepared = prepared_lib.PreparedTasks(
                self.request.settings,
                vocabulary,
                encoder.max_position_embeddings,
                labels,
            )
        return self._prepared

    def _load_encoder(
        self,
        pretrained_dir: pathlib.Path,
        settings: finetuning_config.FinetuningConfig,
    ) -> encoders.LoadedEncoder:
        training = settings.training
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
        """What the encoder starts from, wherever it lay."""
        if self.request.is_random:
            return "random weights"
        digest = hashlib.sha256()
        for variable in loaded.encoder.variables:
            digest.update(variable.numpy().tobytes())
        return f"weights of sha256 {digest.hexdigest()[:16]}"
