r"""Writes a new config file, with settings for a size.

    electra-new-config my_model.py --size=256x6:500M

`small`, `base` and `large` are the paper's sizes. WIDTHxDEPTH[:TOKENS[:LENGTH]]
is any other, by the rules of `configs/pretrain/scaled.py`: width and number of
layers, tokens of the training, tokens of a row. The prefix `mlm:` gives a
masked LM, which learns more from a small budget. The file can be run at once;
it lists the settings that you may want to change.
"""

import dataclasses
import pathlib
import shlex

from absl import flags

from electra_tf import command_line
from electra_tf import config
from electra_tf import errors
from electra_tf.processes import atomic

FLAGS = flags.FLAGS
flags.DEFINE_string("file", None, "File to write; also the first argument.")
flags.DEFINE_string("size", None, "small, base, large, or WIDTHxDEPTH.")

# The settings in the file; a line for each group.
_SHOWN = """
encoder embedding_size num_attention_heads intermediate_size
encoder hidden_dropout_prob attention_probs_dropout_prob initializer_range
generator generator_hidden_size num_attention_heads
masking mask_prob replace_prob
objective
data dataset_dir max_seq_length
optimizer learning_rate num_warmup_steps warmup_proportion beta_2 clip_norm
training num_train_steps train_batch_size num_micro_batches
training strategy precision eval_steps save_checkpoints_steps
"""
_TEMPLATE = pathlib.Path(__file__).with_name("own_config.txt")


def main() -> None:
    """Writes the config file."""
    path = pathlib.Path(FLAGS.file)
    if path.exists():
        raise errors.ConfigError(f"{path} exists. Name another file.")
    is_paper = FLAGS.size in ("small", "base", "large")
    base = "configs/pretrain/" + (
        f"electra_{FLAGS.size}.py" if is_paper else f"scaled.py:{FLAGS.size}"
    )
    settings = config.load_file(base)
    lines = []
    for section, *names in map(str.split, _SHOWN.strip().splitlines()):
        values = dataclasses.asdict(settings)[section]
        names = names or list(values)
        field = f"    # settings.{section}."
        lines += ["", *(f"{field}{name} = {values[name]!r}" for name in names)]
    text = _TEMPLATE.read_text("utf-8").format(
        path=shlex.quote(str(path)),
        base=base,
        length=settings.data.max_seq_length,
        lines="\n".join(lines).replace("'", '"'),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(path, text)
    print(f"Wrote {path}. Its first lines show the command to train.")


if __name__ == "__main__":
    command_line.run(main, required=["file", "size"], first="file")
