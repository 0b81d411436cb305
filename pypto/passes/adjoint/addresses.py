"""Enumeration of addresses: which elements of an array the accesses of a launch meet, one by one.

Where no proof says that each element is stored once, the numbers of the launch decide it: the addresses of all
programs, trips and lanes are computed, part by part of the grid, and marked in a map of the array. A mask or branch
that depends on memory counts as one that may hold.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pypto.ir.core import Function, Op, Region, Value
from pypto.ops.memory import Access
from pypto.passes.adjoint.footprint import LaunchNumbers
from pypto.passes.adjoint.launch_values import GRID_AXES, LaunchValues

Array = np.ndarray[Any, Any]
_PART: Final = 1 << 20  # lanes whose addresses are computed at once
_MOST_LANES: Final = 1 << 26
_MOST_ELEMENTS: Final = 1 << 28  # of an array


class Stored(enum.Enum):
    """What is known of the elements that stores write."""

    ONCE = "once"
    TWICE = "twice"
    DATA = "data"  # where they are depends on what is loaded
    MANY = "many"  # there are too many to look at each


@dataclass(frozen=True)
class Site:
    """A store with what is around it, outermost first: loops, and conditions with the branch that is taken."""

    op: Op
    loops: tuple[Op, ...]
    conditions: tuple[tuple[Value, bool], ...]


def sites(region: Region, names: tuple[str, ...], site: Site | None = None) -> Iterator[Site]:
    """The ops of some names in a region."""
    loops, conditions = (site.loops, site.conditions) if site is not None else ((), ())
    for op in region.ops:
        if op.name in names:
            yield Site(op, loops, conditions)
        for n, inner in enumerate(op.regions):
            inside = Site(op, loops, conditions)
            if op.name in ("for", "while"):
                inside = Site(op, (*loops, op), conditions)
            elif op.name == "if":
                inside = Site(op, loops, (*conditions, (op.operands[0], n == 0)))
            yield from sites(inner, names, inside)


def how_stored(function: Function, stores: Sequence[Site], name: str, launch: LaunchNumbers) -> Stored:
    """How often stores to one array write an element of it, all together."""
    lanes = most_lanes(function, stores, launch)
    low, high = span_of(name, launch)
    if lanes is None:
        return Stored.DATA
    if lanes * len(stores) > _MOST_LANES or high - low > _MOST_ELEMENTS:
        return Stored.MANY
    is_met, count = np.zeros(high - low + 1, np.bool_), 0
    for values in parts(function, launch, lanes):
        for site in stores:
            met = addresses(site, values)
            if met is None:
                return Stored.DATA
            inside = met[(met >= low) & (met <= high)] - low
            is_met[inside] = True
            count += inside.size
    return Stored.ONCE if int(np.count_nonzero(is_met)) == count else Stored.TWICE


def how_stored_by_branches(function: Function, stores: Sequence[Site], name: str, launch: LaunchNumbers) -> Stored:
    """As `how_stored`, where one program may store an element in several branches of an `if`, of which it takes one."""
    for n, site in enumerate(stores):
        verdicts = [how_stored(function, [site], name, launch)]
        verdicts += [
            how_stored(function, [site, x], name, launch)
            if not are_exclusive(site, x)
            else by_one_program(function, site, x, name, launch)
            for x in stores[:n]
        ]
        if verdicts != [Stored.ONCE] * len(verdicts):
            return next(v for v in verdicts if v is not Stored.ONCE)
    return Stored.ONCE


def are_exclusive(a: Site, b: Site) -> bool:
    """Whether two statements are in different branches of one `if`."""
    return any((condition, not is_taken) in b.conditions for condition, is_taken in a.conditions)


def by_one_program(function: Function, a: Site, b: Site, name: str, launch: LaunchNumbers) -> Stored:
    """Whether elements that two statements may store are each stored by one program."""
    low, high = span_of(name, launch)
    writer = np.full(high - low + 1, -1, np.int64)
    lanes = most_lanes(function, (a, b), launch)
    for site in (a, b):
        for values in parts(function, launch, lanes or 1):
            met = accessed(site, values)
            if met is None:
                return Stored.DATA
            place, program = within(met, low, high)
            if ((writer[place] >= 0) & (writer[place] != program)).any():
                return Stored.TWICE
            writer[place] = program
    return Stored.ONCE


def within(met: tuple[Array, Array], low: int, high: int) -> tuple[Array, Array]:
    """What is met between two elements, by the distance from the first of them."""
    place, moment = met
    inside = (place >= low) & (place <= high)
    return place[inside] - low, moment[inside]


def span_of(name: str, launch: LaunchNumbers) -> tuple[int, int]:
    """The distances of an array's elements from its first one, the least and the greatest."""
    spans = [(n - 1) * s for n, s in zip(launch.shapes[name], launch.strides[name], strict=True)]
    return sum(min(0, s) for s in spans), sum(max(0, s) for s in spans)


