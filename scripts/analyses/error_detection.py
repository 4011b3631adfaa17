"""Does the model find wrong words?

Words of learners' sentences are labelled right or wrong. Each detector gives
every word a suspicion. The threshold above which a word counts as wrong has the
best F0.5 (Ng et al., 2014) on half of the sentences; the others judge it.
"""

import pathlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn import metrics

import electra_tf
from analyses import analysis
from analyses import texts
from electra_tf import storage
from electra_tf.processes import atomic
from electra_tf.scoring import sentence_scores
from electra_tf.tasks import files
from electra_tf.tasks.tagging import conll

DATA = "a file with a word and its label, c or i, on every line"
PICTURE = (
    "Precision over recall of each detector, whose mean is the table's "
    "average precision, and a line at chance."
)

RIGHT, WRONG = "c", "i"
"""MultiGED's labels of a word."""
_CURVE_POINTS = 200


def read_sentences(data: str, limit: int, seed: int) -> list[texts.Sentence]:
    """Reads sentences of a file of words and labels, in random order."""
    annotated = conll.read_columns(storage.path(data))
    for sentence in annotated:
        if other := set(sentence.tags or ()) - {RIGHT, WRONG}:
            expected = f"{RIGHT} or {WRONG} beside each word of this sentence"
            raise files.unexpected(sentence.place, expected, min(other))
    drawn = texts.draw(annotated, limit, seed)
    half = len(drawn) // 2
    for part in (drawn[:half], drawn[half:]):
        if not any(WRONG in (sentence.tags or ()) for sentence in part):
            expected = f"words labelled {WRONG} in both halves of the sentences"
            received = f"{len(drawn)} sentences, none in one half"
            remedy = "Give more sentences, a larger --limit or another --seed."
            raise files.unexpected(data, expected, received, remedy)
    return [texts.Sentence(one.words, one.tags or ()) for one in drawn]


def measure(work: analysis.Work) -> analysis.Findings:
    """Measures every detector on the second half of the sentences.

    `request.other_model` may be a tagger, fine-tuned on the first half, which
    is written beside the findings.
    """
    request = work.request
    sentences = read_sentences(request.data, request.limit, request.seed)
    half = len(sentences) // 2
    _write(work.folder / "tuned_on.tsv", sentences[:half])
    _write(work.folder / "judged_on.tsv", sentences[half:])
    words = texts.list_words(sentences)
    words["is_wrong"] = words["label"] == WRONG
    words["is_judged"] = words["sentence"] >= half
    rows, series = {}, {}
    for name, suspicion in _suspect(work, sentences).items():
        frame = words.assign(suspicion=suspicion)
        tuned, judged = frame[~words["is_judged"]], frame[words["is_judged"]]
        threshold = find_threshold(tuned["is_wrong"], tuned["suspicion"])
        rows[name] = judge(judged, threshold, request.seed)
        series[name] = _curve(judged)
    table = pd.DataFrame.from_dict(rows, "index").rename_axis("suspected by")
    judged = words[words["is_judged"]]
    notes = (
        f"{len(judged):,} words of {len(sentences) - half:,} sentences, "
        f"{judged['is_wrong'].mean():.3f} of them wrong. Thresholds have the "
        f"best F0.5 on {half:,} other sentences; {analysis.BOUNDS} of "
        "sentences. `everything` calls all words wrong. Chance average "
        f"precision is the share of wrong words. Seed {request.seed}.",
    )
    return analysis.Findings(table, notes, series)


def find_threshold(is_wrong: Any, suspicion: Any) -> float:
    """Returns the least suspicion of words called wrong, for the best F0.5."""
    *curve, levels = metrics.precision_recall_curve(is_wrong, suspicion)
    return float(levels[np.argmax(f_half(*curve)[:-1])])


def f_half(precision: Any, recall: Any) -> Any:
    """Returns F0.5; 0 if precision and recall are 0."""
    weighted = 0.25 * np.asarray(precision) + recall
    return 1.25 * precision * recall / np.maximum(weighted, 1e-12)


