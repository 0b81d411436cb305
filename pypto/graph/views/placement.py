"""Places the boxes of a picture: it lays out the inside of each cluster, and then clusters and single boxes together.

A cluster has a port at its upper edge for every box outside that it reads, and one at its lower edge for every box of
it that is read outside. Arrows go through the ports, so they cross no box on their way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pypto.graph.views.diagram import Arrow, Box, Cluster, Diagram
from pypto.graph.views.layers import Item, Layout, Link, Point, layered

CHAR: Final = 6.65  # width of a character of 11 px in a font of one width
LINE: Final = 15.0
PAD_X: Final = 8.0
PAD_Y: Final = 4.0
FRAME: Final = 12.0  # between a cluster's edge and what it holds
HEAD: Final = 24.0  # height of a cluster's title
MARGIN: Final = 10.0


@dataclass(frozen=True, slots=True)
class Placed:
    """A rectangle: its left upper corner and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Placement:
    """The places of all boxes and clusters, and the points of all arrows."""

    boxes: dict[str, Placed]
    clusters: dict[str, Placed]
    routes: tuple[tuple[Arrow, tuple[Point, ...]], ...]
    width: float
    height: float


def size_of(box: Box) -> tuple[float, float]:
    """Computes the width and height that a box needs for its text."""
    head = len(box.title) + (len(box.note) + 2 if box.note else 0)
    longest = max((head, *(len(row) for row in box.rows)))
    return longest * CHAR + 2 * PAD_X, LINE * (1 + len(box.rows)) + 2 * PAD_Y


def head_width(cluster: Cluster) -> float:
    """Computes the width that the title of a cluster needs."""
    return (len(cluster.title) + len(cluster.note) + 3) * CHAR


@dataclass(slots=True)
class ClusterLayout:
    """The layout of a cluster: its boxes, and its ports by the box that an arrow comes from."""

    names: list[str]
    entries: list[str]
    exits: list[str]
    layout: Layout
    links: list[tuple[str, str]]  # source and target of each route; the name of a port is that of its box
    width: float
    height: float
    left: float  # from the left edge to the layout's

    def port(self, number: int) -> float:
        """Returns the offset of a port from the middle of the cluster."""
        return self.left + self.layout.x[number] - self.width / 2

    def entry(self, name: str) -> float:
        return self.port(len(self.names) + self.entries.index(name))

    def exit(self, name: str) -> float:
        return self.port(len(self.names) + len(self.entries) + self.exits.index(name))


def cluster_layout(cluster: Cluster, boxes: Sequence[Box], arrows: Iterable[Arrow]) -> ClusterLayout:
    """Lays out the boxes and ports of a cluster."""
    mine = {box.name: n for n, box in enumerate(boxes)}
    touching = [a for a in arrows if a.source in mine or a.target in mine]
    entries = list(dict.fromkeys(a.source for a in touching if a.source not in mine))
    exits = list(dict.fromkeys(a.source for a in touching if a.target not in mine))
    first, last = len(boxes), len(boxes) + len(entries)
    items = [Item(*size_of(box)) for box in boxes]
    items += [Item(2, 0, is_first=True)] * len(entries) + [Item(2, 0, is_last=True)] * len(exits)
    links, names = list[Link](), list[tuple[str, str]]()
    for a in touching:
        if a.target in mine:
            links.append(Link(mine[a.source] if a.source in mine else first + entries.index(a.source), mine[a.target]))
            names.append((a.source, a.target))
    for name in exits:
        links.append(Link(mine[name], last + exits.index(name)))
        names.append((name, ""))
    layout = layered(items, links)
    width = max(layout.width, head_width(cluster)) + 2 * FRAME
    height = layout.height + HEAD + (0 if exits else FRAME)
    return ClusterLayout(
        [b.name for b in boxes], entries, exits, layout, names, width, height, (width - layout.width) / 2
    )


