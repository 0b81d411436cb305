"""Arithmetic, comparison, logic and selection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto.ir.core import Attr, Op, Value
from pypto.ir.types import DTYPES, Type, float32, int1
from pypto.ops import adjoint_math
from pypto.ops.adjoint import OF_INTEGERS, OF_TRUTH, AdjointRule
from pypto.ops.emitter import Emitter, Lanes
from pypto.ops.math.term import Term, where
from pypto.ops.row import OpRow, Param, numpy_op
from pypto.ops.rules import BoundArguments, comparison, promoted, same, same_kind, tile

if TYPE_CHECKING:
    from pypto.ops.build import OpBuilder

Array = np.ndarray[Any, Any]
_XY = (Param("x", doc="first operand"), Param("y", doc="second operand"))
_X = (Param("x", doc="operand"),)
_COMMUTES = frozenset({"elementwise", "commutative"})
_ELEMENTWISE = frozenset({"elementwise"})
_NUMBERS = ("int", "uint", "float")
_BITS = ("bool", "int", "uint")


def trunc_div(a: Array, b: Array) -> Array:
    """Integer division towards zero; by zero it gives 0."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    quotient = np.asarray(np.floor_divide(a, safe))
    inexact = (quotient * safe != a) & ((a < 0) != (safe < 0))
    return np.asarray(np.where(zero, a.dtype.type(0), quotient + inexact.astype(a.dtype)))


def remainder(a: Array, b: Array) -> Array:
    """Sign of the dividend; integers by zero give 0."""
    if a.dtype.kind in "iu":
        return np.where(b == 0, a.dtype.type(0), np.fmod(a, np.where(b == 0, b.dtype.type(1), b)))
    return np.fmod(a, b)


def lane_remainder(e: Emitter, op: Op, x: Lanes, y: Lanes) -> Lanes:
    a, b = Term(e, x), Term(e, y)
    return e.fmod(x, y) if x.dtype.is_float else where(b.same(0), 0, a - a / b * b).lanes


def shift(fn: Any) -> Any:
    """A shift by the width or more gives what shifting bit by bit would."""

    def reference(a: Array, b: Array) -> Array:
        bits = a.dtype.itemsize * 8
        over = (b < 0) | (b >= bits) if b.dtype.kind == "i" else b >= bits
        inside = np.asarray(fn(a, np.where(over, b.dtype.type(0), b)))
        full = np.where(a < 0, a.dtype.type(-1), a.dtype.type(0)) if fn is np.right_shift and a.dtype.kind == "i" else 0
        return np.where(over, full, inside).astype(a.dtype)

    return reference


def lane_shift(left: bool) -> Any:
    def rule(e: Emitter, op: Op, a: Lanes, b: Lanes) -> Lanes:
        last = e.const(a.dtype.bits - 1, a.dtype)
        zero = e.const(0, a.dtype)
        inside = e.cmp("le", b, last)
        if a.dtype.kind == "int":
            inside = e.and_(inside, e.cmp("ge", b, zero))
        amount = e.select(inside, b, zero if left or a.dtype.kind == "uint" else last)
        shifted = e.shl(a, amount) if left else e.shr(a, amount)
        return shifted if not left and a.dtype.kind == "int" else e.select(inside, shifted, zero)

    return rule


def binary(name: str, reference: Any, lane_rule: Any, doc: str, **more: Any) -> OpRow:
    more.setdefault("bind_arguments", promoted(arithmetic=True))
    more.setdefault("infer", same_kind(_NUMBERS))
    more.setdefault("traits", _ELEMENTWISE)
    more.setdefault("dtypes", "number")
    return OpRow(name, params=_XY, reference=numpy_op(reference), lane_rule=lane_rule, doc=doc, **more)


def compare(name: str, fn: Any) -> OpRow:
    def lane_rule(e: Emitter, op: Op, a: Lanes, b: Lanes) -> Lanes:
        return e.cmp(name, a, b)

    return binary(
        name,
        fn,
        lane_rule,
        f"x {name} y, elementwise",
        infer=comparison,
        bind_arguments=promoted(),
        public=False,
        dtypes="all",
        adjoint=OF_TRUTH,
    )


def lane_max(e: Emitter, a: Lanes, b: Lanes, greater: str = "gt") -> Lanes:
    """The greater (or lesser) of two; where one of them is NaN, the other."""
    best = e.select(e.cmp(greater, a, b), a, b)
    return e.select(e.isnan(b), a, best) if a.dtype.is_float else best


