"""Models of the page that need no weights, and a server of any model."""

import contextlib
import re
import threading

from electra_tf.export.clients import mask_filling
from electra_tf.export.clients import scoring
from electra_tf.export.demo import server
from electra_tf.tasks import base
from electra_tf.tasks.question_answering import signatures as qa_signatures
from electra_tf.tasks.sentences import classification
from electra_tf.tasks.tagging import signatures


@contextlib.contextmanager
def serve(model, host="127.0.0.1"):
    """Serves a model while a block runs."""
    running = server.DemoServer(model, host, 0)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        running.shutdown()
        running.server_close()
        thread.join()


def _score_words(text):
    """The longer the word, the more suspicious."""
    for match in re.finditer(r"\S+", text):
        span = (len(text[:place].encode()) for place in match.span())
        share = min(1.0, len(match[0]) / 10)
        yield scoring.ScoredWord(match[0], *span, share)


def _score(texts):
    return [
        scoring.ScoredText(text.encode(), tuple(_score_words(text)), 0)
        for text in texts
    ]


def _fill_with_numbers(texts, top_k):
    """The same tokens for every mask."""
    row = [mask_filling.Filling(f"t{k}", 0.5**k) for k in range(1, top_k + 1)]
    return [[row] * text.count("[MASK]") for text in texts]


def _tag_first(texts):
    """The first word is a person, the others are nothing."""
    words = [
        signatures.TaggedText(match[0], *match.span(), "O", 0.9)
        for match in re.finditer(r"\S+", texts[0])
    ]
    words[0] = words[0]._replace(tag="B-PER")
    spans = (words[0]._replace(tag="PER"),)
    return [signatures.TagPrediction(tuple(words), spans, 0)]


def _answer(questions, contexts):
    """The context's last word; questions with a `?` alone are answerable."""
    question, context = questions[0], contexts[0]
    place = context.rfind(" ") + 1, len(context)
    return [
        qa_signatures.AnswerPrediction(
            f"{question} {context}", *place, 2.5, -1.0, "?" in question
        )
    ]


def _model(kind, inputs, predict, numbers=(None, None)):
    page = base.find_kind(kind).export_texts()["page"]
    facts = {
        "kind": kind, "page": page, "inputs": inputs.split(), "range": numbers,
    }  # fmt: skip
    return server.DemoModel(f"stub of {kind}", predict=predict, facts=facts)


_LABEL = classification.LabelPrediction("good", {"bad": 0.25, "good": 0.75}, 3)
PRETRAINED = server.DemoModel("a stub", _score, _fill_with_numbers)
CLASSIFIER = _model("classification", "text", lambda _: [_LABEL])
TAGGER = _model("tagging", "text", _tag_first)
READER = _model("question_answering", "question context", _answer)
