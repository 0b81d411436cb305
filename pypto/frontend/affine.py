"""Index scalars as sums of terms, to see that `i + BLOCK` minus `i` is `BLOCK`.

Equal pure expressions get one number, so that `program_id(0) * 4` written twice is one term. Conversions between
integer types count as nothing: positions are exact in 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pypto.ir.core import Value
from pypto.ops.row import Effect
from pypto.ops.table import TABLE

Linear = dict[int | None, int]  # coefficient per term, and the constant under None
_DEPTH = 64


def difference(numbers: dict[Any, int], high: Value | int, low: Value | int) -> int | None:
    """`high - low` where that is a constant."""
    form = add(linear(numbers, high, _DEPTH), linear(numbers, low, _DEPTH), -1)
    return None if set(form) - {None} else form.get(None, 0)


def linear(numbers: dict[Any, int], x: Value | int, depth: int) -> Linear:
    if isinstance(x, int):
        return {None: x}
    op = x.op
    if op is None or depth == 0:
        return {number(numbers, x, depth): 1}
    if op.name == "constant":
        value = op.attrs["value"]
        return {None: value} if isinstance(value, int) else {number(numbers, x, depth): 1}
    if op.name == "cast" and op.operands[0].dtype.is_int and x.dtype.bits >= op.operands[0].dtype.bits:
        return linear(numbers, op.operands[0], depth - 1)
    if op.name not in ("add", "sub", "mul", "neg"):
        return {number(numbers, x, depth): 1}
    parts = [linear(numbers, v, depth - 1) for v in op.operands]
    return combine(op.name, parts) or {number(numbers, x, depth): 1}


def combine(name: str, parts: list[Linear]) -> Linear | None:
    if name == "neg":
        return add({}, parts[0], -1)
    if name != "mul":
        return add(parts[0], parts[1], 1 if name == "add" else -1)
    for factor, other in (parts, parts[::-1]):
        if not set(factor) - {None}:
            return add({}, other, factor.get(None, 0))
    return None


def add(a: Linear, b: Linear, scale: int) -> Linear:
    result = dict(a)
    for term, factor in b.items():
        result[term] = result.get(term, 0) + factor * scale
    return {t: f for t, f in result.items() if f}


def number(numbers: dict[Any, int], x: Value, depth: int) -> int:
    """The same number for the same pure expression."""
    if x not in numbers:
        key = tuple(structure(numbers, x, depth))
        numbers[x] = numbers.setdefault(key, len(numbers))
    return numbers[x]


def structure(numbers: dict[Any, int], x: Value, depth: int) -> Iterator[Any]:
    op = x.op
    if op is None or depth == 0 or op.regions or TABLE[op.name].effect is not Effect.PURE:
        yield x
        return
    yield op.name
    yield op.results.index(x)
    yield x.type
    for key, value in op.attrs.items():
        yield key, type(value), value
    for v in op.operands:
        yield number(numbers, v, depth - 1)
