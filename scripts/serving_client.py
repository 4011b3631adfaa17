r"""Asks a model that TensorFlow Serving serves, by REST or by gRPC.

    electra-serving-client --model=electra --text="The cat sat."
    electra-serving-client --model=tagger --protocol=grpc \\
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

FLAGS = flags.FLAGS
flags.DEFINE_enum("protocol", "rest", serving_client.PROTOCOLS, "How to ask.")
flags.DEFINE_string(
    "server", None, "host:port. Default: localhost, 8501 (REST) or 8500 (gRPC)."
)
flags.DEFINE_string("model", "electra", "Its name at the server.")
flags.DEFINE_integer("version", 0, "0: what the server takes.", 0)
flags.DEFINE_string("signature", "", "Empty: the default one.")
flags.DEFINE_float("timeout", 60.0, "Seconds to wait.", 0.001)
flags.DEFINE_bool("json", False, "Print one JSON object.")
flags.DEFINE_string("inputs", "", "JSON: name to rows.")
flags.DEFINE_multi_string("text", [], "A text.")
flags.DEFINE_multi_string("text_pair", [], "The second text of a pair.")
flags.DEFINE_multi_string("question", [], "A question.")
flags.DEFINE_multi_string("context", [], "Where its answer is looked for.")
_TEXTS = ("text", "text_pair", "question", "context")


def main() -> None:
    """Prints the answers."""
    try:
        inputs = json.loads(FLAGS.inputs or "{}")
    except ValueError as error:
        raise ValueError(f"--inputs must be JSON. Wrong: {error}.") from error
    if not isinstance(inputs, dict):
        raise ValueError("--inputs must be a JSON object, name to rows.")
    texts = {f"{name}s": getattr(FLAGS, name) for name in _TEXTS}
    inputs |= {name: rows for name, rows in texts.items() if rows}
    if not inputs:
        raise ValueError("Nothing to ask. Give --text, or --inputs.")
    port = {"rest": 8501, "grpc": 8500}[FLAGS.protocol]
    target = serving_client.Target(
        FLAGS.server or f"localhost:{port}",
        FLAGS.model,
        FLAGS.version,
        FLAGS.signature,
        FLAGS.timeout,
    )
    answers = serving_client.predict(FLAGS.protocol, target, inputs)
    if FLAGS.json:
        print(json.dumps(serving_client.to_plain_json(answers)))
    else:
        for line in serving_client.describe(inputs, answers):
            print(line)


if __name__ == "__main__":
    command_line.run(main)
