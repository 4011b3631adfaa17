r"""Asks a model that TensorFlow Serving serves, by REST or by gRPC.

    python scripts/serving_client.py --model=electra --text="The cat sat."
    python scripts/serving_client.py --model=tagger --protocol=grpc \\
        --server=localhost:8500 --version=2 --signature=tag_text \\
        --text="The cat sat on the mat ." --json

Flags of text may be given again for further rows of one request. Ids are
given as `--inputs='{"input_ids": [[2, 9, 3]], "input_mask": [[1, 1, 1]],
"segment_ids": [[0, 0, 0]]}'`.
"""

import json

from absl import flags

from electra_tf import command_line
from electra_tf.export import serving_client

_PROTOCOL = flags.DEFINE_enum(
    "protocol", "rest", serving_client.PROTOCOLS, "How to ask."
)
_SERVER = flags.DEFINE_string(
    "server", None, "host:port. Default: localhost, 8501 (REST) or 8500 (gRPC)."
)
_MODEL = flags.DEFINE_string("model", "electra", "Its name at the server.")
_VERSION = flags.DEFINE_integer(
    "version", 0, "Its version; 0: what the server takes.", lower_bound=0
)
_SIGNATURE = flags.DEFINE_string("signature", "", "Empty: the default one.")
_TIMEOUT = flags.DEFINE_float(
    "timeout", 60.0, "Seconds to wait.", lower_bound=0.001
)
_JSON = flags.DEFINE_bool("json", False, "Print one JSON object.")
_INPUTS = flags.DEFINE_string("inputs", "", "JSON: name to rows.")
_TEXTS = {
    "texts": flags.DEFINE_multi_string("text", [], "A text."),
    "text_pairs": flags.DEFINE_multi_string(
        "text_pair", [], "The second text of a pair."
    ),
    "questions": flags.DEFINE_multi_string("question", [], "A question."),
    "contexts": flags.DEFINE_multi_string(
        "context", [], "Where its answer is looked for."
    ),
}


def main() -> None:
    """Prints the answers."""
    try:
        inputs = json.loads(_INPUTS.value or "{}")
    except ValueError as error:
        raise ValueError(f"--inputs must be JSON. Wrong: {error}.") from error
    if not isinstance(inputs, dict):
        raise ValueError("--inputs must be a JSON object, name to rows.")
    inputs |= {name: f.value for name, f in _TEXTS.items() if f.value}
    if not inputs:
        raise ValueError("Nothing to ask. Give --text, or --inputs.")
    port = {"rest": 8501, "grpc": 8500}[_PROTOCOL.value]
    target = serving_client.Target(
        _SERVER.value or f"localhost:{port}",
        _MODEL.value,
        _VERSION.value,
        _SIGNATURE.value,
        _TIMEOUT.value,
    )
    answers = serving_client.predict(_PROTOCOL.value, target, inputs)
    if _JSON.value:
        print(json.dumps(serving_client.to_plain_json(answers)))
    else:
        for line in serving_client.describe(inputs, answers):
            print(line)


if __name__ == "__main__":
    command_line.run(main)
