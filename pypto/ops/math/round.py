"""Rounding to integral values, and the parts of floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pypto.ir.core import Attr, Op, Value
from pypto.ir.types import DType, Type, float32, float64, int16, int32, int64, uint8
from pypto.ops import adjoint_math
from pypto.ops.adjoint import OF_BITS
from pypto.ops.emitter import Emitter, Lanes
from pypto.ops.math import reference
from pypto.ops.math.rows import Array, function, native, one_by_one, widened
from pypto.ops.math.term import Term, clamp, copysign, where
from pypto.ops.row import Infer, OpRow, Param, numpy_op
from pypto.ops.rules import BoundArguments, promoted, same_kind, tile

if TYPE_CHECKING:
    from pypto.ops.build import OpBuilder

_X, _Y = Param("x", doc="tile or scalar; integers count as float32"), Param("y", doc="likewise")
_FLOATS = same_kind(("float",))


def giving(dtype: DType) -> Infer:
    """Type rule: a tile of floats to one of another element type."""
    return lambda types, attrs: (tile(_FLOATS(types, attrs)[0]).with_elem(dtype),)


# --- rounding ---------------------------------------------------------------------------------------------------------


def rounding(name: str, reference: Callable[[Array], Any], mode: str, doc: str, **more: Any) -> OpRow:
    return function(name, reference, native(lambda x: x.round(mode)), doc, **more)


def round_away(x: Term) -> Term:
    truncated = x.round("trunc")
    return where(abs(x - truncated) >= 0.5, truncated + copysign(x.number(1.0), x), truncated)


# --- parts ------------------------------------------------------------------------------------------------------------


def parts(x: Term) -> tuple[Term, Term]:
    """Mantissa from 1 to 2 with the sign of x, and exponent as an integer, of float64 that are finite and not 0."""
    if x.is_paired:
        single = x.single
        tiny = abs(single) < 2.0**-126
        bits = where(tiny, single * 2.0**24, single).bits()
        exponent = (bits >> 23 & 255) - where(tiny, bits.number(127 + 24), 127)
        return (bits & ~(255 << 23) | 127 << 23).bits(float32).to(float64), exponent
    tiny = abs(x) < 2.0**-1022
    bits = where(tiny, x * 2.0**54, x).bits()
    exponent = (bits >> 52 & 2047) - where(tiny, bits.number(1023 + 54), 1023)
    return (bits & ~(2047 << 52) | 1023 << 52).bits(x.dtype), exponent


def is_usual(x: Term) -> Term:
    """Finite and not 0."""
    return (abs(x) < math.inf) & x.differs(0.0)


def ldexp(x: Term, n: Term) -> Term:
    mantissa, exponent = parts(x)
    total = clamp(exponent.to(x.dtype) + clamp(n, -4000.0, 4000.0), -1100.0, 1100.0)
    return where(is_usual(x), mantissa.scaled(total), x)


def ilogb(x: Term) -> Term:
    special = where(abs(x).same(math.inf), parts(x)[1].number(2**31 - 1), -(2**31))
    return where(is_usual(x), parts(x)[1], special).to(int32)


def numpy_ilogb(x: Array) -> Array:
    return np.where(np.isfinite(x) & (x != 0), reference.exponent(x), np.where(np.isinf(x), 2**31 - 1, -(2**31)))


def infer_ldexp(types: Sequence[Type], attrs: Mapping[str, Attr]) -> tuple[Type, ...]:
    x, n = map(tile, types)
    if not x.dtype.is_float or n.dtype not in (int32, int64) or x.shape != n.shape:
        raise TypeError(f"takes floats and integers of one shape, not {x} and {n}")
    return (x,)


def bind_ldexp(b: OpBuilder, x: Any, n: Any) -> BoundArguments:
    (x,), n = b.promote([x], floating=True), b.value(n)
    if n.dtype.is_float:
        raise TypeError(f"takes an integer exponent, not {n.dtype}; cast it, or multiply by exp2 of it")
    return b.align([x, b.cast(n, int64 if n.dtype.bits == 64 or n.dtype.integer_range[1] >= 2**31 else int32)]), {}


def numpy_ldexp(op: Op, x: Array, n: Array) -> Any:
    with np.errstate(all="ignore"):
        return np.ldexp(x.astype(np.float64), np.clip(n, -4000, 4000).astype(np.int32))


def nextafter(e: Emitter, op: Op, x: Lanes, y: Lanes) -> Any:
    """By bits: they order floats of one sign."""
    dtype = op.results[0].dtype
    a, b = (Term(e, e.convert(v, dtype)) for v in (x, y))
    bits = a.bits(int16 if dtype.bits == 16 else None)
    one = bits.number(1)
    step = where((b > a) ^ (a > 0.0), -one, one)
    result = where(a.same(0.0), copysign_bits(one, b.bits(bits.dtype)), bits + step).bits(dtype)
    return where(a.is_nan() | b.is_nan(), math.nan, where(a.same(b), b, result)).lanes


def copysign_bits(size: Term, sign: Term) -> Term:
    return size | sign & -(1 << sign.dtype.bits - 1)


def numpy_nextafter(x: Array, y: Array) -> Array:
    return np.where(x == y, y, np.nextafter(x, y))


def bind_abs(b: OpBuilder, x: Any) -> BoundArguments | Value:
    """Of a type that is there to be stored, the code without its sign: a cast there and back would round."""
    if not isinstance(x, Value) or x.tile.is_ptr or x.dtype.kind != "bits":
        return promoted(arithmetic=True)(b, x=x)
    code = b.emit("bitcast", x, dtype=uint8)
    return b.emit("bitcast", b.emit("and_", code, b.constant(0x7F, uint8, x.shape)), dtype=x.dtype)


_CONSTANT: Final[Mapping[str, Any]] = MappingProxyType(
    {"adjoint": adjoint_math.constant_pieces, "kink": "0 everywhere, also where it jumps."}
)

ROWS = (
    rounding("floor", np.floor, "floor", "Greatest integral value not above x.", **_CONSTANT),
    rounding("ceil", np.ceil, "ceil", "Least integral value not below x.", **_CONSTANT),
    rounding("trunc", np.trunc, "trunc", "x without its fraction.", **_CONSTANT),
    rounding("rint", np.rint, "even", "Nearest integral value, ties to even.", **_CONSTANT),
    function(
        "round",
        reference.round_away,
        native(round_away),
        "Nearest integral value, ties away from 0.",
        **_CONSTANT,
    ),
    OpRow(
        "abs",
        params=(Param("x"),),
        infer=same_kind(("int", "uint", "float")),
        reference=lambda op, a: np.abs(a),
        lane_rule=lambda e, op, x: e.abs(x),
        bind_arguments=bind_abs,
        traits=frozenset({"elementwise", "zero_preserving", "magnitude"}),
        dtypes="number",
        doc="Magnitude; the least integer stays as it is.",
        example="abs(x)",
        adjoint=adjoint_math.absolute,
        kink="0 at 0.",
    ),
    function(
        "fma",
        one_by_one(reference.fma),
        lambda e, op, a, b, c: e.fma(a, b, c),
        "x * y + z with one rounding.",
        (0.51, 0.51),
        names="x y z",
        adjoint=adjoint_math.fma,
    ),
    function(
        "nextafter",
        None,
        nextafter,
        "The next float after x towards y.",
        names="x y",
        reference=numpy_op(numpy_nextafter),
        public=False,
        adjoint=OF_BITS,
    ),
    OpRow(
        "ldexp",
        params=(_X, Param("n", doc="tile or scalar of integers")),
        infer=infer_ldexp,
        reference=numpy_ldexp,
        lane_rule=widened(ldexp),
        bind_arguments=bind_ldexp,
        traits=frozenset({"elementwise"}),
        dtypes="int",
        doc="x * 2**n, rounded once.",
        example="ldexp(x, 3)",
        public=False,
        adjoint=adjoint_math.ldexp,
    ),
    function(
        "ilogb",
        numpy_ilogb,
        widened(ilogb),
        "Exponent of x to base 2, as int32: -2**31 at 0 and NaN, 2**31 - 1 at infinity.",
        infer=giving(int32),
        public=False,
        adjoint=OF_BITS,
    ),
)
