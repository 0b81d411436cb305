"""List scheduling of vector instructions: independent ones run back to back, with fewer barriers.

The result of a vector instruction is there some twenty cycles after its last repeat. An instruction that needs it waits
at a barrier, which waits for all earlier instructions. So a run of vector instructions is sorted by levels: those that
depend on nothing in the run, those that depend on them, and so on, with one barrier between two levels. Small buffers
that are refilled in a run are renamed first, which removes write-after-read dependences.

    Adds(a, x, 1.0, 64)                  Adds(a, x, 1.0, 64)
    Muls(b, a, 2.0, 64)     # barrier    Adds(c, y, 1.0, 64)
    Adds(c, y, 1.0, 64)            ->    Muls(b, a, 2.0, 64)     # barrier
    Muls(d, c, 2.0, 64)     # barrier    Muls(d, c, 2.0, 64)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from pypto.backends.ascend.block.copy_coalescing import buffer_uses, rename_buffer
from pypto.backends.ascend.block.dependences import AccessAnalysis, AliasAnalysis, MemoryAccess
from pypto.backends.ascend.blockir.effects import items_of, pipe_of, reads, views, writes
from pypto.backends.ascend.blockir.ir import Assign, BlockKernel, Buffer, Instr, Item, Let, Loop, View
from pypto.backends.ascend.blockir.rewrite import inside

SMALL_BYTES: Final = 1024  # a larger buffer is not worth a copy


def list_schedule(kernel: BlockKernel) -> BlockKernel:
    """Return the kernel with the vector instructions of its vector cores in the order of their levels."""
    all_items = kernel.body + kernel.cube_body
    used_names = {b.name for b in kernel.buffers} | {p.name for p in kernel.params}
    used_names |= {x.name for x in items_of(all_items) if isinstance(x, Let | Loop | Assign)}
    use_counts = Counter(name for item in all_items for name in buffer_uses(item))
    scheduler = ListScheduler(AccessAnalysis.of(kernel), AliasAnalysis(kernel.noalias), use_counts, used_names)
    body = scheduler.sequence(kernel.body)
    return replace(kernel, body=body, buffers=(*kernel.buffers, *scheduler.new_buffers))


@dataclass
class ListScheduler:
    """The pass over one kernel; `new_buffers` are those that renaming adds."""

    analysis: AccessAnalysis  # lists accesses
    aliases: AliasAnalysis  # compares accesses
    use_counts: Counter[str]  # uses of each buffer in the kernel
    used_names: set[str]  # names that are in use

    def __post_init__(self) -> None:
        self.new_buffers: list[Buffer] = []

    def sequence(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        """Schedule the runs of vector instructions in a sequence, and in the sequences inside of its items."""
        output: list[Item] = []
        for _, neighbours in groupby(items, lambda item: isinstance(item, Instr) and pipe_of(item) == "V"):
            run = list(neighbours)
            instrs = [item for item in run if isinstance(item, Instr) and pipe_of(item) == "V"]
            output += (
                self.schedule(self.rename_refills(instrs)) if instrs else (inside(item, self.sequence) for item in run)
            )
        return tuple(output)

    def rename_refills(self, run: list[Instr]) -> list[Item]:
        """Return a run in which each small buffer that nothing else touches is filled once."""
        items: tuple[Item, ...] = tuple(run)
        local_counts = Counter(name for item in run for name in buffer_uses(item))
        for index, instr in enumerate(run):
            view = views(instr)[0]
            if local_counts[view.of.name] == self.use_counts[view.of.name] and is_refill(items[:index], instr):
                assert isinstance(view.of, Buffer)
                items = (*items[:index], *rename_buffer(items[index:], view.of, View(self.clone_buffer(view.of))))
        return list(items)

    def clone_buffer(self, buffer: Buffer) -> Buffer:
        """Add a buffer like another one, with a new name."""
        candidates = (f"{buffer.name}_{n}" for n in range(1, 1 << 20))
        name = next(x for x in candidates if x not in self.used_names)
        self.used_names.add(name)
        self.new_buffers.append(replace(buffer, name=name))
        return self.new_buffers[-1]

    def schedule(self, run: list[Item]) -> list[Item]:
        """Sort a run by levels; within a level, instructions on small operands come first, since they finish first."""
        accesses = [self.analysis.accesses(item) for item in run]
        levels: list[int] = []
        for j, own in enumerate(accesses):
            earlier_levels = (levels[i] for i in range(j) if self.depends(accesses[i], own))
            levels.append(max(earlier_levels, default=-1) + 1)
        return [run[j] for j in sorted(range(len(run)), key=lambda j: (levels[j], largest_operand_bytes(run[j])))]

    def depends(self, first: list[MemoryAccess], second: list[MemoryAccess]) -> bool:
        """Whether one of two instructions writes what the other one touches."""
        return any((a.writes or b.writes) and self.aliases.may_overlap(a, b) for a in first for b in second)


def largest_operand_bytes(item: Item) -> int:
    """Return the bytes of the largest buffer that an instruction touches."""
    buffers = [view.of for view in views(item)] if isinstance(item, Instr) else []
    return max((x.bytes for x in buffers if isinstance(x, Buffer)), default=0)


def is_refill(before: tuple[Item, ...], instr: Instr) -> bool:
    """Whether an instruction fills a small buffer anew, just as an earlier one did whose result has been read since."""
    view = views(instr)[0]
    if not isinstance(view.of, Buffer) or view.of.bytes > SMALL_BYTES or any(x.of == view.of for x in reads(instr)):
        return False
    was_read = False
    for item in reversed(before):
        assert isinstance(item, Instr)
        if view.of in [x.of for x in writes(item)]:
            is_same_fill = (item.name, item.args[-1], views(item)[0]) == (instr.name, instr.args[-1], view)
            return was_read and is_same_fill and view.of not in [x.of for x in reads(item)]
        was_read |= view.of in [x.of for x in reads(item)]
    return False
