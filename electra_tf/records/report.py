"""Describes a built dataset in a few lines, and advises changes."""

from collections.abc import Iterator

import numpy as np

from electra_tf import storage
from electra_tf.records import selection
from electra_tf.records.manifest import TRAIN
from electra_tf.records.manifest import Manifest
from electra_tf.records.manifest import load_token_counts
from electra_tf.records.shards import BuildPlan
from electra_tf.records.shards import load_reports

# Advice is given beyond these.
MIN_FILL = 0.7  # share of the rows' places that hold a token
MAX_CUT_OFF = 0.2  # share of the text's tokens that are in no row
MAX_UNKNOWN = 0.01  # share of [UNK] among the tokens
MAX_TOKENS_PER_WORD = 2.0


def describe(plan: BuildPlan) -> list[str]:
    """Returns lines; splits must be complete and the parts still be there."""
    splits = [Manifest.load(plan.output_folder / x) for x in plan.num_shards]
    lines = [
        f"{each.split}: {each.num_documents:,} documents, "
        f"{each.num_examples:,} rows of {each.max_seq_length} tokens, "
        f"{_fill(each):.0%} full, in {len(each.shards)} shards"
        for each in splits
    ]
    for each in splits[:1]:
        if each.invalid_utf8:
            name = max(each.invalid_utf8, key=lambda x: each.invalid_utf8[x])
            lines.append(
                f"{sum(each.invalid_utf8.values()):,} byte sequences are not "
                f"UTF-8 and became U+FFFD, most of them in {name}: iconv "
                "converts files"
            )
    if count := sum(each.num_empty for each in load_reports(plan)):
        lines.append(f"{count:,} JSON objects or rows have no text: left out")
    if plan.settings.selection:
        path = plan.copies_folder / selection.COPIES_FILE
        lines += path.read_text("utf-8").split("\n")
    train, counts = splits[0], load_token_counts(plan.output_folder / TRAIN)
    is_word = [not token.startswith("##") for token in plan.vocabulary.tokens]
    per_word = counts.sum() / max(counts[np.array(is_word)].sum(), 1)
    unknown = counts[plan.vocabulary.unk_id] / counts.sum()
    cut_off = 1 - counts.sum() / train.num_corpus_tokens
    lines.append(
        f"{per_word:.2f} tokens per word, {unknown:.2%} unknown, {cut_off:.0%} "
        "of the text cut off. Some rows:"
    )
    advice = _advise(train, per_word, unknown, cut_off)
    return [*lines, *_sample(plan), *(f"To change: {each}" for each in advice)]


def _fill(manifest: Manifest) -> float:
    num_places = manifest.num_examples * manifest.max_seq_length
    return manifest.num_tokens / num_places


def _sample(plan: BuildPlan) -> Iterator[str]:
    tokens = plan.vocabulary.tokens
    for quarter in (1, 2, 3):
        folder = plan.part_folder(len(plan.units) * quarter // 4)
        rows = storage.load_rows(folder / f"{TRAIN}.ids.npy")
        for row in rows[len(rows) * quarter // 4 :][:1]:
            text = " ".join(tokens[each] for each in row).replace(" ##", "")
            yield f"  {text.replace(' [PAD]', ''):.160}"


def _advise(
    manifest: Manifest, per_word: float, unknown: float, cut_off: float
) -> Iterator[str]:
    num_tokens, length = manifest.num_corpus_tokens, manifest.max_seq_length
    if _fill(manifest) < MIN_FILL and "packed" not in manifest.builder:
        mean, shorter = num_tokens / manifest.num_documents, 16
        while shorter < min(mean + 3, length // 2):
            shorter *= 2
        shorten = f" Or take --max_seq_length={shorter}."
        yield (
            f"The rows are {_fill(manifest):.0%} full, as a document has "
            f"{mean:.0f} tokens on average. Where documents go on after a blank"
            " line (JSON object, row of a table), make each file one: "
            "--noblanks_separate_docs. If they are as short as that, --packed "
            f"puts several into a row.{shorten * (shorter < length)}"
        )
    if cut_off > MAX_CUT_OFF:
        yield (
            f"{cut_off:.0%} of the tokens are lost where a line goes beyond "
            "the end of a row, as in the original. --keep_overflow keeps them."
        )
    if unknown > MAX_UNKNOWN or per_word > MAX_TOKENS_PER_WORD:
        yield (
            "The vocabulary does not fit the text: another language, or too "
            "small. Learn one from this text by electra-train-vocabulary."
        )
