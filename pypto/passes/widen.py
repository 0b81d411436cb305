"""Widening of index arithmetic to 64 bits: addresses, and masks that guard them, are exact for every type of the index.

Kernels count in int32 (`program_id` is one), and arrays may have more than 2**31 elements. Where an int32 expression
becomes an address or is compared in a mask, its sums and products are computed from the widened operands.

Legality: the result is the same where int32 does not overflow, and the exact one where it does. Other uses of the
int32 value read it as before.

    %o = mul %pid, %n : i32                    %w = cast %pid : i64   %v = cast %n : i64
    %p = addptr %base, cast(%o)        ->      %p = addptr %base, mul(%w, %v)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter
from pypto.ir.types import int32, int64
from pypto.ops.build import OpBuilder
from pypto.ops.memory import Access
from pypto.ops.table import MOVEMENT_OPS, OVERFLOWING_OPS
from pypto.passes.analysis.carried import flow_sources

_COMPARES: Final = frozenset({"lt", "le", "gt", "ge"})
_LOGIC: Final = frozenset({"and_", "or_", "not_", "xor"})


def widen(function: Function) -> Function:
    """Compute addresses and their masks in 64 bits."""
    chosen = addressing(function)
    return _Widener(OpBuilder(Region()), _rule, chosen=chosen, exact=exact(function, chosen)).function(function)


@dataclass
class _Widener(Rewriter[OpBuilder]):
    """Emits the wide arithmetic beside the narrow."""

    chosen: set[Op] = field(default_factory=set)  # casts and comparisons
    exact: set[Op] = field(default_factory=set)  # arithmetic in int32 that is done in 64 bits too
    widened: dict[Value, Value] = field(default_factory=dict)

    def widened_value(self, v: Value) -> Value:
        """A value in 64 bits; of int32 arithmetic, its result without overflow."""
        return self.widened[v] if v in self.widened else self.builder.cast(v, int64)


def addressing(function: Function) -> set[Op]:
    """The casts and comparisons that addresses and masks depend on."""
    names = _COMPARES | _LOGIC | {"cast", *OVERFLOWING_OPS, *MOVEMENT_OPS}
    return behind([v for op in function.walk() for v in roots(op)], lambda op: op.name in names, flow_sources(function))


def exact(function: Function, chosen: set[Op]) -> set[Op]:
    """The int32 arithmetic that offsets and the chosen casts and comparisons depend on."""
    names = (*OVERFLOWING_OPS, *MOVEMENT_OPS)
    used = (op for op in function.walk() if op.name == "addptr" or op in chosen)
    return behind([v for op in used for v in op.operands], lambda op: op.name in names and op.result.tile.elem == int32)


def behind(
    work: list[Value], is_meant: Callable[[Op], bool], sources: Mapping[Value, list[Value]] = MappingProxyType({})
) -> set[Op]:
    """Backward slice: the ops for which `is_meant` holds that values depend on, up to comparisons."""
    ops = set[Op]()
    unvisited = dict(sources)
    while work:
        v = work.pop()
        work += unvisited.pop(v, ())
        if v.op is not None and v.op not in ops and is_meant(v.op):
            ops.add(v.op)
            work += v.op.operands if v.op.name not in _COMPARES else ()
    return ops


def roots(op: Op) -> Iterator[Value]:
    """The offsets and masks of an op."""
    if op.name == "addptr":
        yield op.operands[1]
    elif op.name in ("load", "store"):
        yield from op.operands[1 if op.name == "load" else 2 :][:1]
    elif op.name in ("tile_load", "tile_store"):
        access = Access.of(op)
        yield from (*access.offsets, *access.extents, *([access.mask] if access.mask is not None else []))


def _rule(rewriter: _Widener, op: Op) -> Sequence[Value] | None:
    """Widening of one op."""
    b = rewriter.builder
    operands = rewriter.operands(op)
    if op.name == "addptr":
        return [b.emit("addptr", operands[0], rewriter.widened_value(operands[1]))]
    if op in rewriter.exact:
        narrow = rewriter.copy(op).result
        exact_result = b.emit(op.name, *map(rewriter.widened_value, operands), **op.attrs)
        exact_result.hint = exact_result.hint or op.result.hint
        rewriter.widened[narrow] = exact_result
        return [narrow]
    if op not in rewriter.chosen or not operands or operands[0].tile.elem != int32:
        return None
    if op.name in _COMPARES and op.result.shape:
        return [b.emit(op.name, *map(rewriter.widened_value, operands))]
    return [rewriter.widened_value(operands[0])] if op.name == "cast" and op.result.dtype == int64 else None
