r"""Shows a model on a local web page.

    electra-serve-demo --model=tiny-en
    electra-serve-demo --model=runs/reviews
    electra-serve-demo --model=DISCRIMINATOR --generator=GENERATOR

A pre-trained model colours words and fills masks; a fine-tuned model, or its
export, shows labels, a number, tags or an answer. Open the address that the
command prints; Ctrl-C ends it. The page loads nothing from other sites, and
other machines cannot reach it without --host.
"""

from absl import flags

import electra_tf
from electra_tf import command_line
from electra_tf import installed

FLAGS = flags.FLAGS
flags.DEFINE_string("model", "", "A model, its name on the hub, or an export.")
flags.DEFINE_string("generator", "", "A second model with a generator.")
flags.DEFINE_string("saved_model", "", "An export that scores words.")
flags.DEFINE_string("task", "", "The task to show of a model with several.")
flags.DEFINE_string("host", "127.0.0.1", "0.0.0.0: open to other machines.")
flags.DEFINE_integer("port", 8000, "Port; 0: any free one.", 0, 65535)


def main() -> None:
    """Loads a model and serves the page until Ctrl-C."""
    if not (FLAGS.model or FLAGS.saved_model):
        raise ValueError("Give --model, --saved_model, or both.")
    path, exported = FLAGS.model, FLAGS.saved_model
    if not exported and installed.is_export(path):
        path, exported = "", path
    if (FLAGS.generator or FLAGS.task) and not path:
        raise ValueError(
            "--generator and --task need a --model that is no export. "
            f"Received: the export {exported}. Leave both flags out."
        )
    model, generator = (
        installed.find_model(name) if name else None
        for name in (path, FLAGS.generator)
    )
    export = installed.find_export(exported) if exported else None
    # Imported late, as TensorFlow takes seconds to import.
    from electra_tf.export.demo import server

    loaded = None
    if model:
        loaded = electra_tf.load(
            model, generator_path=generator, task=FLAGS.task
        )
    shown = server.build_demo_model(loaded, export)
    server.serve(server.DemoServer(shown, FLAGS.host, FLAGS.port))


if __name__ == "__main__":
    command_line.run(main)
