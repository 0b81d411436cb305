"""Stand-ins for the arrays that a kernel writes to, so that trials need not touch a user's memory.

A stand-in lies in memory as its array does: the same shape, strides and place within a cache line, and what shares
memory shares it again. So the version that is measured is the one that a launch would run.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pypto.runtime.arrays import ArrayInfo, array_info

Array = np.ndarray[Any, Any]
_LINE: Final = 64


@dataclass(slots=True)
class Span:
    """A stretch of the user's memory, and its copy."""

    start: int
    stop: int
    memory: Array | None = None

    @property
    def copy(self) -> int:
        """Address of the copy of `start`."""
        if self.memory is None:
            self.memory = np.empty(self.stop - self.start + _LINE, np.uint8)
        base = int(self.memory.ctypes.data)
        return base + (self.start - base) % _LINE

    def restore(self) -> None:
        """Copy the user's memory."""
        ctypes.memmove(self.copy, self.start, self.stop - self.start)

    def put_back(self) -> None:
        """Give the user's memory what the copy holds."""
        ctypes.memmove(self.start, self.copy, self.stop - self.start)


@dataclass(frozen=True, slots=True)
class Copies:
    """Stand-ins by name, and the memory behind them."""

    stand_ins: dict[str, Any]
    typed: dict[str, Array]
    spans: tuple[Span, ...]

    @staticmethod
    def of(arrays: Mapping[str, Any]) -> Copies | None:
        """Stand-ins for arrays; None when one of them is no plain numpy array or tensor."""
        infos = {name: plain_info(name, x) for name, x in arrays.items()}
        known = {name: info for name, info in infos.items() if info is not None}
        if len(known) < len(infos):
            return None
        spans = merged([(i.address + i.reach[0], i.address + i.reach[1]) for i in known.values()])
        typed = {name: stand_in(info, spans) for name, info in known.items()}
        return Copies({name: like(arrays[name], typed[name]) for name in arrays}, typed, tuple(spans))

    def restore(self) -> None:
        """Give every stand-in what the user's array holds."""
        for span in self.spans:
            span.restore()


def plain_info(name: str, x: Any) -> ArrayInfo | None:
    is_plain = type(x) is np.ndarray or (type(x).__module__ == "torch" and type(x).__name__ == "Tensor")
    return array_info(x, "", name) if is_plain else None


def merged(ranges: list[tuple[int, int]]) -> list[Span]:
    """Ranges of addresses as spans, of which none meets another."""
    spans: list[Span] = []
    for start, stop in sorted(ranges):
        if spans and start < spans[-1].stop:
            spans[-1].stop = max(spans[-1].stop, stop)
        else:
            spans.append(Span(start, stop))
    return spans


def stand_in(info: ArrayInfo, spans: list[Span]) -> Array:
    """A numpy array over the copy of an array's memory."""
    low, high = info.reach
    span = next((s for s in spans if s.start <= info.address + low and info.address + high <= s.stop), None)
    strides = tuple(s * info.dtype.itemsize for s in info.strides)
    if span is None or low == high:
        return np.empty(info.shape, info.dtype.numpy)
    at = span.copy - (0 if span.memory is None else int(span.memory.ctypes.data)) + info.address - span.start
    return np.ndarray(info.shape, info.dtype.numpy, span.memory, at, strides)


def like(original: Any, copy: Array) -> Any:
    """The stand-in as what the original is: an array, or a tensor over the same memory."""
    if isinstance(original, np.ndarray):
        return copy
    torch = sys.modules["torch"]
    memory = copy.base if isinstance(copy.base, np.ndarray) else None
    if memory is None:
        return torch.empty_strided(original.shape, original.stride(), dtype=original.dtype)
    offset = (copy.ctypes.data - memory.ctypes.data) % original.itemsize
    length = len(memory) - offset - (len(memory) - offset) % original.itemsize
    flat = torch.from_numpy(memory[offset : offset + length]).view(original.dtype)
    first = (copy.ctypes.data - memory.ctypes.data - offset) // original.itemsize
    return flat.as_strided(original.shape, original.stride(), first)
