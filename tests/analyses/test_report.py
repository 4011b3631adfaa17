"""The page holds every study that was run, and nothing from outside."""

import re
from html import parser

import pandas as pd
import pytest
from analyses import report
from analyses import study
from etils import epath

from tests import tiny_electra

SENTENCE = "The cat sat on a good mat and was a bad dog ."


class _Reader(parser.HTMLParser):
    """Finds addresses, identifiers and unclosed elements."""

    def __init__(self, page):
        super().__init__()
        self.open = []
        self.links = []
        self.names = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.links += [values[k] for k in ("src", "href") if k in values]
        self.names += [values["id"]] if "id" in values else []
        if tag == "img":
            assert values["alt"]
        if tag not in ("img", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_one_page_of_all_that_was_found(tmp_path, monkeypatch):
    electra, folder = tiny_electra.build(), epath.Path(tmp_path / "out")
    text = tmp_path / "text.txt"
    lines = [f"{SENTENCE[:-2]} {word} ." for word in ("film", "s", "un")]
    text.write_text("\n".join(lines))
    request = study.Request(str(text), model="<my model>")
    with pytest.raises(FileNotFoundError, match="calibration"):
        report.write(electra, request, folder)
    table = pd.DataFrame({"a<b": [0.5]}, ["R&D"]).rename_axis("row")
    toy = study.Study(
        "Is 1 < 2?",
        "numbers",
        lambda *unused: study.Findings(table, ("A & B.",)),
        lambda found, axes: axes[0].plot([1, 2]),
    )
    monkeypatch.setattr(study, "find", lambda name: toy)
    study.run("calibration", electra, request, folder)
    page = report.write(electra, request, folder).read_text()
    found = _Reader(page)
    assert not found.open
    assert {"calibration", "sentences"} <= set(found.names)
    for link in found.links:
        assert link.startswith("data:image/png") or link[1:] in found.names
    for shown in ("&lt;my model&gt;", "Is 1 &lt; 2?", "R&amp;D", "A &amp; B."):
        assert shown in page
    assert page.count('class="swapped"') == len(lines)
    shares = re.findall(r'title="(\d+) %"', page)
    assert len(shares) > 20
    assert all(0 <= int(share) <= 100 for share in shares)
