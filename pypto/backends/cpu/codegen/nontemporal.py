"""Stores past the caches, for launches that move more than the last level holds.

Nobody would find the output there: what is loaded for the next programs pushes it out, and to write through the caches
would fetch it first. Registers leave in pieces of 16 bytes, to which numpy aligns its arrays. To store whole registers,
rows cut along their lines, was tried, with ends in such pieces and through the caches: beside loads it is no faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.codegen.memory import NONTEMPORAL_ALIGN, and_all, memory_dtype
from pypto.backends.cpu.codegen.prefetch import CACHE_LINE, evolution_over
from pypto.backends.cpu.llvm.value import VectorValue
from pypto.backends.cpu.loopir.index_maps import is_tile
from pypto.ir.core import Function, Op, Value
from pypto.ir.types import int64
from pypto.ops.memory import Access
from pypto.passes.memory_effects import read_arrays, root
from pypto.passes.pattern import constant_of

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.nest import NestEmitter
    from pypto.backends.cpu.codegen.tile_access import AccessEmitter

_MIN_ROW_BYTES: Final = 2048  # bytes
_MIN_ELEMENT_BYTES: Final = 4  # bytes of an element


def element_bytes(access: Access) -> int:
    """Of one element."""
    assert access.value is not None
    return access.value.dtype.itemsize


def arrays_read(function: Function) -> tuple[frozenset[Value | None], int]:
    """Arrays that are read, and bytes that a program loads of those of which others load other parts.

    Products load the same again and again: their bytes are left out.
    """
    ops = list(function.walk())
    many = any(op.name == "dot" for op in ops)
    return read_arrays(function), 0 if many else loaded_bytes(function.body.ops)


def loaded_bytes(ops: Iterable[Op], loop: Op | None = None) -> int:
    """Bytes that these ops of a program, or of one turn of a loop, load where others load other parts."""
    most: dict[Value | None, int] = {}
    for op in ops:
        loaded = Access.of(op) if op.name == "tile_load" else None
        if loaded is not None and varies(loaded, loop):
            size = math.prod(loaded.shape) * memory_dtype(op.results[0].tile.elem).itemsize
            most[root(loaded.base)] = max(size, most.get(root(loaded.base), 0))
    return sum(most.values())


def varies(access: Access, loop: Op | None) -> bool:
    """Whether another program, or turn of a loop, may access another place."""
    evolution = evolution_over(loop)
    return not all(evolution.is_invariant(v, loop or 0) for v in (access.base, *access.offsets))


def moved_bytes(access: Access, loaded: int) -> int:
    """What a program stores there, and what it loads.

    Narrow elements fill a line so slowly that its pieces leave one by one: they stay in the caches that hold them.
    """
    size = element_bytes(access)
    return math.prod(access.shape) * size + (loaded if size >= _MIN_ELEMENT_BYTES else 0)


def nontemporal_alignment(access: Access) -> int:
    """A line that is not filled in one go costs more than it saves; each row has two, unless all is aligned."""
    return NONTEMPORAL_ALIGN if access.shape[-1] * element_bytes(access) >= _MIN_ROW_BYTES else CACHE_LINE


def why_not_nontemporal(access: Access) -> str:
    """Why a store never goes past the caches, whatever the launch; empty where it may."""
    row = access.shape[-1] * element_bytes(access)
    reasons = {
        "a mask decides element by element": access.mask is not None,
        "it goes through a tile of pointers": is_tile(access.base),
        "its rows are not contiguous": constant_of(access.strides[-1]) != 1 or access.shape[-1] == 1,
        f"its rows of {row} bytes are no multiple of {nontemporal_alignment(access)}": row
        % nontemporal_alignment(access)
        > 0,
    }
    return next((why for why, holds in reasons.items() if holds), "")


def streaming_condition(
    memory: AccessEmitter, access: Access, programs: VectorValue, loaded: int
) -> VectorValue | None:
    """Condition under which a store that all programs make goes past the caches; None where it never can."""
    if why_not_nontemporal(access):
        return None
    e, size = memory.e, memory.e.const(element_bytes(access), int64)
    strides = [memory.scalar(s) for s in access.strides]
    start = memory.offset(list(zip(map(memory.scalar, access.offsets), strides, strict=True)))
    bits = e.add(memory.scalar(access.base), e.mul(start, size))
    for stride in strides[:-1]:
        bits = e.or_(bits, e.mul(stride, size))
    odd = e.and_(bits, e.const(nontemporal_alignment(access) - 1, int64))
    most = e.target.caches[-1] // moved_bytes(access, loaded)
    return e.and_(e.cmp("gt", programs, e.const(most, int64)), e.cmp("eq", odd, e.const(0, int64)))


def is_written_once(access: Access, loop: Op | None) -> bool:
    """False for what a loop stores to one place again and again."""
    return loop is None or varies(access, loop)


def nontemporal_condition(nest: NestEmitter) -> VectorValue | None:
    """Condition under which all stores of a nest go past the caches, where nobody has read their lines."""
    unread = [
        a for a in map(Access.of, nest.stores) if root(a.base) not in nest.arrays_read and is_written_once(a, nest.loop)
    ]
    conditions = [streaming_condition(nest.memory, access, nest.program_count, nest.bytes_loaded) for access in unread]
    return and_all(nest.e, conditions) if None not in conditions and len(conditions) == len(nest.stores) else None
