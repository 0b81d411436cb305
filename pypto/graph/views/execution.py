"""Draws the execution graph: a box for each step, and an arrow from it to each step that reads an array of it."""

from __future__ import annotations

from collections.abc import Iterator

from pypto.backends.findings import byte_text
from pypto.graph.ir.dims import hint
from pypto.graph.ir.node import Node
from pypto.graph.plan.plan import Plan, places
from pypto.graph.plan.schedule import Step
from pypto.graph.views.diagram import Arrow, Box
from pypto.graph.views.drawing import Drawing
from pypto.graph.views.words import form_of, grid_text, shortened, step_id, step_title

NAMES = 44  # characters of the names of arguments that a step reads


def dependencies(steps: tuple[Step, ...]) -> Iterator[tuple[int, int, Node]]:
    """Yields the pairs of steps of which the second reads an array that the first writes, and the array."""
    writer: dict[Node, int] = {}
    for number, step in enumerate(steps):
        for node in step.reads:
            if node in writer:
                yield writer[node], number, node
        writer.update(dict.fromkeys(step.writes, number))


def execution_drawing(plan: Plan) -> Drawing:
    """Returns the execution graph of a plan as a picture."""
    boxes = tuple(step_box(plan, number, step) for number, step in enumerate(plan.steps))
    arrows = tuple(
        Arrow(step_id(a), step_id(b), f"%{node.number} {node.type}") for a, b, node in dependencies(plan.steps)
    )
    text = f"{len(plan.steps)} steps, {len(plan.kernels)} kernels. An arrow is an array that is stored and read."
    return Drawing(f"{plan.graph.name}: execution graph", text, boxes, arrows)


def step_box(plan: Plan, number: int, step: Step) -> Box:
    """Returns the box of a step, which says what the step computes, reads and writes."""
    rows = [f"{len(step.nodes)} ops, {places(step.nodes)}"]
    names = ", ".join(str(node.attr("name")) for node in step.reads if node.is_input)
    if names:
        rows.append(f"reads {shortened(names, NAMES)}")
    rows += [written(plan, node) for node in step.writes]
    tip = f"reads {names}" if names else ""
    note = ", ".join(filter(None, (form_of(step), grid_text(step))))
    return Box(step_id(number), step_title(number, step), note, tuple(rows), "step", form_of(step), tip)


def written(plan: Plan, node: Node) -> str:
    """Describes an array that a step writes: its type, its size, and its place in memory."""
    where = f"arena at {plan.offsets[node]:,}" if node in plan.offsets else "a result"
    return f"writes {node.type}, {byte_text(hint(node.type.nbytes))}, {where}"
