"""How well predicted tags agree with the right ones.

Shares are in percent. A word without a prediction (None), one that was cut off
its row, counts as outside every span, and as wrong for the accuracy. So scores
with rows of different lengths compare. (The original leaves such words out,
the spans that they belong to included.)
"""

import warnings
from collections.abc import Sequence

from seqeval import metrics as seqeval_metrics
from seqeval import scheme as seqeval_scheme

from electra_tf.tasks.tagging import spans as spans_lib

Tags = Sequence[str]
PredictedTags = Sequence[str | None]


def compute_span_scores(
    gold: Sequence[Tags], predicted: Sequence[PredictedTags]
) -> dict[str, float]:
    """Precision, recall and F1 of whole spans, as in the original.

    A span is right if start, end and kind are. Both sides are read by the
    lenient rule of `spans.find_spans`. All are 0 if no span is right.

    Args:
        gold: tags of each sentence, in any encoding.
        predicted: as many of each, in any encoding.

    Returns:
        `precision`, `recall` and `f1`.
    """
    num_right = num_predicted = num_gold = 0
    for tags, answers in zip(gold, _without_gaps(predicted), strict=True):
        right = set(spans_lib.find_spans(tags))
        found = set(spans_lib.find_spans(answers))
        num_right += len(right & found)
        num_gold += len(right)
        num_predicted += len(found)
    if not num_right:
        return {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    precision = 100 * num_right / num_predicted
    recall = 100 * num_right / num_gold
    f1 = 2 * precision * recall / (precision + recall)
    return {"precision": precision, "recall": recall, "f1": f1}


def compute_accuracy(
    gold: Sequence[Tags], predicted: Sequence[PredictedTags]
) -> float:
    """Share of words with the right tag.

    Args:
        gold: tags of each sentence.
        predicted: as many of each.

    Raises:
        ValueError: if there is no word.
    """
    num_right = num_words = 0
    for tags, answers in zip(gold, predicted, strict=True):
        num_words += len(tags)
        num_right += sum(
            tag == answer for tag, answer in zip(tags, answers, strict=True)
        )
    if not num_words:
        raise ValueError("Accuracy needs at least one word. Received: none.")
    return 100 * num_right / num_words


def compute_seqeval_scores(
    gold: Sequence[Tags], predicted: Sequence[PredictedTags]
) -> dict[str, float]:
    """F1 of whole spans as the package seqeval counts them.

    Where the tags are well-formed all of them agree with
    `compute_span_scores`; they differ in what they make of, say, `I-VP` after
    `B-NP`.

    Args:
        gold: tags of each sentence, in any encoding.
        predicted: as many of each, in any encoding.

    Returns:
        `seqeval_f1`, which reads tags like the script `conlleval`, and
        `seqeval_strict_f1`, which counts predicted spans only if their tags
        are well-formed `BIOES`.
    """
    answers = _without_gaps(predicted)
    encoded = [spans_lib.reencode(tags, "BIOES") for tags in gold]
    with warnings.catch_warnings():
        # It warns where there are no spans and says 0, as it should.
        warnings.simplefilter("ignore")
        lenient = seqeval_metrics.f1_score(
            [list(tags) for tags in gold], answers
        )
        strict = seqeval_metrics.f1_score(
            encoded, answers, mode="strict", scheme=seqeval_scheme.IOBES
        )
    return {
        "seqeval_f1": 100 * float(lenient),
        "seqeval_strict_f1": 100 * float(strict),
    }


def _without_gaps(predicted: Sequence[PredictedTags]) -> list[list[str]]:
    return [
        [spans_lib.OUTSIDE if tag is None else tag for tag in tags]
        for tags in predicted
    ]
