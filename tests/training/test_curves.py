"""The picture of a run shows its metrics, whichever there are."""

import json

import matplotlib.image
import pytest

from electra_tf.training import curves


def _write(model_dir, lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (model_dir / "metrics.jsonl").write_text(text)


def _lines(num_steps=30):
    train = {"gen_loss": 3.0, "disc_loss": 0.5, "learning_rate": 1e-4}
    for step in range(1, num_steps + 1):
        factor = 1 / step
        values = {name: factor * value for name, value in train.items()}
        yield {"step": step, "split": "train", **values}
        if step % 10 == 0:
            yield {"step": step, "split": "validation", "gen_loss": 3 * factor}


def test_a_run_without_metrics_has_no_picture(tmp_path):
    _write(tmp_path, [])
    assert curves.draw_training_curves(tmp_path) is None
    assert not (tmp_path / "training_curves.png").exists()


def test_the_picture_has_lines_and_leaves_nothing_half_written(tmp_path):
    _write(tmp_path, _lines())
    path = curves.draw_training_curves(tmp_path)
    pixels = matplotlib.image.imread(path)
    assert pixels.shape[0] > 500
    assert pixels.shape[1] > 1000
    # The first of matplotlib's colours: neither white, black nor gray.
    colored = abs(pixels[..., 0] - pixels[..., 2]) > 0.3
    assert colored.sum() > 500
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "metrics.jsonl",
        "training_curves.png",
    ]


def test_a_panel_shows_both_splits_with_their_steps(tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axis = pyplot.figure().subplots()
    curves._draw_panel(axis, "loss", ("gen_loss",), list(_lines()))
    training, held_out = axis.get_lines()
    assert training.get_label() == "training"
    assert list(training.get_xdata()) == list(range(1, 31))
    assert held_out.get_label() == "held-out"
    assert list(held_out.get_xdata()) == [10, 20, 30]
    assert held_out.get_ydata()[0] == pytest.approx(0.3)
    pyplot.close("all")


def test_a_line_across_is_what_the_corpus_gives_away():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axis = pyplot.figure().subplots()
    lines = [
        {"step": s, "split": "validation", "masked_loss": 7.0 - s}
        | {"unigram_entropy": 6.5}
        for s in (1, 2)
    ]
    curves._draw_panel(axis, "at [MASK]", ("masked_loss",), lines)
    _, baseline = axis.get_lines()
    assert baseline.get_label() == "unigram"
    assert list(baseline.get_ydata()) == [6.5, 6.5]
    pyplot.close("all")
