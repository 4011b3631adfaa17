"""What do the layers hold?

For each layer of the main encoder, over the first tokens of words: accuracy of
a linear (ridge) classifier of parts of speech; mean cosine of two words
(Ethayarajh, 2019); linear CKA with another model (Kornblith et al., 2019,
equation 3); shares of attention.
"""

import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import pandas as pd
import tensorflow as tf
from sklearn import linear_model
from sklearn import pipeline
from sklearn import preprocessing

from analyses import analysis
from analyses import texts
from electra_tf.loaded_models import pretrained
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.processes import progress

DATA = "the folder of the Brown corpus, or a corpus without tags"
PICTURE = (
    "Left: probes, anisotropy and attention by layer. Right: CKA of each "
    "pair of layers; lighter means more alike."
)
PANELS = 2

_ROWS = 64
_MAX_SENTENCES = 2_000
_NUM_GROUPS = 50  # of sentences, for the bounds of CKA
_ATTENTION = ("previous", "next", "itself", "[SEP]")


class Layers(NamedTuple):
    """States and attention of L blocks for W words."""

    states: np.ndarray  # [L + 1, W, D] float32, the embeddings first
    attention: np.ndarray  # [L, 4] mean weights on `_ATTENTION`


def measure(work: analysis.Work) -> analysis.Findings:
    """Measures every layer, of the model and of random weights."""
    electra, request = work.electra, work.request
    limit = request.limit or _MAX_SENTENCES
    sentences = texts.read_sentences(request.data, limit, request.seed)
    own = read_layers(electra, sentences, "the model")
    keras.utils.set_random_seed(request.seed)
    random = pretrained.PretrainedModel.untrained(
        electra.config, electra.vocabulary
    )
    name = "random weights"
    other = untrained = read_layers(random, sentences, name)
    if request.other_model:
        name = request.other_model
        second = pretrained.load_pretrained(name)
        other = read_layers(second, sentences, name)
    seed, words = request.seed, texts.list_words(sentences)
    columns, widths = dict[str, Any](), dict[str, Any]()

    def add(name: str, statistic: Any, layers: Iterable[np.ndarray]) -> None:
        """Adds a column: a statistic of the sentences' sums of each layer."""
        columns[name], widths[name] = [], []
        for sums in layers:
            columns[name].append(statistic(sums.sum(0, keepdims=True))[0])
            widths[name].append(analysis.half_width(statistic, sums, seed))

    if words["label"].any():
        add("probe", analysis.divide, (probe(s, words) for s in own.states))
        hits = (probe(s, words) for s in untrained.states)
        add("probe, random weights", analysis.divide, hits)
    add("anisotropy", anisotropy, (sum_units(s, words) for s in own.states))
    alike = functools.partial(cka, width=own.states.shape[-1])
    # One pair at a time, to save memory.
    pairs = itertools.product(own.states, other.states)
    totals = (sum_products(*p, words).sum(0, keepdims=True) for p in pairs)
    likeness = np.array([alike(own)[0] for own in totals])
    likeness = likeness.reshape(len(own.states), len(other.states))
    best = zip(own.states, other.states[likeness.argmax(1)], strict=True)
    products = (sum_products(*pair, words) for pair in best)
    add("CKA, most alike layer", alike, products)
    for kind, weights in zip(_ATTENTION, own.attention.T, strict=True):
        columns[f"attention to {kind}"] = [np.nan, *weights]
    names = ["embeddings", *(str(i + 1) for i in range(len(own.states) - 1))]
    table = pd.DataFrame(columns, names).rename_axis("layer")
    share = len(sentences) / len(words)
    notes = [
        f"{len(words):,} words of {len(sentences):,} sentences, seed "
        f"{request.seed}. CKA with {name}. Uniform attention would give each "
        f"piece {share:.3f} or less."
    ]
    if words["label"].any():
        common = words["label"].value_counts(normalize=True).iloc[0]
        notes.append(f"Most frequent part of speech: {common:.3f}.")
    bounds = pd.DataFrame(widths, names)
    notes.append(analysis.describe_widths("of the widest layer", bounds.max()))
    others = ["embeddings", *map(str, range(1, len(other.states)))]
    series = {"CKA": pd.DataFrame(likeness, names, others), "bounds": bounds}
    return analysis.Findings(table, tuple(notes), series)


def read_layers(
    electra: pretrained.PretrainedModel,
    sentences: Sequence[texts.Sentence],
    title: str,
) -> Layers:
    """Reads the states of words' first pieces (cut off: 0), and attention."""
    pieces = texts.locate_pieces(electra, sentences)
    firsts = pieces.drop_duplicates("flat_word")
    rows = electra.tokenize([sentence.text for sentence in sentences])
    encoder = electra.networks.main.encoder
    num_words = sum(len(sentence.words) for sentence in sentences)
    shape = len(encoder.blocks) + 1, num_words, encoder.hidden_size
    states, attention, count = np.zeros(shape, np.float32), 0.0, 0.0
    read_batch = functools.partial(_read_batch, encoder)
    read = tf.function(read_batch, autograph=False, reduce_retracing=True)
    with progress.WorkProgress(title, len(sentences), "sentences") as shown:
        for begin in range(0, len(sentences), _ROWS):
            batch = [array[begin : begin + _ROWS] for array in rows.values()]
            read_values = (value.numpy() for value in read(*batch))
            batch_states, weights, num_pieces = read_values
            attention, count = attention + weights, count + num_pieces
            here = firsts[firsts["sentence"].between(begin, begin + _ROWS - 1)]
            places = here["sentence"] - begin, here["position"]
            states[:, here["flat_word"]] = batch_states[:, *places]
            shown.advance(len(batch[0]), len(batch[0]))
    return Layers(states, np.asarray(attention / count))


