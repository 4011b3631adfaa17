"""Writes a page with all findings about a model, and coloured sentences."""

import base64
import html
import pathlib
import string
from collections.abc import Sequence
from typing import Any

from analyses import analysis
from analyses import texts
from analyses import word_tests
from electra_tf import errors
from electra_tf.export.clients import scoring
from electra_tf.loaded_models.pretrained import PretrainedModel
from electra_tf.processes import atomic

PAGE = "report.html"
_NUM_SENTENCES = 12
# A picture is shown at least at this share of its width, for legible letters.
_MIN_WIDTH = 0.6
_FOLDER = pathlib.Path(__file__).parent


def write(
    electra: PretrainedModel,
    request: analysis.Request,
    output_dir: pathlib.Path,
) -> pathlib.Path:
    """Writes the page of the analyses in a folder.

    `request.data` is a corpus for the sentences. Raises `FileNotFoundError` if
    the folder has no analysis, `ModelError` for an analysis of another model.
    """
    contents, sections = {}, []
    for name in analysis.ANALYSES:
        stored = analysis.read_stored(output_dir / name)
        if stored is None:
            continue
        if stored.key != analysis.digest(electra, stored.request):
            raise errors.ModelError(
                f"A report is for one model, {electra.origin}. Received: "
                f"{output_dir / name}, an analysis of {stored.model}. Run the "
                "analysis again, or use one --output_dir for each model."
            )
        module = analysis.find_analysis(name)
        contents[name] = analysis.question_of(module)
        picture = (output_dir / name / analysis.PICTURE).read_bytes()
        sections.append(_section(name, module, stored.findings, picture))
    if not sections:
        raise FileNotFoundError(
            "A report needs finished analyses. Received: "
            f"{output_dir}, without any. Run one of "
            f"{', '.join(analysis.ANALYSES)} first."
        )
    if electra.can_score:
        contents["sentences"] = "Sentences with one word exchanged"
        sections.append(_sentences(electra, request))
    page = _fill(
        "page.html",
        title=f"What {html.escape(request.model)} knows",
        summary=html.escape(f"{electra.summary}; {electra.origin}"),
        contents="".join(
            f'<li><a href="#{name}">{html.escape(question)}</a></li>'
            for name, question in contents.items()
        ),
        sections="".join(sections),
    )
    path = output_dir / PAGE
    atomic.write_text(path, page)
    return path


def _section(
    name: str, module: Any, findings: analysis.Findings, picture: bytes
) -> str:
    header, rows = findings.cells()
    width = int.from_bytes(picture[16:20])  # in PNG's header
    return _fill(
        "section.html",
        name=name,
        question=html.escape(analysis.question_of(module)),
        shown=html.escape(module.PICTURE),
        width=round(_MIN_WIDTH * width),
        header=_wrap('<th scope="col">{}</th>', header),
        rows="".join(
            _wrap('<tr><th scope="row">{}</th>', row[:1])
            + _wrap("<td>{}</td>", row[1:])
            + "</tr>"
            for row in rows
        ),
        notes=_wrap("<p>{}</p>", findings.notes),
        picture="data:image/png;base64," + base64.b64encode(picture).decode(),
    )


def _fill(file: str, **fields: Any) -> str:
    template = (_FOLDER / file).read_text("utf-8")
    return string.Template(template).substitute(fields)


def _wrap(element: str, contents: Sequence[str]) -> str:
    return "".join(element.format(html.escape(text)) for text in contents)


def _sentences(electra: PretrainedModel, request: analysis.Request) -> str:
    count = 10 * _NUM_SENTENCES
    drawn = texts.read_sentences(request.data, count, request.seed)
    plain = [sentence.text for sentence in drawn]
    changes = word_tests.draw_swaps(plain, request.seed)[:_NUM_SENTENCES]
    scored = electra.score([change.swap.data.decode() for change in changes])
    items = "".join(
        f"<p>{_colour(text, change.swap)}</p>"
        for change, text in zip(changes, scored, strict=True)
    )
    return (
        '<section id="sentences"><h2>Sentences with one word exchanged</h2>'
        "<p>The underlined word is not the author&#8217;s. Words that look "
        "replaced to the model are red; the number is the probability in "
        f"percent.</p>{items}</section>"
    )


def _colour(text: scoring.ScoredText, swap: scoring.Swap) -> str:
    parts, done = [], 0
    for word in text.words:
        parts.append(html.escape(text.data[done : word.start].decode()))
        share = round(100 * word.replaced_probability)
        kind = ' class="swapped"' if word.start == swap.start else ""
        parts.append(
            f'<mark{kind} style="background:rgba(220,50,30,{share / 150:.2f})">'
            f"{html.escape(word.text)}<sub>{share}</sub></mark>"
        )
        done = word.end
    return "".join([*parts, html.escape(text.data[done:].decode())])
