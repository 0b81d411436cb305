"""Writes pictures as text for Graphviz, in the DOT language."""

from __future__ import annotations

from collections.abc import Iterator

from pypto.graph.views.diagram import Box, Diagram
from pypto.markup.drawings import NEUTRAL, colour_of

_HEAD = f"""  graph [fontname="Helvetica", fontsize=10, ranksep=0.3, nodesep=0.2];
  node [fontname="Courier", fontsize=9, shape=box, style="rounded,filled", fillcolor=white, margin="0.08,0.04"];
  edge [color="{NEUTRAL}", arrowsize=0.6];
"""


def dot_text(drawing: Diagram) -> str:
    """Returns a picture as a directed graph in DOT, whose subgraphs are the clusters."""
    body = "".join(f"{line}\n" for line in lines(drawing))
    return f"digraph {quoted(drawing.name)} {{\n{_HEAD}{body}}}\n"


def lines(drawing: Diagram) -> Iterator[str]:
    for box in drawing.boxes:
        if not box.cluster:
            yield f"  {statement(box)}"
    for cluster in drawing.clusters:
        label = quoted(f"{cluster.title}  {cluster.note}".strip())
        colour = quoted(colour_of(cluster.hue))
        yield f"  subgraph {quoted('cluster_' + cluster.name)} {{"
        yield f"    label={label}; style=rounded; color={colour};"
        for box in drawing.boxes:
            if box.cluster == cluster.name:
                yield f"    {statement(box)}"
        yield "  }"
    for arrow in drawing.arrows:
        tip = f" [tooltip={quoted(arrow.tip)}]" if arrow.tip else ""
        yield f"  {quoted(arrow.source)} -> {quoted(arrow.target)}{tip};"


def statement(box: Box) -> str:
    """Returns the DOT statement of a node, with the rows below its title aligned left."""
    head = f"{box.title}  {box.note}".strip()
    label = "\\l".join((*map(escape, (head, *box.rows)), "")) if box.rows else escape(head)
    given = [f'label="{label}"']
    if box.tip:
        given.append(f"tooltip={quoted(box.tip)}")
    if box.kind in ("heavy", "step", "result") and box.hue:
        given.append(f"color={quoted(colour_of(box.hue))}, penwidth=2")
    if box.kind in ("view", "input"):
        given.append('style="rounded,dashed"')
    return f"{quoted(box.name)} [{', '.join(given)}];"


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def quoted(text: str) -> str:
    """Returns a text as a quoted string of DOT.

    Examples
    --------
    >>> quoted('f32["a"]')
    '"f32[\\\\"a\\\\"]"'
    """
    return f'"{escape(text)}"'
