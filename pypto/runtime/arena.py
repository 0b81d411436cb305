"""The arena of a launch list: memory planning by best fit, and the arrays that lie in it.

An arena is one piece of memory of a place: the host's, or a device's. Two arrays whose lifetimes overlap have no byte
in common. An arena that breaks this is refused when it is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from pypto.errors import CompilerBug
from pypto.ir.types import DType
from pypto.runtime.device_arrays import DeviceArray

Array = np.ndarray[Any, Any]
View = Callable[[Any], Any]
ALIGNMENT: Final = 64


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array of a launch list: the key that steps name it by, its shape and its dtype."""

    key: Any
    shape: tuple[int, ...]
    dtype: DType

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Slot:
    """An array of an arena.

    Parameters
    ----------
    buffer : Buffer
    first, last : int
        The steps that write it first and read it last.
    offset : int
        Where it begins, in bytes.
    is_zeroed : bool
        Whether it is set to zero before the first step of every run.
    """

    buffer: Buffer
    first: int
    last: int
    offset: int = 0
    is_zeroed: bool = False


@dataclass(frozen=True, slots=True)
class Arena:
    """Arrays in one piece of memory; those that are alive at the same time do not overlap.

    Raises
    ------
    CompilerBug
        When two of them do.

    Examples
    --------
    >>> from pypto.ir.types import float32
    >>> spans = {"a": (25, 0, 1), "b": (16, 1, 2), "c": (32, 2, 3)}
    >>> slots = [Slot(Buffer(key, (size,), float32), first, last) for key, (size, first, last) in spans.items()]
    >>> arena = Arena.packed(slots)
    >>> [slot.offset for slot in arena.slots], arena.nbytes
    ([0, 128, 0], 192)
    """

    slots: tuple[Slot, ...] = ()

    def __post_init__(self) -> None:
        if len(self.slots) < 2:
            return
        rows = np.array([(s.offset, s.offset + s.buffer.nbytes, s.first, s.last + 1) for s in self.slots])
        begin, end, first, last = rows.T
        meet = (begin[:, None] < end) & (begin < end[:, None]) & (first[:, None] < last) & (first < last[:, None])
        meet &= (begin < end) & (begin < end)[:, None]
        pairs = np.argwhere(np.triu(meet, 1))
        if len(pairs):
            one, two = (self.slots[n].buffer.key for n in pairs[0])
            raise CompilerBug(f"{one} and {two} overlap in an arena, and are alive at the same time")

    @staticmethod
    def packed(slots: Iterable[Slot]) -> Arena:
        """The arena of some arrays, with offsets by best fit."""
        wanted = tuple(slots)
        offsets, _ = allocate([Lifetime(s.buffer.nbytes, s.first, s.last) for s in wanted])
        return Arena(tuple(replace(s, offset=at) for s, at in zip(wanted, offsets, strict=True)))

    @property
    def nbytes(self) -> int:
        return max((s.offset + rounded(s.buffer.nbytes) for s in self.slots), default=0)

    def memory(self, place: Any) -> Any:
        """Memory of a place, as bytes that the arena fits in."""
        return place.empty(self.nbytes + ALIGNMENT if self.slots else 0, np.uint8)

    def arrays(self, memory: Any) -> dict[Any, Any]:
        """The arrays by key, in memory as `memory` gives it."""
        start = -(memory.address if isinstance(memory, DeviceArray) else memory.ctypes.data) % ALIGNMENT
        return {s.buffer.key: part(memory, start + s.offset, s.buffer) for s in self.slots}


def part(memory: Any, at: int, buffer: Buffer) -> Any:
    """Some bytes of memory as an array."""
    if isinstance(memory, DeviceArray):
        steps = tuple(math.prod(buffer.shape[n + 1 :]) for n in range(len(buffer.shape)))
        return DeviceArray(memory.device, memory.memory, memory.offset + at, buffer.shape, steps, buffer.dtype)
    return memory[at : at + buffer.nbytes].view(buffer.dtype.numpy).reshape(buffer.shape)


@dataclass(frozen=True, slots=True)
class ArrayRef:
    """What a launch is given of an array of its list: all of it, or a view, in a shape.

    Parameters
    ----------
    key : hashable
        The array's name in the list.
    shape : tuple of int, optional
        The shape that the kernel has it in; without, its own.
    views : tuple of callable
        Each gives a view of an array, one after the other. Their text says which view.
    """

    key: Any
    shape: tuple[int, ...] | None = None
    views: tuple[View, ...] = ()

    def seen(self, arrays: Mapping[Any, Any]) -> Any:
        """The array that the launch is given."""
        array = arrays[self.key]
        if isinstance(array, np.ndarray):
            for view in self.views:
                array = view(array)
            return (
                array if self.shape is None or array.shape == self.shape else np.reshape(array, self.shape, copy=False)
            )
        if isinstance(array, DeviceArray):
            return array.viewed(lambda like: ArrayRef(None, self.shape, self.views).seen({None: like}))
        return array if self.shape is None else array.reshape(self.shape)


@dataclass(frozen=True, slots=True)
class ScalarRef:
    """A number, or another value that is no array, which comes with a call under a key."""

    key: Any

    def seen(self, arrays: Mapping[Any, Any]) -> Any:
        return arrays[self.key]


Ref = ArrayRef | ScalarRef


@dataclass(frozen=True, slots=True)
class Lifetime:
    """An array of the arena: its bytes, and the steps that write it first and read it last."""

    nbytes: int
    first: int
    last: int


def allocate(lifetimes: Iterable[Lifetime]) -> tuple[list[int], int]:
    """Offsets, and the size of the arena. Arrays that are alive at the same time do not overlap.

    Examples
    --------
    >>> allocate([Lifetime(100, 0, 1), Lifetime(64, 1, 2), Lifetime(128, 2, 3)])
    ([0, 128, 0], 192)
    """
    wanted = list(lifetimes)
    offsets = [0] * len(wanted)
    placed: list[int] = []
    for n in sorted(range(len(wanted)), key=lambda k: (-wanted[k].nbytes, wanted[k].first)):
        mine = wanted[n]
        others = [k for k in placed if wanted[k].first <= mine.last and mine.first <= wanted[k].last]
        spans = sorted((offsets[k], offsets[k] + rounded(wanted[k].nbytes)) for k in others)
        offsets[n] = best_gap(spans, rounded(mine.nbytes))
        placed.append(n)
    return offsets, max((at + rounded(x.nbytes) for at, x in zip(offsets, wanted, strict=True)), default=0)


def rounded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def best_gap(spans: list[tuple[int, int]], size: int) -> int:
    """The smallest gap between taken spans that is large enough, or the end."""
    best, least, end = -1, 0, 0
    for start, stop in spans:
        gap = start - end
        if gap >= size and (best < 0 or gap < least):
            best, least = end, gap
        end = max(end, stop)
    return end if best < 0 else best
