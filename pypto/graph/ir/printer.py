"""The printer of Tensor graphs. Parsing the text (see `parser`) and printing it again give the same text.

The form::

    graph @scale(%0: f32[4, 8], %1: f32[8]) {
      %2: f32[4, 8] = mul %0, %1
      %3: f32[4] = sum %2 {axes = [1], keep_dims = false}
      return %3
    }

Named dimensions follow the graph's name: name, least and greatest size, and hint. Sizes are then polynomials::

    graph @double dims [n 1 64 16] (%0: f32[n, 3]) {
      %1: f32[3*n] = reshape %0 {shape = [3*n]}
      return %1
    }
"""

from __future__ import annotations

from typing import Any

from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import Graph, Node
from pypto.ir.printer import attr_text, loc_text
from pypto.loc import UNKNOWN


def text(graph: Graph, locations: bool = False) -> str:
    """The text of a graph, with the place in the user's source behind every node where that is wanted."""
    nodes = graph.live()
    names = {node: f"%{number}" for number, node in enumerate(sorted_inputs_first(graph, nodes))}
    head = ", ".join(f"{names[x]}: {x.type}" for x in graph.inputs)
    dims = ", ".join(f"{d.name} {d.low} {d.high} {d.hint}" for d in graph.dims)
    lines = [f"graph @{graph.name}{f' dims [{dims}] ' if dims else ''}({head}) {{"]
    for node in nodes:
        if node.op != "input":
            operands = ", ".join(names[x] for x in node.inputs)
            body = " ".join(filter(None, (node.op, operands, shown(dict(node.attrs)))))
            place = f" {loc_text(node.loc)}" if locations and node.loc != UNKNOWN else ""
            lines.append(f"  {names[node]}: {node.type} = {body}{place}")
    results = ", ".join(names[x] for x in graph.outputs)
    return "\n".join([*lines, f"  return {results}".rstrip(), "}"]) + "\n"


def sorted_inputs_first(graph: Graph, nodes: list[Node]) -> list[Node]:
    return [*graph.inputs, *(node for node in nodes if node.op != "input")]


def shown(attrs: dict[str, Any]) -> str:
    """Attributes as text; a function of the user by its name."""
    plain = {name: getattr(value, "__qualname__", value) if callable(value) else value for name, value in attrs.items()}
    return f"{{{', '.join(f'{name} = {value_text(plain[name])}' for name in sorted(plain))}}}" if plain else ""


def value_text(value: Any) -> str:
    """The value of an attribute, in which sizes may be known when a plan runs."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(value_text, value))}]"
    return attr_text(value) if is_fixed(value) else str(value)
