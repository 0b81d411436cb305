"""Read-after-write hazards in GM for mixed kernels.

The cores of a block are ordered only where they exchange tiles. So a mixed kernel may load what it has stored only if
the same core does both, in the same place.
"""

from __future__ import annotations

from pypto.ir.core import Function, Op
from pypto.ops.memory import Access
from pypto.passes.analysis.memory_effects import accessed_array, is_load, is_noalias, written_arrays


def reloads_of_stored(function: Function) -> list[Op]:
    """Return the loads of arrays that the kernel may store to."""
    written = written_arrays(function)
    loads = [op for op in function.walk() if is_load(op)]
    if None in written or not is_noalias(function):
        return loads if written else []
    return [op for op in loads if accessed_array(op) in (None, *written)]


def loads_results(side: Function, function: Function) -> bool:
    """Whether one side loads from an array that the kernel stores to."""
    written = {array.hint for array in written_arrays(function) if array is not None}
    arrays = (accessed_array(op) for op in side.walk() if is_load(op))
    return any(array is not None and array.hint in written for array in arrays)


def reloads_match_stores(function: Function) -> bool:
    """Whether each of these loads matches a store of the same shape and place, so that one core does both."""
    stores = {place for op in function.walk() if op.name == "tile_store" if (place := access_key(op))}
    return all(op.name == "tile_load" and access_key(op) in stores for op in reloads_of_stored(function))


def access_key(op: Op) -> tuple[object, ...]:
    """Return the shape and place of an access."""
    access = Access.of(op)
    return access.shape, access.base, access.offsets, access.strides
