"""The order of trials: a sample spread over all configurations, then a local search around the fastest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, Final

import numpy as np

Point = tuple[int, ...]
_MOST_SPREAD: Final = 2000  # points that are spread by their distances; more are by their numbers


def points(constants: Sequence[Mapping[str, Any]]) -> list[Point]:
    """Map each configuration to a point: for every varying constant the rank of its value."""
    names = list(dict.fromkeys(name for row in constants for name in row))
    columns = [[row.get(name) for row in constants] for name in names]
    ranked = [ranks(column) for column in columns if len({repr(x) for x in column}) > 1]
    return list(zip(*ranked, strict=True)) if ranked else [()] * len(constants)


def ranks(column: Sequence[Any]) -> list[int]:
    """Rank numbers by size, and other values by first occurrence."""
    values = list({repr(x): x for x in column}.values())
    if all(isinstance(x, int | float) for x in values):
        values.sort()
    place = {repr(x): n for n, x in enumerate(values)}
    return [place[repr(x)] for x in column]


def spread(points: Sequence[Point]) -> list[int]:
    """Order points by farthest-point sampling, so that every prefix is spread over all points.

    The first is the one in the middle.
    """
    if len(points) > _MOST_SPREAD or not points or not points[0]:
        return by_number(len(points))
    at = np.array(points, np.float64)
    at /= np.maximum(at.max(axis=0), 1)
    nearest = np.full(len(at), np.inf)
    order = [int(np.argmin(((at - at.mean(axis=0)) ** 2).sum(axis=1)))]
    while len(order) < len(at):
        nearest = np.minimum(nearest, ((at - at[order[-1]]) ** 2).sum(axis=1))
        nearest[order[-1]] = -1
        order.append(int(np.argmax(nearest)))
    return order


def by_number(count: int) -> list[int]:
    """Order the numbers below `count` by their reversed bits, which also spreads them."""
    bits = max(1, (count - 1).bit_length())
    reverse = (int(f"{n:0{bits}b}"[::-1], 2) for n in range(1 << bits))
    return [n for n in reverse if n < count]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The neighbours of points: one step away along one constant, then along two constants at once.

    A step leads to the next value for which there is a point, so that a gap in the space ends no line.
    """

    numbers: Mapping[Point, int]
    highest: Point

    @staticmethod
    def of(points: Sequence[Point]) -> Neighbours:
        highest = tuple(int(x) for x in np.max(np.array(points), axis=0)) if points and points[0] else ()
        return Neighbours({point: n for n, point in enumerate(points)}, highest)

    def adjacent(self, point: Point) -> list[int]:
        """Return the neighbours one step away along one constant."""
        steps = (self.along(point, axis, way) for axis, way in product(range(len(point)), (1, -1)))
        return list(dict.fromkeys(n for step in steps for n in step))

    def across(self, point: Point) -> list[int]:
        """Return the neighbours one step away along two constants, which can preserve products of block sizes."""
        others = []
        for (a, b), (up, down) in product(combinations(range(len(point)), 2), product((1, -1), repeat=2)):
            moved = list(point)
            moved[a] += up
            moved[b] += down
            others += [n for n in (self.numbers.get(tuple(moved)),) if n is not None]
        return others

    def along(self, point: Point, axis: int, way: int) -> Iterator[int]:
        moved = list(point)
        while 0 <= moved[axis] + way <= self.highest[axis]:
            moved[axis] += way
            number = self.numbers.get(tuple(moved))
            if number is not None:
                yield number
                return
