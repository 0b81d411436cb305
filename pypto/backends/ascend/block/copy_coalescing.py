"""Copy coalescing: removes copies between buffers by computing the source right where the copy puts it.

It pays for every copy inside one memory, as layout ops and loop-carried tiles leave them. A copy can go if nothing else
reads its source, the source is first written by an instruction in the same sequence, and all that touches the target in
between reads and writes the same elements.

    Adds(a[0], x[0], 1.0, 64)                   Adds(t[64], x[0], 1.0, 64)
    Muls(a[0], a[0], 2.0, 64)             ->    Muls(t[64], t[64], 2.0, 64)
    DataCopy(t[64], a[0], (1, 8, 0, 0))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from pypto.backends.ascend.blockir.effects import all_views, items_of
from pypto.backends.ascend.blockir.effects import names_in as names_of
from pypto.backends.ascend.blockir.ir import Assign, BlockKernel, Buffer, Instr, Item, Let, Record, View, fold, parts
from pypto.backends.ascend.blockir.rewrite import inside, mapped

# Element by element: the result may overwrite an operand.
ELEMENTWISE_IN_PLACE = frozenset((
    "Add", "Sub", "Mul", "Div", "Max", "Min", "Adds", "Muls", "Maxs", "Mins", "Exp", "Ln", "Sqrt", "Rsqrt",
    "Reciprocal", "Abs", "Relu", "And", "Or", "Not", "Select",
))  # fmt: skip


def coalesce_copies(kernel: BlockKernel) -> BlockKernel:
    """Remove the copies whose source nothing else reads, and the source buffers with them."""
    pass_ = CopyCoalescing(Counter(name for item in kernel.body for name in buffer_uses(item)))
    body = pass_.sequence(kernel.body)
    return replace(kernel, body=body, buffers=tuple(b for b in kernel.buffers if b.name not in pass_.removed))


def buffer_uses(item: Item) -> Iterator[str]:
    """Yield the buffers that an item touches, once for each use."""
    yield from (view.of.name for view in all_views(item) if isinstance(view.of, Buffer))
    for part in parts(item):
        for inner in part:
            yield from buffer_uses(inner)


class CopyCoalescing:
    """The pass over one kernel: `use_counts` has the uses of each buffer, `removed` the coalesced sources."""

    def __init__(self, use_counts: Counter[str]) -> None:
        self.use_counts = use_counts
        self.removed = set[str]()

    def sequence(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        """Coalesce the copies of a sequence of items, innermost sequences first."""
        output: list[Item] = []
        for item in (inside(x, self.sequence) for x in items):
            pair = copy_between(item)
            definition = None if pair is None else self.find_definition(output, *pair)
            if pair is None or definition is None:
                output.append(item)
                continue
            target, source = pair
            assert isinstance(target.of, Buffer)
            output[definition:] = rename_buffer(tuple(output[definition:]), source, target)
            self.use_counts[target.of.name] += self.use_counts.pop(source.name) - 2
            self.removed.add(source.name)
        return tuple(output)

    def find_definition(self, output: list[Item], target: View, source: Buffer) -> int | None:
        """Return the index of the source's first write if the source can be renamed from there on, else None.

        All uses of the source must lie between this write and the copy. In between, nothing may touch the target except
        element by element, and the numbers of the target's offset must not be defined.
        """
        unseen_uses = self.use_counts[source.name] - 1
        index = len(output)
        offset_names = set(names_of(target.offset))
        while unseen_uses > 0 and index > 0:
            index -= 1
            names = Counter(buffer_uses(output[index]))
            unseen_uses -= names[source.name]
            if names[target.of.name] and not can_alias(output[index], target, source):
                return None
            if any(isinstance(x, Let | Assign) and x.name in offset_names for x in items_of((output[index],))):
                return None
        item = output[index] if index < len(output) else None
        if unseen_uses or not isinstance(item, Instr):
            return None
        views = [a for a in item.args if isinstance(a, View)]
        defines_whole = views[0].of == source and all(view.of != source for view in views[1:])
        return index if defines_whole and can_shift_views(output[index:], source, target) else None


def copy_between(item: Item) -> tuple[View, Buffer] | None:
    """Match a copy of one whole buffer to another one or to a part of it."""
    if not isinstance(item, Instr) or item.name != "DataCopy" or not isinstance(item.args[2], Record):
        return None
    target, source = item.args[:2]
    if not isinstance(target, View) or not isinstance(source, View) or source.offset != 0:
        return None
    a, b, fields = target.of, source.of, item.args[2].fields
    if not isinstance(a, Buffer) or not isinstance(b, Buffer) or a == b or (a.space, a.dtype) != (b.space, b.dtype):
        return None
    whole = isinstance(fields[1], int) and fields[0] == 1 and fields[1] * 32 == b.stage_bytes <= a.stage_bytes
    return (target, b) if whole and a.stages == b.stages == 1 and target.dtype is None else None


def can_alias(item: Item, target: View, source: Buffer) -> bool:
    """Whether an instruction may write the source's elements where it reads the target's."""
    if not isinstance(item, Instr) or item.name not in ELEMENTWISE_IN_PLACE:
        return False
    result, *operands = (a for a in item.args if isinstance(a, View))
    if result.of != source or any(view.of == source for view in operands):
        return False
    record = next((a.fields for a in item.args if isinstance(a, Record)), None)
    for k, view in enumerate(operands):
        if view.of != target.of:
            continue
        place = view.offset, view.elem
        if place != (fold("+", target.offset, result.offset), result.elem) or (item.name == "Select" and k == 0):
            return False
        half = 0 if record is None else len(record) // 2
        if record is not None and (record[0], record[half]) != (record[1 + k], record[half + 1 + k]):
            return False
    return True


def rename_buffer(items: tuple[Item, ...], source: Buffer, target: View) -> tuple[Item, ...]:
    """Return items in which the source buffer begins where the target view does."""

    def change(view: View) -> View:
        if view.of != source:
            return view
        return replace(view, of=target.of, offset=fold("+", target.offset, view.offset), stage=target.stage)

    return mapped(items, change)


def can_shift_views(items: list[Item], source: Buffer, target: View) -> bool:
    """Whether all views of the source can move: at an offset, only views of the source's own element size can."""
    views = (view for item in items_of(tuple(items)) for view in all_views(item) if view.of == source)
    return target.offset == 0 or all(view.elem.bits == source.dtype.bits for view in views)
