"""Masked language modeling, the objective of BERT."""

import numpy as np
import pytest

from electra_tf import errors
from tests import tiny
from tests.pretraining import tiny_objectives

_MASK = tiny.VOCABULARY.mask_id


@pytest.fixture(scope="module")
def model():
    return tiny_objectives.build_model("mlm")


@pytest.mark.parametrize(
    ("replace_prob", "random_prob"), [(0.85, 0.0), (0.8, 0.1)]
)
def test_the_model_is_shown_what_the_config_says(
    replace_prob, random_prob, monkeypatch
):
    model = tiny_objectives.build_model(
        "mlm",
        masking={"replace_prob": replace_prob, "random_prob": random_prob},
    )
    watch = tiny_objectives.EncoderWatch(monkeypatch)
    counts = np.zeros(3)
    for step in range(10):
        prepared = tiny_objectives.prepare(model, step, num_rows=256)
        model.main(prepared.masked, None)
        chosen = tiny_objectives.chosen_positions(prepared)
        shown = watch.ids["electra"][chosen]
        originals = prepared.masked.original_ids.numpy()[chosen]
        is_masked, is_kept = shown == _MASK, shown == originals
        counts += [is_masked.sum(), is_kept.sum(), shown.size]
        assert (shown[~is_masked] >= 5).all()  # no special token at random
    total = counts[2]
    assert total > 7000
    # A random token of 45 is sometimes the original.
    kept = 1 - replace_prob - random_prob + random_prob / 45
    for count, share in zip(counts, (replace_prob, kept), strict=False):
        deviation = np.sqrt(total * share * (1 - share))
        assert abs(count - total * share) < 4.5 * deviation
    if not random_prob:
        assert counts[0] + counts[1] == total


def test_generator_settings_are_refused():
    with pytest.raises(errors.ConfigError, match="'mlm' has no generator"):
        tiny_objectives.build_model(
            "mlm", generator={"generator_hidden_size": 0.5}
        )
