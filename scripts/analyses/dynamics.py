"""How does the run learn?

For each checkpoint, on the same held-out text and masks: the generator's
guesses, the discriminator's detections, and the sources of the gradients of the
generator's token embeddings. The softmax has a gradient for every row, which is
the paper's reason to tie the embeddings (3.2).
"""

import bisect
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import tensorflow as tf

from analyses import analysis
from analyses import corruption
from analyses import texts
from electra_tf import errors
from electra_tf import installed
from electra_tf.formats import own_run
from electra_tf.formulas import losses
from electra_tf.inputs import masking
from electra_tf.loaded_models import pretrained
from electra_tf.modeling import networks
from electra_tf.objectives import registry
from electra_tf.training import checkpoints

DATA = "text that the run has not read: a corpus, or the Brown corpus"
PICTURE = (
    "Four panels over the steps: entropy; share of right guesses and of "
    "replaced pieces; recall; rows with a gradient."
)
PANELS = 4

_MAX_SENTENCES = 1_000
_GRADIENT_ROWS = 64
_WIDTH = "half width: "  # before the name of a measure


def measure(work: analysis.Work) -> analysis.Findings:
    """Measures every checkpoint of the run that `request.model` names."""
    electra, request = work.electra, work.request
    folder = installed.find_model(request.model)
    steps = checkpoints.all_checkpoints(folder)
    if len(steps) < 2:
        raise errors.ModelError(
            "The model must be a run that kept several checkpoints. Received: "
            f"{folder}, which has {len(steps)}. Train with "
            "--config.training.keep_checkpoints=100."
        )
    limit = request.limit or _MAX_SENTENCES
    sentences = texts.read_sentences(request.data, limit, request.seed)
    vocabulary = electra.vocabulary
    learner = registry.build_model(
        own_run.load_settings(folder),
        vocabulary,
        np.ones(vocabulary.size),  # unused: only loss factors are asked for
    )

    def measure_one(paths: Sequence[Any]) -> np.ndarray:
        model = own_run.read_model(folder, str(paths[0]))
        loaded = pretrained.PretrainedModel.from_portable(model)
        loaded.tokenizer = electra.tokenizer  # traced once for all
        pieces = corruption.detect(analysis.Work(loaded, request), sentences)
        factors = weigh_losses(learner, checkpoints.step_of(paths[0]))
        gradients = trace_gradients(loaded, sentences, request, *factors)
        measures = describe(pieces, request.seed) | gradients
        return pd.DataFrame([measures]).to_records(index=False)

    rows = work.in_parts("checkpoints", steps, measure_one, 1)
    names = pd.Index([checkpoints.step_of(path) for path in steps], name="step")
    every_step = pd.DataFrame(rows, names)
    bounds = every_step.filter(regex=f"^{_WIDTH}")
    table = every_step.drop(columns=bounds.columns)
    bounds.columns = bounds.columns.str.removeprefix(_WIDTH)
    notes = (
        f"{len(sentences):,} sentences, seed {request.seed}; rows of the "
        f"generator's embeddings from the gradients of {_GRADIENT_ROWS} of "
        "them. `rows`: share of rows with a gradient; `pull`: norm of a "
        "source's gradient relative to the sum of the three norms. Both are 0 "
        "for a network that is not trained at that step, and for a "
        "discriminator with its own table. Chance precision is `replaced`.",
        analysis.describe_widths("at the last step", bounds.iloc[-1]),
    )
    return analysis.Findings(table, notes, {"bounds": bounds})


