"""An analysis is kept until anything changes, and a page shows all of them."""

import re
import types

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from analyses import analysis
from analyses import corruption
from analyses import report
from analyses import texts
from etils import epath

from electra_tf import errors
from electra_tf.modeling import networks
from tests import tiny_electra

REQUEST = analysis.Request("unused", seed=3, mask_prob=0.4)


@pytest.fixture(scope="module")
def electra():
    return tiny_electra.build()


@pytest.fixture
def calls(monkeypatch):
    """Requests of an analysis of one table."""
    asked = []

    def measure(work):
        asked.append(work.request.data)
        items = list(range(2_500))
        found = work.in_parts("squares", items, lambda part: np.square(part))
        values = {"n": 1, "sum": float(found.sum()), "least": 3e-12}
        table = pd.DataFrame(values, ["all"]).rename_axis("what")
        return analysis.Findings(table, ("A note.",))

    toy = types.SimpleNamespace(
        __doc__="Why?", measure=measure, draw=lambda found, axes: None
    )
    monkeypatch.setattr(analysis, "find_analysis", lambda name: toy)
    return asked


def test_a_study_is_measured_once_for_a_request(electra, calls, tmp_path):
    folder = epath.Path(tmp_path)
    first = analysis.run("toy", electra, REQUEST, folder)
    again = analysis.run("toy", electra, REQUEST, folder)
    assert len(calls) == 1
    pd.testing.assert_frame_equal(first.table, again.table)
    assert first.cells() == again.cells()
    assert first.notes == again.notes
    assert (tmp_path / "toy" / analysis.PICTURE).exists()
    written = (tmp_path / "toy" / analysis.TABLE).read_text()
    assert "| all | 1 | 5,205,208,750 | 3e-12 |" in written
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    for path in (one, two):
        path.write_text("the cat")
        analysis.run("toy", electra, analysis.Request(str(path)), folder)
    assert calls == ["unused", str(one)]
    two.write_text("the dog")
    analysis.run("toy", electra, analysis.Request(str(two)), folder)
    assert calls == ["unused", str(one), str(two)]


def test_parts_that_are_known_are_not_measured_again(tmp_path):
    work = analysis.Work(None, REQUEST, epath.Path(tmp_path), "key")
    seen = []

    def measure(part):
        seen.append(part[0])
        if seen == [0, 500, 1_000]:
            raise KeyboardInterrupt
        return np.array(part)

    with pytest.raises(KeyboardInterrupt):
        work.in_parts("items", range(1_200), measure)
    found = work.in_parts("items", range(1_200), measure)
    assert seen == [0, 500, 1_000, 1_000]
    assert found.tolist() == list(range(1_200))


def test_the_brown_corpus_is_read_with_parts_of_speech(tmp_path):
    (tmp_path / "ca01").write_text(
        "\n\tThe/at cat/nn sat/vbd ./.\n\n\tA/at mat/nn-tl\n"
    )
    (tmp_path / "README").write_text("not a text")
    found = texts.read_sentences(str(tmp_path), limit=0, seed=1)
    kinds = ("determiner", "noun", "verb", "punctuation")
    assert sorted(found) == [
        (("A", "mat"), kinds[:2]),
        (("The", "cat", "sat", "."), kinds),
    ]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("cb02", b"a/at b/nn\n\nbroken line\n", "cb02, line 3.*WORD/TAG"),
        ("cb02", b"\n\t\n", "two sentences.*Received: 0"),
        ("a.txt", b"The cat sat on a good mat and slept .", "Received: 1"),
    ],
)
def test_a_bad_text_is_refused_with_its_place(name, content, problem, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(errors.DataError, match=problem):
        texts.read_sentences(str(tmp_path), limit=0, seed=1)


def test_pieces_belong_to_words(electra):
    sentences = [
        texts.Sentence(("good", "cats,", "unable"), ("a", "b", "c")),
        texts.Sentence(("mat",)),
    ]
    found = texts.locate_pieces(electra, sentences)
    tokens = [tiny_electra.VOCABULARY.tokens[i] for i in found["id"]]
    assert tokens == ["good", "cat", "##s", ",", "un", "##able", "mat"]
    assert found["word"].tolist() == [0, 1, 1, 1, 2, 2, 0]
    assert found["label"].tolist() == ["a", "b", "b", "b", "c", "c", ""]
    assert found["position"].tolist() == [1, 2, 3, 4, 5, 6, 1]
    assert found["flat_word"].tolist() == [0, 1, 1, 1, 2, 2, 3]


def test_labels_are_what_the_discriminator_was_shown(
    electra, monkeypatch, tmp_path
):
    words = ("the", "cat", "sat", "on", "a", "mat")
    sentences = [texts.Sentence(words)] * 100
    shown = []
    call = networks.Discriminator.call

    def spy(self, ids, *rows):
        tf.py_function(lambda x: shown.append(x.numpy()), [ids], [])
        return call(self, ids, *rows)

    monkeypatch.setattr(networks.Discriminator, "call", spy)
    work = analysis.Work(electra, REQUEST, epath.Path(tmp_path), "key")
    found = corruption.detect(work, sentences)
    again = corruption.detect(work, sentences)
    pd.testing.assert_frame_equal(found, again)
    assert len(shown) == 2  # Batches; what is known is not asked again.
    own = np.concatenate(shown)[:100, 1:7]
    original = found["id"].to_numpy().reshape(100, 6)
    replaced = found["is_replaced"].to_numpy().reshape(100, 6)
    np.testing.assert_array_equal(replaced, own != original)
    masked = found["is_masked"].to_numpy()
    # round(0.4 * 8) of the six pieces of each row.
    assert masked.reshape(100, 6).sum(1).tolist() == [3] * 100
    assert not (found["is_replaced"] & ~masked).any()
    assert 0 < found["is_replaced"].mean() < masked.mean()


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
    toy = types.SimpleNamespace(
        __doc__="Is 1 < 2?\n\nMore.",
        PICTURE="A <line>.",
        measure=lambda work: analysis.Findings(table, ("A & B.",)),
        draw=lambda found, axes: axes[0].plot([1, 2]),
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
