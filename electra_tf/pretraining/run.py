"""One pre-training run from a config and a folder, resumable at any time.

`pretrain` builds what the config names, restores, trains, evaluates, saves and
draws. Where the weights come from, first match wins:

1. the newest checkpoint in `model_dir` (everything, to the bit),
2. another run's weights, `training.init_from` (fresh optimizer),
3. random numbers from `training.seed`.
"""

import json
import pathlib
import time
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.formats import warm_start
from electra_tf.inputs import damage
from electra_tf.inputs import pipeline
from electra_tf.inputs import streams
from electra_tf.pretraining import baselines
from electra_tf.pretraining import compute
from electra_tf.pretraining import dataset as dataset_lib
from electra_tf.pretraining import model as model_lib
from electra_tf.pretraining import optimizer
from electra_tf.records import atomic
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import cadence as cadence_lib
from electra_tf.training import checkpoints
from electra_tf.training import curves
from electra_tf.training import distribution
from electra_tf.training import loop as loop_lib
from electra_tf.training import model_dir as model_dir_lib
from electra_tf.training import reporting
from electra_tf.training import stopping
from electra_tf.training import throughput


def pretrain(
    settings: config.ExperimentConfig, model_dir: pathlib.Path
) -> bool:
    """Trains to the last step of the config, or until asked to stop.

    Args:
        settings: the whole run; `data.dataset_dir` must be set.
        model_dir: where everything of the run goes; made if absent.

    Returns:
        True if the last step was reached.

    Raises:
        ValueError: for settings, data or a `model_dir` that do not fit
            (`ConfigError`, `ModelDirError`, `CheckpointError`, ...).
        FileNotFoundError: if there is no dataset.
        NonFiniteLossError: if the loss stops being a number.
    """
    distribution.configure_process(settings.training)
    keras.utils.set_random_seed(settings.training.seed)
    strategy = distribution.build_strategy(settings.training)
    settings.check_devices(strategy.num_replicas_in_sync)
    run = _Run(settings, model_dir, strategy)
    with stopping.StopRequest() as stop:
        return run.train(stop)


