"""Draws the Tensor graph: a box for each array, and a frame around the arrays that one kernel computes.

Constants stand in the title of the box that reads them. So do, as rows, arguments that one node alone reads as a second
operand: weights and biases. Views are drawn where they are read, since they are neither computed nor stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pypto.backends.findings import byte_text
from pypto.graph.ir.dims import hint
from pypto.graph.ir.node import Graph, Node, line_of, shown, value_text
from pypto.graph.plan.plan import places
from pypto.graph.plan.schedule import Schedule, Step
from pypto.graph.views.diagram import Arrow, Box, Cluster
from pypto.graph.views.drawing import Drawing
from pypto.graph.views.words import form_of, grid_text, shortened, step_id, step_title, tip_of
from pypto.ops.table import REDUCTIONS, SCANS

HEAVY: Final = frozenset(
    {"dot", "sort", "argsort", "argtopk", "take", "put", "concat", "place", "roll", "call", *REDUCTIONS, *SCANS}
)
SHOWN_ATTRS: Final = ("axes", "axis", "dims", "starts")  # what a title says of a node besides its type


def plan_drawing(plan: Schedule) -> Drawing:
    """Returns the Tensor graph of a plan as a picture, whose clusters are the steps."""
    picture = Picture(plan.graph, plan.steps)
    picture.draw()
    nodes = sum(not node.is_source for node in plan.graph.live())
    text = f"{nodes} arrays in {len(plan.steps)} steps. A frame is one kernel; what is stored says where."
    return Drawing(f"{plan.graph.name}: Tensor graph", text, *picture.parts)


def graph_drawing(graph: Graph) -> Drawing:
    """Returns a Tensor graph without a plan as a picture."""
    picture = Picture(graph, ())
    picture.draw()
    return Drawing(f"{graph.name}: Tensor graph", f"{len(graph.live())} arrays.", *picture.parts)


@dataclass(slots=True)
class Picture:
    """The builder of a picture of a Tensor graph.

    A box stands for a node in a step. The box of an array in memory is in the step that writes the array.
    """

    graph: Graph
    steps: Sequence[Step]
    boxes: dict[str, Box] = field(default_factory=dict)
    arrows: dict[tuple[str, str], Arrow] = field(default_factory=dict)
    clusters: list[Cluster] = field(default_factory=list)
    writer: dict[Node, int] = field(default_factory=dict)
    readers: Counter[Node] = field(default_factory=Counter)

    @property
    def parts(self) -> tuple[tuple[Box, ...], tuple[Arrow, ...], tuple[Cluster, ...]]:
        return tuple(self.boxes.values()), tuple(self.arrows.values()), tuple(self.clusters)

    def draw(self) -> None:
        """Builds all boxes and arrows."""
        for node in self.graph.live():
            self.readers.update(dict.fromkeys(node.inputs, 1))
        self.writer = {node: number for number, step in enumerate(self.steps) for node in step.writes}
        for node in self.graph.inputs:
            if not self.is_inline_everywhere(node):
                self.source(node, None)
        for number, step in enumerate(self.steps):
            self.clusters.append(Cluster(step_id(number), step_title(number, step), cluster_note(step), form_of(step)))
            for node in step.nodes:
                self.box(node, number)
        for node in self.graph.live() if not self.steps else ():
            if not node.is_source:
                self.box(node, None)
        for number, node in enumerate(self.graph.outputs):
            name = f"result{number}"
            self.boxes[name] = Box(name, f"result {number}" if len(self.graph.outputs) > 1 else "result",
                                   str(node.type), kind="input")  # fmt: skip
            self.join(self.source(node, None), name, node)

    def is_inline_everywhere(self, node: Node) -> bool:
        """Says whether an argument is a row of a box wherever it is read."""
        read = [(x, at) for x in self.graph.live() for at, y in enumerate(x.inputs) if y is node]
        return bool(read) and all(self.is_inline(node, at) for _, at in read)

    def is_inline(self, node: Node, at: int) -> bool:
        """Says whether an operand at a position is shown in the box that reads it."""
        return node.is_number or (node.is_input and at > 0 and self.readers[node] == 1)

    def source(self, node: Node, step: int | None) -> str:
        """Returns the name of the box that an operand comes from, and builds the box if it does not exist."""
        if step is not None and node in self.steps[step].nodes:
            return self.box(node, step)
        if node in self.writer:
            return self.box(node, self.writer[node])
        return self.box(node, step if node.is_movement else None)

    def box(self, node: Node, step: int | None) -> str:
        """Returns the name of the box of a node in a step, and builds the box if it does not exist."""
        name = f"n{node.number}" if step is None else f"{step_id(step)}.n{node.number}"
        if name in self.boxes:
            return name
        rows = [f"{shortened(x.attr('name'))}  {x.type}" for at, x in enumerate(node.inputs)
                if x.is_input and self.is_inline(x, at)]  # fmt: skip
        rows += self.stored(node, step)
        hue = form_of(self.steps[step]) if step is not None else ""
        cluster = "" if step is None else step_id(step)
        self.boxes[name] = Box(
            name,
            title(node),
            str(node.type),
            tuple(rows),
            self.kind(node, step),
            hue,
            tip_of(node),
            line_of(node),
            cluster,
        )
        for at, x in enumerate(node.inputs):
            if not self.is_inline(x, at):
                self.join(self.source(x, step), name, x)
        return name

    def kind(self, node: Node, step: int | None) -> str:
        if node.is_source:
            return "input"
        if node.is_movement:
            return "view"
        if node.op in HEAVY:
            return "heavy"
        return "result" if step is not None and node in self.steps[step].writes else "op"

    def stored(self, node: Node, step: int | None) -> list[str]:
        """Describes the memory of an array that a step stores; other arrays need none."""
        if step is None or node not in self.steps[step].writes:
            return []
        return [f"stored: {byte_text(hint(node.type.nbytes))}"]

    def join(self, source: str, target: str, node: Node) -> None:
        self.arrows.setdefault((source, target), Arrow(source, target, f"%{node.number} {node.type}"))


def cluster_note(step: Step) -> str:
    where = places(step.nodes)
    return ", ".join(filter(None, (grid_text(step), where)))


def title(node: Node) -> str:
    """Returns the op of a node, the constants among its operands, and its axes; `·` is an operand with an arrow."""
    if node.is_input:
        return shortened(node.attr("name"))
    if node.is_number:
        return constant_text(node)
    operands = ", ".join(constant_text(x) if x.is_number else "·" for x in node.inputs)
    attrs = dict(node.attrs)
    where = [value_text(attrs[name]) for name in SHOWN_ATTRS if name in attrs and not node.is_product]
    if node.is_call:
        where = [shown({"function": attrs["function"]})]
    has_number = any(x.is_number for x in node.inputs)
    return " ".join([node.op, *([operands] if has_number else ()), *where])


def constant_text(node: Node) -> str:
    """Formats a number with six digits at most."""
    value = node.attr("value")
    return f"{value:.6g}" if isinstance(value, float) else value_text(value)
