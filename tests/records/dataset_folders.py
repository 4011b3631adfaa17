"""Small corpora, settings, and folders as something to compare."""

import pathlib
import random

from electra_tf.records import shards

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def write_corpus(folder: pathlib.Path, num_files: int = 6) -> pathlib.Path:
    """Writes files of random words; the same ones at every call."""
    rng = random.Random(7)

    def line():
        words = range(rng.randint(1, 12))
        return " ".join(
            "".join(rng.choices(LETTERS, k=rng.randint(1, 6))) for _ in words
        )

    folder.mkdir(parents=True)
    for index in range(num_files):
        documents = [
            "\n".join(line() for _ in range(rng.randint(1, 12)))
            for _ in range(10)
        ]
        text = "\n\n".join(documents) + "\n"
        (folder / f"part_{index}.txt").write_text(text)
    return folder


def build_settings(corpus, vocabulary, output) -> shards.BuildSettings:
    """Settings that give four shards and one for validation."""
    return shards.BuildSettings(
        corpus=(str(corpus),),
        vocabulary=str(vocabulary),
        output_dir=str(output),
        max_seq_length=32,
        num_out_files=4,
        validation_fraction=0.2,
        seed=5,
    )


def folder_bytes(folder: pathlib.Path) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
