"""Computes the layered layout of a directed acyclic graph: ranks, order within ranks, and coordinates.

The four steps of Sugiyama, Tagawa and Toda (1981): longest-path ranks, virtual items for links that skip ranks, sweeps
of barycentres against crossings, and coordinates. The last step is least squares: an item is drawn to its neighbours,
and items of a rank keep their order and distance (isotonic regression by pooling adjacent violators). All ties are
broken by numbers, so that the same graph has the same layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

GAP: Final = 18.0  # between neighbours of a rank
LEVEL: Final = 22.0  # between ranks, at least
SLOPE: Final = 0.06  # of the farthest link between two ranks: what is added to their distance
MOST_LEVEL: Final = 70.0
SWEEPS: Final = 10
STRAIGHT: Final = 8.0  # weight of a link between two virtual items: long links are straight

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Item:
    """An object to be placed: its size, and whether it has to be in the first or the last rank."""

    width: float
    height: float
    is_first: bool = False
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A link between two items, by their numbers; each end has an offset from the middle of its item."""

    source: int
    target: int
    source_at: float = 0.0
    target_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout: middles and tops of the items, the points of every link, and the size of the whole picture."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    routes: tuple[tuple[Point, ...], ...]
    width: float
    height: float


def layered(items: Sequence[Item], links: Sequence[Link]) -> Layout:
    """Computes a layout in which links run downwards.

    Examples
    --------
    >>> found = layered([Item(20, 10), Item(20, 10)], [Link(0, 1)])
    >>> found.x, found.y
    ((10.0, 10.0), (0.0, 32.0))
    """
    if not items:
        return Layout((), (), (), 0.0, 0.0)
    ranks = ranks_of(items, links)
    net = LayeredGraph.of(items, links, ranks)
    net.order()
    net.place()
    return net.layout(len(items), links)


def ranks_of(items: Sequence[Item], links: Sequence[Link]) -> list[int]:
    """Assigns ranks: an item stands one rank below its last source.

    An item without sources stands one rank above the first of its targets, so that its links are short.
    """
    sources: list[list[int]] = [[] for _ in items]
    targets: list[list[int]] = [[] for _ in items]
    for link in links:
        sources[link.target].append(link.source)
        targets[link.source].append(link.target)
    order = topological(sources, targets)
    has_first = any(item.is_first for item in items)
    ranks = [0] * len(items)
    for n in order:
        least = int(has_first and not items[n].is_first)
        ranks[n] = max((ranks[s] + 1 for s in sources[n]), default=least)
        ranks[n] = max(ranks[n], least)
    for n in reversed(order):
        if not sources[n] and targets[n] and not items[n].is_first:
            ranks[n] = min(ranks[t] for t in targets[n]) - 1
    last = 1 + max((r for r, item in zip(ranks, items, strict=True) if not item.is_last), default=-1)
    return [last if item.is_last else r for r, item in zip(ranks, items, strict=True)]


