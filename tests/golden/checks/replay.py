"""The code that trains, fed a reference's random numbers.

While it runs, functions that draw random numbers or use them are replaced by
such that hand over the reference's; others are watched.
"""

import contextlib
from unittest import mock

import numpy as np
import tensorflow as tf

from electra_tf.config import schema
from electra_tf.formats import original_hparams
from electra_tf.formats import parameter_names
from electra_tf.formulas import losses
from electra_tf.formulas import sampling
from electra_tf.inputs import masking
from electra_tf.inputs import randomness
from electra_tf.modeling import encoder
from electra_tf.modeling import networks
from electra_tf.objectives import registry
from electra_tf.pretraining import run
from electra_tf.training import step as step_lib
from electra_tf.training.optimizers import ReplicaOptimizer
from tests.golden import loading


class Trace:
    """Arguments and results of the functions of a pass."""

    def __init__(self):
        self.masks, self.generators, self.encoded = [], [], []
        self.attention, self.judged, self.updates = [], [], []
        # Our own samples, `[B, P]`, and by how much their noisy logits exceed
        # those of the samples that were fed.
        self.sampled, self.sample_margin = None, 0.0
        # The text with samples put in, and the labels of its tokens, `[B, S]`.
        self.updated_ids = self.labels = None

    @property
    def masked(self):
        return self.masks[-1][1]

    @property
    def generated(self):
        return self.generators[-1][1]


class Replay:
    """The model of a folder of `forward/`, with the checkpoint's weights.

    It goes on with `samples`, `[B, P]`, or with its own if they are None.
    """

    def __init__(self, folder):
        self.name, self.folder = folder.name, folder
        self.info = loading.read_json(folder / "info.json")
        self.inputs = loading.read_arrays(folder / "inputs.npz")
        settings = original_hparams.from_original_hparams(
            self.info["pretraining_config"]
        )
        rates = ("hidden_dropout_prob", "attention_probs_dropout_prob")
        none = dict.fromkeys(rates, 0.0)
        self.settings = schema.replace_fields(settings, encoder=none)
        vocabulary = loading.load_vocabulary(folder)
        self.model = registry.build_model(self.settings, vocabulary)
        names = ("input_ids", "input_mask", "segment_ids")
        self.features = step_lib.as_one_stream(
            {name: tf.constant(self.inputs[name]) for name in names}
        )
        generator = self.model.generator
        self.is_two_tower = isinstance(generator, networks.TwoTowerGenerator)
        self.is_electric = settings.objective["name"] == "electric"
        self.reset()

    def reset(self):
        self.samples = None
        variables = self.model.trainable_variables
        loading.assign_checkpoint(variables, self.folder)
        self.model.optimizer = run.build_optimizer(self.settings)
        self.model.optimizer.build(variables)

    def run(self, function, *arguments):
        """Calls a function with fed numbers; its result, and what happened."""
        trace = Trace()
        tower = type(self.model.generator or self.model.main)
        with replacing(
            (masking, "draw_positions", self._take_draws),
            (randomness, "uniform_by_stream", self._take_uniform),
            (sampling, "sample_from_softmax", self._sampler(trace)),
            watch(masking, "mask_inputs", trace.masks),
            watch(tower, "call", trace.generators),
            watch(encoder.Encoder, "call", trace.encoded),
            watch(encoder, "compute_probs", trace.attention),
            watch(losses, "replaced_token_loss", trace.judged),
            watch(ReplicaOptimizer, UPDATE, trace.updates),
        ):
            result = function(*arguments)
        if trace.judged:
            (_, trace.labels, _), _ = trace.judged[-1]
            (_, trace.updated_ids, *_), _ = trace.encoded[-1]
        else:
            self._corrupt(trace)
        return result, trace

    def _take_draws(self, eligible, num, uniform, slots):
        """The recorded positions, of which the first `num` count."""
        is_used = tf.range(slots)[tf.newaxis, :] < num[:, tf.newaxis]
        positions = tf.where(is_used, self.inputs["drawn_positions"], 0)
        return positions, tf.cast(is_used, tf.float32)

    def _take_uniform(self, seeds, shape):
        """Numbers of the asked-for shape: `[B, P, V]`, `[B, P]`, or any."""
        for name in ("gumbel_uniform", "replace_uniform"):
            if self.inputs[name].shape == tuple(shape):
                return tf.constant(self.inputs[name])
        # Behind the choice of positions, which are recorded themselves.
        return tf.zeros(shape)

    def _sampler(self, trace):
        draw = sampling.sample_from_softmax

        def sample(logits, uniform):
            trace.sampled = draw(logits, uniform)
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

    def _corrupt(self, trace):
        """Samples from a masked language model alone, as the original does."""
        masked = trace.masked
        uniform = tf.constant(self.inputs["gumbel_uniform"])
        samples = self._sampler(trace)(trace.generated.logits, uniform)
        trace.updated_ids, _ = masking.scatter_update(
            masked.original_ids, samples, masked.masked_positions
        )
        trace.labels = trace.updated_ids != masked.original_ids


UPDATE = "apply_in_replica_context"


def watch(owner, name, calls):
    """The attribute to replace, and a function that also takes notes."""
    function = getattr(owner, name)

    def watched(*args, **kwargs):
        result = function(*args, **kwargs)
        calls.append((args, result))
        return result

    return owner, name, watched


@contextlib.contextmanager
def replacing(*replacements):
    """Exchanges attributes, given as owner, name and value, for a while."""
    with contextlib.ExitStack() as stack:
        for replacement in replacements:
            stack.enter_context(mock.patch.object(*replacement))
        yield


def split_all(model, values):
    """One value per trained variable, under the original's names."""
    paths = (variable.path for variable in model.trainable_variables)
    arrays = dict(zip(paths, map(np.asarray, values), strict=True))
    return parameter_names.ORIGINAL.split_all(arrays)
