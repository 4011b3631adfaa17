"""What lies beside an exported model: README.md and signatures.json."""

import json
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from electra_tf.export import signatures

# Labels that the README lists; export.json holds all.
_MAX_LISTED = 40


class _Kind(NamedTuple):
    """What a README says about one kind of model.

    Attributes:
        title: headline; of a fine-tuned model with a place for the task.
        summary: one paragraph.
        example: Python that asks `model`.
        notes: lines of a list, each with its line break.
    """

    title: str
    summary: str
    example: str
    notes: str = ""


_SCORE_EXAMPLE = """\
text = "The cat sat on the banana."
answer = model.signatures["score_text"](texts=tf.constant([text]))
data = text.encode()
for start, end, probability in zip(
    answer["word_starts"][0].numpy(),
    answer["word_ends"][0].numpy(),
    answer["replaced_probability"][0].numpy(),
):
    if start >= 0:
        print(data[start:end].decode(), round(float(probability), 3))"""
_LIKELIHOOD_EXAMPLE = """\
texts = ["The cat sat on the mat.", "The cat sat on the banana."]
answer = model.signatures["likelihood_text"](texts=tf.constant(texts))
print(answer["pseudo_log_likelihood"].numpy())  # lower: less likely"""
_PREDICT_EXAMPLE = """\
with open(folder + "/assets.extra/vocab.txt", encoding="utf-8") as file:
    vocabulary = file.read().split("\\n")
texts = tf.constant(["The cat sat on the banana."])
rows = model.signatures["features_text"](texts=texts)
ids = rows["input_ids"].numpy()
ids[0, 2] = vocabulary.index("[MASK]")  # not with `replace_mlm`
answer = model.signatures["predict_ids"](
    input_ids=tf.constant(ids),
    input_mask=rows["input_mask"],
    segment_ids=tf.zeros_like(ids),
)
print([vocabulary[best] for best in answer["top_ids"][0, 2].numpy()])"""
_FEATURES_EXAMPLE = """\
texts = tf.constant(["The cat sat on the mat."])
answer = model.signatures["features_text"](texts=texts)
print(answer["sentence_features"].shape)"""

_KINDS = {
    "detector": _Kind(
        "ELECTRA discriminator",
        "Says for every token of a text how probable it is that someone "
        "replaced it.",
        _SCORE_EXAMPLE,
    ),
    "copying": _Kind(
        "Masked language model of all tokens, with a copy mechanism",
        "Says for every token of a text how probable it is that someone "
        "replaced it: one minus the probability of its copy mechanism that "
        "the token is the original.",
        _SCORE_EXAMPLE,
    ),
    "energy": _Kind(
        "Electric, an energy model of text",
        "Says in one pass how likely each token of a text is, given all "
        "others, and how likely the text.",
        _LIKELIHOOD_EXAMPLE,
        "- Log likelihoods are up to a constant per token, so compare texts "
        "of about the\n  same number of tokens. A text without words has 0.\n",
    ),
    "masked_lm": _Kind(
        "Masked language model",
        "Says for every position of a text which tokens belong there.",
        _PREDICT_EXAMPLE,
        "- Training asked for tokens at masked positions alone. There `mlm` "
        "showed mostly\n  [MASK], `replace_mlm` samples of a generator and "
        "never [MASK].\n"
        "- [MASK] in raw text is text like any other, not the token: put its "
        "id into\n  rows of ids.\n",
    ),
    "encoder": _Kind(
        "Text encoder",
        "Turns a text into features.",
        _FEATURES_EXAMPLE,
    ),
}

_TEXTS = 'texts=tf.constant(["The cat sat on the mat."])'
_PAIRS = f"""{_TEXTS},
    text_pairs=tf.constant(["A cat was sitting."])"""
_CUT = (
    "- Texts are cut so that a row has at most {max_length} tokens, [CLS] and "
    "[SEP] among\n  them; `num_truncated` says how many pieces were not "
    "seen. Of a pair the longer\n  text is cut.\n"
)
_CLASSIFY_EXAMPLE = """\
answer = model.signatures["{signature}"](
    {inputs}
)
label, probabilities = answer["label"][0], answer["probabilities"][0]
print(label.numpy().decode(), probabilities.numpy())"""
_REGRESS_EXAMPLE = """\
answer = model.signatures["{signature}"](
    {inputs}
)
print(answer["score"].numpy())"""
_TAG_EXAMPLE = """\
answer = model.signatures["tag_text"](
    texts=tf.constant(["The cat sat on the mat ."])
)
for word, tag in zip(answer["words"][0].numpy(), answer["tags"][0].numpy()):
    print(word.decode(), tag.decode())"""