def lane_max_of_nan(e: Emitter, a: Lanes, b: Lanes, greater: str, is_limit: bool) -> Lanes:
    """Emits the greater (or lesser) of two, or NaN if one is NaN; of equal operands it is the second.

    A comparison with NaN does not hold, so the select's last operand decides what a NaN gives. A limit is neither NaN
    nor zero: then the order of equal operands does not matter, and one instruction of a processor does both.
    """
    if is_limit:
        return e.select(e.cmp(greater, b, a), b, a)
    return e.select(e.isnan(a), a, e.select(e.cmp(greater, a, b), a, b))


def is_nonzero(v: Value) -> bool:
    """Says whether all elements of a value are known to be one number that is neither NaN nor zero."""
    number = None if v.op is None else v.op.attrs.get("value")  # the attribute of a constant
    return number is not None and bool(number != 0 and not np.isnan(number))


def extremum(name: str, ignore: Any, propagate: Any, greater: str, adjoint: AdjointRule) -> OpRow:
    def reference(op: Op, a: Array, b: Array) -> Any:
        with np.errstate(all="ignore"):
            return (propagate if op.attrs["propagate_nan"] else ignore)(a, b)

    def lane_rule(e: Emitter, op: Op, a: Lanes, b: Lanes) -> Lanes:
        if a.dtype.is_float and op.attrs["propagate_nan"]:
            return lane_max_of_nan(e, a, b, greater, is_nonzero(op.operands[1]))
        return lane_max(e, a, b, greater)

    def bind(b: OpBuilder, x: Any, y: Any, propagate_nan: bool) -> BoundArguments:
        return b.promote([x, y]), {"propagate_nan": bool(propagate_nan)}

    params = (*_XY, Param("propagate_nan", "bool", False, "give NaN when either operand is NaN"))
    return OpRow(
        name,
        params=params,
        infer=same,
        reference=reference,
        lane_rule=lane_rule,
        bind_arguments=bind,
        traits=_COMMUTES | {"exact_in_narrow", "width_preserving"},
        dtypes="number",
        doc=f"{name.capitalize()} of two tiles, elementwise; where one of them is NaN, the result is the other.",
        adjoint=adjoint,
        kink="half for each operand where they are equal.",
        example=f"{name}(x, 0.0)",
    )


def logic(name: str, fn: Any, method: str, doc: str) -> OpRow:
    def lane_rule(e: Emitter, op: Op, a: Lanes, b: Lanes) -> Lanes:
        result: Lanes = getattr(e, method)(a, b)
        return result

    return binary(
        name,
        fn,
        lane_rule,
        doc,
        infer=same_kind(_BITS),
        bind_arguments=promoted(),
        traits=_COMMUTES | {"width_preserving"},
        public=False,
        dtypes="int",
        adjoint=OF_INTEGERS,
    )


def check_signs(b: OpBuilder, symbol: str, x: Any, y: Any) -> None:
    """Refuses a signed and an unsigned tile: what such a division should give is anybody's guess."""
    kinds = {v.dtype.kind for v in (x, y) if hasattr(v, "type")}
    if {"int", "uint"} <= kinds:
        from pypto.errors.language import MixedSign

        raise MixedSign(b.loc, symbol=symbol, a=x.dtype, b=y.dtype)


def bind_div(b: OpBuilder, x: Any, y: Any) -> BoundArguments:
    check_signs(b, "/", x, y)
    values = b.promote([x, y], floating=True)
    # The language defines f16 / f16 and bf16 / bf16 as float32.
    return [b.cast(v, float32) if v.dtype.is_narrow else v for v in values], {}


def bind_floor(symbol: str) -> Any:
    def bind(b: OpBuilder, x: Any, y: Any) -> BoundArguments:
        check_signs(b, symbol, x, y)
        return b.promote([x, y]), {}

    return bind


def bind_shr(b: OpBuilder, x: Any, y: Any) -> BoundArguments | Value:
    """The left operand's sign decides, also where both are promoted to an unsigned type, which the result then has."""
    values, attrs = promoted(arithmetic=True)(b, x=x, y=y)
    dtype = values[0].dtype
    if getattr(x, "dtype", dtype).kind != "int" or dtype.kind != "uint":
        return values, attrs
    # An amount that becomes negative is out of range, as it was before.
    signed = next(d for d in DTYPES if d.kind == "int" and d.bits == dtype.bits)
    shifted = b.emit("shr", *(b.cast(v, signed) for v in values))
    return b.cast(shifted, dtype)


def infer_where(types: Sequence[Type], attrs: Mapping[str, Attr]) -> tuple[Type, ...]:
    condition, a, b = map(tile, types)
    if condition.elem != int1 or condition.shape != a.shape or a != b:
        raise TypeError(f"takes a bool condition and two values of one type, not {condition}, {a} and {b}")
    return (a,)


def bind_where(b: OpBuilder, condition: Any, x: Any, y: Any) -> BoundArguments:
    pointers = [v for v in (x, y) if hasattr(v, "type") and v.tile.is_ptr]
    values = [x, y] if pointers else b.promote([x, y])
    return b.align([b.cast(b.value(condition), int1), *values]), {}


