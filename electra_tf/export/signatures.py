"""The public format of an export: its signatures, and what each tensor means.

Which of the signatures an export has depends on what its main tower can say
(`tower_answers`). `serving_module` computes exactly these names; the README
and signatures.json beside an exported model are written from these tables.

The last part of a signature's name says what it takes, `text` or `ids`.
"""

from typing import NamedTuple

# The logit where there is no token; its sigmoid is exactly zero in float32.
PADDING_LOGIT = -10000.0
# Predictions for every token, fewer where the vocabulary is smaller.
NUM_PREDICTIONS = 5


class TensorMeaning(NamedTuple):
    """Documentation of one input or output.

    Attributes:
        dtype: TensorFlow's name of it.
        shape: in letters, B texts, S tokens of the longest, D hidden width,
            K predictions.
        meaning: one sentence.
    """

    dtype: str
    shape: str
    meaning: str


class Signature(NamedTuple):
    """Documentation of one signature.

    Attributes:
        purpose: one sentence.
        inputs: names, keys of `TENSORS`.
        outputs: names, keys of `TENSORS`.
    """

    purpose: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


TENSORS = {
    "texts": TensorMeaning(
        "string", "[B]", "UTF-8 text; bytes that are not UTF-8 are dropped."
    ),
    "input_ids": TensorMeaning(
        "int32", "[B, S]", "[CLS], the text's pieces, [SEP], then padding."
    ),
    "input_mask": TensorMeaning(
        "int32", "[B, S]", "1 for tokens, 0 for padding."
    ),
    "segment_ids": TensorMeaning(
        "int32", "[B, S]", "0 for the first segment, 1 for the second."
    ),
    "word_starts": TensorMeaning(
        "int32",
        "[B, S]",
        "Byte of the text at which the token's word starts; -1 for [CLS], "
        "[SEP] and padding.",
    ),
    "word_ends": TensorMeaning(
        "int32",
        "[B, S]",
        "Byte after that word; -1 for [CLS], [SEP] and padding.",
    ),
    "num_tokens": TensorMeaning(
        "int32", "[B]", "Tokens of the row, with [CLS] and [SEP]."
    ),
    "num_truncated": TensorMeaning(
        "int32",
        "[B]",
        "Pieces at the end of the text that did not fit and were not seen.",
    ),
    "replaced_probability": TensorMeaning(
        "float32",
        "[B, S]",
        "Probability that the token was replaced; 0 for padding.",
    ),
    "replaced_logits": TensorMeaning(
        "float32",
        "[B, S]",
        f"Logit of that probability; {PADDING_LOGIT:.0f} for padding.",
    ),
    "token_log_likelihood": TensorMeaning(
        "float32",
        "[B, S]",
        "Minus the token's energy: its log probability given all others, up "
        "to a constant that the model does not know; 0 for [CLS], [SEP], "
        "[MASK] and padding.",
    ),
    "pseudo_log_likelihood": TensorMeaning(
        "float32", "[B]", "Their sum; the lower, the less likely the text."
    ),
    "top_ids": TensorMeaning(
        "int32",
        "[B, S, K]",
        "The most probable original tokens, best first; 0 for padding.",
    ),
    "top_probabilities": TensorMeaning(
        "float32", "[B, S, K]", "Their probabilities; 0 for padding."
    ),
    "sentence_features": TensorMeaning(
        "float32", "[B, D]", "Last layer at the first token, [CLS]."
    ),
    "token_features": TensorMeaning(
        "float32", "[B, S, D]", "Last layer at every token; 0 for padding."
    ),
}

_IDS = ("input_ids", "input_mask", "segment_ids")
_ROWS = (
    "input_ids",
    "input_mask",
    "word_starts",
    "word_ends",
    "num_tokens",
    "num_truncated",
)
_LIKELIHOODS = ("token_log_likelihood", "pseudo_log_likelihood")
_FEATURES = ("sentence_features", "token_features")

SIGNATURES = {
    "score_text": Signature(
        "Which words of raw text look replaced.",
        ("texts",),
        (*_ROWS, "replaced_probability"),
    ),
    "score_ids": Signature(
        "Which tokens look replaced, for text that was tokenized elsewhere.",
        _IDS,
        ("replaced_probability", "replaced_logits"),
    ),
    "likelihood_text": Signature(
        "How likely raw text is, in one pass.",
        ("texts",),
        (*_ROWS, *_LIKELIHOODS),
    ),
    "likelihood_ids": Signature(
        "How likely text is that was tokenized elsewhere, in one pass.",
        _IDS,
        _LIKELIHOODS,
    ),
    "predict_ids": Signature(
        "Which token belongs at every position.",
        _IDS,
        ("top_ids", "top_probabilities"),
    ),
    "features_text": Signature(
        "Sentence and token features of raw text.",
        ("texts",),
        (*_ROWS, *_FEATURES),
    ),
    "features_ids": Signature(
        "Sentence and token features, for text that was tokenized elsewhere.",
        _IDS,
        _FEATURES,
    ),
}
