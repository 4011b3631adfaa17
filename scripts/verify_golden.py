"""Checks this code against a folder of reference numbers.

    python scripts/verify_golden.py --golden_dir=DIR

Prints a line for each set of numbers (name, count, largest error, tolerance,
verdict). Exits with 1 if a set misses its tolerance or cannot be read, with 2
if the folder or a kind does not exist. DIR has the layout of
tests/golden/reference, a small example of such a folder. The checks are in
tests/, so this needs a checkout of the project.
"""

import pathlib
import sys

from absl import flags

from electra_tf import command_line

FLAGS = flags.FLAGS
flags.DEFINE_string("golden_dir", "", "Folder with a sub-folder for each kind.")
flags.DEFINE_list("only", [], "Kinds to check, separated by commas.")
_CHECKOUT = pathlib.Path(__file__).resolve().parent.parent


def main() -> int:
    """Checks the numbers and prints the table."""
    folder = pathlib.Path(FLAGS.golden_dir)
    if not FLAGS.golden_dir or not folder.is_dir():
        return _fail(f"--golden_dir must be a folder. Received: {folder}")
    if not (_CHECKOUT / "tests" / "golden").is_dir():
        return _fail(
            f"expected the checks in tests/golden of {_CHECKOUT}. Received: "
            "none. Run scripts/verify_golden.py in a checkout of the project."
        )
    sys.path.insert(0, str(_CHECKOUT))
    from tests.golden import comparison
    from tests.golden import runner

    lines = []
    try:
        cases = list(runner.list_cases(folder, FLAGS.only))
    except ValueError as error:
        return _fail(str(error))
    for case in cases:
        print(f"checking {case.kind}/{case.name}", file=sys.stderr, flush=True)
        lines += case.run()
    print(comparison.format_table(lines))
    skipped = sum(bool(line.skipped) for line in lines)
    missed = sum(not line.passed for line in lines)
    compared = len(lines) - skipped
    print(f"{compared} compared, {missed} missed, {skipped} skipped")
    return 1 if missed else 0


def _fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    command_line.run(main)
