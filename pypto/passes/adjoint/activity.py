"""Activity analysis: the float values that depend on the arrays by which a kernel is differentiated.

Only active values have gradients. The analysis goes forward from the loads of these arrays, through ops, loops and
branches. What becomes an integer or a truth value ends there: it is constant nearby.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pypto.ir.core import Function, Op, Value
from pypto.ir.types import TileType
from pypto.ops.adjoint import OF_BITS
from pypto.ops.table import TABLE
from pypto.passes.analysis.carried import LAYOUTS, flows
from pypto.passes.analysis.memory_effects import accessed_array, is_load, is_pure


def active_values(function: Function, arrays: Collection[Value], constants: Collection[Value] = ()) -> frozenset[Value]:
    """The float values that depend on elements of some arrays, but for those that are constants to the sweep."""
    active: set[Value] = set()
    before = -1
    while before != len(active):
        before = len(active)
        for op in function.walk():
            active.update(v for v in newly_active(op, arrays, active) if is_real(v) and v not in constants)
    return frozenset(active)


def newly_active(op: Op, arrays: Collection[Value], active: set[Value]) -> Iterator[Value]:
    if is_load(op):
        if accessed_array(op) in arrays or not active.isdisjoint(op.operands[1:]):
            yield from op.results
    elif op.name in LAYOUTS:
        yield from (v for v, source in flows(op) if source in active)
    elif is_pure(op) and not active.isdisjoint(op.operands):
        yield from op.results


def bit_patterns(function: Function, active: Collection[Value]) -> frozenset[Value]:
    """The integers that are made of the bits of active values, as the keys of a sort are."""
    patterns: set[Value] = set()
    before = -1
    while before != len(patterns):
        before = len(patterns)
        for op in function.walk():
            if op.name in LAYOUTS:
                patterns.update(v for v, source in flows(op) if source in patterns)
            elif is_pure(op) and any(reads_bits(op, v, active) or v in patterns for v in op.operands):
                patterns.update(v for v in op.results if is_number(v) and not is_real(v))
    return frozenset(patterns)


def reads_bits(op: Op, v: Value, active: Collection[Value]) -> bool:
    return TABLE[op.name].adjoint is OF_BITS and v in active


def is_number(v: Value) -> bool:
    """Whether a value is a tile or scalar of numbers, so neither of truth values nor of pointers."""
    return isinstance(v.type, TileType) and not v.type.is_ptr and not v.dtype.is_bool


def is_real(v: Value) -> bool:
    """Whether a value is a tile or scalar of floats."""
    return isinstance(v.type, TileType) and not v.type.is_ptr and v.dtype.is_float
