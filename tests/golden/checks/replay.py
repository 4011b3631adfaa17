"""A pre-training model that is fed a reference's random numbers.

Everything that runs is the code that trains. Functions that draw numbers or
take them are replaced, while it runs, by such that hand over the reference's;
others are watched, and what they take and give is kept for comparison.
"""

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf import original_hparams
from electra_tf.formats import parameter_names
from electra_tf.formats import tf1
from electra_tf.inputs import masking
from electra_tf.inputs import randomness
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import generators
from electra_tf.pretraining import losses
from electra_tf.pretraining import model as model_lib
from electra_tf.pretraining import optimizer
from electra_tf.pretraining import sampling
from electra_tf.training import step as step_lib
from electra_tf.training.replica_optimizer import ReplicaOptimizer
from tests.golden import loading


@dataclasses.dataclass
class Trace:
    """What functions took and gave while a pass ran: (arguments, result).

    Attributes:
        masked: of `mask_inputs`.
        generated: of the generator, or of the masked language model.
        encoded: of every encoder, in the order of the calls.
        attention: of every block's attention weights.
        judged: of the discriminator's loss.
        updated: of the optimizer.
        sampled: our own samples, `[B, P]`.
        sample_margin: by how much the noisy logit of our sample exceeds that
            of the sample that was fed, `[B, P]`; 0 where they are equal.
    """

    masked: list[Any] = dataclasses.field(default_factory=list)
    generated: list[Any] = dataclasses.field(default_factory=list)
    encoded: list[Any] = dataclasses.field(default_factory=list)
    attention: list[Any] = dataclasses.field(default_factory=list)
    judged: list[Any] = dataclasses.field(default_factory=list)
    updated: list[Any] = dataclasses.field(default_factory=list)
    sampled: Any = None
    sample_margin: Any = 0.0


