"""Makes `electra_tf/text/unicode_14.npz`, with Python 3.11:

python -m tests.text.unicode_tables
"""

import sys
import unicodedata

import numpy as np

from electra_tf.text import normalization

UNICODE_VERSION = "14.0.0"


def compute_tables() -> dict[str, np.ndarray]:
    """The arrays of the file; needs a Python with Unicode 14."""
    if unicodedata.unidata_version != UNICODE_VERSION:
        raise RuntimeError(
            f"The tables must come from Unicode {UNICODE_VERSION}. Received: "
            f"{unicodedata.unidata_version} of Python {sys.version.split()[0]}."
            " Run this with Python 3.11."
        )
    characters = list(map(chr, range(0x110000)))
    names = np.array([unicodedata.category(c) for c in characters])
    # `str.lower` skips ignorable characters, then asks whether the character
    # before the sigma is cased; Python offers no other way to ask.
    cased, follows_cased = (
        np.array([_ends_in_final_sigma(before + c) for c in characters])
        for before in ("", "A")
    )
    classes = [unicodedata.combining(c) for c in characters]
    return {
        "other": np.char.startswith(names, "C"),
        "space": names == "Zs",
        "line_separator": (names == "Zl") | (names == "Zp"),
        "nonspacing_mark": names == "Mn",
        "punctuation": np.char.startswith(names, "P"),
        "cased": cased,
        "case_ignorable": follows_cased & ~cased,
        "combining_class": np.array(classes, np.uint8),
        "lower": _images(characters, str.lower),
        "decomposition": _images(characters, _decompose),
    }


def _images(characters, change) -> np.ndarray:
    return np.array([(c, change(c)) for c in characters if change(c) != c])


def _ends_in_final_sigma(text: str) -> bool:
    return (text + "\u03a3").lower().endswith("\u03c2")


def _decompose(character: str) -> str:
    return unicodedata.normalize("NFD", character)


if __name__ == "__main__":
    np.savez_compressed(normalization._PATH, **compute_tables())
