"""The examples of docs/python_api.md, as a reader would copy them."""

import doctest
import pathlib

from tests import tiny_electra

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "python_api.md"


def test_every_example_of_the_page_runs(tmp_path):
    tiny_electra.write_run(tmp_path / "run")
    tiny_electra.write_run(tmp_path / "encoder", "all_tokens_mlm")
    names = {
        "path": str(tmp_path / "run"),
        "encoder_path": str(tmp_path / "encoder"),
        "folder": str(tmp_path),
    }
    results = doctest.testfile(
        str(PAGE), module_relative=False, globs=names, encoding="utf-8"
    )
    assert results.attempted > 30
    assert results.failed == 0
