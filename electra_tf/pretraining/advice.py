"""Warnings of a run: its data, and a loss that does not fall or rises again."""

from collections.abc import Mapping, Sequence

# Runs with working settings leave the plateau between 2 and 6 million tokens.
_PLATEAU_TOKENS = 10_000_000
# Nats. A run that stayed on the plateau for 12 million tokens ended 0.07 below
# the entropy, by topics alone; one that reads neighbours gains far more.
_PLATEAU_MARGIN = 0.3
_MOST_EPOCHS, _LEAST_FULLNESS = 100, 0.5


def warn_of_data(fullness: float, epochs: float) -> str:
    """Lines about rows that are mostly padding, and text read too often."""
    text = ""
    if fullness < _LEAST_FULLNESS:
        text += (
            f"\nWarning: the rows are {fullness:.0%} full; padding costs as "
            "much as text. Build them with --packed, or shorter."
        )
    if epochs > _MOST_EPOCHS:
        text += (
            f"\nWarning: every row is read {epochs:,.0f} times. Take more "
            f"text, or num_train_steps / {epochs / _MOST_EPOCHS:.1f}."
        )
    return text


def explain_plateau(
    metrics: Mapping[str, float], num_tokens: float
) -> str | None:
    """Says that a run sits on the unigram line and what to change, or None."""
    loss, entropy = _masked_lm_loss(metrics), metrics["unigram_entropy"]
    is_early = num_tokens < _PLATEAU_TOKENS
    if loss is None or is_early or loss < entropy - _PLATEAU_MARGIN:
        return None
    return (
        f"Warning: after {num_tokens / 1e6:.1f} M tokens the loss at [MASK] is "
        f"{loss:.2f} nats; knowing nothing but how frequent each token is "
        f"gives {entropy:.2f}, and a run that learns is below "
        f"{entropy - _PLATEAU_MARGIN:.2f} by now. This one still sits on the "
        "unigram plateau. In a new model_dir, set one or more of "
        "--config.encoder.initializer_range=0 (weights by width; for narrow "
        "models), --config.optimizer.clip_norm=0 or "
        "--config.optimizer.clip_per_tower=true, a wider generator "
        "(--config.generator.generator_hidden_size) or a larger "
        "--config.optimizer.learning_rate. See docs/small_models.md."
    )


def explain_collapse(lines: Sequence[Mapping[str, float]]) -> str | None:
    """Says that a masked LM fell back to the unigram line, or None.

    Only `lines` of held-out metrics have the entropy of that line.
    """
    held_out = [line for line in lines if "unigram_entropy" in line]
    known = [x for x in map(_masked_lm_loss, held_out) if x is not None]
    if not known:
        return None
    lowest, entropy = min(known), held_out[-1]["unigram_entropy"]
    if lowest > entropy - _PLATEAU_MARGIN or known[-1] <= entropy:
        return None
    return (
        f"Warning: the loss at [MASK] rose to {known[-1]:.2f} nats, after it "
        f"had been {lowest:.2f}; knowing nothing but how frequent each token "
        f"is gives {entropy:.2f}. The masked language model has lost what it "
        "had learned, and seldom learns it again. In a new model_dir, set "
        "--config.optimizer.clip_norm=1, a smaller "
        "--config.optimizer.learning_rate, or both."
    )


def _masked_lm_loss(metrics: Mapping[str, float]) -> float | None:
    return metrics.get("masked_loss", metrics.get("mlm_masked_loss"))
