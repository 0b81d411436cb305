"""Writes pictures as SVG: boxes with text, arrows as curves, clusters as frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from pypto.graph.views.diagram import Box, Cluster, Diagram
from pypto.graph.views.layers import Point
from pypto.graph.views.placement import CHAR, LINE, PAD_X, PAD_Y, Placed, place
from pypto.markup import escaped
from pypto.markup.drawings import hue_of


def picture(drawing: Diagram) -> str:
    """Returns a picture as SVG for a page that has the style sheet."""
    at = place(drawing)
    parts = [frame(c, at.clusters[c.name]) for c in drawing.clusters]
    parts += [arrow(points, a.source, a.target, a.tip) for a, points in at.routes]
    parts += [heading(c, at.clusters[c.name]) for c in drawing.clusters]
    parts += [part for b in drawing.boxes for part in box(b, at.boxes[b.name])]
    size = f"width='{at.width:.0f}' height='{at.height:.0f}' viewBox='0 0 {at.width:.0f} {at.height:.0f}'"
    head = f"<svg class='graph' {size} xmlns='http://www.w3.org/2000/svg' role='img'>"
    return f"{head}<title>{escaped(drawing.name)}</title>{''.join(parts)}</svg>"


def frame(cluster: Cluster, at: Placed) -> str:
    """Returns the frame of a cluster."""
    where = f"x='{at.x:.1f}' y='{at.y:.1f}' width='{at.width:.1f}' height='{at.height:.1f}'"
    return f"<rect class='frame {hue_of(cluster.hue)}' data-step='{escaped(cluster.name)}' {where} rx='8'/>"


def heading(cluster: Cluster, at: Placed) -> str:
    """Returns the title of a cluster, which is drawn over the arrows that enter it."""
    title = (
        f"<tspan class='b'>{escaped(cluster.title)}</tspan><tspan class='soft' dx='8'>{escaped(cluster.note)}</tspan>"
    )
    return f"<text class='heading' x='{at.x + 10:.1f}' y='{at.y + 16:.1f}'>{title}</text>"


def box(shown: Box, at: Placed) -> Iterator[str]:
    """Yields the elements of a box with its text; a pointer over the box shows its tip."""
    kind = f"box {shown.kind} {hue_of(shown.hue)}"
    where = f"x='{at.x:.1f}' y='{at.y:.1f}' width='{at.width:.1f}' height='{at.height:.1f}'"
    data = f" data-name='{escaped(shown.name)}'" + (f" data-line='{escaped(shown.line)}'" if shown.line else "")
    yield f"<g class='line'{data}><rect class='{kind}' {where} rx='4'/>"
    left, base = at.x + PAD_X, at.y + PAD_Y + LINE - 4
    note = f"<tspan class='soft' x='{left + (len(shown.title) + 2) * CHAR:.1f}'>{escaped(shown.note)}</tspan>"
    title = f"<tspan class='b'>{escaped(shown.title)}</tspan>{note if shown.note else ''}"
    yield f"<text x='{left:.1f}' y='{base:.1f}'>{title}</text>"
    for n, row in enumerate(shown.rows, 1):
        yield f"<text class='soft' x='{left:.1f}' y='{base + n * LINE:.1f}'>{escaped(row)}</text>"
    yield f"<title>{escaped(shown.tip)}</title></g>" if shown.tip else "</g>"


def arrow(points: Sequence[Point], source: str, target: str, tip: str) -> str:
    """Returns a curve through some points, which is vertical at each of them and has a head at its end."""
    path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    stop = (points[-1][0], points[-1][1] - 5)
    line = [*points[:-1], stop]
    for (x0, y0), (x1, y1) in pairwise(line):
        if abs(x0 - x1) < 0.05:
            path.append(f"V{y1:.1f}")
        else:
            middle = (y0 + y1) / 2
            path.append(f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}")
    x, y = stop
    data = f"data-from='{escaped(source)}' data-to='{escaped(target)}'"
    head = f"<path class='head' d='M{x - 3.5:.1f} {y:.1f}h7l-3.5 5z'/>"
    shown = f"<title>{escaped(tip)}</title>" if tip else ""
    return f"<g class='arrow' {data}><path d='{''.join(path)}'/>{head}{shown}</g>"
