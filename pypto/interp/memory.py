"""Memory as the interpreter sees it: every array in a segment of its own, so that a pointer never loses its array.

A pointer is a 64-bit number: the array's number in the upper bits, the distance in bytes from the array's first
element in the lower ones.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from pypto.errors.interp import OutOfBounds, UninitializedRead, WildPointer, WriteRace
from pypto.ir.types import DType
from pypto.loc import Loc

Array = np.ndarray[Any, Any]
_SEGMENT = 44
_ORIGIN = 1 << (_SEGMENT - 1)  # the first element lies in the middle, so that negative distances stay inside
_NOWHERE = -1 << 62  # added to addresses that lie in no array: these pointers are negative
_NOBODY = 0  # programs count from 1: memory that nobody writes stays untouched zeros


class ArrayArg(Protocol):
    """An array argument by address, such as a launch's `ArrayInfo`. Strides are in elements."""

    @property
    def address(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def reach(self) -> tuple[int, int]:
        """First byte and byte after the last one, counted from the first element."""


def index_text(arg: ArrayArg, distance: int) -> str:
    """Index of the element that many elements from the first, as the author would write it; flat when outside."""
    index, remainder = [0] * len(arg.shape), distance
    for d in sorted(range(len(arg.shape)), key=lambda d: -abs(arg.strides[d])):
        if arg.strides[d]:
            index[d], remainder = divmod(remainder, arg.strides[d])
    return ", ".join(map(str, index)) if remainder == 0 else str(distance)


@dataclass
class Segment:
    """An array's memory, with who wrote each element (once someone did) and which are filled.

    `exists` tells the elements from what lies between them, where the array is not all of its memory.
    """

    name: str
    arg: ArrayArg
    data: Array
    low: int
    exists: Array | None
    writer: Array
    filled: Array | None

    def aligned(self, at: Array, item: int) -> bool:
        return item == self.arg.dtype.itemsize and not (at % item).any()

    def touched(self, at: Array, item: int) -> Array:
        """Numbers of the elements that accesses of `item` bytes touch, which begin `at` bytes into the memory."""
        size = self.arg.dtype.itemsize
        return at // size if self.aligned(at, item) else (at[..., None] + np.arange(item)) // size

    def read(self, at: Array, dtype: np.dtype[Any]) -> Array:
        item = dtype.itemsize
        if self.aligned(at, item):
            return np.asarray(self.data.view(dtype)[at // item])
        return np.asarray(self.data.view(np.uint8)[at[..., None] + np.arange(item)].view(dtype)[..., 0])

    def write(self, at: Array, value: Array) -> None:
        item = value.dtype.itemsize
        if self.aligned(at, item):
            self.data.view(value.dtype)[at // item] = value
        else:
            self.data.view(np.uint8)[at[..., None] + np.arange(item)] = value[..., None].view(np.uint8)


def elements(arg: ArrayArg, size: int) -> Array | None:
    """Which places of an array's memory are its elements; None for all."""
    shape = tuple(n if s else min(n, 1) for n, s in zip(arg.shape, arg.strides, strict=True))
    if size == math.prod(shape):
        return None
    exists = np.zeros(size, bool)
    first = exists[-arg.reach[0] // arg.dtype.itemsize :]
    np.lib.stride_tricks.as_strided(first, shape, arg.strides)[...] = True
    return exists


@dataclass
class Memory:
    """All arrays of a launch. Each access is checked before it is made."""

    segments: list[Segment] = field(default_factory=list)
    program: int = 0
    grid: tuple[int, int, int] = (1, 1, 1)
    on_store: Callable[..., None] | None = None
    races: bool = True

    def add(self, name: str, arg: ArrayArg, uninitialized: bool) -> int:
        """Register an array; gives the pointer to its first element."""
        low, high = arg.reach
        raw: Any = (ctypes.c_uint8 * (high - low)).from_address(arg.address + low) if high > low else b""
        data = np.frombuffer(raw, dtype=np.uint8).view(arg.dtype.numpy)
        filled = np.zeros(len(data), bool) if uninitialized else None
        self.segments.append(Segment(name, arg, data, low, elements(arg, len(data)), np.zeros(0, np.int64), filled))
        return (len(self.segments) << _SEGMENT) + _ORIGIN

    def load(self, pointers: Array, mask: Array, other: Array, loc: Loc) -> Array:
        """Elements where the mask holds, `other` elsewhere."""
        result = np.array(other)
        for segment, at, index, chosen in self.resolve(pointers, mask, result.itemsize, "load", loc):
            if segment.filled is not None and not segment.filled[index].all():
                self.fail(UninitializedRead, segment, index[~segment.filled[index]][0], loc)
            result[chosen] = segment.read(at, result.dtype)
        return result

    def store(self, pointers: Array, mask: Array, value: Array, loc: Loc, atomic: bool = False) -> None:
        for segment, at, index, chosen in self.resolve(pointers, mask, value.itemsize, "store", loc):
            if not len(segment.writer):
                segment.writer = np.zeros(len(segment.data), np.int64)
            before = segment.writer[index]
            foreign = (before != _NOBODY) & (before != self.program + 1) & (self.races and not atomic)
            if foreign.any():
                first = self.program_text(int(before[foreign][0]) - 1)
                self.fail(WriteRace, segment, index[foreign][0], loc, first=first)
            segment.writer[index] = self.program + 1
            if self.on_store:
                self.on_store(segment, index, chosen, loc, self.program)
            if segment.filled is not None:
                segment.filled[index] = True
            segment.write(at, value[chosen])

    def resolve(
        self, pointers: Array, mask: Array, item: int, what: str, loc: Loc
    ) -> list[tuple[Segment, Array, Array, Array]]:
        """(segment, distances in bytes, numbers of elements, which lanes) for the pointers of each array."""
        resolved = []
        owners = pointers >> _SEGMENT
        for owner in np.unique(owners[mask]):
            if not 1 <= owner <= len(self.segments):
                raise WildPointer(loc, what=what, program=self.program_text(self.program))
            segment = self.segments[int(owner) - 1]
            chosen = mask & (owners == owner)
            at = pointers[chosen] - ((owner << _SEGMENT) + _ORIGIN) - segment.low
            index = segment.touched(at, item)
            outside = (index < 0) | (index >= len(segment.data))
            if segment.exists is not None:
                outside |= ~segment.exists[np.clip(index, 0, len(segment.data) - 1)]
            if outside.any():
                self.fail(OutOfBounds, segment, index[outside][0], loc, what=what, shape=segment.arg.shape)
            resolved.append((segment, at, index, chosen))
        return resolved

    def pointers_of(self, addresses: Array) -> Array:
        """Pointers from addresses as a program computes with them."""
        indices = np.where((addresses >= 0) & (addresses < 1 << 62), addresses, 0) + _NOWHERE
        for number, segment in reversed(list(enumerate(self.segments, 1))):
            at = addresses - segment.arg.address - segment.low
            inside = (at >= 0) & (at < segment.data.nbytes)
            indices = np.where(inside, at + segment.low + (number << _SEGMENT) + _ORIGIN, indices)
        return indices

    def addresses_of(self, pointers: Array) -> Array:
        addresses = pointers - _NOWHERE
        for number, segment in enumerate(self.segments, 1):
            at = pointers - ((number << _SEGMENT) + _ORIGIN)
            addresses = np.where(pointers >> _SEGMENT == number, at + segment.arg.address, addresses)
        return addresses

    def beyond(self, pointer: Array, index: Sequence[int], what: str, loc: Loc) -> OutOfBounds:
        """The error of an index that names no element of the array that a pointer belongs to."""
        segment, program = self.segments[(int(pointer) >> _SEGMENT) - 1], self.program_text(self.program)
        text, shape = ", ".join(map(str, index)), segment.arg.shape
        return OutOfBounds(loc, what=what, array=segment.name, index=text, program=program, shape=shape)

    def fail(self, kind: type[Any], segment: Segment, element: Any, loc: Loc, **fields: Any) -> None:
        index = index_text(segment.arg, int(element) + segment.low // segment.arg.dtype.itemsize)
        raise kind(loc, array=segment.name, index=index, program=self.program_text(self.program), **fields)

    def program_text(self, program: int) -> str:
        return program_text(program, self.grid)


def program_text(program: int, grid: tuple[int, int, int]) -> str:
    """A program, by its number in the order of the grid."""
    x, y, _ = grid
    return f"({program % x}, {program // x % y}, {program // (x * y)})"
