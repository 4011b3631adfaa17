"""What a server answered, as lines for people."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

# Numbers of a list that are shown.
_MAX_SHOWN = 12
# Where a token's word is in the text, and how many tokens a row has.
_STARTS, _ENDS, _MASK = "word_starts", "word_ends", "input_mask"
_LAYOUT = (_STARTS, _ENDS, _MASK, "input_ids")


def describe(
    inputs: Mapping[str, Sequence[Any]], answers: Mapping[str, list[Any]]
) -> Iterator[str]:
    """Every row of a request with what was answered for it.

    Args:
        inputs: name to rows.
        answers: name to rows, strings as bytes.

    Yields:
        Lines. Where the server says which word a token comes from, the word
        stands before the token's number.
    """
    rows = len(next(iter(inputs.values()), ()))
    for number in range(rows):
        yield " | ".join(
            _show(values[number])
            for values in inputs.values()
            if number < len(values)
        )
        answer = {name: values[number] for name, values in answers.items()}
        words = _words(inputs, answer, number)
        length = len(words) or sum(answer.get(_MASK, ()))
        for name in sorted(set(answer) - set(_LAYOUT)):
            value = answer[name]
            if words and _is_flat(value) and len(value) >= len(words):
                pairs = zip(words, value, strict=False)
                shown = "  ".join(f"{word} {_show(v)}" for word, v in pairs)
            else:
                is_padded = length and isinstance(value, list)
                is_padded = is_padded and len(value) == len(answer[_MASK])
                shown = _show(value[:length] if is_padded else value)
            yield f"  {name}: {shown}"


def _words(
    inputs: Mapping[str, Sequence[Any]], answer: Mapping[str, Any], row: int
) -> list[str]:
    """The word of every token, nothing if the answer does not tell."""
    if "texts" not in inputs or not {_STARTS, _ENDS, _MASK} <= set(answer):
        return []
    text = inputs["texts"][row]
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogateescape")
    tokens = zip(answer[_STARTS], answer[_ENDS], answer[_MASK], strict=True)
    return [
        text[start:end].decode("utf-8", "replace") if start >= 0 else "-"
        for start, end, is_token in tokens
        if is_token
    ]


def _is_flat(value: Any) -> bool:
    return isinstance(value, list) and not any(
        isinstance(item, list) for item in value
    )


def _show(value: Any) -> str:
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        shown = " ".join(_show(item) for item in value[:_MAX_SHOWN])
        rest = len(value) - _MAX_SHOWN
        more = f" ... ({rest} more)" if rest > 0 else ""
        return f"[{shown}{more}]"
    return str(value)
