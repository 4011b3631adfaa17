"""Where a two-tower model's numbers are a matter of rounding.

The tower that reads from the right sees nothing but padding from a padding
position: every key loses 10000, to which float32 rounds in steps of 0.001, and
the softmax of what is left differs between two ways of computing the same
product. The prediction for the token before such a position takes its state.
No other number does, since what is masked has a weight of exactly 0 wherever a
token is seen.
"""

import numpy as np

from electra_tf.verification import reference


def find_rounded(
    key: str, input_mask: np.ndarray, is_electric: bool
) -> np.ndarray | None:
    """Marks the entries of an array that follow from rounding.

    Args:
        key: the array's name in `outputs.npz`.
        input_mask: `[B, L]`, 1 at tokens.
        is_electric: whether the discriminator's logits contain `log_q`.

    Returns:
        Bool, of a shape that the array's broadcasts with; None for an array
        without such entries.
    """
    is_padding = np.asarray(input_mask) == 0
    if key in ("gen_rtl_layer_outputs", "gen_rtl_sequence_output"):
        return is_padding[:, :, np.newaxis]
    if key == "gen_rtl_attention_probs":
        return is_padding[:, np.newaxis, :, np.newaxis]
    # States wrap around: the last position takes that of the first.
    is_before_padding = np.roll(is_padding, -1, axis=1)
    if key == "cloze_logits":
        return is_before_padding[:, :, np.newaxis]
    if key in ("cloze_per_token_loss", "cloze_preds", "log_q"):
        return is_before_padding
    if is_electric and key in ("disc_logits", "disc_probs", "disc_preds"):
        return is_before_padding
    return None


def compute_error(
    key: str,
    ours: reference.Arrays,
    theirs: np.ndarray,
    is_rounded: np.ndarray,
) -> float:
    """Largest difference of the entries that follow from rounding.

    For a best guess or a decision it is that of the scores behind it: how far
    ours would have to move for the reference's choice.

    Args:
        key: the array's name.
        ours: all of our arrays.
        theirs: the reference's array.
        is_rounded: as `find_rounded` gives it.
    """
    if key == "cloze_preds":
        logits = ours["cloze_logits"]
        chosen = np.take_along_axis(logits, theirs[..., np.newaxis], axis=-1)
        # Both scores may be off.
        difference = (np.max(logits, axis=-1) - chosen[..., 0]) / 2
    elif key == "disc_preds":
        difference = np.where(ours[key] != theirs, ours["disc_logits"], 0.0)
    else:
        difference = ours[key].astype(np.float64) - theirs
    errors = np.where(is_rounded, np.abs(difference), 0.0)
    return float(np.max(errors, initial=0.0))
