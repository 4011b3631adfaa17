"""What a corpus gives away without a model, and runs that learn no more.

The unigram model says the commonest token everywhere, with the frequency of
every token as its probability. A masked language model learns that within
minutes and may then stay there: its accuracy looks like learning and is none.
"""

from collections.abc import Mapping

import numpy as np

# Runs with working settings leave the plateau between 2 and 6 million tokens.
PLATEAU_TOKENS = 10_000_000
# Nats. A run that stayed on the plateau for 12 million tokens ended 0.07 below
# the entropy, by topics alone; one that reads neighbours gains far more.
PLATEAU_MARGIN = 0.3


def compute_baselines(
    token_counts: np.ndarray, held_out_counts: np.ndarray
) -> dict[str, float]:
    """The unigram model of the training text, measured on held-out text.

    Both counts are `[V]`, how often each entry occurs, 0 for what is never
    masked, such as [CLS]. What the training text lacks counts as half an
    occurrence there, as in the unigram generator's loss.

    Returns:
        `unigram_accuracy`, how often the commonest token is right, 0-1, and
        `unigram_entropy`, the (cross) entropy of a token in nats: what
        `masked_accuracy` and `masked_loss` must pass.
    """
    shares = held_out_counts / held_out_counts.sum()
    costs = -np.log(np.maximum(token_counts, 0.5) / token_counts.sum())
    return {
        "unigram_accuracy": float(shares[token_counts.argmax()]),
        "unigram_entropy": float(np.sum(shares * costs)),
    }


def describe(baselines: Mapping[str, float]) -> str:
    """A line about `compute_baselines`' numbers; empty without them."""
    if not baselines:
        return ""
    return (
        "\nAlways saying the commonest token is right in "
        f"{baselines['unigram_accuracy']:.1%} of the [MASK] slots; knowing no "
        "more than how frequent each token is costs "
        f"{baselines['unigram_entropy']:.2f} nats."
    )


def explain_plateau(
    metrics: Mapping[str, float], num_tokens: int
) -> str | None:
    """Says that a run sits on the unigram line and what to change, or None.

    The criterion is the loss and not the accuracy: it moves first, and does
    not depend on one token's share.

    Args:
        metrics: held-out ones, with `compute_baselines`'.
        num_tokens: tokens trained on, padding included.
    """
    loss = metrics.get("masked_loss", metrics.get("mlm_masked_loss"))
    entropy = metrics["unigram_entropy"]
    is_early = num_tokens < PLATEAU_TOKENS
    if loss is None or is_early or loss < entropy - PLATEAU_MARGIN:
        return None
    return (
        f"Warning: after {num_tokens / 1e6:.1f} M tokens the loss at [MASK] is "
        f"{loss:.2f} nats; knowing nothing but how frequent each token is "
        f"gives {entropy:.2f}, and a run that learns is below "
        f"{entropy - PLATEAU_MARGIN:.2f} by now. This one still sits on the "
        "unigram plateau. In a new model_dir, set one or more of "
        "--config.encoder.initializer_range=0 (weights by width; for narrow "
        "models), --config.optimizer.clip_norm=0 or "
        "--config.optimizer.clip_per_tower=true, a wider generator "
        "(--config.generator.generator_hidden_size) or a larger "
        "--config.optimizer.learning_rate. See docs/small_models.md."
    )
