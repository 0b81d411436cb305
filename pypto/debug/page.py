"""Renders an inspection as HTML: the source with its types beside the levels, linked by line.

It opens on the facts about every line. The page is self-contained: it works as a file, in a notebook and without a
network.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from textwrap import dedent
from typing import TYPE_CHECKING, Final

from pypto.markup import Markup, bar, card, join, note, table, tag, text
from pypto.markup.colours import coloured

if TYPE_CHECKING:
    from pypto.backends.findings import Picture
    from pypto.debug.inspection import Inspection, Level, SourceLine
    from pypto.debug.line_facts import LineFacts

_SCRIPT: Final = """
(function(){const root=document.getElementById("ID");
const light=n=>root.querySelectorAll(".line").forEach(l=>l.classList.toggle("lit",n!=="0"&&l.dataset.line===n));
root.addEventListener("mouseover",e=>{const l=e.target.closest(".line");if(l)light(l.dataset.line)});
root.addEventListener("click",e=>{const b=e.target.closest("button");if(b){
root.querySelectorAll("button").forEach(o=>o.setAttribute("aria-selected",o===b));
root.querySelectorAll("[data-level]").forEach(t=>t.hidden=t.dataset.level!==b.textContent);return}
const l=e.target.closest(".source .line");if(!l)return;
const shown=[...root.querySelectorAll("[data-level]")].find(t=>!t.hidden);
const to=shown.querySelector('[data-line="'+l.dataset.line+'"]');
if(to)to.scrollIntoView({block:"nearest"})})})();
"""
SUMMARY: Final = "line by line"
_SOURCE: Final = "source, and the type at every line"
_HEAD: Final = "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>TITLE</title></head><body>\n"
_NO_TIMES: Final = (
    "No times yet. Run launches under `with pto.profile() as prof:` and pass `profile=prof` to `inspect`, or use "
    "`%%pto --inspect`, which does both."
)


def page(inspection: Inspection) -> str:
    """Returns a complete document."""
    title = text(f"{inspection.kernel}: from source to machine code")
    return f"{_HEAD.replace('TITLE', title)}{body(inspection)}\n</body></html>\n"


def body(inspection: Inspection) -> Markup:
    """Returns the content of a page or a notebook's cell; a document may contain several."""
    name = "i" + hashlib.sha256(f"{inspection}{inspection.facts}".encode()).hexdigest()[:12]
    levels = [level.name for level in inspection.levels]
    names = (SUMMARY, *levels, *(picture.name for picture in inspection.pictures))
    buttons = (tag("button", label, aria_selected=str(n == 0).lower()) for n, label in enumerate(names))
    source = panel("source", tag("span", _SOURCE), tag("div", *map(source_line, inspection.source), class_="text"))
    panels = panel("", join(buttons), shown(SUMMARY, summary(inspection), hidden=False),
                  *(shown(level.name, *level_lines(level), hidden=True) for level in inspection.levels),
                  *(shown(drawn.name, *picture(drawn), hidden=True) for drawn in inspection.pictures))  # fmt: skip
    script = Markup(f"<script>{_SCRIPT.replace('ID', name)}</script>")
    page = card(inspection.kernel, tag("div", source, panels, class_="sides"), note=inspection.version)
    return tag("div", page, script, id=name)


def panel(kind: str, head: Markup, *parts: Markup) -> Markup:
    """Renders one of the two sides."""
    return tag("div", tag("div", head, class_="heads"), *parts, class_=f"side {kind}".strip())


def shown(name: str, *parts: Markup, hidden: bool) -> Markup:
    """Renders the content that a button shows."""
    return tag("div", *parts, class_="text", data_level=name, hidden=hidden)


def source_line(line: SourceLine) -> Markup:
    """Renders a line of the source, and below it all of its types."""
    number = tag("i", line.number, class_="row")
    types = tag("div", "  ".join(line.types), class_="types") if line.types else Markup("")
    return tag("div", tag("pre", number, coloured(line.text)), types, class_="line", data_line=line.number)


def summary(inspection: Inspection) -> Markup:
    """Renders the facts about every line: its width, its time, and the reasons."""
    lines = [line for line in inspection.source if line.number in inspection.facts]
    texts = dedent("\n".join(line.text for line in lines)).split("\n")
    pairs = zip(lines, texts, strict=True)
    rows = (row for line, text in pairs for row in summary_rows(line, text, inspection.facts[line.number]))
    lines_table = table(("line", "source", "elements per pass", "time"), rows, (0,))
    timed = any(facts.time for facts in inspection.facts.values())
    return join([lines_table, Markup("") if timed else note(_NO_TIMES)])


def summary_rows(line: SourceLine, source: str, facts: LineFacts) -> Iterator[Markup]:
    """Returns a row with the facts of a line, and one below it for the reasons, as wide as the table."""
    code = tag("td", tag("pre", coloured(source)), class_="code")
    time = facts.time if facts.share is None else bar(facts.share, facts.time)
    cells = (tag("td", shown, class_="keep") for shown in (facts.width, time))
    yield tag("tr", tag("td", line.number, class_="number"), code, *cells, class_="line", data_line=line.number)
    if facts.reasons:
        why = tag("td", *(note(reason) for reason in facts.reasons), colspan=3)
        yield tag("tr", tag("td"), why, class_="line", data_line=line.number)


def level_lines(level: Level) -> Iterator[Markup]:
    for number, line in level.lines:
        yield tag("pre", coloured(line) or " ", class_="line", data_line=number)


def picture(drawn: Picture) -> Iterator[Markup]:
    yield note(drawn.text)
    yield Markup(drawn.svg)