_ANSWER_EXAMPLE = """\
context = "The cat sat on the mat, the dog under the table."
answer = model.signatures["answer_text"](
    questions=tf.constant(["Where did the cat sit?"]),
    contexts=tf.constant([context]),
)
start, end = answer["answer_starts"][0], answer["answer_ends"][0]
print(context[start:end], float(answer["null_odds"][0]))"""

_FINETUNED_KINDS = {
    "classification": _Kind(
        "Classifier, fine-tuned on {task}",
        "Says which label a text has, and how probable every label is.",
        _CLASSIFY_EXAMPLE,
        _CUT,
    ),
    "regression": _Kind(
        "Regression, fine-tuned on {task}",
        "Gives a text a score. Training saw scores from {min_value:g} to "
        "{max_value:g}.",
        _REGRESS_EXAMPLE,
        _CUT,
    ),
    "tagging": _Kind(
        "Tagger, fine-tuned on {task}",
        "Gives every word of a text a tag.",
        _TAG_EXAMPLE,
        "- Words are what stands between blanks. Training files part "
        "punctuation from\n  words: so must you, if they do.\n"
        "{long}"
        "- Tags of spans are in the encoding BIOES, whatever the training "
        "file's was.\n"
        "- `tag_ids` takes all tokens of a row in segment 1, as it was "
        "trained.\n",
    ),
    "question_answering": _Kind(
        "Reader, fine-tuned on {task}",
        "Finds the part of a context that answers a question.",
        _ANSWER_EXAMPLE,
        "- Contexts have any length: they are read in windows of {max_length} "
        "tokens, each\n  {doc_stride} pieces after the last, and the best "
        "answer of all wins. Questions are cut\n  after {max_query_length} "
        "pieces, answers have at most {max_answer_length}.\n"
        "- There is nearly always an answer. Whether to believe it is said "
        "by `null_odds`:\n  choose a threshold on data of your own. Training "
        "used {qa_na_threshold:g} for test answers, above\n  which a question "
        "has none. A model that never saw questions without answers\n"
        "  cannot tell.\n"
        "- Characters are code points, as Python counts them.\n",
    ),
}

_LONG_TEXTS = (
    "- Texts have any length: they are read in rows of at most {max_length} "
    "tokens that\n  overlap, and every word is tagged where it has most "
    "context.\n"
)
_CUT_TEXTS = (
    "- Rows have at most {max_length} tokens, [CLS] and [SEP] among them; "
    "`num_truncated`\n  says how many pieces were not seen. Words that "
    'were not seen have the tag "O"\n  where tags mark spans, "" '
    "otherwise.\n- Long texts are cut early, as in training: before the first "
    "word for which the\n  tokens before it and the number of all words of "
    "the text exceed {max_length} - 3.\n"
)

_USE = """\
## Use

Needs tensorflow and tensorflow-text {version}, nothing else:

```python
import tensorflow as tf
import tensorflow_text  # registers its operations

folder = "PATH_OF_THIS_FOLDER"
model = tf.saved_model.load(folder)
{example}
```

A server with TensorFlow Text in it serves the folder as it is, under a name
that is a version number (`models/electra/1`). All outputs have the batch as
their first axis. Requests of ids that a server batches must be padded to one
length, with `input_mask` 0.

## What to know

- Batch and length are free. Padding and the other rows of a batch change no
  answer beyond rounding.
{notes}- Products run in {precision}, outputs are float32; kernels and tables
  are stored as {stored_weights}.
- Made for the device: {device}. With `cpu` it runs on the CPU wherever it is
  loaded; export it with `--device=any` for an accelerator.

## Files

`assets.extra/` holds the vocabulary (vocab.txt), the tokenizer's settings
(tokenizer_config.json), the configuration of the run (config.json), and where
the weights come from and what they are (export.json). The model itself needs
none of them. `tf_serving_warmup_requests` is what TensorFlow Serving asks
before it serves.
"""

_PRETRAINED_NOTES = """\
- Texts are cut after {max_length} tokens ([CLS] and [SEP] among them);
  `num_truncated` says how many pieces were not seen. Longer rows of ids than
  {num_positions} are an error.
- Training saw rows of {trained_length} tokens. Positions after that have never
  been trained unless an earlier phase of the run did.
- Offsets count bytes of the UTF-8 input, so slice the encoded text. All pieces
  of a word carry the offsets of the whole word.
- A text without words is answered for [CLS] and [SEP] alone.
"""
_FINETUNED_NOTES = """\
- Rows of ids longer than {num_positions} are an error. Training saw rows
  of {trained_length} tokens at most.
"""


