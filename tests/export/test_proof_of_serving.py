"""What a server needs of an export, proved without one."""

import json

import numpy as np

from tests.export import conftest

LONG = "the cat sat on the mat, unaffable items in a cafe. " * 9
TEXTS = ["The cat sat on the mat.", "", "cat", LONG, "  ", "東京 …!", "in a\n"]


def id_inputs(names, rows=3, length=9):
    lengths = np.array([[length], [2], [5]] * rows)[:rows]
    places = np.arange(length)
    mask = (places < lengths).astype(np.int32)
    ids = np.random.default_rng(4).integers(5, 30, (rows, length))
    ids[:, 0] = 2
    positions = np.where(places < lengths - 1, places, 0)
    built = {
        "input_ids": (ids * mask).astype(np.int32),
        "input_mask": mask,
        "segment_ids": (places > 3).astype(np.int32) * mask,
        "word_positions": positions.astype(np.int32)[:, 1::2],
    }
    return {name: built[name] for name in names}


def build_inputs(names, texts):
    """Inputs of any signature, as many rows as texts."""
    if "input_ids" in names:
        return id_inputs(names, len(texts))
    data = conftest.encode(*texts)
    return dict(zip(names, (data, data[::-1]), strict=False))


def test_every_row_of_a_large_batch_is_answered_as_if_alone(any_export):
    call = conftest.load(any_export)
    documented = json.loads((any_export / "signatures.json").read_text())
    for signature, sides in documented.items():
        batch = build_inputs(list(sides["inputs"]), (TEXTS * 10)[:64])
        answers = call(signature, **batch)
        assert {len(value) for value in answers.values()} == {64}
        # With 64 rows of 7 texts, rows 0 to 6 are all there are.
        for row in range(7):
            alone = call(
                signature, **{k: v[row : row + 1] for k, v in batch.items()}
            )
            for key, value in alone.items():
                assert_equal_but_for_padding(answers[key][row], value[0], key)


def assert_equal_but_for_padding(large, small, name):
    """A row of a larger batch may have more padding."""
    large, small = (
        np.array(value, object) if isinstance(value, bytes) else value
        for value in (large, small)
    )
    places = tuple(slice(size) for size in small.shape)
    conftest.assert_close({name: large[places]}, {name: small}, 1e-4)
    if small.ndim and large.shape[0] > small.shape[0]:
        rest = large[small.shape[0] :]
        assert len(set(rest.ravel().tolist())) == 1, name
        assert rest.ravel()[0] in (0, -1, b"", -10000.0), name
