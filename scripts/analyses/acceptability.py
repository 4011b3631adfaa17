"""Does the model prefer acceptable sentences?"""

from typing import Any

import pandas as pd

from analyses import analysis
from electra_tf import storage
from electra_tf.scoring import blimp
from electra_tf.scoring import sentence_scores

DATA = "the folder of BLiMP's JSON lines files"
PICTURE = "Bars: shares of right pairs by phenomenon; a line at chance."


def measure(work: analysis.Work) -> analysis.Findings:
    """Measures each scorer's share of right pairs."""
    electra, request = work.electra, work.request
    folder = storage.path(request.data)
    pairs = blimp.read_pairs(folder, request.limit, request.seed)
    sentences = blimp.list_sentences(pairs)
    scores = {
        name: work.in_parts(name, sentences, scorer.score)
        for name, scorer in sentence_scores.build_scorers(electra).items()
    }
    scores["fewer pieces"] = -electra.count_pieces(sentences)
    points = {name: blimp.judge(own, pairs) for name, own in scores.items()}
    notes = (
        f"{len(pairs):,} pairs of BLiMP, seed {request.seed}; share of the "
        "pairs whose acceptable sentence has the larger score. Chance is "
        "0.500; `fewer pieces` prefers the sentence with fewer tokens, and "
        "ties are half right. Error: the largest standard error of a row.",
    )
    table = blimp.tabulate(pd.DataFrame(points))
    return analysis.Findings(table, notes)


def draw(findings: analysis.Findings, axes: Any) -> None:
    """Draws the picture that `PICTURE` describes."""
    shares = findings.table.drop(columns=["pairs", "error"])[::-1]
    shares.plot.barh(ax=axes[0], width=0.8)
    axes[0].axvline(0.5, ls=":", color="gray")
    axes[0].set_xlim(0, 1)
    axes[0].legend(loc="lower right")
    axes[0].set_xlabel("share of pairs that are right")
    axes[0].set_ylabel("")