def place(drawing: Diagram) -> Placement:
    """Lays out a picture."""
    members = {c.name: [b for b in drawing.boxes if b.cluster == c.name] for c in drawing.clusters}
    inner = {c.name: cluster_layout(c, members[c.name], drawing.arrows) for c in drawing.clusters}
    owner = {b.name: b.cluster for b in drawing.boxes}
    free = [b for b in drawing.boxes if not b.cluster]
    number = {name: n for n, name in enumerate((*(b.name for b in free), *inner))}
    items = [Item(*size_of(b)) for b in free] + [Item(i.width, i.height) for i in inner.values()]
    crossing = [a for a in drawing.arrows if owner[a.source] != owner[a.target] or not owner[a.source]]
    links = dict.fromkeys((a.source, owner[a.target] or a.target) for a in crossing)
    outer = layered(items, [outer_link(source, target, owner, number, inner) for source, target in links])
    return assemble(drawing, inner, outer, number, dict(zip(links, outer.routes, strict=True)))


def outer_link(
    source: str, target: str, owner: dict[str, str], number: dict[str, int], inner: dict[str, ClusterLayout]
) -> Link:
    """Returns the link between two clusters or boxes, from port to port."""
    start = owner[source] or source
    source_at = inner[start].exit(source) if start in inner else 0.0
    target_at = inner[target].entry(source) if target in inner else 0.0
    return Link(number[start], number[target], source_at, target_at)


def assemble(
    drawing: Diagram,
    inner: dict[str, ClusterLayout],
    outer: Layout,
    number: dict[str, int],
    crossing: dict[tuple[str, str], tuple[Point, ...]],
) -> Placement:
    """Computes the final coordinates of clusters and boxes, and joins the segments of every arrow."""
    named = {box.name: box for box in drawing.boxes}
    boxes: dict[str, Placed] = {}
    clusters: dict[str, Placed] = {}
    parts: dict[tuple[str, str, str], tuple[Point, ...]] = {}
    for name, placed in inner.items():
        left, top = outer.x[number[name]] - placed.width / 2 + MARGIN, outer.y[number[name]] + MARGIN
        clusters[name] = Placed(left, top, placed.width, placed.height)
        for n, member in enumerate(placed.names):
            width, height = size_of(named[member])
            x, y = left + placed.left + placed.layout.x[n] - width / 2, top + HEAD + placed.layout.y[n]
            boxes[member] = Placed(x, y, width, height)
        for (source, target), points in zip(placed.links, placed.layout.routes, strict=True):
            parts[name, source, target] = tuple((left + placed.left + x, top + HEAD + y) for x, y in points)
    for box in (b for b in drawing.boxes if not b.cluster):
        width, height = size_of(box)
        n = number[box.name]
        boxes[box.name] = Placed(outer.x[n] - width / 2 + MARGIN, outer.y[n] + MARGIN, width, height)
    owner = {b.name: b.cluster for b in drawing.boxes}
    routes = tuple((a, joined(a, owner, parts, crossing)) for a in drawing.arrows)
    return Placement(boxes, clusters, routes, outer.width + 2 * MARGIN, outer.height + 2 * MARGIN)


def joined(
    arrow: Arrow,
    owner: dict[str, str],
    parts: dict[tuple[str, str, str], tuple[Point, ...]],
    crossing: dict[tuple[str, str], tuple[Point, ...]],
) -> tuple[Point, ...]:
    """Returns the points of an arrow, which may leave a cluster, run between clusters, and enter one."""
    start, end = owner[arrow.source], owner[arrow.target]
    if start and start == end:
        return parts[start, arrow.source, arrow.target]
    between = tuple((x + MARGIN, y + MARGIN) for x, y in crossing[arrow.source, end or arrow.target])
    leaving = parts[start, arrow.source, ""] if start else ()
    entering = parts[end, arrow.source, arrow.target] if end else ()
    return (*leaving, *between, *entering)
