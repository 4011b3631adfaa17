"""A page of a model that is random, and one that has no weights at all."""

import contextlib
import threading
from collections.abc import Callable
from collections.abc import Iterator

import pytest

from electra_tf.export.clients import mask_filling
from electra_tf.export.clients import scoring
from electra_tf.export.demo import server

WORDS = "the cat sat on mat banana café a . , ! שלום ##s"


@contextlib.contextmanager
def serving(
    model: server.DemoModel, host: str = "127.0.0.1"
) -> Iterator[server.DemoServer]:
    """A server that answers while the block runs."""
    running = server.DemoServer(model, host, 0)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        running.shutdown()
        running.server_close()
        thread.join()


@pytest.fixture(scope="session")
def serve() -> Callable[..., contextlib.AbstractContextManager]:
    """Serves any model."""
    return serving


def score_by_length(texts: list[str]) -> list[scoring.ScoredText]:
    """The longer the word, the more suspicious."""
    results = []
    for text in texts:
        words, position = [], 0
        for word in text.split():
            start = text.index(word, position)
            position = start + len(word)
            first = len(text[:start].encode())
            words.append(
                scoring.ScoredWord(
                    word,
                    first,
                    first + len(word.encode()),
                    min(1.0, len(word) / 10),
                )
            )
        results.append(scoring.ScoredText(text.encode(), tuple(words), 0))
    return results


def fill_with_numbers(
    texts: list[str], top_k: int
) -> list[list[list[mask_filling.Filling]]]:
    """The same tokens for every mask."""
    row = [mask_filling.Filling(f"t{k}", 0.5**k) for k in range(1, top_k + 1)]
    return [[row] * text.count("[MASK]") for text in texts]


@pytest.fixture(scope="session")
def stub_model() -> server.DemoModel:
    """Answers at once, without TensorFlow."""
    return server.DemoModel("a stub", score_by_length, fill_with_numbers)
