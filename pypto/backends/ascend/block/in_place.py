"""In-place reuse: an elementwise instruction writes its result over an operand that dies there.

It saves a buffer, and so room in UB, and it leaves fewer operands that could conflict in banks. It is legal where the
operand's last use is in a run of instructions that read and write element by element, and the result begins there.
Buffers that are copied in do not become buffers that are copied out: the copies would wait for each other.

    Muls(b[0], a[0], 2.0, 64)             Muls(a[0], a[0], 2.0, 64)
    Adds(c[0], b[0], 1.0, 64)       ->    Adds(a[0], a[0], 1.0, 64)
    DataCopy(y[0], c[0], ...)             DataCopy(y[0], a[0], ...)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from pypto.backends.ascend.block.copy_coalescing import (
    ELEMENTWISE_IN_PLACE,
    buffer_uses,
    can_alias,
    can_shift_views,
    rename_buffer,
)
from pypto.backends.ascend.block.double_buffering import copied_buffers
from pypto.backends.ascend.blockir.effects import all_views, items_of
from pypto.backends.ascend.blockir.ir import BlockKernel, Buffer, Instr, Item, View
from pypto.backends.ascend.blockir.rewrite import inside


def reuse_in_place(kernel: BlockKernel, is_tight: bool = False) -> BlockKernel:
    """Return the kernel with elementwise results in the place of dead operands.

    With `is_tight`, a buffer that is copied in may also be copied out: the kernel has no room for another one.
    """
    copied = set() if is_tight else {b.name for instr in kernel.instructions() for b in copied_buffers(instr)}
    reuse = InPlaceReuse(Counter(name for item in kernel.body for name in buffer_uses(item)), copied)
    body = reuse.sequence(kernel.body)
    return replace(kernel, body=body, buffers=tuple(b for b in kernel.buffers if b.name not in reuse.removed))


class InPlaceReuse:
    """The pass over one kernel: `use_counts` has the uses of each buffer, `copied_buffers` those that copies use."""

    def __init__(self, use_counts: Counter[str], copied_buffers: set[str]) -> None:
        self.use_counts = use_counts
        self.copied_buffers = copied_buffers
        self.removed = set[str]()

    def sequence(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        """Reuse operands in a sequence of items, innermost sequences first."""
        items = tuple(inside(item, self.sequence) for item in items)
        index = 0
        while index < len(items):
            for source, result in operand_pairs(items[index]):
                if self.can_replace_dead_operand(items, index, source, result) or self.can_fold_write_back(
                    items, index, source, result
                ):
                    items = rename_buffer(items, result, source)
                    assert isinstance(source.of, Buffer)
                    self.use_counts[source.of.name] += self.use_counts.pop(result.name)
                    self.removed.add(result.name)
                    break
            index += 1
        return items

    def can_replace_dead_operand(self, items: tuple[Item, ...], index: int, source: View, result: Buffer) -> bool:
        """Whether an operand's live range ends in a run of elementwise instructions that begins the result's."""
        operand = source.of
        if not isinstance(operand, Buffer) or (operand.elements, source.offset) != (result.elements, 0):
            return False
        if not self.is_defined_at(items, index, result) or (
            result.name in self.copied_buffers and operand.name in self.copied_buffers
        ):
            return False
        if operand.ahead:  # all other uses belong to the other stage, or lie before
            last = max(i for i, item in enumerate(items) if touches_stage(item, source))
            return shared_until(items, index, last + 1, source, result)
        counts = [Counter(buffer_uses(item)) for item in items]
        if sum(c[operand.name] for c in counts) != self.use_counts[operand.name] or not is_written_first(
            items, operand
        ):
            return False
        last = max(i for i, c in enumerate(counts) if c[operand.name])
        return shared_until(items, index, last + 1, source, result)

    def can_fold_write_back(self, items: tuple[Item, ...], index: int, source: View, result: Buffer) -> bool:
        """Whether a result's only purpose is to be written back elementwise to the operand that it is computed from."""
        if result.name in self.copied_buffers or not self.is_defined_at(items, index, result):
            return False
        last = max(i for i, item in enumerate(items) if result.name in buffer_uses(item))
        last_item = items[last]
        if (
            last == index
            or not isinstance(last_item, Instr)
            or last_item.name not in ELEMENTWISE_IN_PLACE
            or last_item.args[-1] != result.elements
        ):
            return False
        to, *others = (a for a in last_item.args if isinstance(a, View))
        own_operands = [view for view in others if view.of in (result, source.of)]
        writes_back = to == source and all(view == View(result) for view in own_operands)
        return (
            writes_back
            and can_shift_views(list(items), result, source)
            and shared_until(items, index, last, source, result)
        )

    def is_defined_at(self, items: tuple[Item, ...], index: int, result: Buffer) -> bool:
        """Whether all uses of a buffer lie in a sequence, and none before an index."""
        counts = [sum(name == result.name for name in buffer_uses(item)) for item in items]
        return sum(counts) == self.use_counts[result.name] and not any(counts[:index])


def shared_until(items: tuple[Item, ...], index: int, stop: int, source: View, result: Buffer) -> bool:
    """Whether all that touches an operand or the result, up to an index, does so element by element."""
    names = {result.name, source.of.name}
    return all(can_alias(item, source, result) for item in items[index:stop] if names & set(buffer_uses(item)))


def touches_stage(item: Item, stage: View) -> bool:
    """Whether an item touches one stage of a buffer."""
    return any((view.of, view.stage) == (stage.of, stage.stage) for x in items_of((item,)) for view in all_views(x))


def operand_pairs(item: Item) -> list[tuple[View, Buffer]]:
    """Return the operands of an instruction, each with the result, that are buffers of the same dtype in UB."""
    views = [a for a in item.args if isinstance(a, View)] if isinstance(item, Instr) else []
    if not views or any(view.space != "UB" or view.dtype is not None for view in views):
        return []
    result, *operands = views
    target = result.of
    if not isinstance(target, Buffer) or result.offset != 0 or target.stages != 1:
        return []
    return [
        (view, target)
        for view in dict.fromkeys(operands)
        if isinstance(view.of, Buffer)
        and view.of != target
        and (view.of.stages == 1 or view.of.ahead)
        and target.dtype == view.of.dtype
    ]


def is_written_first(items: tuple[Item, ...], buffer: Buffer) -> bool:
    """Whether the first item that touches a buffer writes and does not read it."""
    first = next(item for item in items if buffer.name in buffer_uses(item))
    views = [a for a in first.args if isinstance(a, View)] if isinstance(first, Instr) else []
    return bool(views) and views[0].of == buffer and all(view.of != buffer for view in views[1:])
