"""Text and numbers on a terminal."""

MARKS = (">>", "<<")
"""Strings around marked words, for output without colours."""
_BAR_WIDTH = 30


def printable(text: str | bytes) -> str:
    """Replaces control characters and line breaks by blanks."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return "".join(c if c.isprintable() else " " for c in text)


def draw_bar(share: float) -> str:
    """Draws a probability as the length of a bar."""
    return "#" * round(share * _BAR_WIDTH)


def to_bytes(text: str | bytes) -> bytes:
    """Encodes a text in UTF-8; restores other bytes of a command line."""
    if isinstance(text, bytes):
        return text
    return text.encode("utf-8", "surrogateescape")
