"""Which array arguments a pointer may come from."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from pypto.ir.core import Function, Op, Value
from pypto.ir.types import TileType
from pypto.ops.row import Effect
from pypto.ops.table import TABLE
from pypto.passes import carried


def pointer_roots(function: Function) -> dict[Value, frozenset[str]]:
    """The array arguments that each pointer may come from, through loops and branches too."""
    roots: dict[Value, frozenset[str]] = {}
    before, addresses = -1, any(op.name == "ptr_cast" for op in function.walk())  # then integers may be pointers, too
    while before != (before := sum(map(len, roots.values()))):
        for op in function.walk():
            if op.name == "array_ptr":
                roots[op.result] = frozenset({op.operands[0].hint})
            for v, source in flows(op):
                if not (isinstance(v.type, TileType) and (v.type.is_ptr or addresses)) or holds_data(op):
                    continue
                roots[v] = roots.get(v, frozenset()) | roots.get(source, frozenset())
    return roots


def holds_data(op: Op) -> bool:
    """Whether an op gives what was in memory, not addresses made of its operands."""
    return TABLE[op.name].effect in (Effect.READ, Effect.ATOMIC)


def flows(op: Op) -> Iterator[tuple[Value, Value]]:
    """Pairs of values, the second of which the first may be or be made from."""
    return carried.flows(op) if op.name in carried.LAYOUTS else itertools.product(op.results, op.operands)
