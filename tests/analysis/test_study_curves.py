"""Curves of the arms of a study."""

import json

from electra_tf.analysis import study_curves


def _write(folder, *lines):
    folder.mkdir(parents=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text)
    return folder


def _held_out(step, **metrics):
    return {"step": step, "split": "validation", **metrics}


def test_a_curve_is_the_mean_over_runs_of_what_they_report_held_out():
    runs = [
        [_held_out(10, masked_loss=6.0), _held_out(20, masked_loss=4.0)],
        [_held_out(10, masked_loss=5.0)],
        [_held_out(20, disc_auc=0.7)],
    ]
    names = ("masked_loss", "mlm_masked_loss")
    assert study_curves._means(runs, names) == {10: 5.5, 20: 4.0}


def test_runs_of_all_kinds_and_those_that_have_not_begun_are_drawn(tmp_path):
    joint = _write(
        tmp_path / "joint",
        {"step": 5, "split": "train", "masked_loss": 9.0},
        _held_out(10, masked_loss=6.0, disc_auc=0.6, unigram_entropy=7.0),
    )
    masked_lm = _write(tmp_path / "mlm", _held_out(10, mlm_masked_loss=5.0))
    picture = tmp_path / "curves.png"
    study_curves.draw(
        picture,
        {"joint": [joint], "mlm": [masked_lm], "later": [tmp_path / "none"]},
    )
    assert picture.read_bytes().startswith(b"\x89PNG")
