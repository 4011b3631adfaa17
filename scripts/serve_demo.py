r"""Shows a model on a web page of this machine: words coloured, masks filled.

    python scripts/serve_demo.py --model=tiny-en
    python scripts/serve_demo.py --model=DISCRIMINATOR --generator=GENERATOR
    python scripts/serve_demo.py --saved_model=runs/tiny/export

Open the address that it prints; Ctrl-C ends it. Nothing is loaded from
elsewhere, and no other machine can reach it unless --host says so.
"""

import pathlib

from absl import flags

from electra_tf import command_line

_MODEL = flags.DEFINE_string(
    "model",
    "",
    "A model in any format that electra_tf.load takes, or tiny-en.",
)
_GENERATOR = flags.DEFINE_string(
    "generator", "", "A second model, to take the generator from."
)
_SAVED_MODEL = flags.DEFINE_string(
    "saved_model",
    "",
    "Folder made by export_saved_model.py. With --model, words are scored by "
    "the export and masks filled by the model.",
)
_HOST = flags.DEFINE_string(
    "host", "127.0.0.1", "Address to listen at; 0.0.0.0 opens it to others."
)
_PORT = flags.DEFINE_integer(
    "port", 8000, "Port to listen at; 0 for any that is free.", 0, 65535
)


def main() -> None:
    """Loads, serves, and ends at Ctrl-C."""
    if not (_MODEL.value or _SAVED_MODEL.value):
        raise ValueError("Give --model, --saved_model, or both.")
    if _GENERATOR.value and not _MODEL.value:
        raise ValueError("--generator needs --model.")
    # TensorFlow takes seconds to import; a mistaken flag is reported before.
    from electra_tf import electra as electra_lib
    from electra_tf.export.demo import answers
    from electra_tf.export.demo import server

    loaded = None
    if _MODEL.value:
        loaded = electra_lib.Electra.load(
            _MODEL.value, generator_path=_GENERATOR.value or None
        )
    export = pathlib.Path(_SAVED_MODEL.value) if _SAVED_MODEL.value else None
    model = answers.build_demo_model(loaded, export)
    server.serve(server.DemoServer(model, _HOST.value, _PORT.value))


if __name__ == "__main__":
    command_line.run(main)
