"""Small corpora, and folders as something to compare."""

import pathlib
import random

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def write_corpus(folder: pathlib.Path, num_files: int = 6) -> pathlib.Path:
    """Writes files of random words; the same ones at every call."""
    rng = random.Random(7)
    folder.mkdir(parents=True)
    for index in range(num_files):
        documents = []
        for _ in range(10):
            lines = [
                " ".join(
                    "".join(rng.choices(LETTERS, k=rng.randint(1, 6)))
                    for _ in range(rng.randint(1, 12))
                )
                for _ in range(rng.randint(1, 12))
            ]
            documents.append("\n".join(lines))
        text = "\n\n".join(documents) + "\n"
        (folder / f"part_{index}.txt").write_text(text)
    return folder


def folder_bytes(folder: pathlib.Path) -> dict[str, bytes]:
    """Returns every file below a folder with its content."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