ROWS = (
    binary(
        "add",
        np.add,
        lambda e, op, a, b: e.add(a, b),
        "x + y, elementwise",
        traits=_COMMUTES | {"additive", "overflowing"},
        public=False,
        adjoint=adjoint_math.add,
    ),
    binary(
        "sub",
        np.subtract,
        lambda e, op, a, b: e.sub(a, b),
        "x - y, elementwise",
        public=False,
        traits=_ELEMENTWISE | {"additive", "overflowing"},
        adjoint=adjoint_math.sub,
    ),
    binary(
        "mul",
        np.multiply,
        lambda e, op, a, b: e.mul(a, b),
        "x * y, elementwise",
        traits=_COMMUTES | {"overflowing"},
        public=False,
        adjoint=adjoint_math.mul,
    ),
    binary(
        "div",
        np.divide,
        lambda e, op, a, b: e.div(a, b),
        "x / y, elementwise; integers and 16-bit floats give float32",
        cost=4,
        infer=same_kind(("float",)),
        bind_arguments=bind_div,
        public=False,
        dtypes="float",
        adjoint=adjoint_math.div,
    ),
    binary(
        "floordiv",
        trunc_div,
        lambda e, op, a, b: e.div(a, b),
        "x // y of integers, towards zero",
        cost=6,
        infer=same_kind(("int", "uint")),
        bind_arguments=bind_floor("//"),
        public=False,
        dtypes="int",
        adjoint=OF_INTEGERS,
    ),
    binary(
        "rem",
        remainder,
        lane_remainder,
        "x % y with the sign of x",
        cost=10,
        bind_arguments=bind_floor("%"),
        public=False,
        adjoint=adjoint_math.rem,
        kink="that of x less a constant multiple of y, also where it jumps.",
    ),
    logic("and_", np.bitwise_and, "and_", "x & y, elementwise"),
    logic("or_", np.bitwise_or, "or_", "x | y, elementwise"),
    logic("xor", np.bitwise_xor, "xor", "x ^ y, elementwise"),
    binary(
        "shl",
        shift(np.left_shift),
        lane_shift(True),
        "x << y, elementwise",
        infer=same_kind(("int", "uint")),
        public=False,
        dtypes="int",
        adjoint=OF_INTEGERS,
    ),
    binary(
        "shr",
        shift(np.right_shift),
        lane_shift(False),
        "x >> y, arithmetic where x is signed, logical where it is unsigned",
        bind_arguments=bind_shr,
        infer=same_kind(("int", "uint")),
        public=False,
        dtypes="int",
        adjoint=OF_INTEGERS,
    ),
    *(
        compare(n, f)
        for n, f in (
            ("eq", np.equal),
            ("ne", np.not_equal),
            ("lt", np.less),
            ("le", np.less_equal),
            ("gt", np.greater),
            ("ge", np.greater_equal),
        )
    ),
    extremum("maximum", np.fmax, np.maximum, "gt", adjoint_math.maximum),
    extremum("minimum", np.fmin, np.minimum, "lt", adjoint_math.minimum),
    OpRow(
        "neg",
        params=_X,
        infer=same_kind(_NUMBERS),
        reference=numpy_op(np.negative),
        lane_rule=lambda e, op, a: e.neg(a),
        bind_arguments=promoted(arithmetic=True),
        traits=_ELEMENTWISE | {"zero_preserving", "exact_in_narrow", "additive", "overflowing"},
        doc="-x, elementwise",
        public=False,
        dtypes="number",
        adjoint=adjoint_math.neg,
    ),
    OpRow(
        "not_",
        params=_X,
        infer=same_kind(_BITS),
        reference=numpy_op(np.invert),
        lane_rule=lambda e, op, a: e.xor(a, e.const(1 if a.dtype.is_bool else -1, a.dtype)),
        bind_arguments=promoted(),
        traits=_ELEMENTWISE | {"width_preserving"},
        doc="~x, elementwise",
        public=False,
        dtypes="int",
        adjoint=OF_INTEGERS,
    ),
    OpRow(
        "where",
        params=(Param("condition"), *_XY),
        infer=infer_where,
        reference=numpy_op(np.where),
        lane_rule=lambda e, op, c, a, b: e.select(c, a, b),
        bind_arguments=bind_where,
        traits=_ELEMENTWISE | {"exact_in_narrow"},
        doc="x where the condition holds, else y. Both are computed.",
        example="where(x > 0, x, 0.0)",
        adjoint=adjoint_math.where,
        kink="all of it for the operand that is chosen, also where the other one is equal; none for the condition.",
    ),
)
