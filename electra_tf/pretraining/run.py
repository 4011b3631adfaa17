"""Runs a pre-training from a config, in a folder, and resumes it.

A run starts from the newest checkpoint in `model_dir`, if there is one; else
with the weights of another run, `training.init_from`, and a new optimizer; else
with random weights.
"""

import dataclasses
import functools
import gc
import pathlib
import time
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf import errors
from electra_tf import storage
from electra_tf.config import schema
from electra_tf.formats import own_run
from electra_tf.formats import reading
from electra_tf.inputs import dataset as dataset_lib
from electra_tf.inputs import pipeline
from electra_tf.inputs import streams
from electra_tf.objectives import base
from electra_tf.objectives import registry
from electra_tf.pretraining import cost
from electra_tf.pretraining import diagnosis
from electra_tf.processes import atomic
from electra_tf.processes import locks
from electra_tf.processes import stopping
from electra_tf.records import manifest
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints
from electra_tf.training import devices
from electra_tf.training import distribution
from electra_tf.training import optimizers
from electra_tf.training import reporting
from electra_tf.training import schedules
from electra_tf.training import training_run


def pretrain(
    settings: config.ExperimentConfig,
    model_dir: pathlib.Path,
    may_extend: bool = False,  # whether a run of fewer steps may be continued
) -> bool:
    """Trains to the last step; returns False if it was asked to stop earlier.

    Raises:
        ValueError: for settings, data or a `model_dir` that do not fit
            (`ConfigError`, `DataError`, `ModelError`).
        FileNotFoundError: if there is no dataset.
        BlockingIOError: if another process trains in `model_dir`.
        NonFiniteLossError: if the loss stops being a number.
    """
    settings = registry.complete(settings)
    training, phases = settings.training, config.split_phases(settings)
    cuts = [devices.cut_batch(phase.settings, 1, True) for phase in phases]
    distribution.configure_process(training, all(cut.is_shared for cut in cuts))
    keras.utils.set_random_seed(training.seed)
    strategy = distribution.build_strategy(training)
    settings.check_devices(strategy.num_replicas_in_sync)
    distribution.require_same(strategy, schema.list_values(settings))
    with (
        locks.hold(model_dir, distribution.is_chief(strategy)),
        distribution.naming_lost_workers(strategy),
        stopping.StopRequest() as stop,
    ):
        for phase in phases:
            # All hosts wait until the chief has saved the previous phase.
            distribution.require_same(strategy, {"phase": phase.start})
            newest = checkpoints.latest(model_dir)
            step = checkpoints.step_of(newest) if newest else 0
            if step > phase.end and phase.end < training.num_train_steps:
                continue
            run = _Run(settings, phase, model_dir, strategy, may_extend)
            if not run.run(stop):
                return False
            del run
            gc.collect()  # frees the model before the next phase builds one
    return True


