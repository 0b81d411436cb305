"""Rounding up, down and towards zero, and conversions to and from integers, written in the language.

Each function is computed in float64, together with the sign of what rounding took. That is enough for float32, too:
a float64 that is a float32 is the exact result, since two numbers of 24 bits leave no quotient or root between them
that is nearer to a float32 than a float64 can tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from pypto.ir.types import DType, float32, float64, int8, int16, int32, int64
from pypto.language import ops
from pypto.language.standard import static_assert
from pypto.ops.public import OpFunction
from pypto.ops.table import TABLE

Tile = Any  # a tile or scalar; annotations in here are for readers
Function = Callable[..., Any]
INF: Final = math.inf
DIRECTIONS: Final = ("rz", "rd", "ru")
MODES: Final = ("rn", *DIRECTIONS)


def row(name: str) -> OpFunction:
    """An op of the table; those without a public name have theirs in `libdevice`."""
    return getattr(ops, name) if TABLE[name].public else OpFunction(TABLE[name], "pto.language.libdevice")


rint, nextafter = row("rint"), row("nextafter")
ROUNDINGS: Final = (rint, ops.trunc, ops.floor, ops.ceil)


def as_dtype(x: Tile, dtype: DType) -> Tile:
    """A tile, or a Python number with all its digits, in a dtype."""
    return ops.full((), x, dtype) if isinstance(x, int | float) else ops.cast(x, dtype)


def as_float(x: Tile) -> Tile:
    """x, or the float32 that an integer or a Python number counts as."""
    return as_dtype(x, float32 if isinstance(x, int | float) else x.dtype if x.dtype.is_float else float32)


def as_bits(x: Tile) -> Tile:
    """The bits of a float as an integer of that size."""
    bits = x.dtype.bits
    return ops.bitcast(x, int64 if bits == 64 else int32 if bits == 32 else int16 if bits == 16 else int8)


def isinf(x: Tile) -> Tile:
    """Whether x is infinite."""
    return ops.abs(x) == INF


def isfinite(x: Tile) -> Tile:
    """Whether x is neither infinite nor NaN."""
    return ops.abs(x) < INF


def two_sum(x: Tile, y: Tile) -> tuple[Tile, Tile]:
    """x + y, and what rounding took from it."""
    value = x + y
    part = value - x
    error = (x - (value - part)) + (y - part)
    return value, ops.where(isinf(value) & isfinite(x) & isfinite(y), -value, error)


def difference(x: Tile, y: Tile) -> tuple[Tile, Tile]:
    return two_sum(x, -y)


def product(x: Tile, y: Tile) -> tuple[Tile, Tile]:
    """The error of a tiny product is found on a larger scale, and of one that vanishes by its sign."""
    value, swap = x * y, ops.abs(x) < ops.abs(y)
    small, large = ops.where(swap, x, y), ops.where(swap, y, x)
    scale = ops.where(ops.abs(value) < 2.0**-900, as_dtype(2.0**600, float64), 1.0)
    error = ops.fma(small * scale, large, -(value * scale))
    vanished = (value == 0) & (x != 0) & (y != 0)
    error = ops.where(vanished, ops.where((x < 0) == (y < 0), 1.0, -1.0), error)
    return value, ops.where(isinf(value) & isfinite(x) & isfinite(y), -value, error)


def quotient(x: Tile, y: Tile) -> tuple[Tile, Tile]:
    value = x / y
    scale = ops.where((ops.abs(x) < 2.0**600) & (ops.abs(y) < 2.0**600), as_dtype(2.0**200, float64), 1.0)
    error = ops.fma(-value, y * scale, x * scale)
    return value, ops.where(y < 0, -error, error)


def inverse(x: Tile) -> tuple[Tile, Tile]:
    return quotient(as_dtype(1.0, float64), x)


def root(x: Tile) -> tuple[Tile, Tile]:
    value = ops.sqrt(x)
    scale = ops.where(x < 1, as_dtype(2.0**100, float64), 1.0)
    return value, ops.fma(-(value * scale), value * scale, x * scale * scale)


def fused(x: Tile, y: Tile, z: Tile) -> tuple[Tile, Tile]:
    """The product of two float32 is exact."""
    return two_sum(x * y, z)


def same(x: Tile) -> tuple[Tile, Tile]:
    return x, x * 0.0


def halves(x: Tile) -> tuple[Tile, Tile]:
    """An integer of 64 bits as a float64 and the rest."""
    return two_sum(ops.cast(x >> 32, float64) * 2.0**32, ops.cast(x & 0xFFFFFFFF, float64))


def beside(value: Tile, error: Tile, mode: Any) -> Tile:
    """A rounded value, or the float beside it where the exact one, which differs by `rest`, is to be rounded there."""
    if mode == "rd":
        return ops.where(error < 0, nextafter(value, -INF), value)
    if mode == "ru":
        return ops.where(error > 0, nextafter(value, INF), value)
    over = ((error < 0) & (value > 0)) | ((error > 0) & (value < 0))
    return ops.where(over, nextafter(value, 0.0), value)


def narrowed(value: Tile, error: Tile, mode: Any) -> Tile:
    """A float64 and its rest as a float32."""
    nearest = ops.cast(value, float32)
    gap = value - ops.cast(nearest, float64)
    return beside(nearest, ops.where(gap == 0, error, gap), mode)


def called(name: str, function: Function) -> Function:
    """A function under the name that errors and documentation show."""
    function.__name__ = function.__qualname__ = name
    return function


def directed(name: str, exact: Function, mode: str, operands: int) -> Function:
    def one(x: Tile) -> Tile:
        """Rounded towards zero, down or up, as the name says."""
        value, error = exact(as_dtype(x, float64))
        return beside(value, error, mode) if x.dtype == float64 else narrowed(value, error, mode)

    def two(x: Tile, y: Tile) -> Tile:
        """Rounded towards zero, down or up, as the name says."""
        value, error = exact(as_dtype(x, float64), as_dtype(y, float64))
        return beside(value, error, mode) if (x + y).dtype == float64 else narrowed(value, error, mode)

    def three(x: Tile, y: Tile, z: Tile) -> Tile:
        """x * y + z of float32, rounded towards zero, down or up, as the name says."""
        static_assert((x + y + z).dtype != float64, "fma of float64 rounds to nearest only: libdevice.fma")
        value, error = exact(as_dtype(x, float64), as_dtype(y, float64), as_dtype(z, float64))
        return narrowed(value, error, mode)

    return called(name, (one, two, three)[operands - 1])


def viewed(name: str, dtype: DType) -> Function:
    def view(x: Tile) -> Tile:
        """Reinterpret the bits as another dtype."""
        return ops.bitcast(x, dtype)

    return called(name, view)


def from_integer(name: str, source: DType, to: DType, mode: str) -> Function:
    def nearest(x: Tile) -> Tile:
        """An integer as the nearest float, ties to even."""
        return ops.cast(ops.cast(x, source), to)

    def convert(x: Tile) -> Tile:
        """An integer as a float, rounded towards zero, down or up, as the name says."""
        value, error = halves(ops.cast(x, source))
        return beside(value, error, mode) if to == float64 else narrowed(value, error, mode)

    return called(name, nearest if mode == "rn" else convert)


def to_integer(name: str, rounding: Any, to: DType, given: DType) -> Function:
    def convert(x: Tile) -> Tile:
        """A float as an integer, rounded as the name says; it saturates. All results are signed, as in Triton."""
        return ops.cast(ops.cast(rounding(x), to), given)

    return called(name, convert)


def to_float32(name: str, mode: str) -> Function:
    def convert(x: Tile) -> Tile:
        """A float64 as a float32, rounded as the name says."""
        return ops.cast(x, float32) if mode == "rn" else narrowed(ops.cast(x, float64), 0.0, mode)

    return called(name, convert)


def directions(name: str, exact: Function, operands: int) -> list[Function]:
    """The functions that round towards zero, down and up."""
    return [directed(f"{name}_{mode}", exact, mode, operands) for mode in DIRECTIONS]


def from_integers(name: str, source: DType, to: DType) -> list[Function]:
    return [from_integer(f"{name}_{mode}", source, to, mode) for mode in MODES]


def to_integers(name: str, to: DType, given: DType) -> list[Function]:
    return [to_integer(f"{name}_{mode}", r, to, given) for mode, r in zip(MODES, ROUNDINGS, strict=True)]


def to_floats(name: str) -> list[Function]:
    return [to_float32(f"{name}_{mode}", mode) for mode in MODES]
