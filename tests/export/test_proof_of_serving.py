"""What a server needs of an export, proved without one."""

import json

import numpy as np

from electra_tf.export import self_check
from electra_tf.text import vocabulary as vocabulary_lib
from tests.export import conftest

LONG = "the cat sat on the mat, unaffable items in a cafe. " * 9
TEXTS = ["The cat sat on the mat.", "", "cat", LONG, "  ", "東京 …!", "in a\n"]


def build_inputs(names, texts, vocabulary):
    """Inputs of any signature, as many rows as texts."""
    if "input_ids" in names:
        built = self_check.build_rows(len(texts), 9, vocabulary)
        return {name: built[name] for name in names}
    data = conftest.encode(*texts)
    return dict(zip(names, (data, data[::-1]), strict=False))


def test_every_row_of_a_large_batch_is_answered_as_if_alone(any_export):
    call = conftest.load(any_export)
    documented = json.loads((any_export / "signatures.json").read_text())
    vocabulary = vocabulary_lib.Vocabulary.load(any_export / "assets.extra")
    texts = (TEXTS * 10)[:64]
    for signature, sides in documented.items():
        batch = build_inputs(sides["inputs"], texts, vocabulary)
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
