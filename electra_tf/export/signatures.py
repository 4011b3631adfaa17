"""The public format of an export: its signatures, and what each tensor means.

Which of the signatures an export has depends on what its main tower can say
(`tower_answers`), or on what it was fine-tuned for (`finetuned`).
These modules compute exactly these names; the README and signatures.json
beside an exported model are written from these tables.

The last part of a signature's name says what it takes, `text` or `ids`.
"""

from typing import NamedTuple

# The logit where there is no token; its sigmoid is exactly zero in float32.
PADDING_LOGIT = -10000.0
# What stands where there is no token, for outputs where that is not 0.
PADDING = {"replaced_logits": PADDING_LOGIT}
# Predictions for every token, fewer where the vocabulary is smaller.
NUM_PREDICTIONS = 5
# The score of an answer where there is none.
NO_ANSWER_SCORE = -10000.0
# Null odds of a context without a single piece.
NO_CONTEXT_ODDS = 1e6


class TensorMeaning(NamedTuple):
    """Documentation of one input or output.

    Attributes:
        dtype: TensorFlow's name of it.
        shape: in letters, keys of `DIMENSIONS`.
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


DIMENSIONS = {
    "B": "texts",
    "S": "tokens of the longest",
    "D": "hidden width",
    "K": f"{NUM_PREDICTIONS} predictions",
    "C": "labels",
    "W": "words of the longest",
}

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
    "text_pairs": TensorMeaning(
        "string", "[B]", "The second text of every pair, as `texts`."
    ),
    "label": TensorMeaning("string", "[B]", "The most probable label."),
    "label_index": TensorMeaning(
        "int32", "[B]", "Its place in the list of labels, from 0."
    ),
    "probabilities": TensorMeaning(
        "float32", "[B, C]", "Of all labels, in the order of the list."
    ),
    "logits": TensorMeaning("float32", "[B, C]", "Their logits."),
    "score": TensorMeaning(
        "float32",
        "[B]",
        "In the unit of the training data; not cut to its range.",
    ),
    "words": TensorMeaning(
        "string", "[B, W]", 'What stands between blanks; "" for padding.'
    ),
    "word_positions": TensorMeaning(
        "int32",
        "[B, W]",
        "The token that each word begins with; 0 for padding.",
    ),
    "tags": TensorMeaning(
        "string",
        "[B, W]",
        'The most probable tag; "" for padding. Words that were not seen have '
        '"O" where tags mark spans, "" otherwise.',
    ),
    "tag_probabilities": TensorMeaning(
        "float32",
        "[B, W]",
        "Its probability; 0 for padding and words that were not seen.",
    ),
    "tag_logits": TensorMeaning(
        "float32",
        "[B, W, C]",
        "Of all tags, in the order of the list; 0 for padding.",
    ),
    "tagged_starts": TensorMeaning(
        "int32",
        "[B, W]",
        "Byte of the text at which the word starts; -1 for padding.",
    ),
    "tagged_ends": TensorMeaning(
        "int32", "[B, W]", "Byte after the word; -1 for padding."
    ),
    "num_words": TensorMeaning("int32", "[B]", "Words of the text."),
    "questions": TensorMeaning("string", "[B]", "UTF-8 text."),
    "contexts": TensorMeaning(
        "string",
        "[B]",
        "UTF-8 text of any length, in which the answers are looked for.",
    ),
    "answers": TensorMeaning(
        "string",
        "[B]",
        'The best part of the context, as it stands there; "" where there is '
        "none at all.",
    ),
    "answer_starts": TensorMeaning(
        "int32",
        "[B]",
        "Character (code point) of the context at which it starts.",
    ),
    "answer_ends": TensorMeaning("int32", "[B]", "Character after it."),
    "answer_byte_starts": TensorMeaning(
        "int32", "[B]", "The same start, in bytes of UTF-8."
    ),
    "answer_byte_ends": TensorMeaning("int32", "[B]", "Byte after it."),
    "answer_scores": TensorMeaning(
        "float32",
        "[B]",
        "How good it is: log probabilities, or logits, of start and end, "
        f"added up; {NO_ANSWER_SCORE:.0f} where there is none.",
    ),
    "null_odds": TensorMeaning(
        "float32",
        "[B]",
        "High where the context has no answer, whatever `answers` says; "
        f"{NO_CONTEXT_ODDS:.0f} where the context has no words.",
    ),
    "num_windows": TensorMeaning(
        "int32",
        "[B]",
        "Overlapping parts in which the context was read; 0 without words.",
    ),
    "num_question_truncated": TensorMeaning(
        "int32", "[B]", "Pieces at the end of the question that were cut off."
    ),
    "start_positions": TensorMeaning(
        "int32",
        "[B]",
        "The answer's first token in the row; 0, [CLS], where there is none.",
    ),
    "end_positions": TensorMeaning(
        "int32", "[B]", "Its last token; 0 if none."
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
_COUNTS = ("num_tokens", "num_truncated")
_CLASSES = ("label", "label_index", "probabilities")
_PAIR = ("texts", "text_pairs")

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
    "classify_text": Signature(
        "The label of raw text.", ("texts",), (*_CLASSES, *_COUNTS)
    ),
    "classify_pair_text": Signature(
        "The label of a pair of raw texts.", _PAIR, (*_CLASSES, *_COUNTS)
    ),
    "classify_ids": Signature(
        "The label of text that was tokenized elsewhere.",
        _IDS,
        (*_CLASSES, "logits"),
    ),
    "regress_text": Signature(
        "The score of raw text.", ("texts",), ("score", *_COUNTS)
    ),
    "regress_pair_text": Signature(
        "The score of a pair of raw texts.", _PAIR, ("score", *_COUNTS)
    ),
    "regress_ids": Signature(
        "The score of text that was tokenized elsewhere.", _IDS, ("score",)
    ),
    "tag_text": Signature(
        "The words of raw text, each with its tag.",
        ("texts",),
        (
            "words",
            "tags",
            "tag_probabilities",
            "tagged_starts",
            "tagged_ends",
            "num_words",
            *_COUNTS,
        ),
    ),
    "tag_ids": Signature(
        "The tags of words that were tokenized elsewhere.",
        (*_IDS, "word_positions"),
        ("tags", "tag_probabilities", "tag_logits"),
    ),
    "answer_text": Signature(
        "The part of a raw context that answers a question.",
        ("questions", "contexts"),
        (
            "answers",
            "answer_starts",
            "answer_ends",
            "answer_byte_starts",
            "answer_byte_ends",
            "answer_scores",
            "null_odds",
            "num_windows",
            "num_question_truncated",
        ),
    ),
    "answer_ids": Signature(
        "The tokens that answer a question, for one window: [CLS] question "
        "[SEP] in segment 0, part of the context [SEP] in segment 1.",
        _IDS,
        ("start_positions", "end_positions", "answer_scores", "null_odds"),
    ),
}
