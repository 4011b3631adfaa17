"""What an objective is: towers in, loss sums and statistics out.

An objective is one small class with its mathematics in the docstring. It says
which towers there are, which losses and how they are weighted; masks,
randomness, division, gradients and updates are the step's and the model's
business. Each lives in a module of `objectives`, which holds a function
`build_objective(settings)` and is found by its name.
"""

import abc
import importlib
import pkgutil
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf import errors
from electra_tf.inputs import masking
from electra_tf.modeling import flops
from electra_tf.modeling import towers
from electra_tf.training import metrics
from electra_tf.training import step as step_lib

if TYPE_CHECKING:
    from electra_tf.pretraining import model as model_lib

_PACKAGE = "electra_tf.pretraining.objectives"


class PreparedBatch(NamedTuple):
    """A masked batch and the seeds for sampling from the generator.

    Attributes:
        masked: the batch, B = n x k rows, those of a stream together.
        sample_seeds: `[n, 2]` int64, one stateless seed per stream.
    """

    masked: masking.MaskedInputs
    sample_seeds: tf.Tensor


class LossSum(NamedTuple):
    """One loss, not yet divided.

    Attributes:
        total: scalar float32 sum.
        weight: scalar float32 that the sum is to be divided by.
    """

    total: tf.Tensor
    weight: tf.Tensor


class Objective(abc.ABC):
    """A pre-training objective.

    Most have one phase. One with several gives the steps at which they begin;
    the loop calls `enter_phase` and traces the step anew.
    """

    phase_starts: tuple[int, ...] = (0,)

    @property
    @abc.abstractmethod
    def loss_coefficients(self) -> Mapping[str, float]:
        """Loss name to its factor in the total."""

    def loss_factors(self, step: tf.Tensor) -> Mapping[str, Any]:
        """The coefficients that the update at a step (scalar int64) takes."""
        del step
        return self.loss_coefficients

    @property
    def extra_sizes(self) -> Mapping[str, int]:
        """Statistics beside the losses: name to the length of its vector."""
        return {}

    @abc.abstractmethod
    def loss_weights(
        self, model: "model_lib.PretrainingModel", masked: masking.MaskedInputs
    ) -> step_lib.Tensors:
        """Loss name to the scalar that its sum is divided by.

        Known before the forward pass, so that it can be added up over
        replicas and micro-batches first.
        """

    @abc.abstractmethod
    def compute_losses(
        self,
        model: "model_lib.PretrainingModel",
        prepared: PreparedBatch,
        dropout_seed: tf.Tensor | None,
    ) -> step_lib.LossSums:
        """Loss sums and statistics of one micro-batch."""

    @abc.abstractmethod
    def training_flops(self, convention: flops.Convention, step: int) -> float:
        """Operations of training on one row at a step."""

    def inference_flops(self, convention: flops.Convention) -> float:
        """Operations of the main tower on one row."""
        return convention.discriminator()

    def build_towers(
        self,
        settings: config.ExperimentConfig,
        token_counts: np.ndarray | None,
        dtype: Any,
    ) -> towers.Towers:
        """The main tower and the generator; in the strategy's scope.

        Args:
            settings: the whole config, `encoder.vocab_size` resolved.
            token_counts: `[V]` of the corpus, for the unigram generator.
            dtype: Keras dtype policy.
        """
        main = self.build_main_tower(settings.encoder, dtype)
        generator = towers.build_generator(
            settings.generator,
            main.encoder,
            settings.encoder,
            token_counts,
            dtype,
        )
        return towers.Towers(generator, main)

    def build_main_tower(
        self, settings: config.EncoderConfig, dtype: Any
    ) -> Any:
        """The tower whose encoder is kept; a discriminator for most."""
        return towers.build_discriminator(settings, dtype)

    def trained_variables(
        self, model: "model_lib.PretrainingModel"
    ) -> Sequence[Any]:
        """What the present phase updates."""
        return model.trainable_variables

    def enter_phase(  # noqa: B027, most objectives have nothing to do
        self,
        model: "model_lib.PretrainingModel",
        phase: int,
        is_beginning: bool,
    ) -> None:
        """Called before the first step of a phase, and after a resume.

        Args:
            model: with its weights.
            phase: index into `phase_starts`.
            is_beginning: whether no step of the phase has been taken; what
                the phase starts from is set then. May be called again at the
                same step and must give the same.
        """

    def summarize(
        self, statistics: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """Metrics from added-up statistics; `loss` is the total."""
        means = {
            name: metrics.ratio(statistics[name], statistics[weight_of(name)])
            for name in self.loss_coefficients
        }
        total = sum(
            factor * means[name]
            for name, factor in self.loss_coefficients.items()
        )
        return {"loss": total, **means, **self.summarize_extras(statistics)}

    def summarize_extras(
        self, statistics: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """Metrics from the statistics beside the losses."""
        del statistics
        return {}

    @property
    def statistic_sizes(self) -> Mapping[str, int]:
        """Statistic name to the length of its vector, losses included."""
        losses = list(self.loss_coefficients)
        weights = [weight_of(name) for name in losses]
        return {**dict.fromkeys(losses + weights, 1), **self.extra_sizes}


def collect(
    losses: Mapping[str, LossSum], extras: Mapping[str, tf.Tensor]
) -> step_lib.LossSums:
    """Loss sums, with statistics of them and of what else was counted.

    Args:
        losses: name to sum and weight, all that have a coefficient.
        extras: further counts and sums, scalars or vectors.
    """
    statistics = {name: loss.total for name, loss in losses.items()}
    statistics |= {weight_of(n): loss.weight for n, loss in losses.items()}
    statistics |= extras
    vectors = {n: tf.reshape(value, [-1]) for n, value in statistics.items()}
    totals = {name: loss.total for name, loss in losses.items()}
    return step_lib.LossSums(totals, vectors)


def weight_of(loss: str) -> str:
    """The statistic that holds a loss's weight."""
    return f"{loss}_weight"


def build_objective(settings: config.ExperimentConfig) -> Objective:
    """The objective that a config names.

    Raises:
        ConfigError: if there is none of that name, or if the other settings
            do not fit it.
    """
    name = settings.objective.name
    module_name = name if "." in name else f"{_PACKAGE}.{name}"
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        package = importlib.import_module(_PACKAGE)
        known = [name for _, name, _ in pkgutil.iter_modules(package.__path__)]
        raise errors.ConfigError(
            f"`objective.name` must be one of {', '.join(known)}, or a module "
            f"of your own that can be imported. Received: {name!r}."
        ) from error
    build = getattr(module, "build_objective", None)
    config.require(
        callable(build),
        f"The module {module_name} must have a function "
        "`build_objective(settings)`. Received: one without. CONTRIBUTING.md "
        "says what it returns.",
    )
    return module.build_objective(settings)
