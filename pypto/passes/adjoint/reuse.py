"""Reuse of results: the backward reads what the forward kernel stored, where it would compute the value again.

The caller promises that the array holds what the forward launch stored. Legal for a stored value that nothing else
uses: where an element is not stored, its gradient is 0, and what is read in its place does not count.

The numerator of a stored quotient is the quotient times the denominator, so that an exponential is not computed again,
either. Legal where nothing else uses the numerator, or where all elements are stored.

    %e = exp %x                                        %y = tile_load %py, …
    %y = div %e, (broadcast %s)               ->       %e = mul %y, (broadcast %s)
    tile_store %py, …, %y
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pypto.ir.core import Function, Op, Value
from pypto.ops.memory import Access
from pypto.passes.adjoint.activity import is_real
from pypto.passes.adjoint.memory import GradientArray, GradientMemory
from pypto.passes.adjoint.ownership import Accumulation
from pypto.passes.analysis.memory_effects import accessed_array
from pypto.passes.pattern import constant_of


@dataclass(frozen=True)
class ReusedResult:
    """A stored value that is read again. `conversions` lead from it to what is stored; `quotient` is its division."""

    store: Op
    value: Value
    conversions: tuple[Op, ...]
    quotient: Op | None


def reused_results(function: Function, names: Collection[str]) -> Mapping[Op, ReusedResult]:
    """The stores to arrays of some names whose values may be read again."""
    uses = Counter(v for op in function.walk() for v in op.operands)
    results: dict[Op, ReusedResult] = {}
    for op in function.walk():
        array = accessed_array(op) if op.name in ("store", "tile_store") else None
        if array is None or array.hint not in names:
            continue
        v = stored_value(op)
        conversions: list[Op] = []
        while uses[v] == 1 and v.op is not None and v.op.name in ("cast", "reshape") and is_real(v.op.operands[0]):
            conversions.append(v.op)
            v = v.op.operands[0]
        if uses[v] == 1 and is_real(v) and v.op is not None and not v.op.regions:
            is_quotient = v.op.name == "div" and (uses[v.op.operands[0]] == 1 or stores_all_elements(op))
            results[op] = ReusedResult(op, v, tuple(conversions), v.op if is_quotient else None)
    return results


def stores_all_elements(op: Op) -> bool:
    """Whether every element of the tile is in the array, but for dimensions of one index."""
    if op.name != "tile_store" or op.attrs["masked"]:
        return False
    access = Access.of(op)
    for size, offset, extent in zip(access.shape, access.offsets, access.extents, strict=True):
        if size > 1 and not (constant_of(offset) == 0 and (constant_of(extent) or 0) >= size):
            return False
    return True


def reload(memory: GradientMemory, result: ReusedResult, primal: dict[Value, Value]) -> None:
    """Let a value be what its array holds."""
    b = memory.builder
    array = accessed_array(result.store)
    assert array is not None
    v = memory.read(result.store, GradientArray(primal[array], Accumulation.STORE), primal)
    for op in result.conversions:
        source = op.operands[0]
        v = b.cast(v, source.dtype) if op.name == "cast" else b.emit("reshape", v, shape=source.shape)
    primal[result.value] = v
    if result.quotient is not None:
        above, below = result.quotient.operands
        primal[above] = b.emit("mul", v, primal[below])


def stored_value(op: Op) -> Value:
    """What a store or an atomic op takes to memory."""
    if op.name == "tile_store":
        n = len(op.attrs["shape"])
        return op.operands[1 + 3 * n]
    return op.operands[1]
