"""The page as a user sees it, in a headless Chromium."""

import pytest

from tests.export.demo import browser as browser_lib

EVIL = '<img src=x onerror="window.stolen=1"> & \U0001f600 שלום'


@pytest.fixture(scope="module")
def page(serve, stub_model, tmp_path_factory):
    found = browser_lib.find_browser()
    if found is None:
        pytest.skip("needs chromium and chromedriver in the PATH")
    folder = tmp_path_factory.mktemp("browser")
    with serve(stub_model) as server:
        browser = browser_lib.Browser(*found, folder)
        browser.open(server.url)
        browser.wait("!document.getElementById('submit').disabled")
        yield browser
        browser.close()


def _analyse(page, text, shown):
    page.clear("#text")
    page.run("for (const id of ['score', 'fill', 'error'])"
             "document.getElementById(id).hidden = true")  # fmt: skip
    page.type("#text", text)
    page.click("#submit")
    page.wait(f"!document.getElementById('{shown}').hidden")


def _words(page):
    return page.run(
        "return [...document.querySelectorAll('#words .word')].map("
        "(w) => [w.textContent, w.className, w.title])"
    )


def test_words_are_coloured_by_their_probability(page):
    _analyse(page, "a cat  sits,  extraordinarily", "score")
    assert _words(page) == [
        ["a", "word level-1", "replaced: 10.0 %"],
        ["cat", "word level-2", "replaced: 30.0 %"],
        ["sits,", "word level-3", "replaced: 50.0 %"],
        ["extraordinarily", "word level-4", "replaced: 100.0 %"],
    ]
    colours = page.run(
        "return [...document.querySelectorAll('#words .word')].map("
        "(w) => getComputedStyle(w).backgroundColor)"
    )
    assert len(set(colours)) == 4
    lines = page.run(
        "return [...document.querySelectorAll('#words .word')].map("
        "(w) => getComputedStyle(w).textDecorationStyle)"
    )
    assert len(set(lines)) == 4, "colour must not be the only sign"
    assert (
        page.run(
            "return document.querySelector('#suspicious li .name').textContent"
        )
        == "extraordinarily"
    )


def test_blanks_and_markup_are_shown_as_they_were_typed(page):
    for text in ("two  blanks ,\tand a  ", EVIL):
        page.run("document.getElementById('text').value = "
                 f"{text!r}")  # fmt: skip
        page.click("#submit")
        page.wait("document.getElementById('words').textContent === "
                  "document.getElementById('text').value")  # fmt: skip
    assert page.run("return document.images.length") == 0
    assert page.run("return window.stolen === undefined")


def test_a_mask_is_inserted_filled_and_replaced(page):
    page.clear("#text")
    page.type("#text", "the ")
    page.click("#mask")
    page.type("#text", " sat")
    page.click("#submit")
    page.wait("!document.getElementById('fill').hidden")
    assert page.run("return document.getElementById('text').value") == (
        "the [MASK] sat"
    )
    fillings = page.run(
        "return [...document.querySelectorAll('.filling')].map("
        "(f) => [f.querySelector('.name').textContent,"
        " f.querySelector('.number').textContent])"
    )
    assert len(fillings) == 5 and fillings[0] == ["t1", "50.0 %"]
    page.click(".filling")
    page.wait("!document.getElementById('score').hidden")
    assert page.run("return document.getElementById('text').value") == (
        "the t1 sat"
    )


def test_the_page_breaks_none_of_its_own_rules(page):
    page.run(
        "window.broken = [];"
        "document.addEventListener('securitypolicyviolation',"
        "(e) => window.broken.push(e.violatedDirective))"
    )
    _analyse(page, "a cat [MASK]", "fill")
    _analyse(page, "a cat", "score")
    assert page.run("return window.broken") == []
    loaded = page.run(
        "return performance.getEntriesByType('resource').map((e) => e.name)"
    )
    origin = page.run("return location.origin")
    assert loaded and all(name.startswith(origin) for name in loaded)
