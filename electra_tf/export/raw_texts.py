"""Whether what a caller gave are texts, said before anything is computed."""

from collections.abc import Iterable


def check(name: str, texts: Iterable[str]) -> list[str]:
    """The texts as a list.

    Args:
        name: of the argument, for messages.
        texts: any number of `str`.

    Raises:
        ValueError: for a single text, anything that is not text, or text that
            UTF-8 cannot hold.
    """
    if isinstance(texts, str | bytes):
        raise ValueError(
            f"`{name}` must be a list of str. Received: a single "
            f"{type(texts).__name__}. Put it into a list: [text]."
        )
    if not isinstance(texts, Iterable):
        raise ValueError(
            f"`{name}` must be a list of str. Received: {repr(texts)[:80]}."
        )
    checked = list(texts)
    for number, text in enumerate(checked):
        if not isinstance(text, str):
            raise ValueError(
                f"`{name}` must be a list of str. Received: "
                f"{type(text).__name__} as number {number} (from 0): "
                f"{repr(text)[:80]}. Decode bytes first: data.decode('utf-8')."
            )
        _check_unicode(name, number, text)
    return checked


def _check_unicode(name: str, number: int, text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"`{name}` must be valid Unicode. Received: half of a surrogate "
            f"pair in number {number} (from 0), at character {error.start}. "
            "Read the text with its right encoding."
        ) from error
