"""Properties of parsers under any input, by hypothesis.

`ELECTRA_EXAMPLES=10000 pytest tests/fuzz` tries other examples, and as many.
"""

import json
import os

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.fuzz import targets

_NUM_EXAMPLES = int(os.environ.get("ELECTRA_EXAMPLES", "40"))
any_of = hypothesis.settings(
    max_examples=_NUM_EXAMPLES,
    derandomize="ELECTRA_EXAMPLES" not in os.environ, database=None,
    deadline=None, suppress_health_check=list(hypothesis.HealthCheck),
)  # fmt: skip
# What is put in the place of a few bytes of a file.
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 9), st.binary(max_size=9)),
    max_size=3,
)
# What is put in the place of a value of JSON; an ellipsis takes it away.
VALUES = (None, True, 0, -1, 2**70, 1e400, 0.5, "", "a", "\ud800", [], {}, ...)


def _places(tree):
    """Every container inside a value of JSON, with each key or index."""
    if isinstance(tree, dict | list):
        for key in [*tree] if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


def _exchange(data, place, value):
    """Exchanges a value inside JSON; other data stay as they are."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if places := [*_places(tree)]:
        inside, key = places[place % len(places)]
        inside[key] = value
        if value is ...:
            del inside[key]
    return json.dumps(tree).encode()


def _edit(data, edits):
    for place, count, new in edits:
        begin = int(place * len(data))
        data = data[:begin] + new + data[begin + count :]
    return data


@pytest.mark.parametrize("name", targets.TARGETS)
def test_damaged_files_give_documented_errors(name, tmp_path):
    target = targets.TARGETS[name]()
    for number in range(len(target.names)):
        for seed in (*target.seeds, b"[" * 9999, b'{"text":' + b"[" * 9999):
            targets.run(target, bytes([number]) + seed, tmp_path)

    @any_of
    @hypothesis.given(
        *(st.sampled_from(target.seeds), st.integers(0, 9), EDITS),
        *(st.integers(0, 999), st.sampled_from(VALUES)),
    )
    def check(seed, number, edits, place, value):
        for data in (_edit(seed, edits), _exchange(seed, place, value)):
            targets.run(target, bytes([number]) + data, tmp_path)

    check()
