"""Says what is wrong with a run, from its data and its held-out metrics."""

from collections.abc import Mapping, Sequence

# Losses of runs with good settings fall below the unigram entropy after 2 to 6
# million tokens.
_PLATEAU_TOKENS = 10_000_000
# Nats below the unigram entropy. A run that only learned which tokens share a
# text was 0.07 below it after 12 million tokens.
_PLATEAU_MARGIN = 0.3
_MOST_EPOCHS, _LEAST_FULLNESS = 100, 0.5
# A discriminator that has learned avoids a larger share of the majority's
# errors: 0.05 and more, against 0.003 in runs that learned nothing.
_LEAST_GAIN = 0.03


def warn_of_data(fullness: float, epochs: float) -> str:
    """Warns of rows that are mostly padding, and of too many epochs."""
    text = ""
    if fullness < _LEAST_FULLNESS:
        text += (
            f"\nWarning: the rows are {fullness:.0%} full; padding costs as "
            "much as text. Build shorter rows, or use --packed."
        )
    if epochs > _MOST_EPOCHS:
        text += (
            f"\nWarning: every row is read {epochs:,.0f} times. Use more text, "
            f"or divide num_train_steps by {epochs / _MOST_EPOCHS:.1f}."
        )
    return text


def explain_plateau(
    metrics: Mapping[str, float], num_tokens: float
) -> str | None:
    """Returns a warning if a run learns no more than unigrams, or None."""
    loss, entropy = _masked_lm_loss(metrics), metrics["unigram_entropy"]
    is_early = num_tokens < _PLATEAU_TOKENS
    if loss is None or is_early or loss < entropy - _PLATEAU_MARGIN:
        return None
    return (
        f"Warning: after {num_tokens / 1e6:.1f} M tokens the loss at [MASK] is "
        f"{loss:.2f} nats. The frequencies of tokens alone give {entropy:.2f}, "
        f"and a run that learns is below {entropy - _PLATEAU_MARGIN:.2f} by "
        "now. This one still sits on the unigram plateau. In a new model_dir, "
        "set one or more of "
        "--config.encoder.initializer_range=0 (weights by width; for narrow "
        "models), --config.optimizer.clip_norm=0 or "
        "--config.optimizer.clip_per_tower=true, a wider generator "
        "(--config.generator.generator_hidden_size) or a larger "
        "--config.optimizer.learning_rate. See docs/small_models.md."
    )


def explain_collapse(lines: Sequence[Mapping[str, float]]) -> str | None:
    """Returns a warning if a network lost what it had learned, or None.

    It reads the `lines` of held-out metrics.
    """
    held_out = [line for line in lines if "unigram_entropy" in line]
    areas = [line["disc_auc"] for line in held_out if "disc_auc" in line]
    if areas[-1:] == [0.5] != areas[:1]:
        return (
            "Warning: the discriminator has collapsed. It gives every token "
            "the same probability (its AUC is 0.500), and seldom recovers. In "
            "a new model_dir, set a smaller --config.optimizer.learning_rate, "
            "or train the generator first (--config.objective.name=two_stage "
            "--config.objective.freeze_generator=false)."
        )
    losses = [x for x in map(_masked_lm_loss, held_out) if x is not None]
    if not losses:
        return None
    lowest, entropy = min(losses), held_out[-1]["unigram_entropy"]
    if lowest > entropy - _PLATEAU_MARGIN or losses[-1] <= entropy:
        return None
    return (
        f"Warning: the loss at [MASK] rose to {losses[-1]:.2f} nats, after it "
        f"had been {lowest:.2f}. The frequencies of tokens alone give "
        f"{entropy:.2f}. The masked language model has lost what it had "
        "learned, and seldom learns it again. In a new model_dir, set "
        "--config.optimizer.clip_norm=1, a smaller "
        "--config.optimizer.learning_rate, or both."
    )


def explain_start(lines: Sequence[Mapping[str, float]]) -> str | None:
    """Returns a sentence if a discriminator has hardly learned, or None."""
    held_out = [line for line in lines if line["split"] == "validation"]
    right, baseline, recall = (
        held_out[-1].get(name) if held_out else None
        for name in ("disc_accuracy", "majority_share", "disc_recall")
    )
    if right is None or baseline is None or recall is None:
        return None
    if right - baseline > _LEAST_GAIN * (1 - baseline):
        return None
    return (
        "The discriminator has learned next to nothing yet: in held-out text "
        f"it finds {recall:.1%} of the replaced tokens and classifies "
        f"{right:.1%} of all tokens correctly; calling every token original "
        f"classifies {baseline:.1%} correctly. Its scores mean little. Train "
        "for more steps; see docs/small_models.md."
    )


def _masked_lm_loss(metrics: Mapping[str, float]) -> float | None:
    return metrics.get("masked_loss", metrics.get("mlm_masked_loss"))