def signature_table(names: Sequence[str]) -> dict[str, Any]:
    """Signature to purpose, inputs and outputs, as JSON takes it.

    Args:
        names: of the signatures that a model has, the default first.
    """
    table = {
        name: {
            "purpose": documented.purpose,
            "inputs": _tensor_table(documented.inputs),
            "outputs": _tensor_table(documented.outputs),
        }
        for name, documented in signatures.SIGNATURES.items()
        if name in names
    }
    return {"serving_default": table[names[0]]} | table


def render_signatures(names: Sequence[str]) -> str:
    """The text of signatures.json; arguments as `signature_table`."""
    return json.dumps(signature_table(names), indent=2) + "\n"


def render_readme(facts: Mapping[str, Any]) -> str:
    """The text of README.md.

    Args:
        facts: what the export's export.json holds.
    """
    signature = facts["signatures"][0]
    if facts["kind"] in _KINDS:
        kind = _KINDS[facts["kind"]]
        example, origin = kind.example, _describe_run(facts)
        notes = _PRETRAINED_NOTES.format(**facts) + kind.notes
    else:
        kind = _FINETUNED_KINDS[facts["kind"]]
        origin = _describe_trial(facts)
        has_pairs = "text_pairs" in signatures.SIGNATURES[signature].inputs
        example = kind.example.format(
            signature=signature, inputs=_PAIRS if has_pairs else _TEXTS
        )
        long = _CUT_TEXTS if facts.get("cuts_early") else _LONG_TEXTS
        notes = kind.notes.format(long=long.format(**facts), **facts)
        notes += _FINETUNED_NOTES.format(**facts)
    major, minor, *_ = facts["tensorflow"].split(".")
    return "\n".join(
        [
            f"# {kind.title.format(**facts)}\n",
            f"{kind.summary.format(**facts)}\n",
            origin,
            *render_sections(facts["signatures"]),
            _USE.format(
                version=f"{major}.{minor} or newer",
                example=example,
                notes=notes,
                **facts,
            ),
        ]
    )


def _describe_run(facts: Mapping[str, Any]) -> str:
    return (
        f"Weights: {facts['weights']} of `{facts['checkpoint']}`, step "
        f"{facts['step']}, trained with the objective `{facts['objective']}`. "
        f"Made by electra_tf {facts['electra_tf']} with TensorFlow "
        f"{facts['tensorflow']}.\n"
    )


def _describe_trial(facts: Mapping[str, Any]) -> str:
    lines = [
        f"Weights: `{facts['checkpoint']}`, step {facts['step']}, seed "
        f"{facts['seed']}, fine-tuned from {facts['source']}. Made by "
        f"electra_tf {facts['electra_tf']} with TensorFlow "
        f"{facts['tensorflow']}.\n"
    ]
    if facts["labels"]:
        shown = ", ".join(f"`{name}`" for name in facts["labels"][:_MAX_LISTED])
        rest = len(facts["labels"]) - _MAX_LISTED
        more = f" and {rest} more, see export.json" if rest > 0 else ""
        lines.append(f"Labels, in this order: {shown}{more}.\n")
    for split, metrics in facts["scores"].items():
        shown = ", ".join(f"{k} {v:.2f}" for k, v in metrics.items())
        lines.append(f"Scores on {split}: {shown}.\n")
    return "\n".join(lines)


def render_sections(names: Sequence[str]) -> list[str]:
    """The part of a README about signatures.

    Args:
        names: of the signatures that a model has, the default first.
    """
    tensors = {
        tensor
        for name in names
        for side in signatures.SIGNATURES[name][1:]
        for tensor in side
    }
    used = "".join(signatures.TENSORS[tensor].shape for tensor in tensors)
    letters = ", ".join(
        f"{letter} {meaning}"
        for letter, meaning in signatures.DIMENSIONS.items()
        if letter in used
    )
    return [
        "## Signatures\n",
        f"{letters}. `serving_default` is `{names[0]}`.\n",
        *(_section(name) for name in signatures.SIGNATURES if name in names),
    ]


def _section(name: str) -> str:
    documented = signatures.SIGNATURES[name]
    rows = [
        f"| {side} | `{tensor}` | {meaning.dtype} {meaning.shape} "
        f"| {meaning.meaning} |"
        for side, tensors in (
            ("in", documented.inputs),
            ("out", documented.outputs),
        )
        for tensor, meaning in ((t, signatures.TENSORS[t]) for t in tensors)
    ]
    head = ["| | tensor | type | meaning |", "| --- | --- | --- | --- |"]
    lines = [f"### `{name}`", "", documented.purpose, "", *head, *rows, ""]
    return "\n".join(lines)


def _tensor_table(names: tuple[str, ...]) -> dict[str, dict[str, str]]:
    return {name: signatures.TENSORS[name]._asdict() for name in names}
