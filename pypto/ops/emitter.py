"""The protocol of an emitter: the arithmetic that a lane rule may use on a chunk of lanes or on one scalar.

Each backend implements it. The op table imports none of them. A backend converts float16 and bfloat16 to float32 before
a rule and rounds after it, so no rule handles 16-bit floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pypto.ir.types import DType


class Lanes(Protocol):
    """Values of a chunk in registers; `dtype` says what they are."""

    @property
    def dtype(self) -> DType: ...


class Emitter(Protocol):
    """Lane-wise instructions. Both operands of a binary instruction have one dtype.

    Where `paired` is set, a float64 is a sum of two float32: 48 bits in float32's range, and no bits to look at.
    """

    @property
    def paired(self) -> bool: ...
    def const(self, value: float | int | bool, dtype: DType) -> Lanes: ...
    def add(self, a: Lanes, b: Lanes) -> Lanes: ...
    def sub(self, a: Lanes, b: Lanes) -> Lanes: ...
    def mul(self, a: Lanes, b: Lanes) -> Lanes: ...
    def div(self, a: Lanes, b: Lanes) -> Lanes:
        """IEEE division, or integer division that truncates (by zero: 0; least value by -1: wraps)."""

    def fmod(self, a: Lanes, b: Lanes) -> Lanes:
        """a - trunc(a / b) * b, exactly (floats)."""

    def neg(self, a: Lanes) -> Lanes: ...
    def fma(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        """a * b + c with one rounding (floats)."""

    def multiply_add(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        """a * b + c with one rounding or two, whichever the machine is fast at (floats)."""

    def and_(self, a: Lanes, b: Lanes) -> Lanes: ...
    def or_(self, a: Lanes, b: Lanes) -> Lanes: ...
    def xor(self, a: Lanes, b: Lanes) -> Lanes: ...
    def shl(self, a: Lanes, b: Lanes) -> Lanes: ...
    def shr(self, a: Lanes, b: Lanes) -> Lanes:
        """Arithmetic for signed, logical for unsigned."""

    def cmp(self, predicate: str, a: Lanes, b: Lanes) -> Lanes:
        """eq, ne, lt, le, gt, ge; a NaN compares false, but for ne."""

    def select(self, cond: Lanes, a: Lanes, b: Lanes) -> Lanes: ...
    def isnan(self, a: Lanes) -> Lanes: ...
    def abs(self, a: Lanes) -> Lanes: ...
    def sqrt(self, a: Lanes) -> Lanes: ...
    def round(self, a: Lanes, mode: str) -> Lanes:
        """To an integral value: mode floor, ceil, trunc or even."""

    def convert(self, a: Lanes, dtype: DType) -> Lanes:
        """The language's cast: float to int saturates with NaN to 0, int to int wraps, to bool is `!= 0`."""

    def bitcast(self, a: Lanes, dtype: DType) -> Lanes: ...
    def ldexp(self, a: Lanes, n: Lanes) -> Lanes:
        """a * 2**n for integral n (a float of a's dtype), right for subnormal results too."""

    def saturates(self, a: Lanes) -> bool:
        """Whether `ldexp` of such lanes takes any n, infinite ones too: those give infinity or 0, even of NaN."""

    def split_integer(self, a: Lanes) -> tuple[Lanes, Lanes]:
        """Where `ldexp` saturates: the nearest integers, ties to even, and the fractions; of infinities 0, or NaN."""

    def two_product(self, a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
        """The rounded product of two float64, and what rounding took from it."""

    def popcount(self, a: Lanes) -> Lanes:
        """Number of bits that are set."""

    def reverse_bits(self, a: Lanes) -> Lanes: ...
    def lookup(self, name: str, table: Callable[[], Sequence[float]], index: Lanes) -> Lanes:
        """Entries of a table of float64, which is known by a name, at int64 indices that lie within it."""

    def rarely(self, condition: Lanes, usual: Sequence[Lanes], rare: Callable[[], Sequence[Lanes]]) -> list[Lanes]:
        """What `rare` gives where the condition holds in any lane, else the usual values: a branch around long code."""
