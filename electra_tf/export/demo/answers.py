"""Answers of a model to the demo page, as values for JSON.

Nothing here knows of HTTP; `server` does.
"""

import functools
import pathlib
import threading
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from electra_tf.export.clients import mask_filling
from electra_tf.export.clients import scoring
from electra_tf.export.clients import text_models

MAX_CHARACTERS = 2000
_TOP_K = 5

ScoreFn = Callable[[Sequence[str]], list[scoring.ScoredText]]
FillFn = Callable[[Sequence[str], int], list[list[list[mask_filling.Filling]]]]
Answer = dict[str, Any]


class DemoModel:
    """A model behind the page; one request at a time.

    Args:
        description: one line about the model, shown on the page.
        score: gives words with probabilities, or None if the model cannot.
        fill: gives fillings of masks, or None if the model cannot.
    """

    def __init__(
        self,
        description: str,
        score: ScoreFn | None = None,
        fill: FillFn | None = None,
    ) -> None:
        if score is None and fill is None:
            raise ValueError(
                "The page needs a model that scores words or fills masks. "
                f"Received: {description}, which does neither."
            )
        self.description = description
        self._score = score
        self._fill = fill
        self._lock = threading.Lock()

    def describe(self) -> Answer:
        """What the page must know before anything is typed."""
        return {
            "description": self.description,
            "can_score": self._score is not None,
            "can_fill": self._fill is not None,
            "max_characters": MAX_CHARACTERS,
            "mask": mask_filling.MASK,
        }

    def score(self, request: Mapping[str, Any]) -> Answer:
        """Scores the `text` of a request, in `parts` as of `split_parts`."""
        lack = "score words: it has no discriminator"
        scored = self._ask(self._score, lack, request)
        return {
            "parts": split_parts(scored),
            "num_truncated": scored.num_truncated,
        }

    def fill(self, request: Mapping[str, Any]) -> Answer:
        """Fills the masks in the `text` of a request, each with the best."""
        lack = "fill masks: it has no generator"
        masks = self._ask(self._fill, lack, request, _TOP_K)
        return {"masks": [[best._asdict() for best in row] for row in masks]}

    def _ask(
        self,
        answer: Callable[..., Sequence[Any]] | None,
        lack: str,
        request: Mapping[str, Any],
        *options: int,
    ) -> Any:
        text = _read_text(request)
        if answer is None:
            raise ValueError(f"This model does not {lack}.")
        with self._lock:
            return answer([text], *options)[0]


def build_demo_model(
    live: Any = None, export_dir: pathlib.Path | None = None
) -> DemoModel:
    """Builds what answers the page, from an `Electra`, an export, or both.

    The `Electra` fills masks, and scores words where there is no export.
    """
    descriptions, score, fill = [], None, None
    if live is not None:
        descriptions.append(live.summary)
        score = live.score if live.can_score else None
        fill = live.fill_masks if live.can_fill_masks else None
    if export_dir is not None:
        export = text_models.LoadedExport(export_dir)
        export.require("score_text")
        score = functools.partial(scoring.score, export)
        descriptions.insert(0, "exported model")
    return DemoModel("; ".join(descriptions), score, fill)


def split_parts(scored: scoring.ScoredText) -> list[Answer]:
    """Words, and what stands between them or was not seen with None.

    Joined they are the text.
    """
    parts: list[Answer] = []
    position = 0

    def add(end: int, probability: float | None) -> None:
        nonlocal position
        if end > position:
            text = scored.data[position:end].decode("utf-8")
            parts.append({"text": text, "probability": probability})
        position = end

    for word in scored.words:
        add(word.start, None)
        add(word.end, word.replaced_probability)
    add(len(scored.data), None)
    return parts


def _read_text(request: Mapping[str, Any]) -> str:
    if not isinstance(request, Mapping) or set(request) != {"text"}:
        raise ValueError(
            'A request must be a JSON object {"text": "..."} and nothing else.'
        )
    text = request["text"]
    if not isinstance(text, str):
        raise ValueError(
            f"`text` must be a string. Received: {type(text).__name__}."
        )
    if not text.strip():
        raise ValueError("Type a sentence first: the text is empty.")
    if len(text) > MAX_CHARACTERS:
        raise ValueError(
            f"The text must have at most {MAX_CHARACTERS:,} characters. "
            f"Received: {len(text):,}. Shorten it."
        )
    return text_models.check_texts("text", [text])[0]
