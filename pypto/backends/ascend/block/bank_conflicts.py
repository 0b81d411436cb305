"""Banks of UB: which operands of an instruction are in each other's way.

UB is three regions of 64 KB. In each, neighbouring blocks of 32 bytes lie in 16 banks in turn; banks of the same number
form a group. An instruction works on 8 blocks at a time. It waits where two reads meet in a group, or a read and a
write in a bank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pypto.backends.ascend.blockir.effects import pipe_of, reads, writes
from pypto.backends.ascend.blockir.ir import BlockKernel, Instr, Item, Loop, View, parts

BLOCK: Final = 32
GROUPS: Final = 16
REGION: Final = 64 * 1024
AT_ONCE: Final = 8


def reads_meet(a: int, b: int) -> bool:
    """Whether two reads that begin at these addresses use the same groups."""
    apart = (a - b) // BLOCK % GROUPS
    return apart < AT_ONCE or apart > GROUPS - AT_ONCE


def read_meets_write(a: int, b: int) -> bool:
    """Whether a read and a write that begin at these addresses use the same banks."""
    return a // REGION == b // REGION and reads_meet(a, b)


@dataclass
class Neighbours:
    """How often two buffers are operands of one instruction: both read, or one read and one written."""

    both_read: Counter[frozenset[str]] = field(default_factory=Counter)
    written: Counter[frozenset[str]] = field(default_factory=Counter)

    def conflicts(self, name: str, address: int, places: Mapping[str, int]) -> int:
        """How often a buffer at an address would be in the way of those that have theirs."""
        found = 0
        for other, at in places.items():
            pair = frozenset((name, other))
            found += self.both_read[pair] * reads_meet(address, at)
            found += self.written[pair] * read_meets_write(address, at)
        return found


def neighbours(kernel: BlockKernel) -> Neighbours:
    """The pairs of buffers in UB that vector instructions use together; loops count tenfold."""
    found = Neighbours()
    _count(kernel.body, 1, found)
    return found


def _count(items: tuple[Item, ...], weight: int, found: Neighbours) -> None:
    for item in items:
        if isinstance(item, Instr) and pipe_of(item) == "V":
            sources, to = _names(reads(item)), _names(writes(item))
            found.both_read.update({frozenset((a, b)): weight for a in sources for b in sources if a < b})
            found.written.update({frozenset((a, b)): weight for a in sources for b in to if a != b})
        for inside in parts(item):
            _count(inside, weight * (10 if isinstance(item, Loop) else 1), found)


def _names(views: tuple[View, ...]) -> list[str]:
    return [view.of.name for view in views]
