"""Objects in JSON files, with one error for all that can be wrong.

Numbers that nothing could mean are refused too: NaN and infinity, which are no
JSON, and what is too large for a float. (Hugging Face's tokenizers say 10^30
where rows may have any length.)
"""

import json
import math
import pathlib
from typing import Any

# Digits; a float has room for 308.
_LONGEST_INTEGER = 300


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
    if len(text) > _LONGEST_INTEGER:
        raise ValueError(f"the number {text:.20}, which is too large")
    return int(text)
