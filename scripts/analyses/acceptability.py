"""Does a model prefer the acceptable one of BLiMP's two sentences?"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analyses import analysis
from electra_tf import storage
from electra_tf.scoring import blimp
from electra_tf.scoring import sentence_scores


def measure(work: analysis.Work) -> analysis.Findings:
    """The share of pairs that each way to score gets right."""
    electra, request = work.electra, work.request
    folder = storage.path(request.data)
    pairs = blimp.read_pairs(folder, request.limit, request.seed)
    sentences = blimp.list_sentences(pairs)
    scores = {
        name: work.in_parts(name, sentences, scorer.score)
        for name, scorer in sentence_scores.build_scorers(electra).items()
    }
    scores["fewer pieces"] = -electra.count_pieces(sentences)
    table = judge(pairs, scores)
    notes = (
        f"{len(pairs):,} pairs of BLiMP, seed {request.seed}; share of the "
        "pairs whose acceptable sentence has the larger score. Chance is "
        "0.500; `fewer pieces` prefers the shorter sentence, and ties are half "
        "right. Error: the largest standard error of a row's shares.",
    )
    return analysis.Findings(table, notes)


def judge(
    pairs: Sequence[blimp.Pair], scores: dict[str, np.ndarray]
) -> pd.DataFrame:
    """The share of right pairs by phenomenon.

    `scores` holds `[2 N]` numbers of each scorer, good and bad in turn.
    """
    points = pd.DataFrame(
        {name: blimp.judge(own, pairs) for name, own in scores.items()}
    )
    shares = points.groupby(level=0).mean()
    counts = points.groupby(level=0).size()
    shares.loc["all"], counts["all"] = points.mean(), len(points)
    spread = (shares * (1 - shares)).max(axis=1)
    shares.insert(0, "pairs", counts)
    table = shares.assign(error=(spread / counts) ** 0.5)
    return table.rename_axis("phenomenon")


def _draw(findings: analysis.Findings, axes: Sequence[Any]) -> None:
    shares = findings.table.drop(columns=["pairs", "error"])[::-1]
    shares.plot.barh(ax=axes[0], width=0.8)
    axes[0].axvline(0.5, ls=":", color="gray")
    axes[0].set_xlim(0, 1)
    axes[0].legend(loc="lower right")
    axes[0].set_xlabel("share of pairs that are right")
    axes[0].set_ylabel("")


ANALYSIS = analysis.Analysis(
    question="Does the model prefer acceptable sentences?",
    data="the folder of BLiMP's JSON lines files",
    picture="Bars, the shares of the table: for each phenomenon one of every "
    "way to score, and a line at chance.",
    measure=measure,
    draw=_draw,
)
