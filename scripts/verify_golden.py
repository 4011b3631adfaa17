"""Checks this code against a folder of reference numbers.

    python scripts/verify_golden.py --golden_dir=DIR

Prints one line per set of numbers (what, how many, the largest error, the
tolerance, the verdict) and exits with 1 if one of them misses its tolerance
or cannot be read, 2 if the folder or a kind does not exist. The layout of DIR
is that of tests/golden/reference, which is a small part of such a folder.
"""

import pathlib
import sys

from absl import flags

from electra_tf import command_line

_GOLDEN_DIR = flags.DEFINE_string(
    "golden_dir", None, "Folder with one sub-folder per kind of reference."
)
_ONLY = flags.DEFINE_list(
    "only", [], "Kinds to check, separated by commas. Empty: all."
)


def main() -> int:
    """Checks, prints the table, and says how it went."""
    if not _GOLDEN_DIR.value or not pathlib.Path(_GOLDEN_DIR.value).is_dir():
        print(
            "error: expected a folder as --golden_dir. Received: "
            f"{_GOLDEN_DIR.value}",
            file=sys.stderr,
        )
        return 2
    from electra_tf.verification import report
    from electra_tf.verification import runner

    def show_progress(case: str) -> None:
        print(f"checking {case}", file=sys.stderr, flush=True)

    try:
        results = runner.verify(
            pathlib.Path(_GOLDEN_DIR.value), _ONLY.value, show_progress
        )
    except runner.ReferenceFolderError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(report.format_table(results))
    num_skipped = sum(r.skipped_reason is not None for r in results)
    num_missed = sum(not r.passed for r in results)
    print(
        f"{len(results) - num_skipped} compared, {num_missed} missed, "
        f"{num_skipped} skipped"
    )
    return 1 if num_missed else 0


if __name__ == "__main__":
    command_line.run(main)
