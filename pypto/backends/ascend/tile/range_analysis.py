"""Comparisons whose outcome follows from where loops begin and end: `j + arange(0, 256) < 4096` in the last block.

Each integer is somewhere between two numbers: constants, ranges, indices of loops whose bounds are constants, and their
sums and products. What comes out of its dtype's range wraps around, and is then anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from pypto.ir.core import Function, Op, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ops.build import OpBuilder
from pypto.passes.canonicalize import canonicalize
from pypto.passes.dce import dce
from pypto.passes.pattern import constant_of

Range = tuple[int, int]
_VALUE_PRESERVING: Final = ("broadcast_to", "reshape", "permute")
_COMPARISONS: Final[Mapping[str, Callable[[Range, Range], tuple[bool, bool]]]] = MappingProxyType({
    # whether it always holds, and whether it never does
    "lt": lambda a, b: (a[1] < b[0], a[0] >= b[1]), "le": lambda a, b: (a[1] <= b[0], a[0] > b[1]),
    "gt": lambda a, b: (a[0] > b[1], a[1] <= b[0]), "ge": lambda a, b: (a[0] >= b[1], a[1] < b[0]),
})  # fmt: skip


def fold_comparisons(function: Function) -> Function:
    """The function without comparisons that always come out the same, and without what follows from them."""
    indices = {op.regions[0].args[0]: found for op in function.walk() if op.name == "for" and (found := index_of(op))}
    known: dict[Value, Range | None] = dict(indices)
    outcomes = {
        op: holds for op in function.walk() if op.name in _COMPARISONS and (holds := outcome(op, known)) is not None
    }
    if not outcomes:
        return function

    def rule(r: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        return [r.builder.constant(outcomes[op], op.result.dtype, op.result.shape)] if op in outcomes else None

    return dce(canonicalize(rewrite(function, rule, OpBuilder)))


def index_of(loop: Op) -> Range | None:
    """Where the index of a loop is, if it runs at all."""
    start, stop, step = (constant_of(v) for v in loop.operands[:3])
    if not (isinstance(start, int) and isinstance(stop, int) and isinstance(step, int)) or step <= 0 or stop <= start:
        return None
    return start, start + (stop - start - 1) // step * step


def outcome(op: Op, known: dict[Value, Range | None]) -> bool | None:
    a, b = (range_of(v, known) for v in op.operands)
    if a is None or b is None:
        return None
    always, never = _COMPARISONS[op.name](a, b)
    return True if always else False if never else None


def range_of(v: Value, known: dict[Value, Range | None]) -> Range | None:
    """The least and the greatest number that an integer can be; None where that is not known."""
    if v not in known:
        found = op_range(v.op, known) if v.dtype.is_int and v.op and len(v.op.results) == 1 else None
        low, high = v.dtype.integer_range
        known[v] = found if found is not None and low <= found[0] and found[1] <= high else None
    return known[v]


def op_range(op: Op, known: dict[Value, Range | None]) -> Range | None:
    if op.name == "constant" and isinstance(op.attrs["value"], int):
        return op.attrs["value"], op.attrs["value"]
    if op.name == "arange":
        return op.attrs["start"], op.attrs["end"] - 1
    if op.name in _VALUE_PRESERVING or op.name == "cast":
        return range_of(op.operands[0], known)
    if op.name not in ("add", "sub", "mul"):
        return None
    a, b = (range_of(x, known) for x in op.operands)
    if a is None or b is None:
        return None
    if op.name == "mul":
        ends = [x * y for x in a for y in b]
        return min(ends), max(ends)
    return (a[0] + b[0], a[1] + b[1]) if op.name == "add" else (a[0] - b[1], a[1] - b[0])
