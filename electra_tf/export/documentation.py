"""What lies beside an exported model: README.md and signatures.json."""

import json
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from electra_tf.export import signatures


class _Kind(NamedTuple):
    """What a README says about one kind of tower.

    Attributes:
        title: headline.
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
- Texts are cut after {max_length} tokens ([CLS] and [SEP] among them);
  `num_truncated` says how many pieces were not seen. Longer rows of ids than
  {num_positions} are an error.
- Training saw rows of {trained_length} tokens. Positions after that have never
  been trained unless an earlier phase of the run did.
- Offsets count bytes of the UTF-8 input, so slice the encoded text. All pieces
  of a word carry the offsets of the whole word.
- A text without words is answered for [CLS] and [SEP] alone.
{notes}- Products run in {precision}, outputs are float32; kernels and tables
  are stored as {stored_weights}.
- Made for the device: {device}. With `cpu` it runs on the CPU wherever it is
  loaded; export it with `--device=any` for an accelerator.
"""

_EXTRA = """\
## Files

`assets.extra/` holds the vocabulary (vocab.txt), the tokenizer's settings
(tokenizer_config.json), the configuration of the run (config.json) and where
the weights come from (export.json). The model itself needs none of them.
`tf_serving_warmup_requests` is what TensorFlow Serving asks before it serves.
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
    kind = _KINDS[facts["kind"]]
    origin = (
        f"Weights: {facts['weights']} of `{facts['checkpoint']}`, step "
        f"{facts['step']}, trained with the objective `{facts['objective']}`. "
        f"Made by electra_tf {facts['electra_tf']} with TensorFlow "
        f"{facts['tensorflow']}."
    )
    major, minor, *_ = facts["tensorflow"].split(".")
    use = _USE.format(
        version=f"{major}.{minor} or newer",
        example=kind.example,
        notes=kind.notes,
        **facts,
    )
    return "\n".join(
        [
            f"# {kind.title}\n",
            f"{kind.summary}\n",
            f"{origin}\n",
            *render_sections(facts["signatures"]),
            use,
            _EXTRA,
        ]
    )


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
