"""Which program of a launch stored an element first: memory for it, for the launches of checked kernels."""

from __future__ import annotations

import ctypes
import mmap
import threading
from dataclasses import dataclass, field
from typing import Final

BLOCK: Final = 64  # elements that have one owner where they are stored together
MOST_NUMBERS: Final = 2**32 - 1  # programs that owners tell apart before they begin anew
_KEPT: Final = 2**28  # bytes of owners that are kept for later launches


@dataclass
class Owners:
    """Memory for the programs that stored each of so many elements, and each block of them as a whole.

    Numbers of earlier launches are smaller. It is taken from the system as it is touched, so that arrays may be sparse.
    """

    elements: int
    last: int = 0

    def __post_init__(self) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        self.memory = mmap.mmap(-1, 4 * (self.elements + self.elements // BLOCK + 1), flags=flags)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.blocks = self.address + 4 * self.elements

    def numbers(self, programs: int) -> int:
        """The number before those of a launch's programs, which one more follows."""
        if self.last + programs + 1 > MOST_NUMBERS:
            ctypes.memset(self.address, 0, len(self.memory))
            self.last = 0
        before, self.last = self.last, self.last + programs + 1
        return before


@dataclass
class OwnerStore:
    """Owners that no launch uses now."""

    free: list[Owners] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, elements: int) -> Owners:
        with self.lock:
            fitting = [o for o in self.free if elements <= o.elements]
            owners = min(fitting, key=lambda o: o.elements, default=None)
            if owners is not None:
                self.free.remove(owners)
        return owners or Owners(elements)

    def give_back(self, owners: Owners) -> None:
        with self.lock:
            self.free.append(owners)
            while 4 * sum(o.elements for o in self.free) > _KEPT:
                self.free.pop(0)
