"""Results in the place of an operand that nothing else needs: fewer buffers, and no banks in each other's way."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from pypto.backends.ascend.block.copy_coalescing import (
    ELEMENTWISE_IN_PLACE,
    can_alias,
    can_shift_views,
    names_in,
    rename_buffer,
)
from pypto.backends.ascend.block.double_buffering import moved_by
from pypto.backends.ascend.blockir.effects import all_views, items_of
from pypto.backends.ascend.blockir.ir import BlockKernel, Buffer, Instr, Item, View
from pypto.backends.ascend.blockir.rewrite import inside


def reuse_in_place(kernel: BlockKernel, is_tight: bool = False) -> BlockKernel:
    """The kernel with such results where the operand was.

    What is copied in is not copied out from the same buffer, since the copies would wait for each other, but where it
    `is_tight`: then there is no room for more.
    """
    moving = set() if is_tight else {b.name for instr in kernel.instructions() for b in moved_by(instr)}
    work = InPlaceReuse(Counter(name for item in kernel.body for name in names_in(item)), moving)
    body = work.sequence(kernel.body)
    return replace(kernel, body=body, buffers=tuple(b for b in kernel.buffers if b.name not in work.gone))


class InPlaceReuse:
    """`touches` counts how often the kernel names a buffer, `moving` are those that copies from or to arrays use."""

    def __init__(self, touches: Counter[str], moving: set[str]) -> None:
        self.touches, self.moving, self.gone = touches, moving, set[str]()

    def sequence(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        items = tuple(inside(item, self.sequence) for item in items)
        at = 0
        while at < len(items):
            for source, made in operand_pairs(items[at]):
                if self.fits(items, at, source, made) or self.returns(items, at, source, made):
                    items = rename_buffer(items, made, source)
                    assert isinstance(source.of, Buffer)
                    self.touches[source.of.name] += self.touches.pop(made.name)
                    self.gone.add(made.name)
                    break
            at += 1
        return items

    def fits(self, items: tuple[Item, ...], at: int, source: View, made: Buffer) -> bool:
        """Whether the operand's life ends in a run of instructions that begins the result's, each in its own place."""
        whole = source.of
        if not isinstance(whole, Buffer) or (whole.elements, source.offset) != (made.elements, 0):
            return False
        if not self.begins_here(items, at, made) or (made.name in self.moving and whole.name in self.moving):
            return False
        if whole.ahead:  # what else touches it fills the other stage, or this one before
            last = max(i for i, item in enumerate(items) if touches_stage(item, source))
            return shared_until(items, at, last + 1, source, made)
        counts = [Counter(names_in(item)) for item in items]
        if sum(c[whole.name] for c in counts) != self.touches[whole.name] or not is_first_written(items, whole):
            return False
        last = max(i for i, c in enumerate(counts) if c[whole.name])
        return shared_until(items, at, last + 1, source, made)

    def returns(self, items: tuple[Item, ...], at: int, source: View, made: Buffer) -> bool:
        """Whether all that the result is for is to be written back to where the operand is."""
        if made.name in self.moving or not self.begins_here(items, at, made):
            return False
        last = max(i for i, item in enumerate(items) if made.name in names_in(item))
        end = items[last]
        if (
            last == at
            or not isinstance(end, Instr)
            or end.name not in ELEMENTWISE_IN_PLACE
            or end.args[-1] != made.elements
        ):
            return False
        to, *others = (a for a in end.args if isinstance(a, View))
        mine = [view for view in others if view.of in (made, source.of)]
        back = to == source and all(view == View(made) for view in mine)
        return back and can_shift_views(list(items), made, source) and shared_until(items, at, last, source, made)

    def begins_here(self, items: tuple[Item, ...], at: int, made: Buffer) -> bool:
        """Whether a buffer is touched by some items alone, and not before one of them."""
        counts = [sum(name == made.name for name in names_in(item)) for item in items]
        return sum(counts) == self.touches[made.name] and not any(counts[:at])


def shared_until(items: tuple[Item, ...], at: int, stop: int, source: View, made: Buffer) -> bool:
    """Whether what touches an operand or the result does so element by element."""
    names = {made.name, source.of.name}
    return all(can_alias(item, source, made) for item in items[at:stop] if names & set(names_in(item)))


def touches_stage(item: Item, stage: View) -> bool:
    """Whether an item touches this stage of a buffer."""
    return any((view.of, view.stage) == (stage.of, stage.stage) for x in items_of((item,)) for view in all_views(x))


def operand_pairs(item: Item) -> list[tuple[View, Buffer]]:
    """Operands of an instruction, each with the result, where they are of the same dtype in UB."""
    views = [a for a in item.args if isinstance(a, View)] if isinstance(item, Instr) else []
    if not views or any(view.space != "UB" or view.dtype is not None for view in views):
        return []
    made, *others = views
    return [(view, made.of) for view in dict.fromkeys(others)
            if isinstance(made.of, Buffer) and isinstance(view.of, Buffer) and view.of != made.of and made.offset == 0
            and (view.of.stages == 1 or view.of.ahead) and (made.of.stages, made.of.dtype) == (1, view.of.dtype)
            ]  # fmt: skip


def is_first_written(items: tuple[Item, ...], buffer: Buffer) -> bool:
    """Whether a buffer is written, and not read, by what touches it first."""
    first = next(item for item in items if buffer.name in names_in(item))
    views = [a for a in first.args if isinstance(a, View)] if isinstance(first, Instr) else []
    return bool(views) and views[0].of == buffer and all(view.of != buffer for view in views[1:])
