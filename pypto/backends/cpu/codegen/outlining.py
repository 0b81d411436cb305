"""Outlining: a large kernel is emitted in parts, each a function of its own.

LLVM's time grows faster than the length of a function (live ranges, dominators, loops); over many short functions it is
linear. A part takes its live-in values as arguments and returns the scalars that it computed. Cold code, such as the
fallback of an unswitched loop, is outlined too, and not optimised.

a; b; c; d becomes call @kernel.part1(live-ins of a, b); call @kernel.part2(live-ins of c, d)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from pypto.backends.cpu.loopir.ir import Control, Item, Nest
from pypto.backends.llvm.value import VectorValue
from pypto.backends.llvm.writer import Writer
from pypto.ir.core import Value

OUTLINE_ABOVE: Final = 256  # statements from which a kernel is outlined
PART_SIZE: Final = 64  # statements of a part, unless one item has more
COLD: Final = "cold noinline optnone"  # attributes of code that runs seldom

_NAME: Final = re.compile(r"%[\w.]+")


def statement_count(items: Iterable[Item]) -> int:
    """Statements of items and of their regions: a measure of the length of their code."""
    return sum(item_statements(item) for item in items)


def item_statements(item: Item) -> int:
    """Statements of one item."""
    if isinstance(item, Nest):
        return len(item.stmts)
    return sum(map(statement_count, item.regions)) if isinstance(item, Control) else 1


def outlined_parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Consecutive items, cut into parts of about `PART_SIZE` statements."""
    first = size = 0
    for n, item in enumerate(items):
        size += item_statements(item)
        if size >= PART_SIZE:
            yield items[first : n + 1]
            first = n + 1
            size = 0
    if items[first:]:
        yield items[first:]


@dataclass
class Outliner:
    """Emits code as functions of its own."""

    w: Writer
    kernel: str
    env: dict[Value, VectorValue]
    live_in_types: dict[str, str]  # LLVM types, by name, of all that a part may read
    recorded: int = 0
    part_count: int = 0

    def run(self, emit: Callable[[], None], attributes: str = "") -> None:
        """Emit code as a function, and call it here; the scalars that it computed are bound to the results of the call.

        A function with attributes of its own is cold code, whose scalars nobody reads.
        """
        w = self.w
        level = w.depth
        known_before = len(self.env)
        self.record_scalars()
        with w.another_function(len(w.frames), level):
            emit()
            self.record_scalars()
            defined = {line.split(" = ")[0].strip() for line in w.frames[-1].lines if " = " in line}
            new = () if attributes else list(self.env.items())[known_before:]
            live_out = {v: x for v, x in new if x.text in defined and x.hoist_depth <= level}
            call, result = self.finish(live_out, defined, attributes)
        if not live_out:
            w.line(call)
            return
        struct = w.raw(call)
        for n, (v, x) in enumerate(live_out.items()):
            self.env[v] = replace(x, text=w.raw(f"extractvalue {result} {struct}, {n}"), hoist_depth=level)
            self.live_in_types[self.env[v].text] = x.type

    def record_scalars(self) -> None:
        """Add the scalars that were bound since the last call to those that a part may read."""
        self.live_in_types.update((x.text, x.type) for x in list(self.env.values())[self.recorded :])
        self.recorded = len(self.env)

    def finish(self, live_out: Mapping[Value, VectorValue], defined: Set[str], attributes: str) -> tuple[str, str]:
        """End the function; gives the call, and the type of its result."""
        w = self.w
        result = f"{{ {', '.join(x.type for x in live_out.values())} }}" if live_out else "void"
        struct = "poison"
        for n, x in enumerate(live_out.values()):
            struct = w.raw(f"insertvalue {result} {struct}, {x.typed}, {n}")
        w.line(f"ret {result} {struct}" if live_out else "ret void")
        lines = w.frames[-1].lines
        if any("label %leave" in line for line in lines):
            w.label("leave")
            w.line(f"ret {result} poison" if live_out else "ret void")
        self.part_count += 1
        names = dict.fromkeys(_NAME.findall("\n".join(lines)))
        live_in = [name for name in names if name in self.live_in_types and name not in defined]
        arguments = ", ".join(f"{self.live_in_types[name]} {name}" for name in live_in)
        signature = f"{result} @{self.kernel}.part{self.part_count}({arguments})"
        w.finish_function(f"internal {signature} {attributes} #0", lines)
        return f"call {signature}", result
