"""Kernels that read what they write: the cores of a block have no order between them but where tiles go over."""

from __future__ import annotations

from pypto.ir.core import Function, Op
from pypto.ops.memory import Access
from pypto.passes.memory_effects import accessed_array, is_load, is_noalias, written_arrays


def reloads_of_stored(function: Function) -> list[Op]:
    """The loads of arrays that are stored to, or may be."""
    written = written_arrays(function)
    loads = [op for op in function.walk() if is_load(op)]
    if None in written or not is_noalias(function):
        return loads if written else []
    return [op for op in loads if accessed_array(op) in (None, *written)]


def loads_results(side: Function, function: Function) -> bool:
    """Whether one side of a kernel loads from an array that the kernel stores to."""
    written = {array.hint for array in written_arrays(function) if array is not None}
    arrays = (accessed_array(op) for op in side.walk() if is_load(op))
    return any(array is not None and array.hint in written for array in arrays)


def reloads_match_stores(function: Function) -> bool:
    """Whether all of these are of elements that a store of the same shape is to, so that one core has both."""
    stores = {place for op in function.walk() if op.name == "tile_store" if (place := access_key(op))}
    return all(op.name == "tile_load" and access_key(op) in stores for op in reloads_of_stored(function))


def access_key(op: Op) -> tuple[object, ...]:
    access = Access.of(op)
    return access.shape, access.base, access.offsets, access.strides
