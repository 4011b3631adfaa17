"""A page whose model needs no weights."""

import contextlib
import re
import threading

import pytest

from electra_tf.export.clients import mask_filling
from electra_tf.export.clients import predictions
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


def _tag_first(texts):
    """The first word is a person, the others are nothing."""
    found = []
    for text in texts:
        words = [
            predictions.TaggedText(match[0], *match.span(), "O", 0.9)
            for match in re.finditer(r"\S+", text)
        ]
        first = words[0] = words[0]._replace(tag="B-PER")
        span = predictions.TaggedText(*first[:3], "PER", 0.9)
        found.append(predictions.TagPrediction(tuple(words), (span,), 0))
    return found


def _answer(questions, contexts):
    """The context's last word; questions with a `?` alone are answerable."""
    return [
        predictions.AnswerPrediction(
            f"{question} {context}",
            context.rindex(" ") + 1 if " " in context else 0,
            len(context),
            2.5,
            -1.0,
            "?" in question,
        )
        for question, context in zip(questions, contexts, strict=True)
    ]


def _model(kind, inputs, predict, numbers=(None, None)):
    facts = {"kind": kind, "inputs": inputs, "range": numbers}
    return server.DemoModel(f"stub of {kind}", predict=predict, facts=facts)


@pytest.fixture(scope="session")
def tagger():
    """A fine-tuned model of spans."""
    return _model("tagging", ["text"], _tag_first)


@pytest.fixture(scope="session")
def reader():
    """A fine-tuned model of questions."""
    return _model("question_answering", ["question", "context"], _answer)


@pytest.fixture(scope="session")
def classifier():
    """A fine-tuned model of labels."""
    shares = {"bad": 0.25, "good": 0.75}
    found = predictions.LabelPrediction("good", shares, 3)
    return _model("classification", ["text"], lambda texts: [found])


@pytest.fixture(scope="session")
def rater():
    """A fine-tuned model of numbers between 0 and 4, of pairs."""
    inputs = ["text", "text_pair"]
    return _model(
        "regression",
        inputs,
        lambda texts, _: [predictions.NumberPrediction(len(texts[0]), 0)],
        (0, 4),
    )


@pytest.fixture(scope="session")
def ranker():
    """A fine-tuned model of queries and texts."""
    found = predictions.ComparisonPrediction(2.5, 0)
    inputs = ["text", "text_pair"]
    return _model("ranking", inputs, lambda texts, _: [found])
