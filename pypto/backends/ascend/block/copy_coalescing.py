"""Copies from one buffer to another that need not be: the first buffer's work is done in the second one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from pypto.backends.ascend.blockir.effects import all_views, items_of
from pypto.backends.ascend.blockir.effects import names_in as names_of
from pypto.backends.ascend.blockir.ir import (
    Assign,
    BlockKernel,
    Buffer,
    Instr,
    Item,
    Let,
    Record,
    View,
    fold,
    parts,
)
from pypto.backends.ascend.blockir.rewrite import inside, mapped

# Instructions whose result may take the place of an operand.
ELEMENTWISE_IN_PLACE = frozenset((
    "Add", "Sub", "Mul", "Div", "Max", "Min", "Adds", "Muls", "Maxs", "Mins", "Exp", "Ln", "Sqrt", "Rsqrt",
    "Reciprocal", "Abs", "Relu", "And", "Or", "Not", "Select",
))  # fmt: skip


def coalesce_copies(kernel: BlockKernel) -> BlockKernel:
    """The kernel without copies of what nothing else reads, and without the buffers that were copied from."""
    work = CopyCoalescing(Counter(name for item in kernel.body for name in names_in(item)))
    body = work.sequence(kernel.body)
    return replace(kernel, body=body, buffers=tuple(b for b in kernel.buffers if b.name not in work.gone))


def names_in(item: Item) -> Iterator[str]:
    """Buffers that an item touches, once for each touch."""
    yield from (view.of.name for view in all_views(item) if isinstance(view.of, Buffer))
    for part in parts(item):
        for inner in part:
            yield from names_in(inner)


class CopyCoalescing:
    """`touches` counts how often the kernel names a buffer; those that are `gone` it does not name any more."""

    def __init__(self, touches: Counter[str]) -> None:
        self.touches, self.gone = touches, set[str]()

    def sequence(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        done: list[Item] = []
        for item in (inside(x, self.sequence) for x in items):
            pair = copy_between(item)
            start = None if pair is None else self.first(done, *pair)
            if pair is None or start is None:
                done.append(item)
                continue
            target, source = pair
            assert isinstance(target.of, Buffer)
            done[start:] = rename_buffer(tuple(done[start:]), source, target)
            self.touches[target.of.name] += self.touches.pop(source.name) - 2
            self.gone.add(source.name)
        return tuple(done)

    def first(self, done: list[Item], target: View, source: Buffer) -> int | None:
        """Where the source is first written, if all that touches it from there on could touch the target instead."""
        missing, start, used = self.touches[source.name] - 1, len(done), set(names_of(target.offset))
        while missing > 0 and start > 0:
            start -= 1
            names = Counter(names_in(done[start]))
            missing -= names[source.name]
            if names[target.of.name] and not can_alias(done[start], target, source):
                return None
            if any(isinstance(x, Let | Assign) and x.name in used for x in items_of((done[start],))):
                return None
        item = done[start] if start < len(done) else None
        if missing or not isinstance(item, Instr):
            return None
        views = [a for a in item.args if isinstance(a, View)]
        begins = views[0].of == source and all(view.of != source for view in views[1:])
        return start if begins and can_shift_views(done[start:], source, target) else None


def copy_between(item: Item) -> tuple[View, Buffer] | None:
    """A copy of one whole buffer to another one, or to a part of it."""
    if not isinstance(item, Instr) or item.name != "DataCopy" or not isinstance(item.args[2], Record):
        return None
    to, source = item.args[:2]
    if not isinstance(to, View) or not isinstance(source, View) or source.offset != 0:
        return None
    a, b, how = to.of, source.of, item.args[2].fields
    if not isinstance(a, Buffer) or not isinstance(b, Buffer) or a == b or (a.space, a.dtype) != (b.space, b.dtype):
        return None
    whole = isinstance(how[1], int) and how[0] == 1 and how[1] * 32 == b.stage_bytes <= a.stage_bytes
    return (to, b) if whole and a.stages == b.stages == 1 and to.dtype is None else None


def can_alias(item: Item, target: View, source: Buffer) -> bool:
    """Whether an instruction that reads the one and writes the other reads each element where it writes it."""
    if not isinstance(item, Instr) or item.name not in ELEMENTWISE_IN_PLACE:
        return False
    made, *others = (a for a in item.args if isinstance(a, View))
    if made.of != source or any(view.of == source for view in others):
        return False
    record = next((a.fields for a in item.args if isinstance(a, Record)), None)
    for k, view in enumerate(others):
        if view.of != target.of:
            continue
        here = view.offset, view.elem
        if here != (fold("+", target.offset, made.offset), made.elem) or (item.name == "Select" and k == 0):
            return False
        half = 0 if record is None else len(record) // 2
        if record is not None and (record[0], record[half]) != (record[1 + k], record[half + 1 + k]):
            return False
    return True


def rename_buffer(items: tuple[Item, ...], source: Buffer, target: View) -> tuple[Item, ...]:
    """Items in which the source begins where the target does."""

    def change(view: View) -> View:
        if view.of != source:
            return view
        return replace(view, of=target.of, offset=fold("+", target.offset, view.offset), stage=target.stage)

    return mapped(items, change)


def can_shift_views(items: list[Item], source: Buffer, target: View) -> bool:
    """Whether all views of the source can be moved: where the target begins later, those of its own dtype alone."""
    views = (view for item in items_of(tuple(items)) for view in all_views(item) if view.of == source)
    return target.offset == 0 or all(view.elem.bits == source.dtype.bits for view in views)