def most_lanes(function: Function, accesses: Sequence[Site], launch: LaunchNumbers) -> int | None:
    """How many elements the largest of some accesses may meet in a launch."""
    values = LaunchValues(function, launch)
    lanes = [lanes_of(site, values) for site in accesses]
    known = [n for n in lanes if n is not None]
    return max(known, default=1) if len(known) == len(lanes) else None


def lanes_of(site: Site, values: LaunchValues) -> int | None:
    """How many elements an access may meet in a launch."""
    trips = [values.most(loop) if loop.name == "for" else None for loop in site.loops]
    known = [n for n in trips if n is not None]
    if len(known) < len(trips):
        return None
    shape = site.op.operands[0].shape if site.op.name in ("load", "store") else site.op.attrs["shape"]
    return values.programs() * math.prod(known) * math.prod(shape)


def parts(function: Function, launch: LaunchNumbers, lanes: int) -> Iterator[LaunchValues]:
    """Yield the values of a launch in parts along the longest axis of its grid."""
    axis = max(range(GRID_AXES), key=lambda a: launch.grid[a])
    size = launch.grid[axis]
    step = max(1, size * _PART // max(lanes, 1))
    for start in range(0, size, step):
        places = [np.arange(n) for n in launch.grid]
        places[axis] = np.arange(start, min(size, start + step))
        yield LaunchValues(function, launch, places)


def addresses(site: Site, values: LaunchValues) -> Array | None:
    """The elements that an access meets, by their distance from the first one of the array; None where not known."""
    met = accessed(site, values)
    return None if met is None else met[0]


def accessed(site: Site, values: LaunchValues, loops: Sequence[Op] = ()) -> tuple[Array, Array] | None:
    """The elements that an access meets, and for each of them the program, with the trip of some loops around it."""
    met = lanes_of_access(site.op, values)
    if met is None:
        return None
    place, *exists = met
    for condition, is_taken in site.conditions:
        holds = values.of(condition)
        if holds is not None:
            exists.append(tiled(holds if is_taken else ~holds, place.ndim))
    around = list(values.places_in_grid())
    for loop in site.loops:
        index, runs = values.indices(loop), values.runs(loop)
        if index is None or runs is None:
            return None
        around.append(index)
        exists.append(tiled(runs, place.ndim))
    moment = tiled(values.moment(loops), place.ndim)
    around = [tiled(x, place.ndim) for x in around]
    shape = np.broadcast_shapes(place.shape, *(x.shape for x in (*exists, *around)))
    is_met = np.ones((1,) * place.ndim, np.bool_)
    for x in exists:
        is_met = is_met & x
    is_met = np.broadcast_to(is_met, shape)
    return np.broadcast_to(place, shape)[is_met], np.broadcast_to(moment, shape)[is_met]


def lanes_of_access(op: Op, values: LaunchValues) -> list[Array] | None:
    """Where the lanes of a load or store are, and the conditions under which they exist."""
    if op.name in ("load", "store"):
        place, first = values.of(op.operands[0]), 1 if op.name == "load" else 2
        masks = [values.of(v) for v in op.operands[first : first + 1]]
        return None if place is None else [place, *(m for m in masks if m is not None)]
    access = Access.of(op)
    rank = values.rank + len(access.shape)
    base = values.of(access.base)
    if base is None:
        return None
    place, exists = tiled(base, rank), []
    for d, size in enumerate(access.shape):
        offset, stride, extent = (values.of(x[d]) for x in (access.offsets, access.strides, access.extents))
        if offset is None or stride is None or extent is None:
            return None
        line = np.arange(size).reshape((1,) * (values.rank + d) + (size,) + (1,) * (len(access.shape) - d - 1))
        index = tiled(offset, rank) + line
        place = place + index * tiled(stride, rank)
        exists.append((index >= 0) & (index < tiled(extent, rank)))
    mask = None if access.mask is None else values.of(access.mask)
    return [place, *exists, *([] if mask is None else [mask])]


def tiled(x: Array, rank: int) -> Array:
    """A value with axes of size 1 for the dimensions of a tile that it does not have."""
    return x.reshape(x.shape + (1,) * (rank - x.ndim))
