"""Objects in JSON files, with one error for all that can be wrong.

Numbers that nothing here could mean are refused too: NaN and infinity, which
are no JSON, and integers beyond 64 bits.
"""

import json
import math
import pathlib
from typing import Any

_LARGEST_INTEGER = 2**63 - 1


def read_object(
    path: pathlib.Path, error: type[ValueError] = ValueError
) -> dict[str, Any]:
    """The object in a JSON file.

    Args:
        path: of a UTF-8 file.
        error: what to raise.

    Raises:
        FileNotFoundError: if there is no such file.
        error: if it does not hold a JSON object; names the file.
    """
    try:
        content = json.loads(
            path.read_bytes().decode("utf-8"),
            parse_constant=_refuse_constant,
            parse_float=_parse_float,
            parse_int=_parse_integer,
        )
    except IsADirectoryError as cause:
        raise error(
            f"{path} must be a JSON file. Received: a folder."
        ) from cause
    except (ValueError, RecursionError) as cause:
        raise error(
            f"{path} must hold a JSON object in UTF-8. Received: {cause}. It "
            "is cut off or damaged: restore it."
        ) from cause
    if not isinstance(content, dict):
        raise error(
            f"{path} must hold a JSON object. Received: {content!r:.60}."
        )
    return content


def _refuse_constant(name: str) -> float:
    raise ValueError(f"the number {name}")


def _parse_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text:.20}, which is too large")
    return value


def _parse_integer(text: str) -> int:
    # Long texts are refused before they cost time.
    value = int(text) if len(text) < 25 else _LARGEST_INTEGER + 1
    if abs(value) > _LARGEST_INTEGER:
        raise ValueError(f"the number {text:.20}, which is too large")
    return value
