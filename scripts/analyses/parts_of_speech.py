"""Is the discriminator biased by part of speech or frequency?

The threshold above which a token of corrupted text (`corruption`) counts as
replaced is such that one of twenty original tokens does.
"""

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn import metrics

from analyses import analysis
from analyses import corruption
from analyses import texts

DATA = "the folder of the Brown corpus, or a corpus without tags"
PICTURE = (
    "False alarms and misses with their intervals, a point for each "
    "row of the table, and lines at the values of all pieces."
)
PANELS = 2

FALSE_ALARMS = 0.05
"""The share of original pieces that are called replaced."""
_MIN_REPLACED = 30  # in a row of the table


def measure(work: analysis.Work) -> analysis.Findings:
    """Measures errors and AUC by part of speech and by frequency."""
    request = work.request
    sentences = texts.read_sentences(request.data, request.limit, request.seed)
    pieces = corruption.detect(work, sentences)
    original = pieces["logit"][~pieces["is_replaced"]]
    threshold = float(np.quantile(original, 1 - FALSE_ALARMS))
    rows = {"all": judge(pieces, threshold)}
    for name, is_in in texts.groups(pieces):
        if pieces["is_replaced"][is_in].sum() >= _MIN_REPLACED:
            rows[name] = judge(pieces[is_in], threshold)
    table = pd.DataFrame.from_dict(rows, "index").rename_axis("pieces")
    notes = (
        f"{len(pieces):,} pieces of {len(sentences):,} sentences, "
        f"{pieces['is_replaced'].mean():.3f} of them replaced. Low and high: "
        f"95 % intervals of Wilson. Chance: misses {1 - FALSE_ALARMS}, AUC "
        f"0.5. Seed {request.seed}.",
    )
    return analysis.Findings(table, notes)


def judge(pieces: pd.DataFrame, threshold: float) -> dict[str, float]:
    """Measures pieces with the columns `is_replaced` and `logit`."""
    is_called = pieces["logit"] >= threshold
    original = is_called[~pieces["is_replaced"]]
    missed = ~is_called[pieces["is_replaced"]]
    measures: dict[str, float] = {"count": len(pieces)}
    for name, events in (("false alarms", original), ("misses", missed)):
        test = stats.binomtest(int(events.sum()), len(events))
        bounds = test.proportion_ci(method="wilson")
        measures |= {
            name: float(events.mean()),
            f"{name}, low": bounds.low,
            f"{name}, high": bounds.high,
        }
    area = metrics.roc_auc_score(pieces["is_replaced"], pieces["logit"])
    return measures | {"AUC": float(area)}


def draw(findings: analysis.Findings, axes: Any) -> None:
    """Draws the picture that `PICTURE` describes."""
    table = findings.table[::-1]
    for axis, name in zip(axes, ("false alarms", "misses"), strict=True):
        low, high = table[f"{name}, low"], table[f"{name}, high"]
        errors = np.stack([table[name] - low, high - table[name]])
        axis.errorbar(table[name], table.index, xerr=errors, fmt="o", capsize=3)
        axis.axvline(table.loc["all", name], ls=":", color="gray")
        axis.set_xlabel(f"{name}, share")
        axis.grid(alpha=0.3)
    axes[1].set_yticklabels([])
