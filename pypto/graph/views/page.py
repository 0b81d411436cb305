"""Writes a plan as HTML: the user's function on one side, the views of the plan on the other, linked by line.

A page holds all that it needs: it works as a file, in a notebook and without a network.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Final

from pypto.backends.findings import byte_text
from pypto.debug.page import panel
from pypto.graph.ir.dims import hint
from pypto.graph.ir.node import Node
from pypto.graph.plan.plan import Plan, guards_of, places, reason
from pypto.graph.plan.schedule import PlanKernel, Step
from pypto.graph.views.arena import arena_drawing
from pypto.graph.views.execution import execution_drawing
from pypto.graph.views.source import source_lines
from pypto.graph.views.tensor_graph import plan_drawing
from pypto.graph.views.words import form_of, grid_text, step_name
from pypto.markup import Markup, card, join, note, table, tag, text
from pypto.markup.colours import coloured
from pypto.markup.drawings import hue_of
from pypto.markup.pictures import SavablePicture

_SCRIPT: Final = """
(function(){const root=document.getElementById("ID");const all=(s,e=root)=>[...e.querySelectorAll(s)];
const light=n=>all(".line").forEach(l=>l.classList.toggle("lit",!!n&&l.dataset.line===n));
const arrows=n=>all(".arrow").forEach(a=>a.classList.toggle("lit",!!n&&(a.dataset.from===n||a.dataset.to===n)));
root.addEventListener("mouseover",e=>{const l=e.target.closest(".line");
light(l&&l.dataset.line);arrows(l&&l.dataset.name)});
const center=()=>all(".drawing").forEach(d=>{const r=d.querySelector("rect");
if(d.dataset.seen||!r||!d.clientWidth)return;d.dataset.seen=1;const b=r.getBoundingClientRect();
d.scrollLeft+=b.left+b.width/2-d.getBoundingClientRect().left-d.clientWidth/2});
const zoom=(view,by)=>{const s=view.querySelector("svg"),b=s.viewBox.baseVal;
const now=s.width.baseVal.value/b.width,room=view.querySelector(".drawing").clientWidth;
const scale=by?Math.min(4,Math.max(.05,now*by)):Math.min(1,room/b.width);
s.setAttribute("width",b.width*scale);s.setAttribute("height",b.height*scale)};
root.addEventListener("click",e=>{const b=e.target.closest("button");
if(b&&b.dataset.zoom){zoom(b.closest("[data-level]"),+b.dataset.zoom);return}
if(b){all(".heads button").forEach(o=>o.setAttribute("aria-selected",o===b));
all("[data-level]").forEach(t=>t.hidden=t.dataset.level!==b.textContent);center();return}
const l=e.target.closest(".source .line");if(!l||!l.dataset.line)return;
const shown=all("[data-level]").find(t=>!t.hidden);
const to=all(".line",shown).find(t=>t.dataset.line===l.dataset.line);
if(to)to.scrollIntoView({block:"nearest",inline:"nearest"})});
let held=null;root.addEventListener("pointerdown",e=>{const d=e.target.closest(".drawing");
if(d&&e.button===0){held={d,x:e.clientX+d.scrollLeft,y:e.clientY+d.scrollTop};e.preventDefault()}});
addEventListener("pointermove",e=>{if(held){held.d.scrollLeft=held.x-e.clientX;held.d.scrollTop=held.y-e.clientY}});
addEventListener("pointerup",()=>{held=null})})();
"""
_HEAD: Final = (
    "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
    "<meta name='color-scheme' content='light dark'><title>TITLE</title></head><body>\n"
)
_PLACE: Final = re.compile(r"  # (\S+:\d+)$")  # what stands behind a line of a kernel
_ZOOM: Final = (("+", 1.25, "larger"), ("-", 0.8, "smaller"), ("fit", 0, "as wide as the page"))
_SOURCE: Final = "the function"


def page(plan: Plan) -> str:
    """Returns a plan as an HTML document."""
    title = text(f"{plan.graph.name}: from arrays to kernels")
    return f"{_HEAD.replace('TITLE', title)}{body(plan)}\n</body></html>\n"


def body(plan: Plan) -> Markup:
    """Returns the contents of a page or of a notebook's cell, which may have several of them."""
    views = {
        "steps": join([steps_table(plan), legend(plan)]),
        "execution graph": picture(execution_drawing(plan)),
        "Tensor graph": picture(plan_drawing(plan)),
        "arena": picture(arena_drawing(plan)),
        "kernels": kernels(plan),
    }
    name = "p" + hashlib.sha256("".join(views.values()).encode()).hexdigest()[:12]
    buttons = (tag("button", label, aria_selected=str(n == 0).lower()) for n, label in enumerate(views))
    shown = (tag("div", view, class_="text", data_level=label, hidden=n > 0)
             for n, (label, view) in enumerate(views.items()))  # fmt: skip
    source = panel("source", tag("span", _SOURCE), tag("div", source_lines(plan.graph), class_="text"))
    sides = tag("div", source, panel("", join(buttons), *shown), class_="sides")
    script = Markup(f"<script>{_SCRIPT.replace('ID', name)}</script>")
    return tag("div", card(plan.graph.name, sides, note=summary(plan)), script, id=name)


