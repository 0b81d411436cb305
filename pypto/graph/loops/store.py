"""Stores of a loop: the elements of an array or a number go into a view, strip by strip.

A statement of numpy computes its right side before it stores. Strips load before they store, so that is the result
also where both sides show one array at the same or at later positions. Otherwise the right side goes to scratch memory
first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto.graph.loops.arrays import Axis, Filled, Index, Overlap, View, is_same, lanes_of, operand_text, strips
from pypto.graph.loops.numbers import NotCompiled, Number
from pypto.graph.loops.writer import ZERO, Writer


def materialized(w: Writer, x: Any) -> View:
    """Return an array in memory: a view as it is, an expression in scratch memory."""
    return x if isinstance(x, View) else copied(w, x)


def copied(w: Writer, x: Any) -> View:
    """Store an array to scratch memory, and return it."""
    sizes = []
    for extent in x.extents:
        high = w.range_of(extent)[1]
        if not np.isfinite(high):
            raise NotCompiled("an array whose size has no bound")
        sizes.append(max(1, int(high)))
    base = w.parameter("scratch", tuple(sizes), x.dtype, "scratch")
    view = View(base, (ZERO,) * len(sizes), tuple(Axis(n, 1, extent) for n, extent in enumerate(x.extents)))
    write(w, view, x)
    return view


def store(w: Writer, target: View, value: Any) -> None:
    """Store a number or an array into a view, as ``target[...] = value``.

    Raises
    ------
    NotCompiled
        When it is not certain that the shapes fit.
    """
    if w.under and target.base.role == "array":
        raise NotCompiled("a store that depends on a condition in an expression")
    w.written.add(target.base.name)
    w.stores[target.base.memory] = w.stores.get(target.base.memory, 0) + 1
    if isinstance(value, Number):
        if not target.axes:
            w.line(f"pto.store({target.place(())}, {w.typed(w.fitting(value, target.dtype), target.dtype)})")
            return
        value = Filled(w.stored(w.fitting(value, target.dtype)), target.extents, target.dtype)
    value = fitting(value, target)
    has_its_shape = len(value.extents) == len(target.axes) and all(map(is_same, value.extents, target.extents))
    overlap = Overlap(w, target)
    if not all(overlap.is_safe(view, direct and has_its_shape) for view, direct in value.leaves()):
        value = copied(w, value)
    write(w, target, value)


def fitting(value: Any, target: View) -> Any:
    """Check that an array can be broadcast to a view, and return it without leading axes of size 1."""
    extents = value.extents
    if len(extents) > len(target.axes):
        raise NotCompiled("an array of more dimensions than its target")
    for a, b in zip(reversed(extents), reversed(target.extents), strict=False):
        if a.value != 1 and not is_same(a, b):
            raise NotCompiled("two lengths that may differ")
    return value


def write(w: Writer, target: View, value: Any) -> None:
    """Write the loops that store an array into a view."""
    if not target.axes:
        w.line(f"pto.store({target.place(())}, {operand_text(w, value, target.dtype, ())})")
        return
    write_axis(w, target, value, [])


def write_axis(w: Writer, target: View, value: Any, indices: list[Index]) -> None:
    axis = len(indices)
    extent = target.axes[axis].extent
    if axis + 1 < len(target.axes):
        index = w.new("r")
        with w.block(f"for {index} in range(0, {extent.text}):"):
            write_axis(w, target, value, [*indices, index])
        return
    with strips(w, extent) as strip:
        lanes = [*indices, strip]
        text = operand_text(w, value, target.dtype, lanes_of(value, lanes))
        mask = f", mask={strip.mask}" if strip.mask else ""
        w.line(f"pto.store({target.place(lanes)}, {text}{mask})")
