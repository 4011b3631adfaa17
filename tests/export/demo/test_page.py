"""The page as a user sees it, in a headless Chromium."""

import contextlib

import pytest

from tests.export.demo import browser as browser_lib
from tests.export.demo import stubs

pytestmark = pytest.mark.extra("browser")
EVIL = '<img src=x onerror="window.stolen=1"> & \U0001f600 שלום'


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    opened = browser_lib.Browser(*browser_lib.find_browser(), folder)
    yield opened
    opened.close()


@contextlib.contextmanager
def _page_of(browser, model):
    with stubs.serve(model) as server:
        browser.open(server.url)
        browser.wait("!document.getElementById('submit').disabled")
        yield browser


@pytest.fixture(scope="module")
def page(browser):
    with _page_of(browser, stubs.PRETRAINED) as opened:
        yield opened


def _submit(page, text, shown):
    """Types a text key by key and waits for one of the answers."""
    page.act("#text", "clear")
    page.run("for (const id of ['score', 'fill', 'predict', 'error'])"
             "document.getElementById(id).hidden = true")  # fmt: skip
    page.act("#text", "value", text=text)
    page.act("#submit", "click")
    page.wait(f"!document.getElementById('{shown}').hidden")


def _of_all(page, selector, expression):
    """A JavaScript expression of every `e` that a selector finds."""
    found = f"[...document.querySelectorAll('{selector}')]"
    return page.run(f"return {found}.map((e) => {expression})")


def test_words_are_coloured_by_their_probability(page):
    _submit(page, "a cat  sits,  extraordinarily", "score")
    shown = "[e.textContent, e.className, e.title]"
    assert _of_all(page, "#words .word", shown) == [
        ["a", "word level-1", "replaced: 10.0 %"],
        ["cat", "word level-2", "replaced: 30.0 %"],
        ["sits,", "word level-3", "replaced: 50.0 %"],
        ["extraordinarily", "word level-4", "replaced: 100.0 %"],
    ]
    # Colour must not be the only sign.
    for style in ("backgroundColor", "textDecorationStyle"):
        found = _of_all(page, "#words .word", f"getComputedStyle(e).{style}")
        assert len(set(found)) == 4
    first, *_ = _of_all(page, "#suspicious li .name", "e.textContent")
    assert first == "extraordinarily"


def test_blanks_and_markup_are_shown_as_they_were_typed(page):
    for text in ("two  blanks ,\tand a  ", EVIL):
        page.run(f"document.getElementById('text').value = {text!r}")
        page.act("#submit", "click")
        page.wait("document.getElementById('words').textContent === "
                  "document.getElementById('text').value")  # fmt: skip
    assert page.run("return document.images.length") == 0
    assert page.run("return window.stolen === undefined")


def test_a_mask_is_inserted_filled_and_replaced(page):
    page.act("#text", "clear")
    page.act("#text", "value", text="the ")
    page.act("#mask", "click")
    page.act("#text", "value", text=" sat")
    page.act("#submit", "click")
    page.wait("!document.getElementById('fill').hidden")
    assert _of_all(page, "#text", "e.value") == ["the [MASK] sat"]
    shown = "['name', 'number'].map((c) => e.querySelector('.'+c).textContent)"
    fillings = _of_all(page, ".filling", shown)
    assert len(fillings) == 5 and fillings[0] == ["t1", "50.0 %"]
    page.act(".filling", "click")
    page.wait("!document.getElementById('score').hidden")
    assert _of_all(page, "#text", "e.value") == ["the t1 sat"]


def test_the_page_breaks_none_of_its_own_rules(page):
    page.run(
        "window.broken = [];"
        "document.addEventListener('securitypolicyviolation',"
        "(e) => window.broken.push(e.violatedDirective))"
    )
    _submit(page, "a cat [MASK]", "fill")
    _submit(page, "a cat", "score")
    assert page.run("return window.broken") == []
    loaded = page.run(
        "return performance.getEntriesByType('resource').map((e) => e.name)"
    )
    origin = page.run("return location.origin")
    assert loaded and all(name.startswith(origin) for name in loaded)


def test_labels_have_bars(browser):
    with _page_of(browser, stubs.CLASSIFIER) as page:
        _submit(page, "a film", "predict")
        shown = "e.querySelector('.name').textContent"
        assert _of_all(page, "#labels li", shown) == ["good", "bad"]
        width = "e.querySelector('.track span').style.width"
        assert _of_all(page, "#labels li", width) == ["75%", "25%"]
        assert _of_all(page, "#truncated", "[e.hidden, e.textContent]") == [
            [False, "The end of the text (3 tokens) is longer than the model "
             "reads and was not seen."]
        ]  # fmt: skip


def test_spans_bear_their_tags(browser):
    with _page_of(browser, stubs.TAGGER) as page:
        text = "\U0001f600Ann  sat, " + EVIL
        _submit(page, text.replace("\U0001f600", ""), "predict")
        page.run(f"document.getElementById('text').value = {text!r}")
        page.act("#submit", "click")
        page.wait("document.querySelector('#marked mark').textContent"
                  ".startsWith('\U0001f600')")  # fmt: skip
        shown = "[e.firstChild.textContent, e.lastChild.textContent, e.title]"
        assert _of_all(page, "#marked mark", shown) == [
            ["\U0001f600Ann", "PER", "\U0001f600Ann: B-PER, 90.0 %"]
        ]
        (marked,) = _of_all(page, "#marked", "e.textContent")
        assert marked == text.replace("Ann", "AnnPER", 1)
        assert _of_all(page, "#kinds li", "e.textContent") == ["1 ×PER"]
        assert page.run("return document.images.length") == 0


def test_an_answer_is_marked_in_its_text_or_denied(browser):
    with _page_of(browser, stubs.READER) as page:
        labels = _of_all(page, "label", "[e.htmlFor, e.textContent]")
        assert labels == [["text", "A question"],
                          ["second", "A text with the answer"]]  # fmt: skip
        page.act("#second", "value", text="It slept \u00e0 la maison")
        for question, verdict in (("Where?", "Where? It"), ("No", "No answer")):
            _submit(page, question, "predict")
            (found,) = _of_all(page, "#verdict", "e.textContent")
            assert found.startswith(verdict)
            assert _of_all(page, "#marked mark", "e.textContent") == ["maison"]
        (details,) = _of_all(page, "#details", "e.textContent")
        assert "best guess" in details and "Score 2.50" in details
