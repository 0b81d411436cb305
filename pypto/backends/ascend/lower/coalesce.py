"""Copies from one buffer to another that need not be: the first buffer's work is done in the second one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from pypto.backends.ascend.blockir import BlockKernel, Buffer, If, Instr, Item, Loop, Record, View, While, parts
from pypto.backends.ascend.facts import all_views
from pypto.backends.ascend.rewrite import mapped

# Instructions whose result may take the place of an operand.
IN_PLACE = frozenset((
    "Add", "Sub", "Mul", "Div", "Max", "Min", "Adds", "Muls", "Maxs", "Mins", "Exp", "Ln", "Sqrt", "Rsqrt",
    "Reciprocal", "Abs", "Relu", "And", "Or", "Not", "Select",
))  # fmt: skip


def coalesced(kernel: BlockKernel) -> BlockKernel:
    """The kernel without copies of what nothing else reads, and without the buffers that were copied from."""
    work = Coalescing(Counter(name for item in kernel.body for name in names_in(item)))
    body = work.sequence(kernel.body)
    return replace(kernel, body=body, buffers=tuple(b for b in kernel.buffers if b.name not in work.gone))


def names_in(item: Item) -> Iterator[str]:
    """Buffers that an item touches, once for each touch."""
    yield from (view.of.name for view in all_views(item) if isinstance(view.of, Buffer))
    for part in parts(item):
        for inner in part:
            yield from names_in(inner)


class Coalescing:
    """`touches` counts how often the kernel names a buffer; those that are `gone` it does not name any more."""

    def __init__(self, touches: Counter[str]) -> None:
        self.touches, self.gone = touches, set[str]()

    def sequence(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        done: list[Item] = []
        for item in map(self.inside, items):
            pair = copied(item)
            start = None if pair is None else self.first(done, *pair)
            if pair is None or start is None:
                done.append(item)
                continue
            target, source = pair
            done[start:] = renamed(tuple(done[start:]), source, target)
            self.touches[target.name] += self.touches.pop(source.name) - 2
            self.gone.add(source.name)
        return tuple(done)

    def inside(self, item: Item) -> Item:
        match item:
            case Loop():
                return replace(item, body=self.sequence(item.body))
            case While():
                return replace(item, test=self.sequence(item.test), body=self.sequence(item.body))
            case If():
                return replace(item, body=self.sequence(item.body), orelse=self.sequence(item.orelse))
        return item

    def first(self, done: list[Item], target: Buffer, source: Buffer) -> int | None:
        """Where the source is first written, if all that touches it from there on could touch the target instead."""
        missing, start = self.touches[source.name] - 1, len(done)
        while missing > 0 and start > 0:
            start -= 1
            names = Counter(names_in(done[start]))
            missing -= names[source.name]
            if names[target.name] and not may_share(done[start], target, source):
                return None
        item = done[start] if start < len(done) else None
        if missing or not isinstance(item, Instr):
            return None
        views = [a for a in item.args if isinstance(a, View)]
        begins = views[0].of == source and all(view.of != source for view in views[1:])
        return start if begins else None


def copied(item: Item) -> tuple[Buffer, Buffer] | None:
    """The buffers of a copy of one whole buffer to another one."""
    if not isinstance(item, Instr) or item.name != "DataCopy" or not isinstance(item.args[2], Record):
        return None
    to, source = item.args[:2]
    if not isinstance(to, View) or not isinstance(source, View) or (to.offset, source.offset) != (0, 0):
        return None
    a, b, how = to.of, source.of, item.args[2].fields
    if not isinstance(a, Buffer) or not isinstance(b, Buffer) or a == b or (a.space, a.dtype) != (b.space, b.dtype):
        return None
    whole = isinstance(how[1], int) and how[0] == 1 and how[1] * 32 == b.stage_bytes <= a.stage_bytes
    return (a, b) if whole and a.stages == b.stages == 1 else None


def may_share(item: Item, target: Buffer, source: Buffer) -> bool:
    """Whether an instruction that reads the one and writes the other reads each element where it writes it."""
    if not isinstance(item, Instr) or item.name not in IN_PLACE:
        return False
    made, *others = (a for a in item.args if isinstance(a, View))
    if made.of != source or any(view.of == source for view in others):
        return False
    record = next((a.fields for a in item.args if isinstance(a, Record)), None)
    for k, view in enumerate(others):
        if view.of != target:
            continue
        if (view.offset, view.elem) != (made.offset, made.elem) or (item.name == "Select" and k == 0):
            return False
        half = 0 if record is None else len(record) // 2
        if record is not None and (record[0], record[half]) != (record[1 + k], record[half + 1 + k]):
            return False
    return True


def renamed(items: tuple[Item, ...], source: Buffer, target: Buffer) -> tuple[Item, ...]:
    return mapped(items, lambda view: replace(view, of=target) if view.of == source else view)
