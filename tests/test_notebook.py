"""The notebook runs from top to bottom, as Jupyter runs it."""

import json
import os
import pathlib
import re
import subprocess

import pytest

_EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"
_COMMAND = re.compile(r"^!((?:.*\\\n)*.*)", re.MULTILINE)


@pytest.mark.slow
def test_the_first_hour(tmp_path, monkeypatch):
    """Commands behind `!` run in a shell, all else in one namespace."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.environ["PATH"])  # restored in the end
    monkeypatch.setenv("PYTHONPATH", str(_EXAMPLES.parent))
    notebook = json.loads((_EXAMPLES / "first_hour.ipynb").read_text("utf-8"))
    cells = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    namespace: dict[str, object] = {}

    def run(command: str) -> None:
        filled = command.format(**namespace)
        subprocess.run(filled, shell=True, check=True)

    namespace["run_command"] = run
    for cell in cells:
        source = "".join(cell["source"])
        source = _COMMAND.sub(lambda m: f"run_command({m[1]!r})", source)
        exec(source, namespace)

    scored = namespace["scored"]
    assert scored.most_suspicious()[0].text == "of"
    answer = namespace["answer"]
    assert sum(answer.probabilities.values()) == pytest.approx(1.0, abs=1e-5)
    # The largest class has a quarter of the rows, or nearly so.
    assert namespace["model"].metadata.scores["dev"]["accuracy"] > 40
    assert pathlib.Path("hour/hugging_face/README.md").is_file()
