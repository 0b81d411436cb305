"""Prints the output of compiled kernels: programs fill a buffer, and its lines are printed when all are done."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pypto.backends.base import FIXED_SLOTS, PRINTS_HEAD, Artifact, Print, value_bytes
from pypto.interp.memory import program_text
from pypto.interp.run import print_text
from pypto.ir.types import DTYPE_BY_NAME

LIMIT: Final = 2**20  # bytes of prints that a launch keeps, unless one program needs more for one record of each print

Array = np.ndarray[Any, Any]
Sizes = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Printing:
    """The print buffer of a kernel's launches; `slot` is its place in the argument block."""

    prints: tuple[Print, ...]
    slot: int

    @staticmethod
    def of(artifact: Artifact) -> Printing:
        """Builds it for one compiled version."""
        kinds = [slot.kind for slot in artifact.abi]
        return Printing(artifact.prints, FIXED_SLOTS + kinds.index("prints"))

    @contextmanager
    def watched(self, slots: list[int], grid: Sizes, addresses: Sequence[int], threads: int) -> Iterator[None]:
        """Gives programs a buffer, and prints their records in order when all are done."""
        programs = math.prod(grid)
        least = 8 + sum(site.bytes for site in self.prints)
        most = min(programs, max(1, LIMIT // least))
        size = max(least, LIMIT // max(1, most) // 8 * 8)
        buffer = np.zeros((PRINTS_HEAD + most * size) // 8, np.int64)
        buffer[1:3] = most, size
        slots[self.slot] = buffer.ctypes.data
        try:
            yield
        finally:
            self.show(buffer.view(np.uint8), most, size, grid)

    def show(self, buffer: Array, most: int, size: int, grid: Sizes) -> None:
        """Prints the records of all programs that have a part of the buffer, and how many records had no room."""
        for program in range(most):
            stretch = buffer[PRINTS_HEAD + program * size :][:size]
            used, where = int(stretch[:8].view(np.int64)[0]), program_text(program, grid)
            for site, values in self.records(stretch[8 : 8 + used]):
                print(print_text(where, site.prefix, site.hex, values))
        left = int(buffer[:8].view(np.int64)[0])
        if left:
            print(f"… and {left:,} more prints, which are left out: a launch keeps {LIMIT:,} bytes of them")

    def records(self, data: Array) -> Iterator[tuple[Print, list[Array]]]:
        """Yields the records that one program printed, in order."""
        at = 0
        while at < len(data):
            site = self.prints[int(data[at : at + 8].view(np.int64)[0])]
            values, at = list[Array](), at + 8
            for name, shape in site.values:
                dtype = DTYPE_BY_NAME[name].numpy
                values.append(data[at : at + dtype.itemsize * math.prod(shape)].view(dtype).reshape(shape))
                at += value_bytes(name, shape)
            yield site, values
