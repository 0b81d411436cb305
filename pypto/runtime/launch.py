"""The launch: from arguments to a filled argument block, as little as possible for a call that was seen before."""

from __future__ import annotations

import ctypes
import math
import operator
import struct
import threading
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from pypto.backends.base import Slot
from pypto.errors.launch import WrongGrid
from pypto.ir.types import DType, float32, int32
from pypto.runtime.arrays import ArrayInfo, data_offset, scalar_bits

Grid = int | tuple[int, ...] | Callable[[Mapping[str, Any]], Any]
_MOST_PROGRAMS: Final = 2**31 - 1  # per axis: program_id is an int32
_INT32: Final = range(-(2**31), 2**31)
_DATA: Final = data_offset()
_PLAIN: Final = (bool, float, str, type(None))
FIXED_SLOTS: Final = 5


def check_grid(grid: Any, arguments: Callable[[], Mapping[str, Any]], kernel: str) -> tuple[int, int, int]:
    """A grid as three sizes.

    Raises
    ------
    WrongGrid
        When it is none: not whole numbers, negative, more than three, absurdly large.
    """
    if callable(grid):
        grid = grid(arguments())
    sizes = tuple(grid) if isinstance(grid, tuple | list) else (grid,)
    if not 1 <= len(sizes) <= 3:
        raise WrongGrid(kernel=kernel, grid=grid, problem=f"it has {len(sizes)} axes")
    try:
        whole = tuple(operator.index(n) for n in sizes)
    except TypeError:
        raise WrongGrid(kernel=kernel, grid=grid, problem="its sizes must be whole numbers") from None
    for n in whole:
        if not 0 <= n <= _MOST_PROGRAMS:
            raise WrongGrid(kernel=kernel, grid=grid, problem=f"{n} is not between 0 and {_MOST_PROGRAMS}")
    x, y, z = (*whole, 1, 1)[:3]
    return x, y, z


def fingerprint(values: tuple[Any, ...], constant: tuple[bool, ...]) -> tuple[Any, ...] | None:
    """All that a compiled version could depend on, or None when the arguments have no cheap key."""
    key: list[Any] = []
    for value, fixed in zip(values, constant, strict=True):
        kind = type(value)
        if kind is np.ndarray:
            key.append((value.dtype, value.shape, value.strides, value.flags.writeable))
        elif kind is int:
            key.append((kind, value) if fixed or value not in _INT32 else (kind, value == 1, 0))
        elif fixed and kind in _PLAIN:
            key.append((kind, value, math.copysign(1.0, value) if kind is float else 0))
        elif kind in _PLAIN:
            key.append((kind, value if kind is str else 0))
        elif isinstance(value, DType):
            key.append(value)
        elif kind.__module__ == "torch" and hasattr(value, "data_ptr"):
            if value.device.type != "cpu":
                return None
            key.append((value.dtype, value.layout, tuple(value.shape), value.stride()))
        else:
            return None
    return tuple(key)


def address_of(value: Any) -> int:
    """Address of an array's first element."""
    if type(value) is np.ndarray:
        if _DATA:
            return ctypes.c_int64.from_address(id(value) + _DATA).value
        return int(value.ctypes.data)
    return int(value.data_ptr()) if hasattr(value, "data_ptr") else int(np.asarray(value).ctypes.data)


class Scratch(threading.local):
    """Scratch memory of the calling thread's launches; it grows and is kept."""

    def __init__(self) -> None:
        self.memory: Any = None
        self.bytes = 0
        self.address = 0

    def at_least(self, size: int) -> int:
        if size > self.bytes:
            self.memory = np.empty(size + 4096, np.uint8)
            self.bytes = size
            self.address = (self.memory.ctypes.data + 4095) // 4096 * 4096
        return self.address


@dataclass
class Plan:
    """How to launch one compiled version for arguments of one fingerprint.

    `values` is the argument block with all that the fingerprint fixes; `pointers` and `numbers` say what is still to be
    filled in, as (slot, position of the argument) and the number's dtype.
    """

    program: Any
    values: list[int]
    pointers: list[tuple[int, int]] = field(default_factory=list)
    numbers: list[tuple[int, int, DType]] = field(default_factory=list)

    @staticmethod
    def make(program: Any, abi: tuple[Slot, ...], names: tuple[str, ...], infos: Mapping[str, Any]) -> Plan:
        plan = Plan(program, [0] * (FIXED_SLOTS + len(abi)))
        for i, slot in enumerate(abi, FIXED_SLOTS):
            info = infos[slot.arg]
            if slot.kind == "scalar":
                plan.numbers.append((i, names.index(slot.arg), slot.dtype))
            elif slot.kind == "ptr":
                plan.pointers.append((i, names.index(slot.arg)))
            else:
                plan.values[i] = info.shape[slot.dim] if slot.kind == "shape" else info.strides[slot.dim]
        return plan

    def block(self, grid: tuple[int, int, int], scratch: int, scratch_bytes: int, arguments: tuple[Any, ...],
              addresses: Mapping[int, int]) -> Any:
        """The filled argument block."""
        values = self.values.copy()
        values[0], values[1], values[2] = grid
        values[3], values[4] = scratch, scratch_bytes
        for i, position in self.pointers:
            values[i] = addresses[position]
        for i, position, dtype in self.numbers:
            values[i] = number_bits(arguments[position], dtype)
        return array("q", values)


def number_bits(value: Any, dtype: DType) -> int:
    """A number argument as the signed 64 bits of its slot."""
    if dtype is int32 and type(value) is int:
        return value
    if dtype is float32 and type(value) is float and abs(value) < 3e38:
        bits: int = struct.unpack("<i", struct.pack("<f", value))[0]
        return bits
    bits = scalar_bits(value, dtype)
    return bits - 2**64 if bits >= 2**63 else bits


@dataclass(frozen=True, slots=True)
class Overlaps:
    """Which argument pairs must be disjoint, with the bytes that each array reaches over."""

    pairs: tuple[tuple[int, int], ...]
    reach: Mapping[int, tuple[int, int]]

    @staticmethod
    def make(written: frozenset[str], names: tuple[str, ...], infos: Mapping[str, Any]) -> Overlaps:
        arrays = [i for i, n in enumerate(names) if isinstance(infos.get(n), ArrayInfo)]
        outputs = [i for i in arrays if names[i] in written]
        pairs = {(min(a, b), max(a, b)) for a in outputs for b in arrays if a != b}
        return Overlaps(tuple(sorted(pairs)), {i: infos[names[i]].reach for i in arrays})

    def disjoint(self, addresses: Mapping[int, int]) -> bool:
        for a, b in self.pairs:
            (low_a, high_a), (low_b, high_b) = self.reach[a], self.reach[b]
            if addresses[a] + low_a < addresses[b] + high_b and addresses[b] + low_b < addresses[a] + high_a:
                return False
        return True
