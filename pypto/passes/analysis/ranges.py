"""Integer range analysis: between which numbers an integer of Tile IR lies, and which are surely not negative.

`Ranges` does interval arithmetic from constants, `arange` and the indices of loops with constant bounds. A result that
may leave the range of its dtype wraps around, and is then anywhere.

    for %zero, %4096, %256 { (%j)                  j in 0 … 3840
      %o = add %j, arange(0, 256)                  o in 0 … 4095, so o < 4096 always holds

`is_nonnegative` asks for the sign alone. It knows that program indices and sizes are not negative, whatever they are,
and takes index arithmetic as exact: an offset that is not negative needs no test of its lower bound.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from types import MappingProxyType
from typing import Final

from pypto.ir.core import Function, Op, Value
from pypto.ops.table import MOVEMENT_OPS
from pypto.passes.pattern import constant_of, constant_range

Range = tuple[int, int]  # least and greatest number
_SIGN_PRESERVING: Final = ("add", "mul", "floordiv", "rem", "minimum", "shr", "and_", "cast")


def _sum(a: Range, b: Range) -> Range:
    return a[0] + b[0], a[1] + b[1]


def _difference(a: Range, b: Range) -> Range:
    return a[0] - b[1], a[1] - b[0]


def _product(a: Range, b: Range) -> Range:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


_ARITHMETIC: Final[Mapping[str, Callable[[Range, Range], Range]]] = MappingProxyType(
    {"add": _sum, "sub": _difference, "mul": _product}
)


class Ranges:
    """The ranges of a function's integers, each computed once."""

    def __init__(self, function: Function) -> None:
        indices = ((op.regions[0].args[0], index_range(op)) for op in function.walk() if op.name == "for")
        self.known: dict[Value, Range | None] = {v: interval for v, interval in indices if interval is not None}

    def range_of(self, v: Value) -> Range | None:
        """The least and the greatest number that an integer can be; None where that is not known."""
        if v not in self.known:
            computed = self._op_range(v.op) if v.dtype.is_int and v.op and len(v.op.results) == 1 else None
            low, high = v.dtype.integer_range
            self.known[v] = computed if computed is not None and low <= computed[0] and computed[1] <= high else None
        return self.known[v]

    def _op_range(self, op: Op) -> Range | None:
        if op.name == "constant" and isinstance(op.attrs["value"], int):
            return op.attrs["value"], op.attrs["value"]
        if op.name == "arange":
            return op.attrs["start"], op.attrs["end"] - 1
        if op.name in MOVEMENT_OPS or op.name == "cast":
            return self.range_of(op.operands[0])
        if op.name not in _ARITHMETIC:
            return None
        a, b = map(self.range_of, op.operands)
        return None if a is None or b is None else _ARITHMETIC[op.name](a, b)


def index_range(loop: Op) -> Range | None:
    """The range of a loop's index; None where that is not known, or the loop never runs."""
    steps = constant_range(loop.operands[:3])
    return (steps[0], steps[-1]) if steps and steps.step > 0 else None


def is_nonnegative(v: Value, known: Container[Value] = ()) -> bool:
    """Whether a number is surely 0 or more, given that those in `known` are."""
    op = v.op
    if op is None or v in known:
        return v in known
    number = constant_of(v)
    if number is not None:
        return number >= 0
    if op.name in ("program_id", "num_programs", "array_shape"):
        return True
    if op.name == "maximum":
        return any(is_nonnegative(operand, known) for operand in op.operands)
    return op.name in _SIGN_PRESERVING and all(is_nonnegative(operand, known) for operand in op.operands)
