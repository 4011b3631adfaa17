"""Where the files of a task are, and their lines."""

import contextlib
import gzip
import json
import pathlib
import zlib
from collections.abc import Generator
from collections.abc import Iterator
from collections.abc import Sequence

from absl import logging

from electra_tf import errors

# How far below the given folder a task's own folder is looked for.
_MAX_DEPTH = 3
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def find_file(
    data_dir: pathlib.Path,
    folder_names: Sequence[str],
    file_names: Sequence[str],
    task: str,
) -> pathlib.Path:
    """The file of one split, at or below a folder.

    It is `<folder>/<file>` in `data_dir` or up to three levels down, or
    `<file>` in `data_dir` itself if that is called like one of the folders.
    The one nearest to the top counts.

    Args:
        data_dir: where to look.
        folder_names: the task's own folder, in any of its spellings; compared
            without regard to case. None: a folder of any name.
        file_names: the file, in any of its spellings, the usual one first.
        task: what errors call it.

    Raises:
        FileNotFoundError: if there is none.
        DataError: if there are several at the same depth.
    """
    if not data_dir.is_dir():
        raise FileNotFoundError(
            f"Expected a folder of task files at {data_dir}. Received: no "
            f"folder there. Give the one that holds the files of {task}."
        )
    wanted = {name.lower() for name in folder_names}
    incomplete: list[pathlib.Path] = []
    for folders in _levels(data_dir):
        named = [f for f in folders if not wanted or f.name.lower() in wanted]
        found = [_file_in(folder, file_names) for folder in named]
        paths = [path for path in found if path is not None]
        if len(paths) > 1:
            raise errors.DataError(
                f"{data_dir} must hold one {file_names[0]} of {task}. "
                f"Received: {', '.join(map(str, paths))}. Name the folder of "
                "one of them."
            )
        if paths:
            return paths[0]
        incomplete += named
    raise FileNotFoundError(
        _absence(data_dir, folder_names, file_names, task, incomplete)
    )


def read_lines(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Line numbers from 1 and lines, without their ends.

    Only line feeds end lines (text may hold the other characters at which
    `str.splitlines` would cut); a carriage return before one is dropped, and
    so is a byte order mark. Of a `.gz` file these are the lines inside.

    Raises:
        FileNotFoundError: if there is no such file.
        DataError: for a line that is no UTF-8, or a damaged `.gz` file.
    """
    with contextlib.closing(_read_bytes(path)) as lines:
        for number, raw in enumerate(lines, 1):
            line = raw.removesuffix(b"\n").removesuffix(b"\r")
            if number == 1:
                line = line.removeprefix(_BYTE_ORDER_MARK)
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise errors.DataError(
                    f"{path}, line {number}: expected UTF-8. Received: "
                    f"{line[:60]!r}. Save the file as UTF-8."
                ) from error
            yield number, text


def _read_bytes(path: pathlib.Path) -> Generator[bytes, None, None]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            yield from file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise errors.DataError(
            f"{path}: expected compressed lines. Received: {error}. Download "
            "the file again."
        ) from error


def parse_object(line: str, place: str) -> dict:
    """The object on a line of a JSON lines file.

    Args:
        line: without its end.
        place: file and line, for errors.

    Raises:
        DataError: if it is none.
    """
    try:
        record = json.loads(line)
    except ValueError as error:
        raise errors.DataError(
            f"{place}: expected a JSON object. Received: {line[:60]!r} "
            f"({error}). Repair the line."
        ) from error
    if not isinstance(record, dict):
        raise errors.DataError(
            f"{place}: expected a JSON object, one on every line. Received: "
            f"{line[:60]!r}."
        )
    return record


def require_count(path: pathlib.Path | str, found: int, official: int) -> None:
    """Warns of a file that is not as long as the published one.

    Args:
        path: the file, or what else the examples are from.
        found: how many examples it has.
        official: how many the published one has.
    """
    if found != official:
        logging.warning(
            "%s holds %d examples, the official file %d: scores will not "
            "compare with published ones.",
            path,
            found,
            official,
        )


def _levels(folder: pathlib.Path) -> Iterator[list[pathlib.Path]]:
    """The folder itself, then all folders one level down, and so on."""
    level = [folder.absolute()]
    yield level
    for _ in range(_MAX_DEPTH):
        level = sorted(
            child for parent in level for child in parent.iterdir()
            if child.is_dir()
        )  # fmt: skip
        yield level


def _file_in(
    folder: pathlib.Path, file_names: Sequence[str]
) -> pathlib.Path | None:
    paths = [folder / name for name in file_names]
    return next((path for path in paths if path.is_file()), None)


def _absence(
    data_dir: pathlib.Path,
    folder_names: Sequence[str],
    file_names: Sequence[str],
    task: str,
    incomplete: Sequence[pathlib.Path],
) -> str:
    received = "no folder of that name"
    if folder_names and incomplete:
        received = f"{incomplete[0]} without it"
    elif not folder_names:
        received = "no such file"
    place = " or ".join(f"{name}/" for name in folder_names)
    return (
        f"Expected a file of {task} in {data_dir}, at most {_MAX_DEPTH} levels "
        f"down: {place}{' or '.join(file_names)}. Received: {received}. Unpack "
        "the official archive there, or name another folder."
    )
