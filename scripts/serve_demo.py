r"""Shows a model on a web page of this machine.

    electra-serve-demo --model=tiny-en
    electra-serve-demo --model=runs/reviews
    electra-serve-demo --model=DISCRIMINATOR --generator=GENERATOR

A pre-trained model colours words and fills masks; a fine-tuned one, or
its export, shows labels, a number, tags or an answer. Open the address that it
prints; Ctrl-C ends it. Nothing is loaded from elsewhere, and no other machine
can reach it unless --host says so.
"""

from absl import flags

import electra_tf
from electra_tf import command_line
from electra_tf import installed

FLAGS = flags.FLAGS
flags.DEFINE_string("model", "", "A model, its name on the hub, or an export.")
flags.DEFINE_string("generator", "", "A second model, for its generator.")
flags.DEFINE_string("saved_model", "", "Scores; --model then fills masks.")
flags.DEFINE_string("task", "", "Of a model with several, the one to show.")
flags.DEFINE_string("host", "127.0.0.1", "0.0.0.0 opens it to others.")
flags.DEFINE_integer("port", 8000, "0 for any that is free.", 0, 65535)


def main() -> None:
    """Loads, serves, and ends at Ctrl-C."""
    if not (FLAGS.model or FLAGS.saved_model):
        raise ValueError("Give --model, --saved_model, or both.")
    path, exported = FLAGS.model, FLAGS.saved_model
    if not exported and installed.is_export(path):
        path, exported = "", path
    if (FLAGS.generator or FLAGS.task) and not path:
        raise ValueError(
            "--generator and --task are of a --model that is no export. "
            f"Received: the export {exported}. Leave them out."
        )
    model, generator = (
        installed.find_model(name) if name else None
        for name in (path, FLAGS.generator)
    )
    export = installed.find_export(exported) if exported else None
    # TensorFlow takes seconds to import; a mistaken flag is reported before.
    from electra_tf.export.demo import server

    loaded = None
    if model:
        others = {"generator_path": generator, "task": FLAGS.task}
        loaded = electra_tf.load(model, **others)
    shown = server.build_demo_model(loaded, export)
    server.serve(server.DemoServer(shown, FLAGS.host, FLAGS.port))


if __name__ == "__main__":
    command_line.run(main)
