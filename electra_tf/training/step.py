"""The training step of our own loop and of Keras' `fit`.

Each loss is divided once, before the backward pass, by the normalizer of the
global batch. Gradients of micro-batches and replicas are then summed, so the
number of both changes nothing but rounding.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from electra_tf import fusion
from electra_tf.inputs import randomness
from electra_tf.modeling import layers
from electra_tf.training import optimizers
from electra_tf.training import step_state

Tensors = dict[str, tf.Tensor]
Gradients = list[tf.Tensor]

# Added to normalizers before a division, as in the original.
_EPSILON = 1e-6
_OUR_LOOP = "Train with `electra_tf.pretraining.run.pretrain`."


class LossSums(NamedTuple):
    """Losses and statistics of one micro-batch."""

    losses: Tensors  # name to scalar float32 sum
    statistics: Tensors  # further float32 sums, scalars or vectors


class TrainableModel(keras.Model, abc.ABC):
    """A Keras model with a training step.

    A step sums the gradients of `num_micro_batches` micro-batches. With
    `means_per_replica` each replica divides losses by its own normalizers and
    gradients are averaged, as in the original.
    """

    def __init__(
        self,
        seed: int = 1,
        num_micro_batches: int = 1,
        clip_norm: float = 1.0,
        means_per_replica: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.seed = seed
        self.num_micro_batches = num_micro_batches
        self.clip_norm = clip_norm
        self.means_per_replica = means_per_replica
        self.xla_scope = fusion.Scope.NOTHING
        self.num_parallel = 1  # micro-batches at a time, on CPUs
        self.loss_scale: step_state.LossScale | None = None
        self.weight_average: step_state.WeightAverage | None = None
        self.totals: Any = None  # `step_state.Statistics`, once compiled

    @property
    @abc.abstractmethod
    def loss_coefficients(self) -> Mapping[str, float]:
        """Loss name to its factor in the total loss."""

    def loss_factors(self, step: tf.Tensor) -> Mapping[str, Any]:
        """Returns the coefficients at a step (scalar int64)."""
        del step
        return self.loss_coefficients

    extra_sizes: Mapping[str, int] = {}
    """Further statistics, each with the length of its vector."""

    @property
    def statistic_sizes(self) -> dict[str, int]:
        """Statistic name to the length of its vector."""
        losses = self.loss_coefficients
        names = *losses, *map(normalizer_of, losses)
        return dict.fromkeys(names, 1) | dict(self.extra_sizes)

    @property
    def stage_starts(self) -> tuple[int, ...]:
        """The first steps of the stages, which train different variables."""
        return (0,)

    def enter_stage(self, stage: int, is_beginning: bool) -> None:
        """Prepares the model for a stage; also called after a resume.

        `is_beginning` is false if the run has taken steps of the stage.
        """

    @property
    def trained_variables(self) -> Sequence[Any]:
        """The variables that the step updates."""
        return self.trainable_variables

    def clip_groups(self, variables: Sequence[Any]) -> Sequence[str]:
        """Returns each variable's group; a group is clipped by one norm."""
        return ["all"] * len(variables)

    @abc.abstractmethod
    def prepare(
        self, features: Tensors, step: tf.Tensor, is_training: bool
    ) -> Any:
        """Turns a replica's features into an argument of `compute_losses`.

        Features are `[n, k, S]` and `stream_ids` `[n]`. The result is a nest
        of tensors; micro-batches are slices of their first axes. `step` is the
        index of the global batch.
        """

    @abc.abstractmethod
    def loss_normalizers(self, prepared: Any) -> Tensors:
        """Computes the losses' divisors, which depend on masks alone."""

    @abc.abstractmethod
    def compute_losses(
        self, prepared: Any, dropout_seed: tf.Tensor | None
    ) -> LossSums:
        """Computes loss sums and statistics of one micro-batch."""

    @abc.abstractmethod
    def derive_metrics(self, statistics: Tensors) -> Tensors:
        """Computes scalar metrics from summed statistics."""

    def summarize(self, statistics: Mapping[str, Any]) -> dict[str, float]:
        """Computes the metrics on the host, in float64."""
        wide = {n: tf.cast(v, tf.float64) for n, v in statistics.items()}
        return {n: float(v) for n, v in self.derive_metrics(wide).items()}

    def training_step(self, features: Tensors) -> Tensors:
        """Makes one update, in a replica context, from the replica's rows.

        Returns the statistics of the global batch, equal on all replicas, and
        `num_steps`, `gradient_norm` and `num_skipped_steps`, `[1]` each.
        """
        step = tf.cast(self.optimizer.iterations.value, tf.int64)
        variables = self.trained_variables
        with fusion.switched(self.xla_scope):
            prepared = self.prepare(features, step, is_training=True)
            local = self.loss_normalizers(prepared)
            divisors = local if self.means_per_replica else _all_reduce(local)
            gradients, statistics = self._accumulate(prepared, divisors, step)
        context = tf.distribute.get_replica_context()
        if context.num_replicas_in_sync > 1:
            how = "MEAN" if self.means_per_replica else "SUM"
            gradients = context.all_reduce(how, gradients)
        if self.loss_scale is not None:
            inverse = 1.0 / self.loss_scale.value
            gradients = [gradient * inverse for gradient in gradients]
        gradients, norm = self._clip(gradients, variables)
        num_skipped = tf.zeros([])
        if self.loss_scale is None:
            self._update(gradients, variables)
        else:
            is_finite = tf.math.is_finite(norm)
            # A skipped step still advances schedules and masks. A condition
            # cannot contain collectives, so gradients were reduced before it.
            tf.cond(
                is_finite,
                lambda: self._update(gradients, variables),
                lambda: step_state.assign_add(self.optimizer.iterations, 1),
            )
            self.loss_scale.update(is_finite)
            num_skipped = 1.0 - tf.cast(is_finite, tf.float32)
            # A skipped step has no meaningful norm.
            norm = tf.where(is_finite, norm, 0.0)
        return _all_reduce(statistics | _name_normalizers(local)) | {
            "num_steps": tf.ones([1]),
            "gradient_norm": norm[tf.newaxis],
            "num_skipped_steps": num_skipped[tf.newaxis],
        }

    def evaluation_step(self, features: Tensors, batch: tf.Tensor) -> Tensors:
        """Computes statistics of held-out batch `batch` (scalar int64)."""
        is_whole = self.xla_scope is fusion.Scope.STEP
        scope = self.xla_scope if is_whole else fusion.Scope.NOTHING
        with fusion.switched(scope):
            prepared = self.prepare(features, batch, is_training=False)
            statistics = self.compute_statistics(prepared)
        return _all_reduce(statistics)

    def compute_statistics(self, prepared: Any) -> Tensors:
        """Computes all statistics of a prepared batch, without dropout."""
        zeros = self._empty_statistics()
        statistics = self._sum_parts(
            prepared,
            lambda part, _: zeros | _collect(self.compute_losses(part, None)),
            zeros,
        )
        return statistics | _name_normalizers(self.loss_normalizers(prepared))

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compiles as Keras does; creates variables outside of replicas."""
        super().compile(*args, **kwargs)
        self.optimizer.build(self.trainable_variables)
        if self.totals is None:
            self.totals = step_state.Statistics(
                self.statistic_sizes, self.derive_metrics
            )

    def compile_from_config(self, config: Mapping[str, Any]) -> None:
        """Compiles a model that Keras loads."""
        self.compile(**keras.saving.deserialize_keras_object(config))

    def save_own_variables(self, store: Any) -> None:
        """Saves the moving averages and the loss scale as well."""
        super().save_own_variables(store)
        for name, variable in self._extra_variables().items():
            store[name] = tf.convert_to_tensor(variable).numpy()

    def load_own_variables(self, store: Any) -> None:
        """Loads the variables of `save_own_variables`."""
        saved = {name: store[name] for name in store.keys()}  # noqa: SIM118
        for name, variable in self._extra_variables().items():
            variable.assign(saved.pop(name))
        super().load_own_variables(saved)

    def _extra_variables(self) -> dict[str, tf.Variable]:
        scale, average = self.loss_scale, self.weight_average
        by_name = {} if scale is None else scale.by_name()
        averages = [] if average is None else average.averages
        return {f"loss_scale_{name}": v for name, v in by_name.items()} | {
            f"average_{i}": v for i, v in enumerate(averages)
        }

    def train_step(self, data: Tensors) -> Tensors:
        """Makes one update for Keras' `fit`, from `[B, S]` features."""
        if len(self.stage_starts) > 1:
            raise ValueError(
                "Keras' `fit` trains objectives of one stage. Received stages "
                f"that start at steps {self.stage_starts}. {_OUR_LOOP}"
            )
        self.totals.update_state(self.training_step(self._as_one_stream(data)))
        return self.totals.result()

    def test_step(self, data: Tensors) -> Tensors:
        """Evaluates a batch for Keras' `evaluate`, from `[B, S]` features."""
        # The batch's index decides its masks: all evaluations have the same.
        batch = self.totals.num_batches.value
        statistics = self.evaluation_step(self._as_one_stream(data), batch)
        self.totals.update_state(statistics)
        return self.totals.result()

    def _as_one_stream(self, data: Any) -> Tensors:
        if self.num_micro_batches > 1:
            raise ValueError(
                "Keras' `fit` and `evaluate` take no micro-batches. Received: "
                f"num_micro_batches={self.num_micro_batches}. {_OUR_LOOP}"
            )
        return as_one_stream(keras.utils.unpack_x_y_sample_weight(data)[0])

    def _accumulate(
        self, prepared: Any, normalizers: Tensors, step: tf.Tensor
    ) -> tuple[Gradients, Tensors]:
        zeros = [tf.zeros(v.shape, v.dtype) for v in self.trained_variables]
        return self._sum_parts(
            prepared,
            lambda part, index: self._gradients(part, normalizers, step, index),
            (zeros, self._empty_statistics()),
        )

    def _sum_parts(
        self, prepared: Any, compute: Callable[[Any, Any], Any], zeros: Any
    ) -> Any:
        """Sums `compute(part, index)` over the micro-batches."""
        count = self.num_micro_batches
        if count == 1:
            return compute(prepared, 0)

        def split(tensor: tf.Tensor) -> tf.Tensor:
            first, *others = layers.shape_of(tensor)
            return tf.reshape(tensor, [count, first // count, *others])

        parts = tf.nest.map_structure(split, prepared)

        def body(index: tf.Tensor, totals: Any) -> Any:
            part = tf.nest.map_structure(lambda t: t[index], parts)
            new = compute(part, index)
            return index + 1, tf.nest.map_structure(tf.add, totals, new)

        _, totals = tf.while_loop(
            lambda index, *_: index < count,
            body,
            (tf.constant(0), zeros),
            parallel_iterations=self.num_parallel,
        )
        return totals

    def _gradients(
        self, part: Any, normalizers: Tensors, step: tf.Tensor, index: Any
    ) -> tuple[Gradients, Tensors]:
        context = tf.distribute.get_replica_context()
        number = context.replica_id_in_sync_group * self.num_micro_batches
        dropout_seed = randomness.dropout_seed(self.seed, step, number + index)
        variables = [v.value for v in self.trained_variables]
        # Watching trained variables alone saves the gradients of others.
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            sums = self.compute_losses(part, dropout_seed)
            loss = self.total_loss(sums.losses, normalizers, step)
            if self.loss_scale is not None:
                loss = loss * self.loss_scale.value
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        dense = [*map(tf.convert_to_tensor, gradients)]
        return dense, self._empty_statistics() | _collect(sums)

    def _empty_statistics(self) -> Tensors:
        return {name: tf.zeros([k]) for name, k in self.statistic_sizes.items()}

    def total_loss(
        self, sums: Tensors, normalizers: Tensors, step: tf.Tensor
    ) -> tf.Tensor:
        """Computes the scalar loss of one micro-batch that a step minimizes."""
        means = {n: weighted_mean(sums[n], normalizers[n]) for n in sums}
        factors = self.loss_factors(step)
        return tf.add_n([factors[n] * means[n] for n in factors if n in means])

    def _clip(
        self, gradients: Gradients, variables: Sequence[Any]
    ) -> tuple[Gradients, tf.Tensor]:
        """Clips gradients; also returns the norm of all before clipping."""
        labels, clipped, norms = self.clip_groups(variables), [*gradients], []
        for group in sorted(set(labels)):
            members = [i for i, label in enumerate(labels) if label == group]
            results, norm = optimizers.clip_by_global_norm(
                [gradients[i] for i in members], self.clip_norm
            )
            norms.append(norm)
            for i, gradient in zip(members, results, strict=True):
                clipped[i] = gradient
        return clipped, norms[0] if len(norms) == 1 else tf.norm(norms)

    def _update(self, gradients: Gradients, variables: Sequence[Any]) -> None:
        if isinstance(self.optimizer, optimizers.ReplicaOptimizer):
            self.optimizer.apply_in_replica_context(gradients, variables)
        else:
            # Keras' optimizers sum the gradients over replicas once more.
            context = tf.distribute.get_replica_context()
            share = 1.0 / context.num_replicas_in_sync
            self.optimizer.apply([g * share for g in gradients], variables)
        if self.weight_average is not None:
            num_updates = step_state.read_copy(self.optimizer.iterations)
            self.weight_average.update(num_updates, variables)


def weighted_mean(total: tf.Tensor, normalizer: tf.Tensor) -> tf.Tensor:
    """Divides a sum by its normalizer + 1e-6, as the original does."""
    return total / (normalizer + _EPSILON)


def normalizer_of(loss: str) -> str:
    """Names the statistic with the divisor of a loss."""
    return f"{loss}_normalizer"


def _name_normalizers(sums: Tensors) -> Tensors:
    return {normalizer_of(n): tf.reshape(v, [1]) for n, v in sums.items()}


def _collect(sums: LossSums) -> Tensors:
    values = sums.losses | sums.statistics
    return {name: tf.reshape(value, [-1]) for name, value in values.items()}


def as_one_stream(features: Tensors) -> Tensors:
    """Reshapes `[B, S]` features to one stream of this replica, `[1, B, S]`."""
    for name, value in features.items():
        if None in value.shape:
            raise ValueError(
                f"`{name}` must have a static shape [B, S], because masks and "
                f"dropout are drawn for it. Received: {value.shape}. Use "
                "`batch(B, drop_remainder=True)` on rows of equal length."
            )
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    stream = {name: value[tf.newaxis] for name, value in features.items()}
    return stream | {"stream_ids": tf.reshape(tf.cast(replica, tf.int64), [1])}


def _all_reduce(tensors: Tensors) -> Tensors:
    """Sums scalars and vectors over replicas, by one collective."""
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1 or not tensors:
        return tensors
    names = sorted(tensors)
    shapes = [tensors[n].shape for n in names]
    flat = tf.concat([tf.reshape(tensors[n], [-1]) for n in names], 0)
    sizes = [shape.num_elements() for shape in shapes]
    sums = tf.split(context.all_reduce("SUM", flat), sizes)
    return dict(zip(names, map(tf.reshape, sums, shapes), strict=True))
