"""What lies beside an exported model: README.md and signatures.json."""

import json
from collections.abc import Mapping
from typing import Any

from electra_tf.export import signatures

_USE = """\
## Use

Needs tensorflow and tensorflow-text {version}, nothing else:

```python
import tensorflow as tf
import tensorflow_text  # registers its operations

model = tf.saved_model.load("PATH_OF_THIS_FOLDER")
text = "The cat sat on the banana."
answer = model.signatures["score_text"](texts=tf.constant([text]))
data = text.encode()
for start, end, probability in zip(
    answer["word_starts"][0].numpy(),
    answer["word_ends"][0].numpy(),
    answer["replaced_probability"][0].numpy(),
):
    if start >= 0:
        print(data[start:end].decode(), round(float(probability), 3))
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
- Products run in {precision}; weights and outputs are float32.
"""

_EXTRA = """\
## Files

`assets.extra/` holds the vocabulary (vocab.txt), the tokenizer's settings
(tokenizer_config.json), the configuration of the run (config.json) and where
the weights come from (export.json). The model itself needs none of them.
"""


def signature_table() -> dict[str, Any]:
    """Signature to purpose, inputs and outputs, as JSON takes it."""
    table = {
        name: {
            "purpose": documented.purpose,
            "inputs": _tensor_table(documented.inputs),
            "outputs": _tensor_table(documented.outputs),
        }
        for name, documented in signatures.SIGNATURES.items()
    }
    return {"serving_default": table[signatures.DEFAULT_SIGNATURE]} | table


def render_signatures() -> str:
    """The text of signatures.json."""
    return json.dumps(signature_table(), indent=2) + "\n"


def render_readme(facts: Mapping[str, Any]) -> str:
    """The text of README.md.

    Args:
        facts: what the export's export.json holds.
    """
    origin = (
        f"Weights: {facts['weights']} of `{facts['checkpoint']}`, step "
        f"{facts['step']}. Made by electra_tf {facts['electra_tf']} with "
        f"TensorFlow {facts['tensorflow']}."
    )
    major, minor, *_ = facts["tensorflow"].split(".")
    use = _USE.format(version=f"{major}.{minor} or newer", **facts)
    return "\n".join(
        [
            "# ELECTRA discriminator\n",
            "Says for every token of a text how probable it is that someone "
            "replaced it.\n",
            f"{origin}\n",
            "## Signatures\n",
            "B texts, S tokens of the longest of them, D hidden width. "
            "`serving_default` is "
            f"`{signatures.DEFAULT_SIGNATURE}`.\n",
            *(_section(name) for name in signatures.SIGNATURES),
            use,
            _EXTRA,
        ]
    )


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
