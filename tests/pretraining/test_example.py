"""The example that is to be read first."""

import importlib.util
import pathlib

import numpy as np
import tensorflow as tf

from electra_tf.records import corpus as corpus_lib

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/pretrain_electra.py"
_LINE = "the method returns a list of {} that the object holds {}\n"


def test_it_trains_scores_and_exports(tmp_path, monkeypatch, capsys):
    words = ["names", "values", "files", "strings", "numbers", "lines"]
    text = tmp_path / "text.txt"
    text.write_text(
        "\n".join(
            "".join(_LINE.format(one, other) for other in words) * 4
            for one in words * 8
        )
    )
    opened = corpus_lib.open_corpus([str(text)])
    monkeypatch.setattr(corpus_lib, "open_corpus", lambda _: opened)
    source = importlib.util.spec_from_file_location("example", EXAMPLE)
    example = importlib.util.module_from_spec(source)
    source.loader.exec_module(example)
    monkeypatch.setattr(example, "BATCH_SIZE", 8)
    folder = tmp_path / "run"
    history = example.main(
        [f"--output_dir={folder}", "--num_steps=2", "--vocab_size=150"]
    )
    assert np.isfinite(history["val_loss"]).all()
    printed = capsys.readouterr().out
    assert "garden" not in printed.split("method")[0]
    assert printed.count("0.") >= 8
    rows = {n: tf.ones([2, 9], tf.int32)
            for n in ("input_ids", "input_mask", "segment_ids")}  # fmt: skip
    scores = tf.saved_model.load(folder / "export").serve(rows)
    assert scores.shape == (2, 9)
    assert len(EXAMPLE.read_text().splitlines()) <= 300
