"""Common subexpression elimination for stage numbers: a loop computes the stage of its buffers and events once.

Double-buffered views and their events all need `i // blocks % 2`, which the scalar unit would compute for each of them.
Stages are equal if they are equal once all immutable names are replaced by their definitions. The name is defined at
the begin of the loop's body, so the stage may not depend on numbers that the body defines.

    for i in range(block, tiles, blocks):          for i in range(block, tiles, blocks):
        WaitFlag('V_MTE2', i // blocks % 2)            stage: uint32 = i // blocks % 2
        DataCopy(a[i // blocks % 2, 0], ...)   ->      WaitFlag('V_MTE2', stage)
                                                       DataCopy(a[stage, 0], ...)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from pypto.backends.ascend.blockir.effects import all_views, assigned, items_of, names_in
from pypto.backends.ascend.blockir.ir import Argument, Assign, BlockKernel, Expr, Instr, Item, Let, Loop, Scalar, View
from pypto.backends.ascend.blockir.rewrite import inside, mapped
from pypto.ir.types import uint32

EVENT_INSTRUCTIONS = ("SetFlag", "WaitFlag")


def compute_stage_indices(kernel: BlockKernel) -> BlockKernel:
    """Return the kernel with a name for every stage that a loop uses more than once."""
    all_items = kernel.body + kernel.cube_body
    used_names = {item.name for item in items_of(all_items) if isinstance(item, Let | Loop)}
    used_names |= {param.name for param in kernel.params} | {buffer.name for buffer in kernel.buffers}
    mutable_names = assigned(all_items)
    definitions = {x.name: x.value for x in items_of(all_items) if isinstance(x, Let) and x.name not in mutable_names}
    indices = StageIndices(used_names, definitions)
    return replace(kernel, body=indices.items(kernel.body), cube_body=indices.items(kernel.cube_body))


@dataclass
class StageIndices:
    """The pass over one kernel."""

    used_names: set[str]  # names that are in use
    definitions: dict[str, Scalar]  # values of names that never change

    def items(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        """Name the stages in each item of a sequence."""
        return tuple(map(self.item, items))

    def item(self, item: Item) -> Item:
        """Name the stages in an item."""
        return self.loop(item) if isinstance(item, Loop) else inside(item, self.items)

    def loop(self, loop: Loop) -> Loop:
        """Name the stages that a loop shares, then those of the loops inside of it."""
        body = loop.body
        lets = []
        for stage in self.shared_stages(loop):
            candidates = (f"stage{n if n > 1 else ''}" for n in range(1, 99))
            name = next(x for x in candidates if x not in self.used_names)
            self.used_names.add(name)
            lets.append(Let(name, uint32, stage))
            body = self.replace_stage(body, stage, name)
        return replace(loop, body=(*lets, *self.items(body)))

    def shared_stages(self, loop: Loop) -> list[Expr]:
        """Return the stages that a loop uses more than once, each in its shortest form.

        The body of the loop must not define any of the names in a stage.
        """
        equal_stages: dict[Scalar, list[Expr]] = defaultdict(list)
        for item in items_of(loop.body):
            stages: list[Argument] = [view.stage for view in all_views(item)]
            if isinstance(item, Instr) and item.name in EVENT_INSTRUCTIONS:
                stages.append(_stage_of_event(item.args[1]))
            for stage in stages:
                if isinstance(stage, Expr):
                    equal_stages[self.resolve(stage)].append(stage)
        defined_inside = {item.name for item in items_of(loop.body) if isinstance(item, Let | Assign | Loop)}
        shared = (min(equals, key=lambda stage: len(str(stage))) for equals in equal_stages.values() if len(equals) > 1)
        names = [(stage, set(names_in(stage))) for stage in shared]
        return [stage for stage, used in names if loop.name in used and used.isdisjoint(defined_inside)]

    def resolve(self, value: Scalar) -> Scalar:
        """Replace immutable names in a number by their definitions."""
        if isinstance(value, str) and value in self.definitions:
            return self.resolve(self.definitions[value])
        return Expr(value.op, tuple(map(self.resolve, value.args))) if isinstance(value, Expr) else value

    def replace_stage(self, items: tuple[Item, ...], stage: Expr, name: str) -> tuple[Item, ...]:
        """Return items with a name in place of a stage, also in the numbers of events."""
        resolved = self.resolve(stage)

        def number(value: Scalar) -> Scalar:
            if not isinstance(value, Expr):
                return value
            return name if self.resolve(value) == resolved else Expr(value.op, tuple(number(x) for x in value.args))

        def event(item: Item) -> Item:
            if isinstance(item, Instr) and item.name in EVENT_INSTRUCTIONS and isinstance(item.args[1], Expr):
                return replace(item, args=(item.args[0], number(item.args[1])))
            return item

        def change(view: View) -> View:
            return replace(view, stage=number(view.stage))

        return _map_items(mapped(items, change), event)


def _stage_of_event(number: Argument) -> Argument:
    """Return the stage in the number of an event, which may be shifted by a constant."""
    is_shifted = isinstance(number, Expr) and number.op == "+" and isinstance(number.args[1], int)
    return number.args[0] if isinstance(number, Expr) and is_shifted else number


def _map_items(items: tuple[Item, ...], change: Callable[[Item], Item]) -> tuple[Item, ...]:
    """Return items with every item at every depth changed."""
    return tuple(change(inside(item, lambda within: _map_items(within, change))) for item in items)
