"""Shape simplification: the rewrite rules of `canonicalize` for movement ops, casts and reductions.

Each function is the rule of one op, and its docstring is the algebra. Legality: the result has the same elements in
the same places, and no op is added.

    %1 = broadcast_to %n {shape = [1, 4]}             %3 = broadcast_to %n {shape = [4, 3]}
    %2 = broadcast_to %1 {shape = [3, 4]}      ->
    %3 = permute %2 {dims = [1, 0]}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from pypto.ir.core import Op, Value
from pypto.ir.types import DType
from pypto.ops.build import OpBuilder
from pypto.ops.table import ARG_REDUCTIONS, REDUCTIONS
from pypto.passes.pattern import constant_of


def exact(source: DType, target: DType) -> bool:
    """Whether every value of one dtype is a value of the other."""
    if source == target or source.is_bool:
        return True
    if source.is_float:
        return target.is_float and target.bits > source.bits
    low, high = source.integer_range
    if target.is_float:
        # A fraction of p bits holds every integer below 2**(p + 1), and then the exponent suffices as well.
        return high < 2 << target.format[0]
    return target.is_int and target.integer_range[0] <= low and high <= target.integer_range[1]


def defined_by(v: Value, name: str) -> Op | None:
    """The op that makes `v`, where it has this name."""
    return v.op if v.op is not None and v.op.name == name else None


def moved(b: OpBuilder, op: Op) -> Value | None:
    """Where nothing moves it is x; a constant and a repeated scalar are the same in every shape."""
    (x,), result = op.operands, op.result
    if x.shape == result.shape and op.attrs.get("dims", tuple(range(len(x.shape)))) == tuple(range(len(x.shape))):
        return x
    if (number := constant_of(x)) is not None:
        return b.constant(number, result.dtype, result.shape)
    source = defined_by(x, "broadcast_to")
    return b.broadcast(source.operands[0], result.shape) if source and not source.operands[0].shape else None


def broadcast(b: OpBuilder, op: Op) -> Value | None:
    """broadcast(broadcast(x)) = broadcast(x); a scalar that was given dimensions of size 1 is broadcast as a scalar."""
    (x,), shape = op.operands, op.result.shape
    if inner := defined_by(x, "broadcast_to"):
        return b.emit("broadcast_to", inner.operands[0], shape=shape)
    inner = defined_by(x, "reshape")
    return b.emit("broadcast_to", inner.operands[0], shape=shape) if inner and not inner.operands[0].shape else None


def reshape(b: OpBuilder, op: Op) -> Value | None:
    """reshape(reshape(x)) = reshape(x)."""
    inner = defined_by(op.operands[0], "reshape")
    return b.emit("reshape", inner.operands[0], shape=op.result.shape) if inner else None


def permute(b: OpBuilder, op: Op) -> Value | None:
    """permute(permute(x, p), q) = permute(x, p[q])."""
    inner = defined_by(op.operands[0], "permute")
    if inner is None:
        return None
    return b.emit("permute", inner.operands[0], dims=tuple(inner.attrs["dims"][d] for d in op.attrs["dims"]))


def cast(b: OpBuilder, op: Op) -> Value | None:
    """cast(cast(x, A), B) = cast(x, B) when A keeps every value of x, or wraps and has no fewer bits than B."""
    (x,), target = op.operands, op.result.dtype
    if x.dtype == target:
        return x
    inner = defined_by(x, "cast")
    if inner is None:
        return None
    source = inner.operands[0].dtype
    middle = x.dtype
    wraps = source.is_int and middle.is_int and target.is_int and middle.bits >= target.bits
    # Floats saturate into integers where integers wrap, so an integer that went through a float keeps that way.
    saturates = source.is_int and middle.is_float and target.is_int and not exact(source, target)
    if wraps or (exact(source, middle) and not saturates):
        return b.cast(inner.operands[0], target)
    return None


def bitcast(b: OpBuilder, op: Op) -> Value | None:
    """bitcast(bitcast(x, A), B) = bitcast(x, B), and to its own dtype it is x."""
    (x,), target = op.operands, op.result.dtype
    if x.dtype == target:
        return x
    inner = defined_by(x, "bitcast")
    return b.emit("bitcast", inner.operands[0], dtype=target) if inner else None


def arange(b: OpBuilder, op: Op) -> Value | None:
    """A range of one element is a constant."""
    return b.constant(op.attrs["start"], op.result.dtype, (1,)) if op.result.shape == (1,) else None


def divide(b: OpBuilder, op: Op) -> Value | None:
    """x / 2**k = x * 2**-k, exactly, as long as both are normal numbers of the dtype."""
    x, y = op.operands
    number = constant_of(y)
    if number is None or math.frexp(number)[0] not in (0.5, -0.5):
        return None
    if abs(math.frexp(number)[1] - 1) >= x.dtype.format[1]:
        return None
    return b.emit("mul", x, b.constant(1 / number, x.dtype, x.shape))


def reduction(b: OpBuilder, op: Op) -> Value | None:
    """A reduction along dimensions of size 1 gives what is there."""
    if any(op.operands[0].shape[d] > 1 for d in op.attrs["axes"]):
        return None
    if op.name in ARG_REDUCTIONS:
        return b.constant(0, op.result.dtype, op.result.shape)
    return b.emit("reshape", op.operands[0], shape=op.result.shape)


def repeated(b: OpBuilder, op: Op) -> Value | None:
    """f(broadcast(x), broadcast(y)) = broadcast(f(x, y)): what is the same in many elements is computed once."""
    sources = [v.op.operands[0] for v in op.operands if v.op is not None and v.op.name == "broadcast_to"]
    if not sources or any(s.shape != sources[0].shape for s in sources):
        return None
    if len(sources) + sum(constant_of(v) is not None for v in op.operands) < len(op.operands):
        return None
    shape = sources[0].shape
    remaining = iter(sources)
    operands = list[Value]()
    for v in op.operands:
        number = constant_of(v)
        operands.append(next(remaining) if number is None else b.constant(number, v.dtype, shape))
    return b.broadcast(b.emit(op.name, *operands, **op.attrs), op.result.shape)


Simplify = Callable[[OpBuilder, Op], Value | None]
SHAPE_RULES: Final[Mapping[str, tuple[Simplify, ...]]] = MappingProxyType({
    "broadcast_to": (moved, broadcast), "reshape": (moved, reshape), "permute": (moved, permute), "cast": (cast,),
    "bitcast": (bitcast,), "arange": (arange,), "div": (divide,), **dict.fromkeys(REDUCTIONS, (reduction,)),
})  # fmt: skip
