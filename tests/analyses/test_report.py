"""The page holds every analysis that was run, and nothing from outside."""

import re

import pandas as pd
import pytest
from analyses import analysis
from analyses import report
from etils import epath

from tests import tiny_electra

SENTENCE = "The cat sat on a good mat and was a bad dog ."


LINES = [f"{SENTENCE[:-2]} {word} ." for word in ("film", "s", "un")]


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Model, request and folder, as `report.write` takes them."""
    electra, folder = tiny_electra.build(), epath.Path(tmp_path / "out")
    text = tmp_path / "text.txt"
    text.write_text("\n".join(LINES))
    request = analysis.Request(str(text), model="<my model>")
    with pytest.raises(FileNotFoundError, match="calibration"):
        report.write(electra, request, folder)
    table = pd.DataFrame({"a<b": [0.5]}, ["R&D"]).rename_axis("row")
    toy = analysis.Analysis(
        "Is 1 < 2?",
        "numbers",
        "A <line>.",
        lambda work: analysis.Findings(table, ("A & B.",)),
        lambda found, axes: axes[0].plot([1, 2]),
    )
    monkeypatch.setattr(analysis, "find_analysis", lambda name: toy)
    analysis.run("calibration", electra, request, folder)
    return electra, request, folder


def test_one_page_of_all_that_was_found(asked):
    page = report.write(*asked).read_text()
    names = {*re.findall(r' id="(\w+)"', page)}
    assert {"calibration", "sentences"} <= names
    for link in re.findall(r' (?:src|href)="([^"]*)"', page):
        assert link.startswith("data:image/png") or link[1:] in names
    for shown in ("&lt;my model&gt;", "Is 1 &lt; 2?", "R&amp;D", "A &amp; B."):
        assert shown in page
    assert 'alt="A &lt;line&gt;."' in page
    assert page.count('class="swapped"') == len(LINES)
    shares = re.findall(r"<sub>(\d+)</sub></mark>", page)
    assert page.count("<mark") == len(shares)
    assert len(shares) > 20
    assert all(0 <= int(share) <= 100 for share in shares)
