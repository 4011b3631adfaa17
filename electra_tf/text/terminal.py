"""Text and numbers on a terminal."""

MARKS = (">>", "<<")
"""Strings around marked words, also where colours are not visible."""
_BAR_WIDTH = 30


def printable(text: str | bytes) -> str:
    """Replaces characters that could steer a terminal or break a line."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return "".join(c if c.isprintable() else " " for c in text)


def draw_bar(share: float) -> str:
    """Draws a probability as the length of a bar."""
    return "#" * round(share * _BAR_WIDTH)


def to_bytes(text: str | bytes) -> bytes:
    """UTF-8; bytes that were none on a command line become them again."""
    if isinstance(text, bytes):
        return text
    return text.encode("utf-8", "surrogateescape")
