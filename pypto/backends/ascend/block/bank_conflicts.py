"""Bank conflicts in UB: counts the pairs of operands that would slow each other down.

UB has three regions of 64 KB. Consecutive blocks of 32 bytes lie in consecutive banks, 16 in a region; banks of the
same number in all regions form a group. A vector instruction works on 8 blocks at a time. It stalls where two reads use
the same group, or a read and a write use the same bank. The allocator asks for the conflicts of an address before it
chooses one.
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
BLOCKS_PER_REPEAT: Final = 8


def reads_conflict(a: int, b: int) -> bool:
    """Whether two reads that begin at these addresses use the same bank groups."""
    distance = (a - b) // BLOCK % GROUPS
    return distance < BLOCKS_PER_REPEAT or distance > GROUPS - BLOCKS_PER_REPEAT


def read_conflicts_with_write(a: int, b: int) -> bool:
    """Whether a read and a write that begin at these addresses use the same banks."""
    return a // REGION == b // REGION and reads_conflict(a, b)


@dataclass
class ConflictGraph:
    """Pairs of buffers that are operands of one instruction, with how often that happens."""

    read_read: Counter[frozenset[str]] = field(default_factory=Counter)  # both are read
    read_write: Counter[frozenset[str]] = field(default_factory=Counter)  # one is read and the other is written

    def conflicts(self, name: str, address: int, places: Mapping[str, int]) -> int:
        """Count the conflicts of a buffer at an address with the buffers that have theirs."""
        count = 0
        for other, at in places.items():
            pair = frozenset((name, other))
            count += self.read_read[pair] * reads_conflict(address, at)
            count += self.read_write[pair] * read_conflicts_with_write(address, at)
        return count


def conflict_graph(kernel: BlockKernel) -> ConflictGraph:
    """Build the conflict graph of the vector instructions; a loop weighs its instructions tenfold."""
    graph = ConflictGraph()
    _count(kernel.body, 1, graph)
    return graph


def _count(items: tuple[Item, ...], weight: int, graph: ConflictGraph) -> None:
    """Add the pairs of a sequence of items."""
    for item in items:
        if isinstance(item, Instr) and pipe_of(item) == "V":
            read = _names(reads(item))
            written = _names(writes(item))
            graph.read_read.update({frozenset((a, b)): weight for a in read for b in read if a < b})
            graph.read_write.update({frozenset((a, b)): weight for a in read for b in written if a != b})
        for inside in parts(item):
            _count(inside, weight * (10 if isinstance(item, Loop) else 1), graph)


def _names(views: tuple[View, ...]) -> list[str]:
    """Return the names of the buffers of some views."""
    return [view.of.name for view in views]
