"""What a built dataset is like, in a few lines, and what to change."""

import json
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import numpy as np

from electra_tf.records import shards
from electra_tf.records.manifest import TRAIN
from electra_tf.records.manifest import Manifest
from electra_tf.records.manifest import load_token_counts
from electra_tf.records.shards import BuildPlan
from electra_tf.records.shards import PartReport

# Advice is given beyond these.
MIN_FILL = 0.7  # share of the rows' places that hold a token
MAX_CUT_OFF = 0.2  # share of the text's tokens that are in no row
MAX_UNKNOWN = 0.01  # share of [UNK] among the tokens
MAX_TOKENS_PER_WORD = 2.0
MAX_INVALID = 1e-4  # byte sequences that are no UTF-8, by token
_SHORTEST_ROW = 32
_SHOWN_CHARACTERS = 160


def describe(plan: BuildPlan, reports: Sequence[PartReport]) -> dict[str, Any]:
    """Returns what the manifest of a dataset whose splits are complete adds.

    `report`, lines for people; what was dropped as `duplicates`, and taken of
    each corpus as `mixture`, if that was asked.
    """
    content: dict[str, Any] = {}
    splits = [
        Manifest.load(plan.output_folder / each) for each in plan.num_shards
    ]
    lines = [
        f"{each.split}: {each.num_documents:,} documents, "
        f"{each.num_examples:,} rows of {each.max_seq_length} tokens, "
        f"{100 * _fill(each):.0f} % full, in {len(each.shards)} shards"
        for each in splits
    ]
    if plan.settings.deduplicate:
        path = plan.part_folder(0, "duplicates").with_name("report.json")
        found = content["duplicates"] = json.loads(path.read_text("utf-8"))
        lines.append(
            f"dropped: {found['num_exact']:,} equal and {found['num_near']:,} "
            f"nearly equal ones of {found['num_documents']:,} documents"
        )
        for kept, dropped in found["pairs"]:
            lines += [f"  kept    {kept}", f"  dropped {dropped}"]
    if plan.settings.corpus_weights:
        mixture = zip(*shards.weigh_corpora(plan, reports), strict=True)
        for name, (num_tokens, times) in zip(
            plan.settings.corpus, mixture, strict=True
        ):
            lines.append(f"{name}: {num_tokens:,.0f} tokens, {times:.2f} times")
    measures = _measure(plan, reports)
    lines.append(
        "{per_word:.2f} tokens per word, {unknown:.2%} unknown, {cut_off:.0%} "
        "of the text cut off. Some rows:".format(**measures)
    )
    lines += _sample(plan)
    advice = [
        f"To change: {each}" for each in _advise(plan, splits[0], **measures)
    ]
    return {"report": lines + advice, **content}


def _fill(manifest: Manifest) -> float:
    num_places = manifest.num_examples * manifest.max_seq_length
    return manifest.num_tokens / num_places


def _measure(
    plan: BuildPlan, reports: Sequence[PartReport]
) -> dict[str, float]:
    """Shares of the training tokens; words are what no `##...` continues."""
    counts = load_token_counts(plan.output_folder / TRAIN)
    tokens = plan.vocabulary.tokens
    is_word = np.array([not token.startswith("##") for token in tokens])
    num_kept = sum(each.num_kept_tokens[TRAIN] for each in reports)
    num_tokens = sum(each.num_corpus_tokens[TRAIN] for each in reports)
    return {
        "per_word": counts.sum() / max(counts[is_word].sum(), 1),
        "unknown": counts[plan.vocabulary.unk_id] / counts.sum(),
        "cut_off": 1 - num_kept / num_tokens,
    }


def _sample(plan: BuildPlan) -> Iterator[str]:
    """Rows as text, from a quarter, the middle, three quarters of the parts."""
    tokens = plan.vocabulary.tokens
    for quarter in (1, 2, 3):
        folder = plan.part_folder(len(plan.units) * quarter // 4)
        rows = np.load(folder / f"{TRAIN}.ids.npy", mmap_mode="r")
        for row in rows[len(rows) * quarter // 4 :][:1]:
            text = " ".join(tokens[each] for each in row).replace(" ##", "")
            text = text.replace(" [PAD]", "")
            is_long = len(text) > _SHOWN_CHARACTERS
            yield f"  {text[:_SHOWN_CHARACTERS]}{' ...' * is_long}"


def _advise(
    plan: BuildPlan,
    manifest: Manifest,
    per_word: float,
    unknown: float,
    cut_off: float,
) -> Iterator[str]:
    num_tokens, length = manifest.num_corpus_tokens, manifest.max_seq_length
    if _fill(manifest) < MIN_FILL:
        mean, shorter = num_tokens / manifest.num_documents, _SHORTEST_ROW
        while shorter < min(mean + 3, length // 2):
            shorter *= 2
        yield (
            f"The rows are {_fill(manifest):.0%} full, as a document has "
            f"{mean:.0f} tokens on average. Where documents go on after a blank"
            " line (JSON object, row of a table), make each file one: "
            f"--noblanks_separate_docs. Or take --max_seq_length={shorter}."
        )
    if cut_off > MAX_CUT_OFF:
        yield (
            f"{cut_off:.0%} of the tokens are lost where a line goes beyond the "
            "end of a row, as in the original. --keep_overflow keeps them."
        )
    if unknown > MAX_UNKNOWN or per_word > MAX_TOKENS_PER_WORD:
        yield (
            "The vocabulary does not fit the text: another language, or too "
            "small. Learn one from this text by electra-train-vocabulary."
        )
    num_invalid = sum(manifest.invalid_utf8.values())
    if num_invalid > MAX_INVALID * num_tokens:
        yield (
            f"{num_invalid:,} byte sequences are no UTF-8 and became U+FFFD, "
            f"first in {min(manifest.invalid_utf8)}. Convert such files."
        )