def describe(pieces: pd.DataFrame, seed: int) -> dict[str, float]:
    """Computes measures of the pieces of `corruption.detect`, and bounds."""
    is_called, is_replaced = pieces["logit"] > 0, pieces["is_replaced"]
    is_masked, is_piece = pieces["is_masked"], is_replaced >= 0
    is_hit = is_called & is_replaced
    # A share is the sum of values over the number of counted pieces.
    shares = {
        "entropy": (pieces["entropy"], is_masked),
        "right at [MASK]": (pieces["is_guessed"], is_masked),
        "replaced": (is_replaced, is_piece),
    }
    for name, is_in in texts.groups(pieces):
        title, _, band = name.partition(": ")
        if title == "piece occurs":
            shares[f"precision, {band}"] = is_hit, is_called & is_in
            shares[f"recall, {band}"] = is_hit, is_replaced & is_in
    measures = dict[str, float]()
    for name, (values, is_counted) in shares.items():
        counted = pd.DataFrame({"of": values * is_counted, "all": is_counted})
        sums = counted.groupby(pieces["sentence"]).sum().to_numpy(np.float64)
        measures[name] = float(analysis.divide(sums.sum(0)))
        width = analysis.half_width(analysis.divide, sums, seed)
        measures[f"{_WIDTH}{name}"] = width
    return measures


def weigh_losses(learner: Any, step: int) -> tuple[float, float]:
    """Returns the factors of both losses in the update before a checkpoint."""
    last = max(step - 1, 0)
    stage = bisect.bisect_right(learner.stage_starts, last) - 1
    learner.enter_stage(stage, is_beginning=False)
    factors = learner.loss_factors(tf.constant(last, tf.int64))
    # An objective of the user's own may have other losses.
    return float(factors.get("gen_loss", 0)), float(factors.get("disc_loss", 0))


def trace_gradients(
    electra: pretrained.PretrainedModel,
    sentences: Sequence[texts.Sentence],
    request: analysis.Request,
    gen_weight: float,
    disc_weight: float,
) -> dict[str, float]:
    """Returns norms of the generator's embedding gradients, by source."""
    generator, main = electra.networks
    if not isinstance(generator, networks.MaskedLMGenerator):
        return {}
    plain = [sentence.text for sentence in sentences[:_GRADIENT_ROWS]]
    rows = [*electra.tokenize(plain).values()]
    masked, _, shown, *_ = corruption.corrupt(
        electra, rows, 0, request.seed, request.mask_prob
    )
    looked_up = generator.encoder.embeddings.word_embeddings.value
    with tf.GradientTape() as tape:
        table = tf.stop_gradient(looked_up)
        tape.watch(table)
        inputs = masked.input_ids, masked.input_mask, masked.segment_ids
        states = generator.encoder(*inputs).sequence_output
        hidden = masking.gather_positions(states, masked.masked_positions)
        slots = masked.masked_ids, masked.masked_weights
        loss = losses.masked_lm_loss(generator.head(hidden, table), *slots)
        loss *= gen_weight / tf.reduce_sum(masked.masked_weights)
    softmax, own_input = tape.gradient(loss, [table, looked_up])
    with tf.GradientTape() as tape:
        logits = main(shown, masked.input_mask, masked.segment_ids).logits
        weights = tf.cast(masked.input_mask, tf.float32)
        labels = tf.cast(shown != masked.original_ids, tf.int32)
        loss = losses.replaced_token_loss(logits, labels, weights)
        loss *= disc_weight / tf.reduce_sum(weights)
    # Zero if the discriminator has its own table.
    other_input = tape.gradient(
        loss, looked_up, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    sources = {"softmax": softmax, "generator's input": own_input}
    sources |= {"discriminator's input": other_input}
    sizes = {
        name: np.linalg.norm(tf.convert_to_tensor(gradient), axis=1)
        for name, gradient in sources.items()
    }
    total = sum(np.linalg.norm(size) for size in sizes.values()) or 1.0
    measures = dict[str, float]()
    for name, size in sizes.items():
        measures[f"rows, {name}"] = float(np.mean(size > 0))
        measures[f"pull, {name}"] = float(np.linalg.norm(size) / total)
    return measures


def draw(findings: analysis.Findings, axes: Sequence[Any]) -> None:
    """Draws the picture that `PICTURE` describes."""
    table = findings.table
    panels = ("entropy", "^right|^replaced", "recall", "rows")
    for axis, columns in zip(axes, panels, strict=True):
        shown = table.filter(regex=columns)
        if not shown.empty:  # only some generators have "rows"
            shown.plot(ax=axis, style="o-", ms=3)
        axis.grid(alpha=0.3)
