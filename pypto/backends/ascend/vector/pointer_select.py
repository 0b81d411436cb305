"""Pointers into one array or another: a number says which, and what uses them is written once for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pypto.backends.ascend.blockir.ir import Expr
from pypto.backends.ascend.blockir.softfloat64 import zero
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.control import Home, arrays_of, choices, chosen, write
from pypto.backends.ascend.vector.values import Later, Pointer, Pointers, SelectedPointer, Tile
from pypto.ir.core import Op, Value
from pypto.ir.types import int64

Handler = Callable[[Lowering, Op], None]


def selected_pointer(low: Lowering, op: Op) -> Value | None:
    """The operand of an op that may point into several arrays. Loops and branches carry it as it is."""
    found = (v for v in op.operands if isinstance(low.env.get(v), SelectedPointer))
    return None if op.regions else next(found, None)


def dispatch_each(low: Lowering, op: Op, v: Value, dispatch: Handler) -> None:
    """An op that moves addresses, or reads or writes what they point at."""
    held = low.env[v]
    assert isinstance(held, SelectedPointer)
    if op.results and op.result.tile.is_ptr:
        low.env[op.result] = SelectedPointer(held.which, tuple(pointers(low, op, v, held, dispatch)))
    else:
        results = [result for result in op.results if low.uses[result]]
        homes = [reserve(low, result) for result in results]
        for k, choice in enumerate(held.choices):
            low.env[v] = choice
            with low.when(Expr("==", (held.which, k))):
                dispatch(low, op)
                for result, to in zip(results, homes, strict=True):
                    assign(low, to, result)
        low.env.update(zip(results, homes, strict=True))
    low.env[v] = held


def pointer_select(low: Lowering, op: Op) -> None:
    """One address or another."""
    condition, *ends = op.operands
    a, b = (low.env[v] for v in ends)
    if isinstance(a, Pointer) and isinstance(b, Pointer) and a.array == b.array:
        at = Expr("?:", (low.number(condition), a.offset, b.offset))
        low.env[op.result] = Pointer(a.array, low.let(op.result.hint or "at", int64, at))
        return
    to = choices(low, op.result, {array: None for v in ends for array in arrays_of(v, frozenset())})
    sides = []
    for held in (a, b):
        with low.block() as items:
            for name, _, value in chosen(low, to, held):
                low.assign(name, value)
        sides.append(items)
    low.either(low.number(condition), *sides)
    low.env[op.result] = to


def pointers(low: Lowering, op: Op, v: Value, held: SelectedPointer, dispatch: Handler) -> Iterator[Pointer | Pointers]:
    for choice in held.choices:
        low.env[v] = choice
        dispatch(low, op)
        made = low.env[op.result]
        assert isinstance(made, Pointer | Pointers)
        yield made


def reserve(low: Lowering, v: Value) -> Home:
    return low.new(v.shape, v.dtype, v.hint) if v.shape else low.variable(v.hint or "x", v.dtype, zero(v.dtype))


def assign(low: Lowering, to: Home, v: Value) -> None:
    if isinstance(low.env[v], Later):
        raise low.refused("a product of one array or another", "has no form here", "load it into a tile first")
    if isinstance(to, Tile):
        write(low, to, low.held(v))
    else:
        low.assign(str(to), low.number(v))
