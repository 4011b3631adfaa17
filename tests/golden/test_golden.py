"""Our numbers are those of the reference folders; README.md says which."""

import pytest

from electra_tf.formats import tensor_files
from tests.golden import comparison
from tests.golden import runner


def pytest_generate_tests(metafunc):
    """Makes a test of every case that is found in the folders."""
    if "case" in metafunc.fixturenames:
        cases = [
            pytest.param(
                case,
                id=f"{folder.name}: {case.kind}/{case.name}",
                marks=_marks(folder / case.kind / case.name.partition(",")[0]),
            )
            for folder in metafunc.config.getoption("golden_dir")
            for case in runner.list_cases(folder)
        ]
        metafunc.parametrize("case", cases)


def _marks(folder):
    needs_torch = (folder / tensor_files.TORCH_FILE).is_file()
    return [pytest.mark.extra("torch")] if needs_torch else []


def test_every_number_of_the_reference_is_met(case):
    lines = case.run()
    misses = [line for line in lines if not line.passed]
    assert not misses, f"\n{comparison.format_table(misses)}"
    if all(line.skipped for line in lines):
        pytest.skip(f"no reference: {lines[0].skipped}")
