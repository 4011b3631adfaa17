"""Are the discriminator's probabilities true?

Of the tokens with probability p of being replaced, a share p should be replaced
(Guo et al., "On Calibration of Modern Neural Networks", 2017). The temperature
is fitted to one half of the sentences and judged on the other.
"""

from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize
from scipy import special

from analyses import analysis
from analyses import corruption
from analyses import texts

DATA = "a corpus, or the Brown corpus for parts of speech"
PICTURE = (
    "Over the probability, unscaled and scaled: the share replaced, with "
    "the diagonal of a calibrated model, and the number of pieces."
)
PANELS = 2

NUM_BINS = 15
_MIN_PIECES = 200  # of a group that gets a row


def measure(work: analysis.Work) -> analysis.Findings:
    """Compares unscaled and scaled probabilities with the truth."""
    request = work.request
    sentences = texts.read_sentences(request.data, request.limit, request.seed)
    pieces = corruption.detect(work, sentences)
    is_fitted = pieces["sentence"] % 2 == 0
    temperature = fit_temperature(pieces[is_fitted])
    judged = pieces[~is_fitted]
    share = pieces["is_replaced"][is_fitted].mean()
    logits = judged["logit"].to_numpy(np.float64)
    answers = {
        "as it is": special.expit(logits),
        f"temperature {temperature:.3f}": special.expit(logits / temperature),
        "always the share replaced": np.full(len(judged), share),
    }
    rows = {k: judge(judged, p, request.seed) for k, p in answers.items()}
    own, scaled, _ = answers.values()
    for name, is_in in texts.groups(judged):
        if is_in.sum() >= _MIN_PIECES:
            rows[name] = judge(judged[is_in], own[is_in], request.seed)
    table = pd.DataFrame.from_dict(rows, "index").rename_axis("probabilities")
    notes = (
        f"{len(judged):,} pieces of {judged['sentence'].nunique():,} "
        "sentences; temperature and share come from "
        f"{int(is_fitted.sum()):,} pieces of equally many other sentences. ECE "
        f"over {NUM_BINS} bins; {analysis.BOUNDS} of sentences. Seed "
        f"{request.seed}.",
    )
    series = {"as it is": bins(judged, own), "scaled": bins(judged, scaled)}
    return analysis.Findings(table, notes, series)


def fit_temperature(pieces: pd.DataFrame) -> float:
    """Returns the divisor of the logits that makes the truth likeliest."""
    signs = np.where(pieces["is_replaced"], 1.0, -1.0)
    margins = signs * pieces["logit"].to_numpy(np.float64)

    def loss(log_temperature: float) -> float:
        scaled = margins * np.exp(-log_temperature)
        return -float(np.mean(special.log_expit(scaled)))

    best = optimize.minimize_scalar(loss, bounds=(-4.0, 4.0), method="bounded")
    return float(np.exp(best.x))


def bins(pieces: pd.DataFrame, probabilities: np.ndarray) -> pd.DataFrame:
    """Returns mean probability, share replaced and count of nonempty bins."""
    names = ["probability", "replaced", "pieces"]
    totals = _sum_bins(pieces, probabilities).sum(0)
    filled = pd.DataFrame(totals, columns=names).query("pieces > 0")
    means = filled[names[:2]].div(filled["pieces"], axis=0)
    return means.assign(pieces=filled["pieces"].astype(int))


def _sum_bins(pieces: pd.DataFrame, probabilities: np.ndarray) -> np.ndarray:
    """Sums probabilities, replaced and all pieces: `[sentences, bins, 3]`."""
    truth = pieces["is_replaced"].to_numpy(float)
    sentences, rows = np.unique(pieces["sentence"], return_inverse=True)
    bin_of = np.minimum((probabilities * NUM_BINS).astype(int), NUM_BINS - 1)
    sums = np.zeros([len(sentences), NUM_BINS, 3])
    columns = np.stack([probabilities, truth, np.ones_like(truth)], -1)
    np.add.at(sums, (rows, bin_of), columns)
    return sums


def calibration_error(sums: np.ndarray) -> np.ndarray:
    """Returns the expected calibration error, `[...]`, of `_sum_bins`."""
    distance = np.abs(sums[..., 0] - sums[..., 1]).sum(-1)
    return distance / sums[..., 2].sum(-1)


def judge(
    pieces: pd.DataFrame, probabilities: np.ndarray, seed: int
) -> dict[str, float]:
    """Returns calibration measures of the probabilities, `[N]`, of N tokens."""
    truth = pieces["is_replaced"].to_numpy(float)
    sums = _sum_bins(pieces, probabilities)
    return {
        "pieces": len(pieces),
        "replaced": float(truth.mean()),
        "mean probability": float(probabilities.mean()),
        "ECE": float(calibration_error(sums.sum(0))),
        **analysis.bounds(calibration_error, sums, seed),
        "Brier": float(np.mean((probabilities - truth) ** 2)),
    }


def draw(findings: analysis.Findings, axes: Any) -> None:
    """Draws the picture that `PICTURE` describes."""
    axes[0].plot([0, 1], [0, 1], ":", color="gray", label="calibrated")
    for name, series in findings.series.items():
        for axis, column in zip(axes, ("replaced", "pieces"), strict=True):
            series.plot("probability", column, ax=axis, style="o-", label=name)
    for axis, label in zip(axes, ("share replaced", "pieces"), strict=True):
        axis.set(xlabel="probability of having been replaced", ylabel=label)
        axis.grid(alpha=0.3)
        axis.legend()
    axes[1].set_yscale("log")
