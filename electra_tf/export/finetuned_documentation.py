"""The README beside the export of a fine-tuned model."""

from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from electra_tf.export import documentation
from electra_tf.export import signatures

# Labels that the README lists; export.json holds all.
_MAX_LISTED = 40


class _Kind(NamedTuple):
    """What a README says about one kind of task.

    Attributes:
        title: headline, with a place for the task's name.
        summary: one paragraph.
        example: Python that asks `model`; `signature` is the default one.
        notes: lines of a list, each with its line break.
    """

    title: str
    summary: str
    example: str
    notes: str = ""


_TEXTS = 'texts=tf.constant(["The cat sat on the mat."])'
_PAIRS = f"""{_TEXTS},
    text_pairs=tf.constant(["A cat was sitting."])"""
_CUT = (
    "- Texts are cut so that a row has at most {max_length} tokens, [CLS] and "
    "[SEP] among\n  them; `num_truncated` says how many pieces were not "
    "seen. Of a pair the longer\n  text is cut.\n"
)
_CLASSIFY = """\
answer = model.signatures["{signature}"](
    {inputs}
)
label, probabilities = answer["label"][0], answer["probabilities"][0]
print(label.numpy().decode(), probabilities.numpy())"""
_REGRESS = """\
answer = model.signatures["{signature}"](
    {inputs}
)
print(answer["score"].numpy())"""
_TAG = """\
answer = model.signatures["tag_text"](
    texts=tf.constant(["The cat sat on the mat ."])
)
for word, tag in zip(answer["words"][0].numpy(), answer["tags"][0].numpy()):
    print(word.decode(), tag.decode())"""
_ANSWER = """\
context = "The cat sat on the mat, the dog under the table."
answer = model.signatures["answer_text"](
    questions=tf.constant(["Where did the cat sit?"]),
    contexts=tf.constant([context]),
)
start, end = answer["answer_starts"][0], answer["answer_ends"][0]
print(context[start:end], float(answer["null_odds"][0]))"""

_KINDS = {
    "classification": _Kind(
        "Classifier, fine-tuned on {task}",
        "Says which label a text has, and how probable every label is.",
        _CLASSIFY,
        _CUT,
    ),
    "regression": _Kind(
        "Regression, fine-tuned on {task}",
        "Gives a text a score. Training saw scores from {min_value:g} to "
        "{max_value:g}.",
        _REGRESS,
        _CUT,
    ),
    "tagging": _Kind(
        "Tagger, fine-tuned on {task}",
        "Gives every word of a text a tag.",
        _TAG,
        "- Words are what stands between blanks. Training files part "
        "punctuation from\n  words: so must you, if they do.\n"
        "- Rows have at most {max_length} tokens, [CLS] and [SEP] among them; "
        "`num_truncated`\n  says how many pieces were not seen. Words that "
        'were not seen have the tag "O"\n  where tags mark spans, "" '
        "otherwise.{early}\n"
        "- Tags of spans are in the encoding BIOES, whatever the training "
        "file's was.\n"
        "- `tag_ids` takes all tokens of a row in segment 1, as it was "
        "trained.\n",
    ),
    "question_answering": _Kind(
        "Reader, fine-tuned on {task}",
        "Finds the part of a context that answers a question.",
        _ANSWER,
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

_EARLY = (
    "\n- Long texts are cut early, as in training: before the first word for "
    "which the\n  tokens before it and the number of all words of the text "
    "exceed {max_length} - 3."
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
{notes}- Rows of ids longer than {num_positions} are an error. Training saw rows
  of {trained_length} tokens at most.
- Products run in {precision}, outputs are float32; kernels and tables are
  stored as {stored_weights}.
- Made for the device: {device}. With `cpu` it runs on the CPU wherever it is
  loaded; export it with `--device=any` for an accelerator.
"""
_EXTRA = """\
## Files

`assets.extra/` holds the vocabulary (vocab.txt), the tokenizer's settings
(tokenizer_config.json), the configuration of the fine-tuning (config.json),
and labels, scores and where the weights come from (export.json). The model
itself needs none of them. `tf_serving_warmup_requests` is what TensorFlow
Serving asks before it serves.
"""


def render_readme(facts: Mapping[str, Any]) -> str:
    """The text of README.md.

    Args:
        facts: what the export's export.json holds.
    """
    kind, names = _KINDS[facts["kind"]], facts["signatures"]
    major, minor, *_ = facts["tensorflow"].split(".")
    has_pairs = "text_pairs" in signatures.SIGNATURES[names[0]].inputs
    values = dict(facts) | {"early": ""}
    if facts.get("cuts_early"):
        values["early"] = _EARLY.format(**facts)
    use = _USE.format(
        version=f"{major}.{minor} or newer",
        example=kind.example.format(
            signature=names[0], inputs=_PAIRS if has_pairs else _TEXTS
        ),
        notes=kind.notes.format(**values),
        **facts,
    )
    return "\n".join(
        [
            f"# {kind.title.format(**facts)}\n",
            f"{kind.summary.format(**facts)}\n",
            _origin(facts),
            *documentation.render_sections(names),
            use,
            _EXTRA,
        ]
    )


def _origin(facts: Mapping[str, Any]) -> str:
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
