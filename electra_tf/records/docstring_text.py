"""Docstrings to plain paragraphs of English, without code and markup."""

import inspect
import re
from collections.abc import Iterator

_MIN_WORDS = 6
_MIN_SHARE_OF_PLAIN_WORDS = 0.75
_FENCE = "```"
_BULLET = re.compile(r"(?:[*+-]|\(?\d{1,2}[.)])\s+")
_UNDERLINE = re.compile(r"[-=~^*+#\"'`|:. ]{3,}")
# `x : array_like` (numpy), `x: The input.` (Google), `:param x: The input.`
_NUMPY_ENTRY = re.compile(r"\*{0,2}[\w`][\w.,`* ]* : ")
_LABEL = re.compile(
    r"(?::\w+[^:]*:|[*`'\"]{0,3}\w[\w.*`'\"]*(?: \([^)]*\))?:)\s+"
)
_HEADING = re.compile(r"(?:#+ .*|(?:\w+ ){0,2}\w+:)")
# Characters that must occur for the pattern to match, pattern, replacement.
_MARKUP = (
    ("://", re.compile(r"https?://\S*[^\s.,;:)>\]]"), ""),  # addresses
    ("](", re.compile(r"!?\[([^\]\[]+)\]\([^)]*\)"), r"\1"),  # links
    (":`", re.compile(r":[\w:.-]+:`~?([^`<]*?)(?: <[^>]*>)?`"), r"\1"),  # roles
    ("`", re.compile(r"`+([^`]*?)(?: <[^>]*>)?`+_*"), r"\1"),  # code
    ("]_", re.compile(r"(?:\s*\[\w+\]_)+"), ""),  # footnotes
    ("*", re.compile(r"(\*{1,2})(\S(?:[^*]*\S)?)\1(?!\w)"), r"\2"),  # emphasis
    ("<", re.compile(r"<\s*>"), ""),  # what an address leaves behind
)
_PLAIN_WORD = re.compile(
    r"[\"'“‘(]*(?:[A-Za-z]+(?:['’/-][A-Za-z]+)*|\d+)[\"'”’)]*[.,;:!?]*[\"'”)]*"
)
_SENTENCE = re.compile(r"[\"'“(]?[A-Z].*[.!?:][\"'”)]*")
_FUNCTION_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "be",
        "by",
        "for",
        "from",
        "if",
        "in",
        "is",
        "it",
        "not",
        "of",
        "on",
        "or",
        "that",
        "the",
        "this",
        "to",
        "was",
        "when",
        "which",
        "with",
        "you",
    ]
)


def prose_paragraphs(text: str) -> list[str]:
    """Returns the paragraphs of a docstring that read as English sentences.

    Doctests, fenced and indented code, tables, headings, parameter names and
    types, addresses and markup go; each paragraph becomes one line.

    Args:
      text: a docstring in reStructuredText, Markdown, numpy or Google style,
        or a topic of `pydoc`.
    """
    paragraphs = map(_strip_markup, _raw_paragraphs(inspect.cleandoc(text)))
    return [paragraph for paragraph in paragraphs if _is_prose(paragraph)]


def _raw_paragraphs(text: str) -> Iterator[str]:
    """Yields runs of lines that belong together, joined by blanks."""
    current: list[str] = []
    last_indent = 0
    is_code = is_doctest = False
    for line in text.split("\n"):
        content = line.strip()
        indent = len(line) - len(line.lstrip())
        if content.startswith(_FENCE):
            is_code = not is_code
            content = ""
        elif is_code:
            continue
        is_doctest = bool(content) and (
            is_doctest or content.startswith((">>>", "In ["))
        )
        if not content or is_doctest:
            yield " ".join(current)
            current = []
            continue
        if _UNDERLINE.fullmatch(content):
            current = current[:-1]  # the line above was a heading
            continue
        is_new, content = _strip_labels(content)
        # Where the indentation shrinks a new entry begins; where it grows
        # below a single short line, that line was a name or a type.
        if current and (is_new or indent < last_indent):
            yield " ".join(current)
            current = []
        elif len(current) == 1 and indent > last_indent and _is_name(current):
            current = []
        if content:
            current.append(content)
        last_indent = indent
    yield " ".join(current)


def _strip_labels(content: str) -> tuple[bool, str]:
    """Returns whether a line begins a new entry, and what it says there."""
    if content.startswith("..") or _HEADING.fullmatch(content):
        return True, ""
    if _NUMPY_ENTRY.match(content):
        return True, ""
    bullet = _BULLET.match(content)
    if bullet:
        content = content[bullet.end() :]
    label = _LABEL.match(content)
    if label:
        content = content[label.end() :]
    return bool(bullet or label), content


def _is_name(lines: list[str]) -> bool:
    """Returns whether a single line is a name or type, not a sentence."""
    return len(lines[0].split()) < 4 and not lines[0].endswith(".")


def _strip_markup(text: str) -> str:
    """Returns the text as it would be read aloud."""
    for required, pattern, replacement in _MARKUP:
        if required in text:
            text = pattern.sub(replacement, text)
    text = " ".join(text.split())
    return text[:1].upper() + text[1:]


def _is_prose(text: str) -> bool:
    """Returns whether the text is made of English sentences."""
    words = text.split()
    if len(words) < _MIN_WORDS or not _SENTENCE.fullmatch(text):
        return False
    num_plain = sum(map(bool, map(_PLAIN_WORD.fullmatch, words)))
    if num_plain < _MIN_SHARE_OF_PLAIN_WORDS * len(words):
        return False
    return not _FUNCTION_WORDS.isdisjoint(text.lower().split())
