"""What an array of a traced function, and a lazy array, show of themselves: type, node, the user's line, and values."""

from __future__ import annotations

from typing import Final

import numpy as np

from pypto.backends.findings import byte_text
from pypto.graph.ir.dims import hint
from pypto.graph.ir.printer import shown
from pypto.graph.tracing.tensor import Tensor
from pypto.graph.views.words import line_of, source_of
from pypto.markup import Markup, card, folded, note, tag
from pypto.markup.colours import coloured

MOST_NUMBERS: Final = 200  # of an array that is shown as a whole


def definition(tensor: Tensor) -> str:
    """The node of an array as the Tensor graph is printed."""
    node = tensor.node
    if node.op == "input":
        return f"input {node.attr('name')}"
    operands = ", ".join(f"%{x.number}" for x in node.inputs)
    return " ".join(filter(None, (f"%{node.number} =", node.op, operands, shown(dict(node.attrs)))))


def text_of(tensor: Tensor) -> str:
    """An array in one line; nothing is computed for it."""
    kind = "lazy array" if tensor.graph.is_lazy else "array of a traced function"
    told = ", ".join(filter(None, (str(tensor.type), definition(tensor), line_of(tensor.node))))
    return f"<{kind}: {told}>"


def tensor_card(tensor: Tensor) -> Markup:
    """An array in a notebook's cell. A lazy one is computed."""
    node = tensor.node
    parts = [tag("code", coloured(definition(tensor)))]
    if node.place is not None:
        parts.append(note(line_of(node)))
        parts.append(tag("pre", coloured(source_of(node))))
    if not tensor.graph.is_lazy:
        told = "an array of a function that is traced: only its type is known"
        return card(str(node.type), *parts, note=told)
    return card(str(node.type), values_of(tensor), folded("how it is computed", *parts, plan_of(tensor)),
                note=f"a lazy array, {byte_text(hint(node.type.nbytes))}")  # fmt: skip


def values_of(tensor: Tensor) -> Markup:
    """The numbers of a lazy array, as numpy prints them, and of large ones those at the edges."""
    array = np.asarray(tensor)
    edge = 3 if array.ndim < 3 else 2
    return tag("pre", np.array2string(array, threshold=MOST_NUMBERS, edgeitems=edge, max_line_width=110))


def plan_of(tensor: Tensor) -> Markup:
    """The plan that computed a lazy array, as a picture."""
    from pypto.graph.lazy import LazyGraph
    from pypto.graph.views.page import summary
    from pypto.graph.views.tensor_graph import plan_drawing

    graph = tensor.graph
    plan = graph.plans.get(tensor.node) if isinstance(graph, LazyGraph) else None
    if plan is None:
        return note("It was given.")
    return Markup(note(summary(plan)) + tag("div", Markup(plan_drawing(plan).inner_svg), class_="drawing"))