class _Run:
    """The parts of a run and how they are put together."""

    def __init__(
        self,
        settings: config.ExperimentConfig,
        model_dir: pathlib.Path,
        strategy: tf.distribute.Strategy,
    ) -> None:
        self.settings = settings
        self.model_dir = model_dir
        self.strategy = strategy
        self.is_chief = distribution.is_chief(strategy)
        self.dataset = dataset_lib.open_dataset(
            pathlib.Path(settings.data.dataset_dir),
            settings.data.max_seq_length,
        )
        self.vocabulary = self.dataset.vocabulary
        self.order = streams.StreamOrder(
            shard_sizes=self.dataset.train.shard_sizes,
            num_streams=settings.data.num_streams,
            global_batch_size=settings.training.train_batch_size,
            seed=settings.training.seed,
            shuffle_block=settings.data.shuffle_block,
        )
        model_dir_lib.check(model_dir, settings, self.vocabulary)
        token_counts = self._token_counts(dataset_lib.TRAIN)
        with strategy.scope():
            self.model = build_model_and_optimizer(
                settings, self.vocabulary, token_counts
            )
        self.baselines: dict[str, float] = {}
        if self.dataset.held_out and (
            "masked_tokens" in self.model.statistic_sizes
        ):
            self.baselines = baselines.compute_baselines(
                token_counts, self._token_counts(dataset_lib.VALIDATION)
            )
        predictor = self.model.generator or self.model.main
        self.may_warn = bool(self.baselines and predictor.trainable_variables)
        self.loop = loop_lib.TrainingLoop(
            strategy,
            self.model,
            distribution.compiles_with_xla(settings.training),
        )
        self.compute = compute.Compute(
            model_lib.resolve(settings, self.vocabulary.size)
        )
        self.best_loss: float | None = None
        self.best_step: int | None = None
        self.start_step = 0
        self.start_position = streams.Position()
        self.device = distribution.device_description(strategy)

    def train(self, stop: stopping.StopRequest) -> bool:
        """Restores, trains, and writes the summary at the end."""
        origin = self._restore()
        if self.is_chief:
            model_dir_lib.claim(self.model_dir, self.settings, self.vocabulary)
        report = reporting.RunReport(
            self.model_dir if self.is_chief else None,
            self.start_step,
            self.settings.training.num_train_steps,
        )
        start = time.monotonic()
        with report, distribution.naming_lost_workers(self.strategy):
            self._announce(report, origin)
            is_finished = self._train(stop, report)
        if self.is_chief:
            self._finish(report, time.monotonic() - start)
        return is_finished

    def _train(
        self, stop: stopping.StopRequest, report: reporting.RunReport
    ) -> bool:
        training = self.settings.training
        self._peak = training.peak_flops or throughput.peak_flops(
            self.device, training.precision
        )
        cadence = cadence_lib.Cadence(
            total=training.num_train_steps,
            steps_per_loop=training.steps_per_loop,
            log=training.log_steps,
            evaluate=training.eval_steps if self.dataset.held_out else 0,
            save=training.save_checkpoints_steps,
            stops=self.model.phase_starts,
        )

        def evaluate(step: int) -> loop_lib.Evaluation:
            found = self._evaluate(step)
            if self.may_warn:
                self._warn_once(step, found.metrics, report)
            return found

        actions = loop_lib.Actions(
            evaluate, self._save, self._timing, self._cost
        )
        dataset = distribution.distribute_endless(
            self.strategy,
            lambda context: pipeline.build_training_dataset(
                self.dataset.train, self.order, self.start_position, context
            ),
        )
        try:
            with damage.naming_damage(self.dataset.train):
                return self.loop.run(
                    iter(dataset), cadence, actions, report, stop
                )
        except tf.errors.ResourceExhaustedError as error:
            raise MemoryError(
                "The device has too little memory for train_batch_size="
                f"{training.train_batch_size} in num_micro_batches="
                f"{training.num_micro_batches}. Set --config.training."
                f"num_micro_batches={2 * training.num_micro_batches}: the "
                "result is that of the whole batch, with other dropout bits."
            ) from error

    def _restore(self) -> str:
        newest = checkpoints.latest(self.model_dir)
        step = checkpoints.step_of(newest) if newest else 0
        distribution.require_same_step(self.strategy, step)
        if newest is not None:
            self._resume(newest)
            return f"resumed from {newest}"
        if self.settings.training.init_from:
            return self._warm_start(self.settings.training.init_from)
        return f"fresh weights from seed {self.settings.training.seed}"

    def _resume(self, checkpoint: pathlib.Path) -> None:
        state = checkpoints.load_state(checkpoint)
        if state["dataset"] != self.dataset.identity:
            raise checkpoints.CheckpointError(
                f"{checkpoint} was trained on other examples than those of "
                f"{self.settings.data.dataset_dir}: another corpus, other "
                "builder settings or another order. Name the dataset of the "
                "run; or train on this one in a new model_dir with "
                f"--config.training.init_from={self.model_dir}."
            )
        checkpoints.restore(checkpoint, self.loop.variables())
        self.start_step = state["step"]
        self.start_position = streams.Position.from_json(state["position"])
        self.best_loss = state["best_loss"]
        self.best_step = state["best_step"]

    def _warm_start(self, other: str) -> str:
        settings = model_lib.resolve(self.settings, self.vocabulary.size)
        report = warm_start.warm_start(
            other,
            warm_start.Target(
                {v.path: v for v in self.model.trainable_variables},
                settings.encoder,
                settings.generator.encoder_config(settings.encoder),
                self.vocabulary,
            ),
        )
        if self.model.weight_average is not None:
            self.model.weight_average.reset()
        return report

    def _evaluate(self, step: int) -> loop_lib.Evaluation:
        split = self.dataset.held_out
        if split is None:
            raise ValueError("There is no held-out split to evaluate on.")
        training = self.settings.training
        dataset = distribution.distribute_endless(
            self.strategy,
            lambda context: pipeline.build_evaluation_dataset(
                split,
                self.settings.data.num_streams,
                training.train_batch_size,
                context,
            ),
        )
        available = pipeline.num_evaluation_batches(
            split.num_examples, training.train_batch_size
        )
        wanted = training.num_eval_batches or available
        with damage.naming_damage(split):
            metrics = self.loop.evaluate(dataset, min(wanted, available))
        if self.best_step is not None and self.best_step <= self._phase_start():
            # An earlier phase had another loss.
            self.best_loss = None
        is_best = self.best_loss is None or metrics["loss"] < self.best_loss
        if is_best:
            self.best_loss, self.best_step = metrics["loss"], step
        return loop_lib.Evaluation(metrics | self.baselines, is_best)

    def _warn_once(
        self,
        step: int,
        metrics: Mapping[str, float],
        report: reporting.RunReport,
    ) -> None:
        """Says if the masked LM has learned nothing; then never again."""
        warning = baselines.explain_plateau(metrics, step * self._step_tokens)
        if warning:
            report.say(warning)
            self.may_warn = False

    def _save(self, step: int) -> None:
        position = self.start_position.advance(
            step - self.start_step, self.order.batches_per_epoch
        )
        if not self.is_chief:
            return
        state = {
            "position": position.to_json(),
            "seed": self.settings.training.seed,
            "dataset": self.dataset.identity,
            "best_loss": self.best_loss,
            "best_step": self.best_step,
        }
        keep = self.settings.training.keep_checkpoints
        variables = self.loop.variables()
        checkpoints.save(self.model_dir, step, variables, state, keep)

    def _phase_start(self) -> int:
        return self.model.phase_starts[self.loop.phase or 0]

    def _token_counts(self, split: str) -> np.ndarray:
        folder = pathlib.Path(self.settings.data.dataset_dir)
        return dataset_lib.load_token_counts(folder, self.vocabulary, split)

    @property
    def _step_tokens(self) -> int:
        """Tokens of a step, padding included."""
        rows = self.settings.training.train_batch_size
        return rows * self.settings.data.max_seq_length

    def _timing(self, seconds: float, steps: int) -> Mapping[str, float]:
        peak = self._peak * self.strategy.num_replicas_in_sync
        timing = {
            "tokens_per_second": self._step_tokens * steps / seconds,
            "seconds_per_step": seconds / steps,
        }
        if peak:
            # Within a phase all steps cost the same.
            achieved = self.compute.step_flops(self.loop.step - 1) / (
                seconds / steps
            )
            timing["share_of_peak"] = achieved / peak
        return timing

    def _cost(self, step: int) -> Mapping[str, float]:
        return {"train_flops": self.compute.flops_until(step)}

    def _announce(self, report: reporting.RunReport, origin: str) -> None:
        training = self.settings.training
        count = sum(
            v.value.shape.num_elements() for v in self.model.trainable_variables
        )
        rows = training.train_batch_size // self.strategy.num_replicas_in_sync
        epochs = training.num_train_steps / self.order.batches_per_epoch
        report.say(
            f"Pre-training in {self.model_dir} on {self.device}, "
            f"{training.precision}: {origin}.\n"
            f"{count:,} parameters in {len(self.model.trainable_variables)} "
            f"variables; {self.dataset.train.num_examples:,} examples of "
            f"{self.settings.data.max_seq_length} tokens, "
            f"{training.train_batch_size} a step ({rows} per device), "
            f"{epochs:.2f} epochs."
            f"{baselines.describe(self.baselines)}\n"
            "The first step is being traced ..."
        )

    def _finish(self, report: reporting.RunReport, seconds: float) -> None:
        lines = reporting.read_lines(self.model_dir / "metrics.jsonl")
        last = {line["split"]: line for line in lines}
        best = checkpoints.best(self.model_dir)
        summary = {
            "step": self.loop.step,
            "num_train_steps": self.settings.training.num_train_steps,
            "seconds_of_this_session": round(seconds, 1),
            "device": self.device,
            "tensorflow": tf.__version__,
            "train": last.get("train"),
            "validation": last.get("validation"),
            "best_validation_loss": self.best_loss,
            "best_checkpoint": best and best.name,
        }
        text = json.dumps(summary, indent=2) + "\n"
        path = self.model_dir / "summary.json"
        try:
            with atomic.replacing_file(path) as partial:
                partial.write_text(text, "utf-8")
            picture = curves.draw_training_curves(self.model_dir)
        except OSError as error:
            raise OSError(
                f"Step {self.loop.step} is done and saved, but {path} or the "
                f"picture beside it could not be written: {error}. Free space "
                "and start the same command again to make them."
            ) from error
        report.say(
            f"Step {self.loop.step} after {seconds / 60:.1f} minutes. Wrote "
            f"{path} and {picture}."
        )


def build_model_and_optimizer(
    settings: config.ExperimentConfig,
    vocabulary: vocabulary_lib.Vocabulary,
    token_counts: np.ndarray | None = None,
) -> model_lib.PretrainingModel:
    """The model with its optimizer, slots and extras; in the strategy's scope.

    Args:
        settings: the whole config.
        vocabulary: that of the dataset.
        token_counts: `[V]` of the corpus, for the unigram generator.
    """
    model = model_lib.build_pretraining_model(
        settings, vocabulary, token_counts
    )
    model.optimizer = optimizer.build_optimizer(settings, model.phase_starts)
    model.optimizer.build(model.trainable_variables)
    return model
