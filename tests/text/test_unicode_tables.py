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


@pytest.mark.parametrize(
    ("name", "members", "others"),
    [
        # U+1FAE8 came with Unicode 15.
        ("other", "\0\u200b\ue000\U0001fae8", "a\U0001f600"),
        ("space", " \xa0\u3000", "\n\u2028"),
        ("line_separator", "\u2028\u2029", "\n "),
        ("nonspacing_mark", "\u0301\u20d0", "\u0b3e\u20dd"),
        ("punctuation", "!\u2014\u3002", "$+\u2260"),
        ("cased", "aA\u0416", "1\u02b0\u4e2d"),
        ("case_ignorable", "'\xad\u0301\u02b0", "aA1"),
        ("stable", "a\u0416\u4e2d", "\u0378\U0001f600\u200b"),
    ],
)
def test_properties_have_their_members(name, members, others):
    flags = getattr(load_character_properties(), name)
    assert flags[[ord(c) for c in members]].all()
    assert not flags[[ord(c) for c in others]].any()


def test_images_of_single_characters():
    properties = load_character_properties()
    assert properties.lower[0x130] == (0x69, 0x307)
    # U+D55C is the syllable "han": hieuh, a, nieun.
    assert properties.decomposition[0xD55C] == (0x1112, 0x1161, 0x11AB)
    assert properties.decomposition[0xAC00] == (0x1100, 0x1161)
    assert properties.combining_class[0x302E] == 224


def test_the_generator_refuses_other_tables(monkeypatch):
    monkeypatch.setattr(unicodedata, "unidata_version", "15.0.0")
    with pytest.raises(RuntimeError, match="14.0.0.*15.0.0"):
        unicode_tables.compute_tables()
