"""A page whose model needs no weights."""

import contextlib
import re
import threading

import pytest

from electra_tf.export.clients import mask_filling
from electra_tf.export.clients import scoring
from electra_tf.export.demo import server


@contextlib.contextmanager
def _serving(model, host="127.0.0.1"):
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
def serve():
    """Serves any model while a block runs."""
    return _serving


def _score_by_length(texts):
    """The longer the word, the more suspicious."""
    return [
        scoring.ScoredText(
            text.encode(),
            tuple(
                scoring.ScoredWord(
                    match[0],
                    len(text[: match.start()].encode()),
                    len(text[: match.end()].encode()),
                    min(1.0, len(match[0]) / 10),
                )
                for match in re.finditer(r"\S+", text)
            ),
            0,
        )
        for text in texts
    ]


def _fill_with_numbers(texts, top_k):
    """The same tokens for every mask."""
    row = [mask_filling.Filling(f"t{k}", 0.5**k) for k in range(1, top_k + 1)]
    return [[row] * text.count("[MASK]") for text in texts]


@pytest.fixture(scope="session")
def stub_model():
    """Answers at once, without TensorFlow."""
    return server.DemoModel("a stub", _score_by_length, _fill_with_numbers)
