"""Stores past the caches, for outputs that are larger than the last level.

Registers leave in pieces of 16 bytes, to which numpy aligns its arrays. To store whole registers, rows cut along their
lines, was tried: beside loads it is slower, at most of the places that arrays can have in relation to each other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.lanes import Lanes
from pypto.backends.cpu.memory import STREAM_ALIGN, all_of
from pypto.backends.cpu.plan import root
from pypto.backends.cpu.prefetch import LINE
from pypto.backends.cpu.pull import is_tile
from pypto.ir.core import Op, Value
from pypto.ir.types import int64
from pypto.ops.memory import Access
from pypto.passes.pattern import constant_of

if TYPE_CHECKING:
    from pypto.backends.cpu.access import AccessEmitter

_LONG_ROW: Final = 2048  # bytes


def stored_bytes(access: Access) -> int:
    """Of one element."""
    assert access.value is not None
    return access.value.dtype.itemsize


def stream_alignment(access: Access) -> int:
    """A line that is not filled in one go costs more than it saves; each row has two, unless all is aligned."""
    return STREAM_ALIGN if access.shape[-1] * stored_bytes(access) >= _LONG_ROW else LINE


def never_streams(access: Access) -> str:
    """Why a store never goes past the caches, whatever the launch; empty where it may."""
    row = access.shape[-1] * stored_bytes(access)
    reasons = {
        "a mask decides element by element": access.mask is not None,
        "it goes through a tile of pointers": is_tile(access.base),
        "its rows are not contiguous": constant_of(access.strides[-1]) != 1 or access.shape[-1] == 1,
        f"its rows of {row} bytes are no multiple of {stream_alignment(access)}": row % stream_alignment(access) > 0,
    }
    return next((why for why, holds in reasons.items() if holds), "")


def streamable(memory: AccessEmitter, access: Access, programs: Lanes) -> Lanes | None:
    """Condition under which a store that all programs make goes past the caches; None where it never can."""
    if never_streams(access):
        return None
    e, size = memory.e, memory.e.const(stored_bytes(access), int64)
    strides = [memory.scalar(s) for s in access.strides]
    start = memory.offset(list(zip(map(memory.scalar, access.offsets), strides, strict=True)))
    bits = e.add(memory.scalar(access.base), e.mul(start, size))
    for stride in strides[:-1]:
        bits = e.or_(bits, e.mul(stride, size))
    odd = e.and_(bits, e.const(stream_alignment(access) - 1, int64))
    most = e.target.last_level_bytes // (math.prod(access.shape) * stored_bytes(access))
    return e.and_(e.cmp("gt", programs, e.const(most, int64)), e.cmp("eq", odd, e.const(0, int64)))


def past_caches(memory: AccessEmitter, stores: list[Op], read: set[Value | None], programs: Lanes) -> Lanes | None:
    """Condition under which all stores of a nest go past the caches, where nobody has read their lines."""
    conditions = [streamable(memory, Access.of(op), programs) for op in stores if root(op.operands[0]) not in read]
    return all_of(memory.e, conditions) if None not in conditions and len(conditions) == len(stores) else None