def judge(words: pd.DataFrame, threshold: float, seed: int) -> dict[str, float]:
    """Measures words with the columns `suspicion`, `is_wrong`, `sentence`."""
    is_called = words["suspicion"] >= threshold
    is_wrong = words["is_wrong"]
    columns = {"hits": is_called & is_wrong, "called": is_called}
    counts = pd.DataFrame(columns | {"wrong": is_wrong})
    sums = counts.groupby(words["sentence"]).sum().to_numpy(float)
    precision, recall, score = map(float, _score(sums.sum(0)))
    average = metrics.average_precision_score(is_wrong, words["suspicion"])
    return {
        "precision": precision,
        "recall": recall,
        "F0.5": score,
        **analysis.bounds(lambda totals: _score(totals)[2], sums, seed),
        "average precision": float(average),
    }


def _score(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns precision, recall, F0.5 of hits, called and wrong, `[..., 3]`."""
    hits, *counts = np.moveaxis(sums, -1, 0)
    precision, recall = (hits / np.maximum(count, 1) for count in counts)
    return precision, recall, f_half(precision, recall)


def _suspect(
    work: analysis.Work, sentences: Sequence[texts.Sentence]
) -> Mapping[str, np.ndarray]:
    plain = [sentence.text for sentence in sentences]
    words = [word for sentence in sentences for word in sentence.words]
    counts = Counter(words)
    suspicions = {
        "everything": np.zeros(len(words)),
        "rare in this file": -np.array([counts[word] for word in words], float),
    }
    pieces = texts.locate_pieces(work.electra, sentences)
    for name, scorer in sentence_scores.build_scorers(work.electra).items():
        scores = work.in_parts(name, plain, scorer.score_all_pieces)
        suspicions[name] = texts.worst_pieces(pieces, -scores, len(words))
    if path := work.request.other_model:
        suspicions["fine-tuned tagger"] = _ask_tagger(path, sentences)
    return suspicions


def _ask_tagger(path: str, sentences: Sequence[texts.Sentence]) -> np.ndarray:
    tagger: Any = electra_tf.load(path)
    if set(getattr(tagger, "labels", ())) != {RIGHT, WRONG}:
        raise ValueError(
            "--other_model must be a tagger that was fine-tuned on the labels "
            f"{RIGHT} and {WRONG}. Received: {tagger!r}."
        )
    probabilities = []
    answers = tagger.predict([sentence.text for sentence in sentences])
    for sentence, answer in zip(sentences, answers, strict=True):
        ends = np.cumsum([len(word) + 1 for word in sentence.words])
        worst = np.zeros(len(ends))
        # The tagger may split a word of the file into several.
        for word in answer.words:
            index = np.searchsorted(ends, word.start, side="right")
            share = word.probability  # 0 after the cut
            if word.tag != WRONG and share:
                share = 1 - share
            worst[index] = max(worst[index], share)
        probabilities.append(worst)
    return np.concatenate(probabilities)


def _write(path: pathlib.Path, sentences: Sequence[texts.Sentence]) -> None:
    blocks = (
        "\n".join(f"{word}\t{label}" for word, label in zip(*own, strict=True))
        for own in sentences
    )
    atomic.write_text(path, "\n\n".join(blocks) + "\n")


def _curve(words: pd.DataFrame) -> pd.DataFrame:
    truth, suspicion = words["is_wrong"], words["suspicion"]
    precision, recall, _ = metrics.precision_recall_curve(truth, suspicion)
    places = np.linspace(0, len(recall) - 1, _CURVE_POINTS).astype(int)
    columns = {"recall": recall[places], "precision": precision[places]}
    return pd.DataFrame(columns)


def draw(findings: analysis.Findings, axes: Sequence[Any]) -> None:
    """Draws the picture that `PICTURE` describes."""
    for name, curve in findings.series.items():
        if name != "everything":
            curve.plot("recall", "precision", ax=axes[0], label=name)
    share = findings.table.loc["everything", "precision"]
    axes[0].axhline(share, ls=":", color="gray", label="chance")
    axes[0].set_ylabel("precision")
    axes[0].grid(alpha=0.3)
    axes[0].legend()
