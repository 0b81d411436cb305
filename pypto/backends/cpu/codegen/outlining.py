"""Large kernels in parts: some items at a time become a function of their own.

LLVM's time grows faster than a function does (live ranges, loops, dominators); over many functions it grows as they do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from pypto.backends.cpu.llvm.value import VectorValue
from pypto.backends.cpu.llvm.writer import Frame, Writer
from pypto.backends.cpu.loopir.ir import Control, Item, Nest
from pypto.ir.core import Value

OUTLINE_ABOVE: Final = 256  # statements of a kernel that is compiled in parts
PART_SIZE: Final = 64  # statements of a part, or one item
COLD: Final = "cold noinline optnone"  # of a part that is compiled soon and runs slowly

_NAME: Final = re.compile(r"%[\w.]+")


def statement_count(items: Iterable[Item]) -> int:
    """Statements, with those inside of control flow."""
    return sum(item_statements(item) for item in items)


def item_statements(item: Item) -> int:
    if isinstance(item, Nest):
        return len(item.stmts)
    return sum(map(statement_count, item.regions)) if isinstance(item, Control) else 1


def outlined_parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Neighbours that are large enough to be a part, in order."""
    first = size = 0
    for n, item in enumerate(items):
        size += item_statements(item)
        if size >= PART_SIZE:
            yield items[first : n + 1]
            first, size = n + 1, 0
    if items[first:]:
        yield items[first:]


@dataclass
class Outliner:
    """Emits code as functions of their own.

    `live_in_types` are the LLVM types of the names that a part may read, by name; `env` holds the scalars.
    """

    w: Writer
    kernel: str
    env: dict[Value, VectorValue]
    live_in_types: dict[str, str]
    recorded: int = 0
    part_count: int = 0

    def run(self, emit: Callable[[], None], attributes: str = "") -> None:
        """Put what is emitted into a function, and call it here. It returns the scalars that are known at its end.

        One with attributes of its own is a region whose scalars nobody reads.
        """
        w, level, outer = self.w, self.w.depth, (self.w.frames, self.w.slots, self.w.blocks, self.w.hoist_floor)
        before = len(self.env)
        self.record_scalars()
        w.frames, w.slots, w.blocks, w.hoist_floor = [Frame([]) for _ in w.frames], [], "", level
        emit()
        self.record_scalars()
        defined = {line.split(" = ")[0].strip() for line in w.frames[-1].lines if " = " in line}
        new = () if attributes else list(self.env.items())[before:]
        made = {v: x for v, x in new if x.text in defined and x.hoist_depth <= level}
        call, result = self.finish(made, defined, attributes)
        w.frames, w.slots, w.blocks, w.hoist_floor = outer
        if not made:
            w.line(call)
            return
        struct = w.raw(call)
        for n, (v, x) in enumerate(made.items()):
            self.env[v] = replace(x, text=w.raw(f"extractvalue {result} {struct}, {n}"), hoist_depth=level)
            self.live_in_types[self.env[v].text] = x.type

    def record_scalars(self) -> None:
        self.live_in_types.update((x.text, x.type) for x in list(self.env.values())[self.recorded :])
        self.recorded = len(self.env)

    def finish(self, made: Mapping[Value, VectorValue], defined: Set[str], attributes: str) -> tuple[str, str]:
        """End the function; gives the call, and the type of its result."""
        w, last = self.w, "poison"
        result = f"{{ {', '.join(x.type for x in made.values())} }}" if made else "void"
        for n, x in enumerate(made.values()):
            last = w.raw(f"insertvalue {result} {last}, {x.typed}, {n}")
        w.line(f"ret {result} {last}" if made else "ret void")
        if any("label %leave" in line for line in w.frames[-1].lines):
            w.label("leave")
            w.line(f"ret {result} poison" if made else "ret void")
        lines, self.part_count = w.frames[-1].lines, self.part_count + 1
        used = [
            n for n in dict.fromkeys(_NAME.findall("\n".join(lines))) if n in self.live_in_types and n not in defined
        ]
        taken = ", ".join(f"{self.live_in_types[n]} {n}" for n in used)
        w.finish_function(f"internal {result} @{self.kernel}.part{self.part_count}({taken}) {attributes} #0", lines)
        return f"call {result} @{self.kernel}.part{self.part_count}({taken})", result
