"""Pointers into one of several arrays: a variable says which, and each use is lowered once for each array.

p = where(c, a, b)               which = c ? 0 : 1
x = load(p)              ->      if which == 0: x = a[...]
                                 if which == 1: x = b[...]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pypto.backends.ascend.blockir.ir import Expr
from pypto.backends.ascend.blockir.softfloat64 import zero
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.handlers.control import (
    CarriedPlace,
    copy_tile,
    new_selected_pointer,
    pointed_arrays,
    selected_assignments,
)
from pypto.backends.ascend.vector.values import DeferredLoad, Pointer, Pointers, SelectedPointer, Tile
from pypto.ir.core import Op, Value
from pypto.ir.types import int64

Handler = Callable[[Lowering, Op], None]


def selected_pointer(low: Lowering, op: Op) -> Value | None:
    """Return the operand of an op that may point into several arrays; loops and branches carry it as it is."""
    found = (v for v in op.operands if isinstance(low.env.get(v), SelectedPointer))
    return None if op.regions else next(found, None)


def dispatch_each(low: Lowering, op: Op, v: Value, dispatch: Handler) -> None:
    """Lower an op once for each array that its pointer may be in."""
    selected = low.env[v]
    assert isinstance(selected, SelectedPointer)
    if op.results and op.result.tile.is_ptr:
        low.env[op.result] = SelectedPointer(selected.which, tuple(select_moved(low, op, v, selected, dispatch)))
    else:
        results = [result for result in op.results if low.use_counts[result]]
        places = [allocate_result(low, result) for result in results]
        for k, choice in enumerate(selected.choices):
            low.env[v] = choice
            with low.when(Expr("==", (selected.which, k))):
                dispatch(low, op)
                for result, place in zip(results, places, strict=True):
                    assign_result(low, place, result)
        low.env.update(zip(results, places, strict=True))
    low.env[v] = selected


def pointer_select(low: Lowering, op: Op) -> None:
    """Lower a choice between two pointers."""
    condition, *ends = op.operands
    a, b = (low.env[v] for v in ends)
    if isinstance(a, Pointer) and isinstance(b, Pointer) and a.array == b.array:
        at = Expr("?:", (low.number(condition), a.offset, b.offset))
        low.env[op.result] = Pointer(a.array, low.let(op.result.hint or "at", int64, at))
        return
    selected = new_selected_pointer(
        low, op.result, {array: None for v in ends for array in pointed_arrays(v, frozenset())}
    )
    sides = []
    for end in (a, b):
        with low.block() as items:
            for name, _, value in selected_assignments(low, selected, end):
                low.assign(name, value)
        sides.append(items)
    low.branch(low.number(condition), *sides)
    low.env[op.result] = selected


def select_moved(
    low: Lowering, op: Op, v: Value, selected: SelectedPointer, dispatch: Handler
) -> Iterator[Pointer | Pointers]:
    """Yield the moved pointer into each array."""
    for choice in selected.choices:
        low.env[v] = choice
        dispatch(low, op)
        pointer = low.env[op.result]
        assert isinstance(pointer, Pointer | Pointers)
        yield pointer


def allocate_result(low: Lowering, v: Value) -> CarriedPlace:
    """Allocate the place that all versions of an op write their result to."""
    return low.new_tile(v.shape, v.dtype, v.hint) if v.shape else low.variable(v.hint or "x", v.dtype, zero(v.dtype))


def assign_result(low: Lowering, place: CarriedPlace, v: Value) -> None:
    """Copy the result of one version to its place."""
    if isinstance(low.env[v], DeferredLoad):
        raise low.refusal("a product of one array or another", "has no form here", "load it into a tile first")
    if isinstance(place, Tile):
        copy_tile(low, place, low.tile_value(v))
    else:
        low.assign(str(place), low.number(v))
