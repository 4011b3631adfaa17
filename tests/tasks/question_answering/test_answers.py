"""Answers from made-up outputs of a head."""

import dataclasses
import functools
import re
import unicodedata

import numpy as np
import pytest

from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks.question_answering import answers
from electra_tf.tasks.question_answering import questions
from electra_tf.tasks.question_answering import records
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import SPECIAL_TOKENS
from electra_tf.text.vocabulary import TokenizerSettings
from electra_tf.text.vocabulary import Vocabulary
from tests.tasks.question_answering.conftest import CONTEXT
from tests.tasks.question_answering.conftest import example_of

INDEPENDENT = finetuning_config.QuestionAnsweringConfig(
    joint_prediction=False, answerable_classifier=False, max_answer_length=4
)
KEEP = TokenizerSettings(strip_accents=False)


def _rows(tokenizer, examples, length=64, stride=3):
    settings = questions.Settings(max_query_length=8, doc_stride=stride)
    return questions.build_rows(examples, tokenizer, length, settings, False)


def _tokenizer_of(context, settings):
    """With every character of a context as a token."""
    characters = sorted({*unicodedata.normalize("NFD", context), *context})
    tokens = *characters, *(f"##{character}" for character in characters)
    tokens = {*tokens} - {" ", "## "}
    return Tokenizer(Vocabulary((*SPECIAL_TOKENS, *sorted(tokens)), settings))


def _learn_and_answer(context, text, start, tokenizer):
    """What a model that learned an own question by heart says of it."""
    example = example_of(text, context, start)
    place = records.place_answer(example)
    examples = [dataclasses.replace(example, answer=place)]
    build = functools.partial(questions.build_rows, examples, tokenizer, 128)
    learned, asked = (build(questions.Settings(), b) for b in (True, False))
    outputs = {}
    for side in ("start", "end"):
        logits = np.full(learned.lengths[0], -9.0, np.float32)
        logits[learned.columns[f"{side}_position"][0]] = 9.0
        outputs[f"{side}_logits"] = [logits]
    long = dataclasses.replace(INDEPENDENT, max_answer_length=9)
    found = answers.decode(asked, outputs, long, False).nbest["q1"][0]
    return found["text"], found["start"], found["end"]


@pytest.mark.parametrize("settings", [TokenizerSettings(), KEEP], ids=str)
@pytest.mark.parametrize(
    ("context", "text", "start"),
    [
        ("北京在中国。北京很大。", "北京", 6),
        ("東京はすごい。とうきょうはでかい。", "とうきょう", 7),
        ("서울은 수도이고 서울은 크다.", "서울", 9),
        ("ภาษาไทยและภาษาลาว", "ภาษา", 10),
    ],
)
def test_answers_have_the_place_learned(settings, context, text, start):
    place = text, start, start + len(text)
    tokenizer = _tokenizer_of(context, settings)
    # The nearest occurrence counts, not the first.
    for stated in (start, start + 1):
        assert _learn_and_answer(context, text, stated, tokenizer) == place


def test_every_text_is_what_stands_at_its_offsets(tokenizer):
    others = "Caf\u00e9\tcat,\n the\u00a0mats", "CAT  \u6e2f\u533a."
    examples = [
        example_of(None, context, name=str(number))
        for number, context in enumerate((CONTEXT * 2, *others))
    ]
    rows = _rows(tokenizer, examples, length=20)
    generator = np.random.default_rng(3)
    outputs = {
        name: [generator.normal(size=n) for n in rows.lengths]
        for name in ("start_logits", "end_logits")
    }
    found = answers.decode(rows, outputs, INDEPENDENT, False)
    for example in examples:
        assert len(found.nbest[example.id]) > 2
        for entry in found.nbest[example.id]:
            there = example.context[entry["start"] : entry["end"]]
            assert re.sub("[ \t\r\n]+", " ", there) == entry["text"]
