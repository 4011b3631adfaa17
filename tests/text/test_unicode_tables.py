"""The tables are those of Unicode 14, whatever Python runs them."""

import unicodedata

import numpy as np
import pytest

from electra_tf.text import unicode_tables
from electra_tf.text.unicode_tables import load_character_properties

is_unicode_14 = pytest.mark.skipif(
    unicodedata.unidata_version != unicode_tables.UNICODE_VERSION,
    reason="this Python's unicodedata is not Unicode 14",
)


@is_unicode_14
def test_the_file_holds_what_python_says():
    expected = unicode_tables.compute_tables()
    found = load_character_properties()
    assert set(expected) == set(found._fields)
    for name in ("lower", "decomposition"):
        images = {
            chr(code): "".join(map(chr, image))
            for code, image in getattr(found, name).items()
        }
        assert images == dict(expected.pop(name).tolist())
    for name, values in expected.items():
        np.testing.assert_array_equal(getattr(found, name), values, name)


def test_the_generator_refuses_other_tables(monkeypatch):
    monkeypatch.setattr(unicodedata, "unidata_version", "15.0.0")
    with pytest.raises(RuntimeError, match="14.0.0.*15.0.0"):
        unicode_tables.compute_tables()