def summary(plan: Plan) -> str:
    """Describes a plan in one sentence."""
    arrays = sum(hint(n.type.nbytes) for n in plan.graph.live() if not (n.is_input or n.is_constant))
    saved = f"arena of {byte_text(plan.arena_bytes)} for {byte_text(arrays)} of arrays"
    count = len(plan.kernels)
    kernels = f"{count} kernel{'' if count == 1 else 's'}"
    return f"{len(plan.steps)} step{'' if len(plan.steps) == 1 else 's'}, {kernels}, {saved}"


def picture(drawn: SavablePicture) -> Markup:
    """Returns a picture that a reader can scroll and enlarge."""
    buttons = (tag("button", label, data_zoom=by, title=title) for label, by, title in _ZOOM)
    zoom = tag("div", *buttons, class_="zoom")
    return join([note(drawn.text), zoom, tag("div", Markup(drawn.inner_svg), class_="drawing")])


def steps_table(plan: Plan) -> Markup:
    """Returns a table with a row for each step, and below it the reasons why its arrays are stored."""
    guards = [note(f"for {guard}, asked at {guard.place.loc()}") for guard in guards_of(plan)]
    rows = (row for number, step in enumerate(plan.steps) for row in step_rows(plan, number, step))
    return join([*guards, table(("", "kernel", "form", "grid", "ops", "lines", "stores"), rows, (0, 4))])


def step_rows(plan: Plan, number: int, step: Step) -> Iterator[Markup]:
    """Yields the row of a step, and a row of the table's full width with the reasons."""
    grid = grid_text(step).removeprefix("grid ")
    swatch = tag("span", form_of(step), class_=f"form {hue_of(form_of(step))}")
    stores = join(tag("div", f"{node.type}, {byte_text(hint(node.type.nbytes))}") for node in step.writes)
    before = (tag("td", x, class_="keep") for x in (tag("code", step_name(step)), swatch, grid))
    behind = (tag("td", x, class_="keep") for x in (places(step.nodes), stores))
    ops = tag("td", len(step.nodes), class_="number")
    yield tag("tr", tag("td", number, class_="number"), *before, ops, *behind, class_="step")
    yield tag("tr", tag("td"), tag("td", *(note(stored(plan, node)) for node in step.writes), colspan=6))


def stored(plan: Plan, node: Node) -> str:
    """Says where an array of a step is, and why it is in memory."""
    where = f"in the arena at {plan.offsets[node]:,}" if node in plan.offsets else "a result"
    why = reason(plan, node).removeprefix(": ")
    return f"%{node.number} {where}{f', since {why}' if why else ''}"


def legend(plan: Plan) -> Markup:
    """Returns the legend of the colours."""
    forms = dict.fromkeys(form_of(step) for step in plan.steps)
    return tag("div", *(tag("span", _FORMS.get(f, f), class_=f"form {hue_of(f)}") for f in forms), class_="legend")


_FORMS: Final = {
    "pointwise": "pointwise: element by element",
    "rows": "rows: reductions of whole rows",
    "columns": "columns: reductions along columns",
    "product": "product: one matrix product, with what is before and after it",
    "chain": "chain: two products in one kernel",
    "online": "online: a softmax along a long axis as one loop",
    "numpy": "numpy: moved between kernels",
}


def kernels(plan: Plan) -> Markup:
    """Returns the sources of all kernels, each line with the user's line that it comes from."""
    return join(part for kernel in plan.kernels for part in kernel_lines(plan, kernel))


def kernel_lines(plan: Plan, kernel: PlanKernel) -> Iterator[Markup]:
    steps = [n for n, step in enumerate(plan.steps) if step.kernel == kernel]
    used = f"step{'' if len(steps) == 1 else 's'} {', '.join(map(str, steps))}"
    yield tag(
        "div", tag("span", kernel.form, class_=f"form {hue_of(kernel.form)}"), tag("strong", kernel.name), f" {used}"
    )
    lines = kernel.source.splitlines()
    for line in lines:
        place = _PLACE.search(line)
        yield tag("pre", coloured(line) or " ", class_="line", data_line=place[1] if place else "")
    yield tag("pre", " ", class_="line")
