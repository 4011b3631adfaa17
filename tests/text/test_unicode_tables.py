"""The tables are those of Unicode 14, whatever Python runs them."""

import pathlib
import unicodedata

import numpy as np
import pytest

from electra_tf.text import unicode_generation
from electra_tf.text import unicode_tables
from electra_tf.text.unicode_tables import load_character_properties

is_unicode_14 = pytest.mark.skipif(
    unicodedata.unidata_version != unicode_generation.UNICODE_VERSION,
    reason="this Python's unicodedata is not Unicode 14",
)


@is_unicode_14
def test_the_file_is_what_the_generator_writes():
    path = pathlib.Path(unicode_tables.__file__).with_name("unicode_14.txt")
    assert path.read_text("ascii") == unicode_generation.render_tables()


@is_unicode_14
def test_every_code_point_agrees_with_unicodedata():
    properties = load_character_properties()
    characters = [chr(code) for code in range(unicode_tables.NUM_CODE_POINTS)]
    categories = np.array([unicodedata.category(c) for c in characters])
    for name, members in properties.categories.items():
        expected = np.char.startswith(categories, name)
        np.testing.assert_array_equal(members, expected, name)
    np.testing.assert_array_equal(
        properties.combining_class,
        [unicodedata.combining(c) for c in characters],
    )
    lowered = {c: c.lower() for c in characters if c.lower() != c}
    assert lowered == _as_text(properties.lower)
    decomposed = {
        c: unicodedata.normalize("NFD", c)
        for c in characters
        if not unicodedata.is_normalized("NFD", c)
    }
    assert decomposed == _as_text(properties.decomposition)


def _as_text(images: dict[int, tuple[int, ...]]) -> dict[str, str]:
    return {chr(c): "".join(map(chr, image)) for c, image in images.items()}


def test_a_hangul_syllable_decomposes_into_its_letters():
    # U+D55C is the syllable "han": hieuh, a, nieun.
    decomposition = load_character_properties().decomposition
    assert decomposition[0xD55C] == (0x1112, 0x1161, 0x11AB)
    assert decomposition[0xAC00] == (0x1100, 0x1161)


def test_a_capital_i_with_dot_lowers_to_two_characters():
    assert load_character_properties().lower[0x130] == (0x69, 0x307)


def test_characters_of_later_versions_are_unassigned():
    # U+1FAE8 "shaking face" came with Unicode 15.
    assert load_character_properties().categories["C"][0x1FAE8]
    assert not load_character_properties().categories["C"][0x1F600]


def test_the_generator_refuses_other_tables(monkeypatch):
    monkeypatch.setattr(unicodedata, "unidata_version", "15.0.0")
    with pytest.raises(RuntimeError, match="14.0.0.*15.0.0"):
        unicode_generation.render_tables()
