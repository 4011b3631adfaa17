"""Which models the page can show: those in memory, and exports."""

import functools
import pathlib
from collections.abc import Sequence
from typing import Protocol

from electra_tf.export import loaded_export
from electra_tf.export import mask_filling
from electra_tf.export import scoring
from electra_tf.export.demo import answers

_SIGNATURE = "score_text"


class LiveModel(Protocol):
    """What the page uses of an `electra_tf.electra.Electra`."""

    @property
    def can_score(self) -> bool:
        """Whether it scores words."""

    @property
    def can_fill_masks(self) -> bool:
        """Whether it fills masks."""

    @property
    def summary(self) -> str:
        """Its sizes in one line."""

    def score(self, texts: Sequence[str]) -> list[scoring.ScoredText]:
        """Scores words."""

    def fill_masks(
        self, texts: Sequence[str], top_k: int
    ) -> list[list[list[mask_filling.Filling]]]:
        """Fills masks."""


def build_demo_model(
    live: LiveModel | None = None, export_dir: pathlib.Path | None = None
) -> answers.DemoModel:
    """What answers the page.

    Args:
        live: fills masks, and scores words where there is no export.
        export_dir: of an exported model that scores words.

    Raises:
        FileNotFoundError: if there is no export.
        ValueError: if the export does not score words, or nothing is given
            that can answer.
    """
    descriptions = []
    score: answers.ScoreFn | None = None
    fill: answers.FillFn | None = None
    if live is not None:
        descriptions.append(live.summary)
        score = live.score if live.can_score else None
        fill = live.fill_masks if live.can_fill_masks else None
    if export_dir is not None:
        export = loaded_export.LoadedExport(export_dir)
        export.require(_SIGNATURE)
        score = functools.partial(scoring.score, export)
        descriptions.insert(0, "exported model")
    return answers.DemoModel("; ".join(descriptions), score, fill)
