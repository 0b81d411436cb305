"""Vector instructions that do not wait for each other side by side: fewer barriers, and no idle time before them.

An instruction is done some twenty cycles after its last repeat, and what needs its result waits at a barrier, which
waits for all that came before. So of a run of instructions all that need nothing of the others come first, then what
needs those alone, and so on, with a barrier between one group and the next. A small buffer that is filled anew in a run
is another one from there on.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from pypto.backends.ascend.block.copy_coalescing import names_in, rename_buffer
from pypto.backends.ascend.block.dependences import Meeting, Reader, Touch
from pypto.backends.ascend.blockir.effects import items_of, pipe_of, reads, views, writes
from pypto.backends.ascend.blockir.ir import Assign, BlockKernel, Buffer, Instr, Item, Let, Loop, View
from pypto.backends.ascend.blockir.rewrite import inside

SMALL_BYTES: Final = 1024  # bytes


def list_schedule(kernel: BlockKernel) -> BlockKernel:
    """The kernel with the instructions of its vector cores in the order of what they wait for."""
    everything = kernel.body + kernel.cube_body
    taken = {b.name for b in kernel.buffers} | {p.name for p in kernel.params}
    taken |= {x.name for x in items_of(everything) if isinstance(x, Let | Loop | Assign)}
    touches = Counter(name for item in everything for name in names_in(item))
    work = ListScheduler(Reader.of(kernel), Meeting(kernel.noalias), touches, taken)
    body = work.sequence(kernel.body)
    return replace(kernel, body=body, buffers=(*kernel.buffers, *work.made))


@dataclass
class ListScheduler:
    """`touches` counts how often the kernel names a buffer; `made` are buffers that others became."""

    reader: Reader
    meeting: Meeting
    touches: Counter[str]
    taken: set[str]

    def __post_init__(self) -> None:
        self.made: list[Buffer] = []

    def sequence(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        found: list[Item] = []
        for _, group in groupby(items, lambda item: isinstance(item, Instr) and pipe_of(item) == "V"):
            run = list(group)
            instrs = [item for item in run if isinstance(item, Instr) and pipe_of(item) == "V"]
            found += self.in_groups(self.apart(instrs)) if instrs else (inside(item, self.sequence) for item in run)
        return tuple(found)

    def apart(self, run: list[Instr]) -> list[Item]:
        """A run in which small buffers that nothing else touches are filled once each."""
        items: tuple[Item, ...] = tuple(run)
        here = Counter(name for item in run for name in names_in(item))
        for at, instr in enumerate(run):
            view = views(instr)[0]
            if here[view.of.name] == self.touches[view.of.name] and is_refill(items[:at], instr):
                assert isinstance(view.of, Buffer)
                items = (*items[:at], *rename_buffer(items[at:], view.of, View(self.another(view.of))))
        return list(items)

    def another(self, buffer: Buffer) -> Buffer:
        name = next(x for n in range(1, 1 << 20) if (x := f"{buffer.name}_{n}") not in self.taken)
        self.taken.add(name)
        self.made.append(replace(buffer, name=name))
        return self.made[-1]

    def in_groups(self, run: list[Item]) -> list[Item]:
        """A run by groups, each of which needs what is in the one before; what is soon done comes first in it."""
        touches = [self.reader.touches(item) for item in run]
        group: list[int] = []
        for j, mine in enumerate(touches):
            before = (group[i] for i in range(j) if self.meets(touches[i], mine))
            group.append(max(before, default=-1) + 1)
        return [run[j] for j in sorted(range(len(run)), key=lambda j: (group[j], sizes(run[j])))]

    def meets(self, first: list[Touch], second: list[Touch]) -> bool:
        """Whether one of two instructions writes what the other one touches."""
        return any((a.writes or b.writes) and self.meeting.now(a, b) for a in first for b in second)


def sizes(item: Item) -> int:
    of = [view.of for view in views(item)] if isinstance(item, Instr) else []
    return max((x.bytes for x in of if isinstance(x, Buffer)), default=0)


def is_refill(before: tuple[Item, ...], instr: Instr) -> bool:
    """Whether an instruction writes a small buffer as another one did whose result has been read since then."""
    view = views(instr)[0]
    if not isinstance(view.of, Buffer) or view.of.bytes > SMALL_BYTES or any(x.of == view.of for x in reads(instr)):
        return False
    was_read = False
    for item in reversed(before):
        assert isinstance(item, Instr)
        if view.of in [x.of for x in writes(item)]:
            same = (item.name, item.args[-1], views(item)[0]) == (instr.name, instr.args[-1], view)
            return was_read and same and view.of not in [x.of for x in reads(item)]
        was_read |= view.of in [x.of for x in reads(item)]
    return False