class _Run(training_run.TrainingRun):
    """One phase of a pre-training."""

    title, unit = "Pre-training", "tokens"
    model: base.PretrainingModel
    training: config.TrainingConfig

    def __init__(
        self,
        whole: config.ExperimentConfig,
        phase: config.RowPhase,
        model_dir: pathlib.Path,
        strategy: tf.distribute.Strategy,
        may_extend: bool = False,
    ) -> None:
        self.whole, settings = whole, phase.settings
        training, data = settings.training, settings.data
        self.settings, self.first_step = settings, phase.start
        self.dataset = dataset_lib.open_dataset(
            storage.path(data.dataset_dir), data.max_seq_length
        )
        self.vocabulary = self.dataset.vocabulary
        there = self.vocabulary.sha256, self.vocabulary.settings
        distribution.require_same(
            strategy,
            {"examples": self.dataset.identity, "vocabulary": there},
        )
        train = self.dataset.train
        self.order = build_order(settings, train)
        self.changed = own_run.check(
            model_dir, whole, self.vocabulary, may_extend
        )
        token_counts = self._token_counts(manifest.TRAIN)
        with strategy.scope():
            model = build_model_and_optimizer(
                settings, self.vocabulary, token_counts, train.is_packed
            )
        super().__init__(training, strategy, model, model_dir, phase.end)
        self.total_steps = training.num_train_steps
        # Tokens of a step without padding, on average.
        self.units_per_step *= train.num_tokens / train.num_examples
        self.baselines: dict[str, float] = {}
        if self.dataset.held_out is None:
            self.eval_steps = 0
        elif "masked_tokens" in model.statistic_sizes:
            self.baselines = dataset_lib.compute_baselines(
                token_counts,
                self._token_counts(manifest.VALIDATION),
                settings.masking.frequency_power,
            )
        predictor = model.generator or model.main
        self.may_warn = bool(self.baselines and predictor.trainable_variables)
        self.flops = cost.Cost(base.resolve(whole, self.vocabulary.size))
        # The peak rate of all devices, operations a second; 0 if unknown.
        peak = training.peak_flops or devices.peak_flops(
            self.device, training.precision
        )
        self._peak = peak * strategy.num_replicas_in_sync
        self.best_loss: float | None = None
        self.start_position = streams.Position()
        self._checksums = dataset_lib.ChecksumCheck(self.dataset)

    def _token_counts(self, split: str) -> np.ndarray:
        folder = storage.path(self.settings.data.dataset_dir)
        return manifest.load_token_counts(folder / split, self.vocabulary.size)

    def run(self, stop: stopping.StopRequest) -> bool:
        start = time.monotonic()
        with dataset_lib.explain_shard_errors(self.dataset.train):
            try:
                is_finished = super().run(stop)
                self._checksums.require_good()
            finally:
                self._checksums.stop()
        if self.is_chief:
            self._finish(time.monotonic() - start)
        return is_finished

    def _restore(self) -> str:
        origin = super()._restore()
        changed = "; ".join(self.changed)
        is_extended = "training.num_train_steps: " in changed
        if changed:
            origin += f"; changed (there, now): {changed}"
        if is_extended:
            rate = self.model.optimizer._learning_rate(self.step)
            origin += f"; the learning rate is now {rate:.2e}"
        if self.is_chief:
            checkpoints.claim_folder(
                self.folder, self.whole, self.vocabulary, is_extended
            )
        return origin

    def begin(self) -> str:
        settings = self.model.settings
        start, generator = self.training.init_from, settings.generator.init_from
        target = reading.Target(
            {v.path: v for v in self.model.trainable_variables},
            settings.encoder,
            getattr(self.model.generator, "settings", settings.encoder),
            self.vocabulary,
        )
        reports = []
        for origin, is_generator in ((start, False), (generator, True)):
            if origin:
                report = reading.warm_start(origin, target, is_generator)
                reports.append(report)
        if reports and self.model.is_disentangled:
            self.model.take_difference()
        if reports and self.model.weight_average is not None:
            self.model.weight_average.reset()
        return "; ".join(reports) or "fresh weights"

    def resume(
        self, state: Mapping[str, Any], checkpoint: pathlib.Path
    ) -> None:
        is_new_phase = 0 < state["step"] == self.first_step
        if not is_new_phase and state["dataset"] != self.dataset.identity:
            raise errors.ModelError(
                f"{checkpoint} was trained on other examples than those of "
                f"{self.settings.data.dataset_dir}: another corpus, other "
                "builder settings or another order. Name the dataset of the "
                "run; or train on this one in a new model_dir with "
                f"--config.training.init_from={self.folder}."
            )
        now = self.strategy.num_replicas_in_sync
        there = state.get("num_replicas", now)
        if self.model.means_per_replica and there != now:
            raise errors.ModelError(
                "With `objective.means_per_replica` a run keeps its number of "
                f"devices. Received: {now}, but {there} in {checkpoint}. Train "
                f"on {there} devices."
            )
        if not is_new_phase:
            self.start_position = streams.Position(**state["position"])
        self.best_loss = state["best_loss"]

    def state(self, step: int) -> dict[str, Any]:
        position = self.start_position.advance(
            step - self.start_step, self.order.batches_per_epoch
        )
        return {
            "position": dataclasses.asdict(position),
            "dataset": self.dataset.identity,
            "num_replicas": self.strategy.num_replicas_in_sync,
            "best_loss": self.best_loss,
        }

    def build_dataset(self, context: tf.distribute.InputContext) -> Any:
        return pipeline.build_training_dataset(
            self.dataset.train, self.order, self.start_position, context
        )

    @functools.cached_property
    def _held_out_batches(self) -> Any:
        build = functools.partial(
            pipeline.build_evaluation_dataset,
            self.dataset.held_out,  # not None where eval_steps > 0
            self.settings.data.num_streams,
            self.training.train_batch_size,
        )
        return distribution.distribute_endless(self.strategy, build)

    def evaluate(self, step: int) -> tuple[dict[str, float], bool]:
        split: Any = self.dataset.held_out
        available = -(-split.num_examples // self.training.train_batch_size)
        num_batches = self.settings.training.num_eval_batches or available
        with dataset_lib.explain_shard_errors(split):
            batches = self._held_out_batches
            metrics = self.measure(batches, min(num_batches, available))
        stage_start = self.model.stage_starts[self.stage or 0]
        first_step = max(stage_start, self.first_step)
        if self.best_step is not None and self.best_step <= first_step:
            # Losses of an earlier stage or phase do not compare.
            self.best_loss = None
        is_best = self.best_loss is None or metrics["loss"] < self.best_loss
        if is_best:
            self.best_loss, self.best_step = metrics["loss"], step
        metrics |= self.baselines
        if self.baselines and self.is_chief:
            self._warn(metrics, step * self.units_per_step)
        return metrics, is_best

    def _warn(self, metrics: Mapping[str, float], num_tokens: float) -> None:
        """Prints once that a masked LM does not learn, or has collapsed."""
        text = self.may_warn and diagnosis.explain_plateau(metrics, num_tokens)
        if text:
            self.may_warn = False
            self.report.say(text)
        lines = reporting.read_lines(self.folder / "metrics.jsonl")
        text = diagnosis.explain_collapse([*lines, metrics])
        if text and not diagnosis.explain_collapse(lines):
            self.report.say(text)

    def check_input(self) -> None:
        self._checksums.require_good()

    def timing(self, seconds: float, steps: int) -> dict[str, float]:
        timing = super().timing(seconds, steps)
        if self._peak:
            # Within a stage all steps cost the same.
            rate = self.flops.step_flops(self.step - 1) * steps / seconds
            # A CPU's measured peak may be too low.
            self._peak = max(self._peak, rate)
            timing["share_of_peak"] = rate / self._peak
        return timing

    def cost(self, step: int) -> Mapping[str, float]:
        return {"train_flops": self.flops.flops_until(step)}

    def describe(self) -> str:
        train, variables = self.dataset.train, self.model.trainable_variables
        count = sum(v.value.shape.num_elements() for v in variables)
        num_rows = self.training.train_batch_size
        parts = self.strategy.num_replicas_in_sync
        parts *= self.model.num_micro_batches
        num_steps = self.num_steps - self.first_step
        epochs = num_steps / self.order.batches_per_epoch
        num_slots = train.num_examples * train.max_seq_length
        text = (
            f"{count:,} parameters in {len(variables)} variables; "
            f"{train.num_examples:,} examples of {train.max_seq_length} tokens,"
            f" {num_rows} a step ({num_rows // parts} in a micro-batch), "
            f"{epochs:.2f} epochs."
        ) + diagnosis.warn_of_data(train.num_tokens / num_slots, epochs)
        if self.baselines:
            text += (
                "\nUnigram baselines at [MASK]: predicting the most frequent "
                "token has an accuracy of "
                f"{self.baselines['unigram_accuracy']:.1%}; predicting the "
                "frequencies of tokens has a loss of "
                f"{self.baselines['unigram_entropy']:.2f} nats."
            )
        return text

    def _finish(self, seconds: float) -> None:
        lines = reporting.read_lines(self.folder / "metrics.jsonl")
        last = {line["split"]: line for line in lines}
        best = checkpoints.best(self.folder)
        summary = {
            "step": self.step,
            "num_train_steps": self.total_steps,
            "seconds_of_this_session": round(seconds, 1),
            "device": self.device,
            "tensorflow": tf.__version__,
            "train": last.get("train"),
            "validation": last.get("validation"),
            "best_validation_loss": self.best_loss,
            "best_checkpoint": best and best.name,
        }
        path = self.folder / "summary.json"
        with reporting.naming_file(path):
            atomic.write_text(path, schema.to_json(summary))
            picture = reporting.draw_training_curves(self.folder)
        self.report.say(
            f"Step {self.step} after {seconds / 60:.1f} minutes. Wrote "
            f"{path}{f' and {picture}' if picture else ''}."
        )
        for text in (
            diagnosis.explain_collapse(lines),
            diagnosis.explain_start(lines),
        ):
            if text:
                self.report.say(text)


def build_order(
    settings: config.ExperimentConfig, split: dataset_lib.Split
) -> streams.StreamOrder:
    """Returns the order in which a run reads the examples of a split."""
    return streams.StreamOrder(
        shard_sizes=split.shard_sizes,
        num_streams=settings.data.num_streams,
        global_batch_size=settings.training.train_batch_size,
        seed=settings.training.seed,
        shuffle_block=settings.data.shuffle_block,
    )


def build_model_and_optimizer(
    settings: config.ExperimentConfig,
    vocabulary: vocabulary_lib.Vocabulary,
    token_counts: np.ndarray | None = None,
    is_packed: bool = False,
) -> base.PretrainingModel:
    """Builds model and optimizer; call it in the strategy's scope."""
    strategy = tf.distribute.get_strategy()
    is_cpu = "CPU" in distribution.device_description(strategy)
    count = strategy.num_replicas_in_sync
    model = registry.build_model(settings, vocabulary, token_counts, is_packed)
    model.xla_scope = distribution.xla_scope(settings.training)
    cut = devices.cut_batch(settings, count, is_cpu)
    model.num_micro_batches, model.num_parallel = cut
    model.optimizer = build_optimizer(settings, model.stage_starts)
    model.optimizer.build(model.trainable_variables)
    return model


def build_optimizer(
    settings: config.ExperimentConfig, stage_starts: tuple[int, ...] = (0,)
) -> keras.optimizers.Optimizer:
    """Builds the optimizer; each stage has a warm-up and a decay."""
    options = settings.optimizer
    ends = *stage_starts[1:], settings.training.num_train_steps
    rates = [
        schedules.PolynomialDecayTimesWarmup(
            options.learning_rate,
            end - start,
            settings.num_warmup_steps,
            power=options.lr_decay_power,
        )
        for start, end in zip(stage_starts, ends, strict=True)
    ]
    if len(rates) == 1:
        return optimizers.build(options, rates[0])
    return optimizers.build(options, schedules.Restarted(rates, stage_starts))
