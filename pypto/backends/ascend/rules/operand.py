"""Operands of a rule: a chunk in UB or one number for all lanes, and the sink that instructions go to.

A number costs no memory and no instruction as long as instructions take it as a scalar operand. The sink decides what a
chunk is: a whole tile, a part of it, or the state of a test.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pypto.backends.ascend.blockir.ir import Expr, Item, Scalar, View, fold
from pypto.ir.types import DType, float16, float32, int32, uint32
from pypto.ops.math.term import Term


class NoInstruction(Exception):
    """The unit has no instructions for what a rule asks."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """Elements of a chunk.

    Parameters
    ----------
    dtype : DType
        What the elements are.
    at : View or Scalar
        Where they lie in UB, or one number for all of them. Bools lie packed in uint8, one bit an element from the
        lowest on; all other dtypes as in memory.
    low : View, Scalar or None
        Second parts, which the first ones are to be added to (of float64 inside of rules).
    """

    dtype: DType
    at: View | Scalar
    low: View | Scalar | None = None

    @property
    def is_scalar(self) -> bool:
        return not isinstance(self.at, View)


class InstructionSink(Protocol):
    """Where the instructions go, and who hands out memory for what they make.

    `count` is the number of elements in a chunk: a multiple of 128, so that comparisons fill whole repeats.
    """

    @property
    def count(self) -> int: ...
    @property
    def line(self) -> int: ...
    def emit(self, item: Item) -> None: ...
    def temporary(self, dtype: DType, count: int = 0) -> View:
        """Memory for so many elements (0: all of the chunk's), or as many bits in uint8 for bools."""

    def filled(self, value: Scalar, dtype: DType, count: int = 0) -> View:
        """Memory that holds one number, filled where that is done least often."""

    def name(self, hint: str) -> str:
        """A name that is not in use, for a `Let` or a loop."""

    def nested(self) -> AbstractContextManager[list[Item]]:
        """Items that are emitted inside go to the list, for the body of a `Loop` or `If`."""


def held(dtype: DType) -> DType:
    """The element type that lanes of a dtype have in UB while they are computed with."""
    if dtype.is_bool or dtype == float16:
        return dtype
    if dtype.bits == 64:
        raise NoInstruction(f"the vector unit has no {dtype.public}")
    return float32 if dtype.is_float else int32


def as_dtype(view: View, dtype: DType) -> View:
    """Return a view of the same memory with elements of another dtype (ReinterpretCast)."""
    if view.elem == dtype:
        return view
    offset = times(view.offset, view.elem.bits, dtype.bits)
    return replace(view, offset=offset, dtype=None if view.of.dtype == dtype else dtype)


def times(offset: Scalar, up: int, down: int) -> Scalar:
    """Scale an offset by up / down; the result is whole, since views begin at whole blocks."""
    if isinstance(offset, Expr) and offset.op == "*" and isinstance(offset.args[1], int):
        return fold("*", offset.args[0], offset.args[1] * up // down)
    if isinstance(offset, Expr) and offset.op == "+":
        return fold("+", *(times(x, up, down) for x in offset.args))
    return fold("//", fold("*", offset, up), down) if up % down else fold("*", offset, up // down)


def part_of(view: View, elements: Scalar) -> View:
    """Return the view that begins some elements later."""
    return replace(view, offset=fold("+", view.offset, elements))


def as_int32(value: Scalar) -> Scalar:
    """Reinterpret 32 bits as a signed number."""
    if isinstance(value, int):
        return (int(value) + (1 << 31)) % (1 << 32) - (1 << 31)
    return Expr(int32.mnemonic, (value,))


def as_uint32(value: Scalar) -> Scalar:
    """Reinterpret 32 bits as an unsigned number."""
    return int(value) % (1 << 32) if isinstance(value, int) else Expr(uint32.mnemonic, (value,))


def lanes_of(term: Term) -> Lanes:
    """Return the lanes of a term, which here are all of one class."""
    lanes: Any = term.lanes
    assert isinstance(lanes, Lanes)
    return lanes