def topological(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[int]:
    """Returns the items in topological order; of several that could be next, the one with the least number is."""
    from heapq import heappop, heappush

    missing = [len(s) for s in sources]
    ready = [n for n, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        n = heappop(ready)
        order.append(n)
        for target in targets[n]:
            missing[target] -= 1
            if not missing[target]:
                heappush(ready, target)
    assert len(order) == len(missing), "a graph that is drawn in layers has no cycles"
    return order


@dataclass(slots=True)
class LayeredGraph:
    """A layered graph: items and virtual items in ranks, where each edge joins neighbouring ranks.

    Links from one point share their virtual items, so that they run together up to where they part. `below` has, for an
    item, its neighbours in the next rank, each with the offsets of the two ends and a weight.
    """

    widths: list[float]
    heights: list[float]
    ranks: list[list[int]]
    below: list[list[tuple[int, float, float, float]]]
    above: list[list[tuple[int, float, float, float]]]
    chains: list[list[int]]
    x: list[float] = field(default_factory=list)
    tops: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, items: Sequence[Item], links: Sequence[Link], ranks: Sequence[int]) -> LayeredGraph:
        """Builds the layered graph: a virtual item stands for a link in each rank that the link skips."""
        net = cls([i.width for i in items], [i.height for i in items], [[] for _ in range(max(ranks) + 1)], [], [], [])
        net.below = [[] for _ in items]
        net.above = [[] for _ in items]
        for n, rank in enumerate(ranks):
            net.ranks[rank].append(n)
        trunks: dict[tuple[int, float, int], int] = {}
        for link in links:
            chain = [link.source]
            for rank in range(ranks[link.source] + 1, ranks[link.target]):
                trunk = link.source, link.source_at, rank
                if trunk not in trunks:
                    trunks[trunk] = net.virtual(rank)
                chain.append(trunks[trunk])
            chain.append(link.target)
            net.chains.append(chain)
            net.join(chain, link)
        return net

    def virtual(self, rank: int) -> int:
        """Adds a virtual item to a rank."""
        self.ranks[rank].append(len(self.widths))
        self.widths.append(2.0)
        self.heights.append(0.0)
        self.below.append([])
        self.above.append([])
        return len(self.widths) - 1

    def join(self, chain: Sequence[int], link: Link) -> None:
        """Adds the edges along a chain of items, except those that another link already has."""
        last = len(chain) - 2
        for n, (upper, lower) in enumerate(pairwise(chain)):
            start = link.source_at if n == 0 else 0.0
            end = link.target_at if n == last else 0.0
            weight = STRAIGHT if 0 < n < last else 2.0 if last else 1.0
            edge = lower, start, end, weight
            if edge not in self.below[upper]:
                self.below[upper].append(edge)
                self.above[lower].append((upper, end, start, weight))

    # --- order -----------------------------------------------------------------------------------------------------

    def order(self) -> None:
        """Reduces crossings by sweeps of barycentres, down and up; it selects the order with the fewest crossings."""
        best = [list(row) for row in self.ranks]
        least = self.crossings()
        for sweep in range(SWEEPS):
            if not least:
                break
            is_down = sweep % 2 == 0
            rows = self.ranks[1:] if is_down else self.ranks[-2::-1]
            for row in rows:
                self.sort_row(row, self.above if is_down else self.below)
            count = self.crossings()
            if count < least:
                least = count
                best = [list(row) for row in self.ranks]
        self.ranks = best

    def positions(self) -> dict[int, float]:
        """Returns the position of each item in its row, from 0 to 1."""
        return {n: (at + 0.5) / len(row) for row in self.ranks for at, n in enumerate(row)}

    def sort_row(self, row: list[int], neighbours: Sequence[Sequence[tuple[int, float, float, float]]]) -> None:
        at = self.positions()
        keys: dict[int, float] = {}
        for n in row:
            positions = [at[m] + offset * 1e-6 for m, _, offset, _ in neighbours[n]]
            keys[n] = sum(positions) / len(positions) if positions else at[n]
        row.sort(key=lambda n: keys[n])

    def crossings(self) -> int:
        """Counts the pairs of edges that cross."""
        place = {n: at for row in self.ranks for at, n in enumerate(row)}
        return sum(
            inversions([e for n in row for e in sorted(place[m] + end * 1e-6 for m, _, end, _ in self.below[n])])
            for row in self.ranks
        )

    # --- coordinates -----------------------------------------------------------------------------------------------

    def place(self) -> None:
        """Computes horizontal coordinates by sweeps, then vertical ones."""
        self.x = [0.0] * len(self.widths)
        for row in self.ranks:
            self.settle(row, [0.0] * len(row), [1.0] * len(row))
        for sweep in range(2 * SWEEPS):
            rows = self.ranks if sweep % 2 == 0 else self.ranks[::-1]
            for row in rows:
                self.attract(row, both=sweep >= SWEEPS, is_down=sweep % 2 == 0)
        left = min(x - w / 2 for x, w in zip(self.x, self.widths, strict=True))
        self.x = [x - left for x in self.x]
        self.stack()

    def attract(self, row: list[int], both: bool, is_down: bool) -> None:
        """Moves the items of a row towards the weighted mean of their neighbours."""
        wanted: list[float] = []
        weights: list[float] = []
        for n in row:
            neighbours = [*(self.above[n] if both or is_down else ()), *(self.below[n] if both or not is_down else ())]
            total = sum(weight for *_, weight in neighbours)
            ideal = sum(weight * (self.x[m] + end - start) for m, start, end, weight in neighbours)
            wanted.append(ideal / total if total else self.x[n])
            weights.append(total or 0.01)
        self.settle(row, wanted, weights)

    def settle(self, row: Sequence[int], wanted: Sequence[float], weights: Sequence[float]) -> None:
        """Places a row by least squares as close to the wanted coordinates as its order and the widths allow."""
        offsets = list(self.offsets(row))
        pooled = isotonic([w - at for w, at in zip(wanted, offsets, strict=True)], weights)
        for n, at, offset in zip(row, pooled, offsets, strict=True):
            self.x[n] = at + offset

    def offsets(self, row: Sequence[int]) -> Iterator[float]:
        """Yields for each item of a row its least distance from the first one."""
        at = 0.0
        for k, n in enumerate(row):
            if k:
                at += (self.widths[row[k - 1]] + self.widths[n]) / 2 + GAP
            yield at

    def stack(self) -> None:
        """Computes the tops of the ranks; the gap below a rank grows with the horizontal length of its links."""
        top = 0.0
        for row in self.ranks:
            self.tops.append(top)
            far = (abs(self.x[m] + end - self.x[n] - start) for n in row for m, start, end, _ in self.below[n])
            gap = min(MOST_LEVEL, LEVEL + SLOPE * max(far, default=0.0))
            top += max((self.heights[n] for n in row), default=0.0) + gap

    def layout(self, count: int, links: Sequence[Link]) -> Layout:
        """Returns the layout of the first `count` items, and of all links; virtual items are left out."""
        rank = {n: k for k, row in enumerate(self.ranks) for n in row}
        y = tuple(self.top(n, rank[n]) for n in range(count))
        routes = tuple(self.route(chain, link, rank) for chain, link in zip(self.chains, links, strict=True))
        width = max((self.x[n] + self.widths[n] / 2 for n in range(len(self.x))), default=0.0)
        height = max(y[n] + self.heights[n] for n in range(count))
        return Layout(tuple(self.x[:count]), y, routes, width, height)

    def bottom(self, rank: int) -> float:
        return self.tops[rank] + max(self.heights[n] for n in self.ranks[rank])

    def top(self, item: int, rank: int) -> float:
        """Returns the top of an item; one without sources is at the bottom of its rank, close to its targets."""
        return self.tops[rank] if self.above[item] else self.bottom(rank) - self.heights[item]

    def route(self, chain: Sequence[int], link: Link, rank: dict[int, int]) -> tuple[Point, ...]:
        """Returns the points of a link, which runs straight down through each rank that it skips."""
        first, last = chain[0], chain[-1]
        start = self.x[first] + link.source_at
        points = [(start, self.top(first, rank[first]) + self.heights[first]), (start, self.bottom(rank[first]))]
        for n in chain[1:-1]:
            points += [(self.x[n], self.tops[rank[n]]), (self.x[n], self.bottom(rank[n]))]
        points.append((self.x[last] + link.target_at, self.tops[rank[last]]))
        return tuple(dict.fromkeys(points))


def isotonic(wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Computes the ascending numbers that are closest to given ones, by weighted least squares.

    Examples
    --------
    >>> isotonic([3.0, 1.0, 5.0], [1.0, 1.0, 1.0])
    [2.0, 2.0, 5.0]
    """
    pools: list[tuple[float, float, int]] = []  # mean, weight, count
    for value, weight in zip(wanted, weights, strict=True):
        mean, total, count = value, weight, 1
        while pools and pools[-1][0] > mean:
            before, heavier, more = pools.pop()
            mean = (mean * total + before * heavier) / (total + heavier)
            total += heavier
            count += more
        pools.append((mean, total, count))
    return [mean for mean, _, count in pools for _ in range(count)]


def inversions(values: Sequence[float]) -> int:
    """Counts the inversions: pairs of which the first is the larger one.

    Examples
    --------
    >>> inversions([2, 1, 3, 0])
    4
    """
    from bisect import bisect_right, insort

    seen: list[float] = []
    count = 0
    for value in values:
        count += len(seen) - bisect_right(seen, value)
        insort(seen, value)
    return count
