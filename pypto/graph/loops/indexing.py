"""Indices and slices of a view, with numpy's meaning of negative and of too large ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pypto.graph.loops.arrays import Axis, Reduced, View
from pypto.graph.loops.numbers import Linear, NotCompiled, Number, known
from pypto.graph.loops.writer import ONE, ZERO, Writer

ONE_MORE = Linear({}, 1)


def indexed(w: Writer, view: View, key: Sequence[Any]) -> View:
    """Return the part of a view that a key shows.

    Raises
    ------
    NotCompiled
        When the key has too many parts, or a slice that is not followed.
    """
    count = sum(x is not None and x is not Ellipsis for x in key)
    left = len(view.axes) - count
    if left < 0 or sum(x is Ellipsis for x in key) > 1:
        raise NotCompiled("an index of too many dimensions")
    full = [slice(None)] * left
    parts = list(key)
    if any(x is Ellipsis for x in parts):
        at = next(n for n, x in enumerate(parts) if x is Ellipsis)
        parts[at : at + 1] = full
    else:
        parts += full
    starts, axes, given = list(view.starts), [], iter(enumerate(view.axes))
    for part in parts:
        if part is None:
            axes.append(Axis(None, 1, ONE))
            continue
        number, axis = next(given)
        is_slice = isinstance(part, slice)
        first, remaining = at_slice(w, part, axis) if is_slice else (at_index(w, part, axis, number), None)
        if axis.base is not None:
            starts[axis.base] = moved(w, starts[axis.base], first, axis.step)
        if remaining is not None:
            axes.append(remaining)
    return View(view.base, tuple(starts), tuple(axes))


def moved(w: Writer, start: Number, by: Number, step: int) -> Number:
    """Return the index of an array after a number of steps along a view's axis."""
    if by.value == 0:
        return start
    linear = None
    if start.linear is not None and by.linear is not None:
        linear = start.linear.plus(by.linear, step)
    if linear is not None and not linear.terms:
        return known(linear.constant)
    scaled = by.text if step == 1 else f"{by.text} * {step}"
    text = scaled if start.value == 0 else f"({start.text} + {scaled})"
    return Number(text, int, linear)


def at_index(w: Writer, index: Number, axis: Axis, number: int) -> Number:
    """Return an index from 0: a negative one is wrapped once; the kernel ends at one that lies outside.

    Where an expression stands under a condition, as behind `and`, the kernel computes it anyway. So the index is also
    limited to the array there.
    """
    low = w.range_of(index)[0]
    size = axis.extent
    least, greatest = w.range_of(size)
    if low >= 0 and is_below(w, index, size):
        return as_index(index)
    if index.is_known and index.value < 0 and least >= -index.value:
        return difference(size, known(-index.value))
    if index.is_known:
        raise NotCompiled("an index that may lie outside of its array")
    given = at = w.shared(f"pto.cast({index.text}, pto.int64)")
    if low < 0:
        at = w.shared(f"pto.where({at} < 0, {at} + {size.text}, {at})")
    tests = [f"({at} < 0)"] * (low < -least) + [f"({at} >= {size.text})"] * (not is_below(w, index, size))
    if tests:
        w.check(" | ".join(tests), given, size.text, number)
    if tests and w.under:
        at = w.shared(f"pto.minimum(pto.maximum({at}, 0), {size.text} - 1)")
    elif low >= 0 and index.linear is not None and size.linear is not None:
        w.refine(index.linear.minus(size.linear).plus(ONE_MORE))
        return as_index(index)
    w.bounds[at] = (0, max(0, greatest - 1))
    return Number(at, int, Linear.symbol(at))


def check_picked(w: Writer, index: Any, size: Number) -> None:
    """Write the test that all indices of an array lie inside of an axis; numpy tests them first, too."""
    limits, least = np.iinfo(index.dtype), w.range_of(size)[0]
    for name, test, is_needed in (
        ("max", f">= {size.text}", limits.max >= least), ("min", f"< -{size.text}", limits.min < -least)
    ):  # fmt: skip
        if is_needed:
            extreme = Reduced(name, index, tuple(range(len(index.extents))), index.dtype).element(w, ())
            w.check(f"{extreme} {test}", extreme, size.text, 0)


def is_below(w: Writer, index: Number, size: Number) -> bool:
    """Whether an index is less than a size for certain."""
    if index.linear is not None and size.linear is not None:
        return index.linear.minus(size.linear).bounds(w.bounds)[1] < 0
    return w.range_of(index)[1] < w.range_of(size)[0]


def as_index(index: Number) -> Number:
    """Return an index as an integer of Python."""
    if index.kind is int or index.is_known:
        return replace(index, kind=int)
    return Number(f"pto.cast({index.text}, pto.int64)", int, index.linear)


def difference(a: Number, b: Number) -> Number:
    """Return the difference of two integers."""
    if b.value == 0:
        return a
    linear = a.linear.minus(b.linear) if a.linear is not None and b.linear is not None else None
    if linear is not None and not linear.terms:
        return known(linear.constant)
    return Number(f"({a.text} - {b.text})", int, linear)


def at_slice(w: Writer, part: slice, axis: Axis) -> tuple[Number, Axis]:
    """Return the first index of a slice, and the axis that it leaves."""
    step = 1 if part.step is None else part.step.value
    if not isinstance(step, int) or step == 0:
        raise NotCompiled("a slice whose step is not known")
    if step < 0:
        if part.start is not None or part.stop is not None or step != -1:
            raise NotCompiled("a slice that runs backwards")
        return difference(axis.extent, ONE), replace(axis, step=-axis.step)
    start = ZERO if part.start is None else limited(w, part.start, axis.extent)
    stop = axis.extent if part.stop is None else limited(w, part.stop, axis.extent)
    extent = difference(stop, start)
    if w.range_of(extent)[0] < 0:
        high = w.range_of(axis.extent)[1]
        name = w.shared(f"pto.maximum({extent.text}, 0)" if not extent.is_known else "0")
        w.bounds[name] = (0, high)
        extent = ZERO if extent.is_known else Number(name, int, Linear.symbol(name))
    if step > 1:
        if not extent.is_known:
            raise NotCompiled("a slice with a step, whose length is not known")
        extent = known(-(-extent.value // step))
    return start, Axis(axis.base, axis.step * step, extent)


def limited(w: Writer, bound: Number, size: Number) -> Number:
    """Return a bound of a slice between 0 and the size of its axis."""
    low, _ = w.range_of(bound)
    if bound.linear is not None and size.linear is not None:
        from_end = bound.linear.minus(size.linear).bounds(w.bounds)[1]
        if low >= 0 and from_end <= 0:
            return as_index(bound)
        if bound.is_known and bound.value < 0 and w.range_of(size)[0] >= -bound.value:
            return difference(size, known(-bound.value))
        if low >= 0 and bound.linear.minus(size.linear).bounds(w.bounds)[0] >= 0:
            return size
    at = w.shared(f"pto.cast({bound.text}, pto.int64)" if not bound.is_known else bound.text)
    if low < 0:
        at = w.shared(f"pto.where({at} < 0, pto.maximum({at} + {size.text}, 0), {at})")
    at = w.shared(f"pto.minimum({at}, {size.text})")
    w.bounds[at] = (0, w.range_of(size)[1])
    return Number(at, int, Linear.symbol(at))