class Replay:
    """The model of a folder of `forward/`, with the checkpoint's weights.

    Args:
        folder: with `info.json`, `inputs.npz`, a vocabulary, a checkpoint.

    Attributes:
        name: of the folder.
        info: content of `info.json`.
        inputs: content of `inputs.npz`.
        settings: our config for the original's hyperparameters, dropout off.
        model: is trained eagerly.
        features: the batch as the training step takes it.
        samples: `[B, P]` samples to go on with, or None for our own.
    """

    def __init__(self, folder: Path) -> None:
        self.name, self.folder = folder.name, folder
        self.info = loading.read_json(folder / "info.json")
        self.inputs = loading.read_arrays(folder / "inputs.npz")
        self.settings = _read_settings(self.info["pretraining_config"])
        self.model = model_lib.build_pretraining_model(
            self.settings, loading.load_vocabulary(folder)
        )
        self.features = step_lib.as_one_stream(
            {
                name: tf.constant(self.inputs[name])
                for name in ("input_ids", "input_mask", "segment_ids")
            }
        )
        self.reset()

    @property
    def is_two_tower(self) -> bool:
        """Whether the generator is a cloze model."""
        return isinstance(self.model.generator, generators.TwoTowerGenerator)

    @property
    def is_electric(self) -> bool:
        """Whether the discriminator tells noise from data."""
        return self.settings.objective.name == "electric"

    def reset(self) -> None:
        """Gives the model its first weights and a fresh optimizer."""
        self.samples: np.ndarray | None = None
        checkpoint = tf1.read_checkpoint(self.folder)
        variables = self.model.trainable_variables
        tf1.assign_variables(variables, checkpoint)
        self.model.optimizer = optimizer.build_optimizer(self.settings)
        self.model.optimizer.build(variables)

    def run(self, function: Callable, *args: Any) -> tuple[Any, Trace]:
        """Calls a function with fed numbers; its result and what happened."""
        trace = Trace()
        tower = self.model.generator or self.model.main
        with contextlib.ExitStack() as stack:
            for owner, name, replacement in (
                (masking, "draw_positions", self._take_draws),
                (randomness, "uniform_by_stream", self._take_uniform),
                (sampling, "sample_from_softmax", self._sampler(trace)),
                _watch(masking, "mask_inputs", trace.masked),
                _watch(type(tower), "call", trace.generated),
                _watch(encoder_lib.Encoder, "call", trace.encoded),
                _watch(encoder_lib, "compute_probs", trace.attention),
                _watch(losses, "replaced_token_loss", trace.judged),
                _watch(
                    ReplicaOptimizer, "apply_in_replica_context", trace.updated
                ),
            ):
                stack.enter_context(
                    mock.patch.object(owner, name, replacement)
                )
            return function(*args), trace

    def corrupted(self, trace: Trace) -> tuple[tf.Tensor, tf.Tensor]:
        """The text that the discriminator saw, and its labels, `[B, S]`.

        The original samples from a masked language model alone, too, though
        nothing reads the samples; it is done here.
        """
        if trace.judged:
            (_, labels, _), _ = trace.judged[-1]
            (_, updated, *_), _ = trace.encoded[-1]
            return updated, labels
        (_, masked), (_, generated) = trace.masked[-1], trace.generated[-1]
        uniform = tf.constant(self.inputs["gumbel_uniform"])
        samples = self._sampler(trace)(generated.logits, uniform)
        updated, _ = masking.scatter_update(
            masked.original_ids, samples, masked.masked_positions
        )
        return updated, tf.cast(updated != masked.original_ids, tf.int32)

    def split_all(self, values: list[Any]) -> loading.Arrays:
        """One value per trained variable, under the original's names."""
        parts: loading.Arrays = {}
        for variable, value in zip(
            self.model.trainable_variables, values, strict=True
        ):
            parts |= parameter_names.split(variable.path, np.asarray(value))
        return parts

    def _take_draws(
        self, eligible: Any, num: tf.Tensor, uniform: Any, slots: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The recorded positions, of which the first `num` count."""
        del eligible, uniform
        is_used = tf.range(slots)[tf.newaxis, :] < num[:, tf.newaxis]
        positions = tf.constant(self.inputs["drawn_positions"])
        return positions * tf.cast(is_used, tf.int32), tf.cast(
            is_used, tf.float32
        )

    def _take_uniform(self, seeds: Any, shape: tuple[int, ...]) -> tf.Tensor:
        """Numbers of the asked-for shape: `[B, P, V]`, `[B, P]`, or any."""
        del seeds
        for name in ("gumbel_uniform", "replace_uniform"):
            if self.inputs[name].shape == tuple(shape):
                return tf.constant(self.inputs[name])
        # Behind the choice of positions, which are recorded themselves.
        return tf.zeros(shape)

    def _sampler(self, trace: Trace) -> Callable[..., tf.Tensor]:
        draw = sampling.sample_from_softmax

        def sample(
            logits: tf.Tensor, uniform: tf.Tensor, disallow: Any = None
        ) -> tf.Tensor:
            trace.sampled = draw(logits, uniform, disallow)
            if self.samples is None:
                return trace.sampled
            fed = tf.constant(self.samples, trace.sampled.dtype)
            scores = logits + sampling.gumbel_noise(uniform)
            trace.sample_margin = tf.abs(
                tf.gather(scores, trace.sampled, batch_dims=2)
                - tf.gather(scores, fed, batch_dims=2)
            )
            return fed

        return sample


def _watch(owner: Any, name: str, calls: list[Any]) -> tuple[Any, str, Any]:
    """What to replace, and a function that does the same and takes notes."""
    function = getattr(owner, name)

    def watched(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        calls.append((args, result))
        return result

    return owner, name, watched


def _read_settings(hparams: dict[str, Any]) -> config.ExperimentConfig:
    settings = original_hparams.from_original_hparams(hparams)
    no_dropout = dataclasses.replace(
        settings.encoder,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return dataclasses.replace(settings, encoder=no_dropout)