def _read_batch(
    encoder: encoder_lib.Encoder, *rows: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns states `[L + 1, B, S, D]`, attention sums `[L, 4]`, pieces."""
    ids, input_mask, _ = rows
    output = encoder(*rows)
    states = [output.embedding_output, *output.layer_outputs]
    bias = encoder_lib.compute_attention_bias(input_mask, encoder.direction)
    mask = tf.cast(input_mask, tf.float32)
    # The last token of a row is its [SEP], the first its [CLS].
    last = tf.one_hot(tf.reduce_sum(input_mask, 1) - 1, tf.shape(ids)[1])
    is_piece = tf.pad((mask - last)[:, 1:], [[0, 0], [1, 0]])
    sums = []
    for block, state in zip(encoder.blocks, states[:-1], strict=True):
        flat = tf.reshape(state, [-1, state.shape[-1]])
        num_heads = block.settings.num_attention_heads
        fused = block.query_key_value(flat)
        query, key, _ = encoder_lib.split_heads(fused, bias, num_heads)
        probs = encoder_lib.compute_probs(query, key, bias)
        weights = tf.reduce_mean(tf.cast(probs, tf.float32), 1)
        below = tf.linalg.diag_part(weights, k=-1)
        above = tf.linalg.diag_part(weights, k=1)
        seen = (
            tf.pad(below, [[0, 0], [1, 0]]),
            tf.pad(above, [[0, 0], [0, 1]]),
            tf.linalg.diag_part(weights),
            tf.reduce_sum(weights * last[:, tf.newaxis], -1),
        )
        sums.append([tf.reduce_sum(values * is_piece) for values in seen])
    return tf.stack(states), tf.convert_to_tensor(sums), tf.reduce_sum(is_piece)


def probe(states: np.ndarray, words: pd.DataFrame) -> np.ndarray:
    """Counts right and all words of a ridge classifier of states `[W, D]`.

    It learns from half of the sentences. Returns `[N, 2]` for the N others.
    """
    is_learned = words["sentence"] <= words["sentence"].max() // 2
    classifier = pipeline.make_pipeline(
        preprocessing.StandardScaler(), linear_model.RidgeClassifier()
    )
    classifier.fit(states[is_learned], words["label"][is_learned])
    judged = words[~is_learned]
    is_right = classifier.predict(states[~is_learned]) == judged["label"]
    by_sentence = is_right.groupby(judged["sentence"])
    return by_sentence.agg(["sum", "count"]).to_numpy()


def sum_units(states: np.ndarray, words: pd.DataFrame) -> np.ndarray:
    """Sums normalized states `[W, D]`, and words, by sentence: `[N, D + 1]`."""
    sizes = np.linalg.norm(states, axis=1, keepdims=True)
    is_seen = sizes > 0  # words that are cut off have zeros
    units = np.hstack([states / np.where(is_seen, sizes, 1), is_seen])
    return pd.DataFrame(units).groupby(words["sentence"]).sum().to_numpy()


def anisotropy(totals: np.ndarray) -> np.ndarray:
    """Returns the mean cosine of all pairs of words; R sums of `sum_units`."""
    count = totals[:, -1]
    squares = np.sum(totals[:, :-1] ** 2, 1)
    return (squares - count) / (count * (count - 1))


def sum_products(
    first: np.ndarray, second: np.ndarray, words: pd.DataFrame
) -> np.ndarray:
    """Sums the products of a word's states by groups of sentences.

    The states are `[W, D]`, `[W, E]` and a constant 1. Returns
    `[G, D + E + 1, D + E + 1]`.
    """
    joined = np.hstack([first, second]).astype(np.float64)
    joined = np.hstack([joined - joined.mean(0), np.ones([len(joined), 1])])
    group = words["sentence"].to_numpy() * _NUM_GROUPS
    group //= words["sentence"].max() + 1
    own = [joined[group == number] for number in np.unique(group)]
    return np.stack([rows.T @ rows for rows in own])


def cka(totals: np.ndarray, width: int) -> np.ndarray:
    """Returns the linear centered kernel alignment; R sums of products."""
    sums, count = totals[:, -1:], totals[:, -1:, -1:]
    centered = (totals - np.swapaxes(sums, 1, 2) * sums / count)[:, :-1, :-1]
    first, second = slice(width), slice(width, None)
    between, own, other = (
        np.linalg.norm(centered[:, rows, columns], axis=(1, 2))
        for rows, columns in ((first, second), (first, first), (second, second))
    )
    return between**2 / (own * other)


def draw(findings: analysis.Findings, axes: Sequence[Any]) -> None:
    """Draws the picture that `PICTURE` describes."""
    table, likeness = findings.table, findings.series["CKA"]
    for name in table.filter(regex="probe|anisotropy|attention"):
        style = ":" if "random" in name else "-"
        axes[0].plot(table.index, table[name], f"o{style}", ms=4, label=name)
    axes[0].set_xlabel("layer")
    axes[0].grid(alpha=0.3)
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12)}
    axes[0].legend(**below, ncols=2, fontsize=8)
    image = axes[1].imshow(likeness, vmin=0, vmax=1, origin="lower")
    axes[1].set_xticks(range(likeness.shape[1]), likeness.columns, rotation=45)
    axes[1].set_yticks(range(len(likeness)), likeness.index)
    axes[1].set_xlabel("layer of the other model")
    axes[1].set_title("CKA")
    axes[1].figure.colorbar(image, ax=axes[1])
    axes[1].figure.subplots_adjust(wspace=0.3)
