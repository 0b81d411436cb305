"""Non-temporal stores: outputs of launches that move more bytes than the last-level cache holds bypass the caches.

Such an output would be evicted before anybody reads it, and a store through the caches reads its line first. Registers
are stored in pieces of 16 bytes, to which numpy aligns its arrays. To cut rows along cache lines and store whole
registers was tried: beside loads it is no faster.

Legal for any store; what a program stores is ordered by a fence at the end of the kernel. Not done for arrays that the
kernel reads, whose lines may be in cache, and for lines that are not filled at once.

    if programs * bytes moved > last-level cache and the rows are aligned: store nontemporal
    else: store
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.codegen.memory import NONTEMPORAL_ALIGN, and_all, memory_dtype
from pypto.backends.cpu.codegen.prefetch import evolution_over
from pypto.backends.cpu.loopir.index_maps import is_tile
from pypto.backends.llvm.value import VectorValue
from pypto.ir.core import Function, Op, Value
from pypto.ir.types import int64
from pypto.ops.memory import Access
from pypto.passes.analysis.memory_effects import read_arrays, root
from pypto.passes.pattern import constant_of
from pypto.passes.target_facts import CACHE

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.nest import NestEmitter
    from pypto.backends.cpu.codegen.tile_access import AccessEmitter

_MIN_ROW_BYTES: Final = 2048  # of a row whose first and last line need not be full
_MIN_ELEMENT_BYTES: Final = 4  # of elements that fill a line before it is flushed


def element_bytes(access: Access) -> int:
    """Bytes of one element of a store."""
    assert access.value is not None
    return access.value.dtype.itemsize


def arrays_read(function: Function) -> tuple[frozenset[Value | None], int]:
    """The arrays that a kernel reads, and the bytes that one program loads and no other program does.

    Products read the same panels again and again; their bytes are not counted.
    """
    ops = list(function.walk())
    has_product = any(op.name == "dot" for op in ops)
    return read_arrays(function), 0 if has_product else loaded_bytes(function.body.ops)


def loaded_bytes(ops: Iterable[Op], loop: Op | None = None) -> int:
    """Bytes that ops of a program, or of one iteration of a loop, load and that others do not load."""
    largest: dict[Value | None, int] = {}  # by array
    for op in ops:
        loaded = Access.of(op) if op.name == "tile_load" else None
        if loaded is not None and varies(loaded, loop):
            size = math.prod(loaded.shape) * memory_dtype(op.results[0].tile.elem).itemsize
            array = root(loaded.base)
            largest[array] = max(size, largest.get(array, 0))
    return sum(largest.values())


def varies(access: Access, loop: Op | None) -> bool:
    """Whether the address of an access depends on the program, or on the iteration of a loop."""
    evolution = evolution_over(loop)
    return not all(evolution.is_invariant(v, loop or 0) for v in (access.base, *access.offsets))


def moved_bytes(access: Access, loaded: int) -> int:
    """Bytes that a program moves for a store: stored ones, and loaded ones.

    Loads do not count beside elements below 4 bytes: those fill a line so slowly that the write-combining buffer is
    flushed before it is full.
    """
    size = element_bytes(access)
    return math.prod(access.shape) * size + (loaded if size >= _MIN_ELEMENT_BYTES else 0)


def nontemporal_alignment(access: Access) -> int:
    """The alignment that rows need.

    Short rows must fill whole lines, since a line that is not filled at once costs more than it saves.
    """
    return NONTEMPORAL_ALIGN if access.shape[-1] * element_bytes(access) >= _MIN_ROW_BYTES else CACHE.line


def why_not_nontemporal(access: Access) -> str:
    """Why a store is never non-temporal; empty where it may be."""
    row = access.shape[-1] * element_bytes(access)
    alignment = nontemporal_alignment(access)
    reasons = {
        "a mask decides element by element": access.mask is not None,
        "it goes through a tile of pointers": is_tile(access.base),
        "its rows are not contiguous": constant_of(access.strides[-1]) != 1 or access.shape[-1] == 1,
        f"its rows of {row} bytes are no multiple of {alignment}": row % alignment > 0,
    }
    return next((why for why, holds in reasons.items() if holds), "")


def streaming_condition(
    memory: AccessEmitter, access: Access, programs: VectorValue, loaded: int
) -> VectorValue | None:
    """The run-time condition under which one store is non-temporal; None where it never is."""
    if why_not_nontemporal(access):
        return None
    e = memory.e
    size = e.const(element_bytes(access), int64)
    strides = [memory.scalar(s) for s in access.strides]
    start = memory.offset(list(zip(map(memory.scalar, access.offsets), strides, strict=True)))
    bits = e.add(memory.scalar(access.base), e.mul(start, size))
    for stride in strides[:-1]:
        bits = e.or_(bits, e.mul(stride, size))
    misalignment = e.and_(bits, e.const(nontemporal_alignment(access) - 1, int64))
    cached_programs = e.target.caches[-1] // moved_bytes(access, loaded)
    exceeds_cache = e.cmp("gt", programs, e.const(cached_programs, int64))
    return e.and_(exceeds_cache, e.cmp("eq", misalignment, e.const(0, int64)))


def is_written_once(access: Access, loop: Op | None) -> bool:
    """Whether a loop stores to each address once."""
    return loop is None or varies(access, loop)


def nontemporal_condition(nest: NestEmitter) -> VectorValue | None:
    """The run-time condition under which all stores of a nest are non-temporal; None where they never are."""
    accesses = [Access.of(op) for op in nest.stores]
    suitable = [a for a in accesses if root(a.base) not in nest.arrays_read and is_written_once(a, nest.loop)]
    conditions = [streaming_condition(nest.memory, a, nest.program_count, nest.bytes_loaded) for a in suitable]
    return and_all(nest.e, conditions) if None not in conditions and len(conditions) == len(accesses) else None
