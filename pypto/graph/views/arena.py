"""Draws the arena over time: each array from the step that writes it to the last that reads it, by address."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pypto.backends.findings import byte_text
from pypto.graph.ir.dims import hint
from pypto.graph.ir.node import Node, line_of, source_of
from pypto.graph.plan.plan import Plan
from pypto.graph.views.placement import CHAR
from pypto.graph.views.words import form_of, step_name
from pypto.markup import escaped
from pypto.markup.drawings import hue_of
from pypto.markup.pictures import Chart
from pypto.runtime.arena import rounded

WIDTH: Final = 1000.0  # of the steps, at least
STEP: Final = 34.0  # width of a step, at least
HEIGHT: Final = 320.0  # of the arena
LEFT: Final = 84.0
TOP: Final = 26.0
LABEL: Final = 14.0  # height that a label needs


def live_bytes(plan: Plan) -> list[int]:
    """Returns, for each step, the bytes of the arena that hold arrays which are still read."""
    rows = []
    for number in range(len(plan.steps)):
        alive = (node for node, (first, last) in plan.lifetimes.items() if first <= number <= last)
        by_owner = {plan.buffer_aliases.get(node, node): rounded(hint(node.type.nbytes)) for node in alive}
        rows.append(sum(by_owner.values()))
    return rows


def arena_drawing(plan: Plan) -> Chart:
    """Returns a chart of the arena of a plan: the address and lifetime of each array over the steps."""
    across = max(STEP, WIDTH / max(1, len(plan.steps)))
    width, height = LEFT + across * len(plan.steps) + 12, TOP + HEIGHT + 34
    parts = [*axes(plan, across), *(part for node in plan.lifetimes for part in span(plan, node, across))]
    parts.append(staircase(plan, across))
    size = f"width='{width:.0f}' height='{height:.0f}' viewBox='0 0 {width:.0f} {height:.0f}'"
    svg = f"<svg class='graph' {size} xmlns='http://www.w3.org/2000/svg' role='img'>{''.join(parts)}</svg>"
    total = sum(hint(node.type.nbytes) for node in plan.lifetimes)
    text = (
        f"{len(plan.lifetimes)} arrays of {byte_text(total)} share {byte_text(plan.arena_bytes)}. "
        "Upwards is the address, to the right are the steps; the line is what is alive."
    )
    return Chart(f"{plan.graph.name}: arena over time", text, svg)


def axes(plan: Plan, across: float) -> Iterator[str]:
    """Yields the axes of the chart: the numbers of the steps, and addresses."""
    bottom = TOP + HEIGHT
    right = LEFT + across * len(plan.steps)
    for part in range(5):
        y = bottom - HEIGHT * part / 4
        yield f"<line class='axis' x1='{LEFT}' x2='{right:.1f}' y1='{y:.1f}' y2='{y:.1f}'/>"
        yield label(LEFT - 8, y + 4, byte_text(plan.arena_bytes * part // 4), "soft", "end")
    for number, step in enumerate(plan.steps):
        x = LEFT + across * (number + 0.5)
        tip = f"<title>{escaped(f'step {number}: {step_name(step)}')}</title>"
        yield label(x, bottom + 16, f"{number}{tip}", "b", "middle")
    yield label(LEFT, bottom + 30, "step", "soft", "start")
    yield label(LEFT - 8, TOP - 12, "address", "soft", "end")


def label(x: float, y: float, text: str, kind: str, anchor: str) -> str:
    return f"<text class='{kind}' x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'>{text}</text>"


def span(plan: Plan, node: Node, across: float) -> Iterator[str]:
    """Yields an array as a rectangle over its lifetime; its type is inside where the rectangle is large enough."""
    first, last = plan.lifetimes[node]
    scale = HEIGHT / max(1, plan.arena_bytes)
    nbytes = hint(node.type.nbytes)
    x, width = LEFT + first * across + 1, (last - first + 1) * across - 2
    height = max(2.0, nbytes * scale)
    y = TOP + HEIGHT - plan.offsets[node] * scale - height
    where = f"x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}'"
    tip = (
        f"%{node.number}: {node.type}, {byte_text(nbytes)} at {plan.offsets[node]:,}\n"
        f"written by step {first}, last read by step {last}\n{line_of(node)}  {source_of(node)}"
    )
    hue = hue_of(form_of(plan.steps[first]))
    text = next((t for t in (f"{node.type}", f"%{node.number}") if len(t) * CHAR + 8 <= width), "")
    shown = label(x + 5, y + min(height / 2 + 4, 14), escaped(text), "", "start") if height >= LABEL and text else ""
    line = f" data-line='{escaped(line_of(node))}'" if line_of(node) else ""
    yield f"<g class='line'{line}><rect class='span {hue}' {where} rx='3'/>{shown}<title>{escaped(tip)}</title></g>"


def staircase(plan: Plan, across: float) -> str:
    """Returns the SVG path of the live bytes over the steps."""
    scale = HEIGHT / max(1, plan.arena_bytes)
    path = ""
    for number, live in enumerate(live_bytes(plan)):
        x, y = LEFT + number * across, TOP + HEIGHT - live * scale
        path += f"{'V' if path else f'M{x:.1f} '}{y:.1f}H{x + across:.1f}"
    return f"<path class='limit' d='{path}'/>" if path else ""
