"""Evaluation of the scalar unit's numbers, as far as they are known without running a kernel."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.blockir.ir import Expr, Read, Scalar, View
from pypto.ir.types import named

_BINARY_OPS: Final[Mapping[str, Callable[[int, int], int]]] = MappingProxyType({
    "+": operator.add, "-": operator.sub, "*": operator.mul, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "&&": lambda a, b: bool(a and b), "||": lambda a, b: bool(a or b), "min": min, "max": max,
})  # fmt: skip


def value_of(
    value: Scalar, values: dict[str, int | None], read: Callable[[View], int | None] | None = None
) -> int | None:
    """Evaluate a number, None where it depends on data that `read` does not know."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return values.get(value)
    if not isinstance(value, Expr):
        return read(value.view) if isinstance(value, Read) and read is not None else None
    args = [value_of(x, values, read) for x in value.args]
    known = [x for x in args if x is not None]
    if len(known) < len(args):
        return None
    if named(value.op) is not None:
        return known[0]
    if value.op == "?:":
        return known[1] if known[0] else known[2]
    if value.op == "not":
        return int(not known[0])
    return _computed(value.op, *known) if len(known) == 2 else None


def _computed(op: str, a: int, b: int) -> int | None:
    """Apply a binary operator as the scalar unit does: division rounds towards zero."""
    if op in ("//", "%"):
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0
        return quotient if op == "//" else a - quotient * b
    if op in ("<<", ">>"):
        return (a << b if op == "<<" else a >> b) if 0 <= b < 64 else None
    return None if op not in _BINARY_OPS else int(_BINARY_OPS[op](a, b))
