"""Parser of Loop IR: reads what `printer.print_kernel` writes, so that passes can be tested on texts.

The parser checks the form alone; whether statements read what was written is for `verify`. With a target, the schedule
is one whose buffers have no places yet: it knows readers and live ranges, as passes ask for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from pypto.backends.cpu.library.registry import LIBRARY_OPS
from pypto.backends.cpu.loopir.allocate import BufferAllocation
from pypto.backends.cpu.loopir.index_maps import is_tile
from pypto.backends.cpu.loopir.ir import Buffer, Control, Item, LibraryOp, Nest, Scalar, Schedule, Stmt
from pypto.backends.cpu.loopir.materialize import Materialization, number_ops, readers_of
from pypto.backends.cpu.loopir.printer import OpNames, usual_domain
from pypto.backends.cpu.loopir.scanner import LineParser
from pypto.backends.cpu.target import CpuTarget
from pypto.errors.ir import IRTextError
from pypto.ir.core import Function, Op, Value
from pypto.ir.parser import parse_function, parse_type
from pypto.ir.types import TileType
from pypto.passes.analysis.dot_facts import packs_transposed
from pypto.passes.analysis.memory_effects import writes_memory

_NEST: Final = "nest"  # in a field of a library op: the nest that runs where the op did not run it
T = TypeVar("T")


def parse_kernel(text: str, target: CpuTarget | None = None) -> Schedule:
    """The schedule that a text describes.

    Parameters
    ----------
    text : str
        A kernel in Tile IR, then its Loop IR, which begins with the line ``scratch … bytes``.
    target : CpuTarget, optional
        Where passes are to run on the schedule: the target that they are for.

    Raises
    ------
    IRTextError
        With the line, when the text is no Loop IR.
    """
    head, mark, tail = text.partition("\nscratch ")
    if not mark:
        raise IRTextError(line=text.count("\n"), problem="expected a kernel, and behind it a line `scratch N bytes`")
    function = parse_function(head)
    lines = [(number, line) for number, line in enumerate(f"scratch {tail}".splitlines(), head.count("\n") + 2)]
    parser = LoopParser(function, [(number, line) for number, line in lines if line.strip()])
    schedule = parser.schedule()
    return schedule if target is None else with_storage(schedule, target)


def with_storage(schedule: Schedule, target: CpuTarget) -> Schedule:
    """The schedule with what passes ask for: who reads its values, and which of them share a buffer."""
    buffer_of = schedule.buffer_of
    plan = assume_materialization(schedule.function, target, buffer_of)
    sharers: dict[Buffer, list[Value]] = {b: [] for b in schedule.buffers}
    for v, b in buffer_of.items():
        sharers[b].append(v)
    storage = BufferAllocation(plan, target, buffer_of, schedule.buffers, {v: sharers[b] for v, b in buffer_of.items()})
    return replace(schedule, storage=storage)


def assume_materialization(function: Function, target: CpuTarget, materialized: Iterable[Value]) -> Materialization:
    """The plan in which exactly these values have buffers, as a text says that they do."""
    plan = Materialization(function, target, materialized={*materialized})
    ops = number_ops(plan, function.body, ())
    plan.writes += [op for op in ops if writes_memory(op)]
    plan.packed |= {op for op in ops if op.name == "dot" and packs_transposed(op, target)}
    for op in reversed(ops):
        for v in (*op.results, *(arg for region in op.regions for arg in region.args)):
            if is_tile(v):
                plan.readers[v] = readers_of(plan, v)
    return plan


@dataclass
class LoopParser:
    """Reads the lines of one schedule."""

    function: Function
    lines: list[tuple[int, str]]
    buffers: list[Buffer] = field(default_factory=list)
    buffer_of: dict[Value, Buffer] = field(default_factory=dict)
    library_ops: dict[Op, LibraryOp] = field(default_factory=dict)
    at: int = 0  # the next line

    def __post_init__(self) -> None:
        self.names = OpNames.of(self.function)
        self.values = {name: v for v, name in self.names.values.items()}
        self.ops = {name: op for op, name in self.names.ops.items() if not op.results}

    def schedule(self) -> Schedule:
        line = self.next_line()
        line.expect("scratch")
        scratch_bytes = line.integer()
        line.expect("bytes")
        while self.at < len(self.lines) and re.match(r"  b\d+:", self.lines[self.at][1]):
            self.buffer(self.next_line())
        items = self.items(0)
        if self.at < len(self.lines):
            self.next_line().fail("no item stands so far to the right here")
        return Schedule(items, self.buffers, scratch_bytes, self.buffer_of, self.function)

    def next_line(self) -> LineParser:
        number, text = self.lines[self.at]
        self.at += 1
        return LineParser(number, text)

    def has_line(self, indent: int) -> bool:
        """Whether the next line stands so far to the right."""
        return self.at < len(self.lines) and len(text := self.lines[self.at][1]) - len(text.lstrip()) == indent

    # --- buffers ------------------------------------------------------------------------------------------------

    def buffer(self, line: LineParser) -> None:
        if line.take(r"b\d+", "a buffer") != f"b{len(self.buffers)}":
            line.fail(f"buffers are numbered in order: this one is b{len(self.buffers)}")
        line.expect(":")
        elem, shape = self.tile(line)
        sizes = line.sizes() if line.accept("padded") else shape
        is_unpadded = line.accept("unpadded")
        b = Buffer(
            len(self.buffers),
            elem,
            shape,
            list(sizes),
            unpadded=is_unpadded,
            panel=line.number_after("panels", "of"),
            copies=line.number_between("for", "steps"),
            in_memory_format=line.accept("in", "memory", "format"),
            contracted_dims=line.number_after("contracted"),
            contracted=line.accept("(", "registers", ")"),
            offset=line.number_behind("@"),
            live_start=line.number_behind("live"),
            live_end=line.number_behind("to"),
            view_of=self.named_buffer(line) if line.accept("view", "of") else None,
        )
        for v in self.separated(line, lambda: self.value(line)) if line.accept("holds") else []:
            self.buffer_of[v] = b
        line.end()
        self.buffers.append(b)

    def tile(self, line: LineParser) -> tuple[Any, tuple[int, ...]]:
        """The element type and the shape of a buffer."""
        token = re.compile(r"\s*((?:\d+x)+(?:ptr<[^>]*>|\w+))").match(line.text, line.position)
        if token is None:
            line.fail("expected a shape and an element type such as 8x64xf32")
        line.position = token.end()
        try:
            tile_type = parse_type(f"tile<{token[1]}>")
        except ValueError:
            line.fail(f"`{token[1]}` is no tile")
        assert isinstance(tile_type, TileType)
        return tile_type.elem, tile_type.shape

    # --- names --------------------------------------------------------------------------------------------------

    def separated(self, line: LineParser, read: Callable[[], T]) -> list[T]:
        """What stands with commas between."""
        items = [read()]
        while line.accept(","):
            items.append(read())
        return items

    def value(self, line: LineParser) -> Value:
        name = line.take(r"%\w+", "a value")
        if name[1:] not in self.values:
            line.fail(f"the kernel has no {name}")
        return self.values[name[1:]]

    def named_buffer(self, line: LineParser) -> Buffer:
        number = int(line.take(r"b\d+", "a buffer")[1:])
        if number >= len(self.buffers):
            line.fail(f"b{number} is not listed above")
        return self.buffers[number]

    def op(self, line: LineParser) -> Op:
        """An op by its first result, or by its name and number."""
        if line.peek().startswith("%"):
            v = self.value(line)
            return v.op if v.op is not None else line.fail(f"%{self.names.values[v]} is no op's result")
        name = line.take(r"[^\W\d]\w*", "an op")
        name += f" {line.integer()}" if re.fullmatch(r"\d+", line.peek()) else ""
        return self.ops[name] if name in self.ops else line.fail(f"the kernel has no op `{name}` without results")

    def defined(self, line: LineParser) -> tuple[Op, list[Value]]:
        """An op with the results that are named in front of it."""
        if not line.peek().startswith("%"):
            return self.op(line), []
        values = self.separated(line, lambda: self.value(line))
        line.expect("=")
        name = line.take(r"\w+", "an op")
        op = values[0].op
        if op is None or op.name != name:
            line.fail(f"%{self.names.values[values[0]]} is no result of an op `{name}`")
        return op, values

    # --- items --------------------------------------------------------------------------------------------------

    def items(self, indent: int) -> list[Item]:
        items: list[Item] = []
        while self.has_line(indent):
            line = self.next_line()
            if line.accept("nest"):
                items.append(self.nest(line, indent))
            elif line.accept("scalar"):
                items.append(Scalar(self.defined(line)[0]))
            elif line.accept("library"):
                items.append(self.library_op(line))
            else:
                items.append(self.control(line, indent))
            line.end()
        return items

    def control(self, line: LineParser, indent: int) -> Control:
        op, _ = self.defined(line)
        regions: list[list[Item]] = []
        for _ in op.regions:
            if not self.has_line(indent + 2):
                line.fail(f"`{op.name}` has {len(op.regions)} regions, not {len(regions)}")
            self.next_line().expect("region")
            regions.append(self.items(indent + 4))
        return Control(op, regions) if regions else line.fail(f"`{op.name}` is no item of its own")

    def nest(self, line: LineParser, indent: int) -> Nest:
        depth = line.number_after("sharing")
        fallback_of = self.fallback(line) if line.accept("unless", "done", "by") else None
        bodies: list[list[Stmt]] = []
        while self.has_line(indent + 2):
            inner = self.next_line()
            if inner.accept("-"):
                bodies.append([])
            elif not bodies or not inner.accept("|"):
                inner.fail("expected `-`, which begins a body, or `|`, which goes on with one")
            bodies[-1].append(self.stmt(inner))
        nest = Nest(bodies, depth, fallback_of) if bodies else line.fail("a nest has statements")
        if fallback_of is not None and getattr(fallback_of, "epilogue", None) is _NEST:
            fallback_of.epilogue = nest  # type: ignore[attr-defined]  # of a product
        return nest

    def fallback(self, line: LineParser) -> LibraryOp:
        """The library op behind which a nest runs only where that did not run it."""
        op = self.op(line)
        return self.library_ops[op] if op in self.library_ops else line.fail("expected a library op that stands above")

    def stmt(self, line: LineParser) -> Stmt:
        kind = line.take(r"compute|zero|store|reduce|arg|scan|atomic|count", "a kind of statement")
        op, value = self.computed(line, kind)
        buffer = self.named_buffer(line) if line.accept("->") else None
        if kind in ("compute", "zero", "scan", "atomic", "count") and buffer is None:
            line.fail(f"`{kind}` writes a buffer")
        source = self.named_buffer(line) if line.accept("from") else None
        packs_operand_of = self.op(line) if line.accept("packing", "for") else None
        width = line.number_after("in", "chunks", "of")
        domain = line.sizes() if line.accept("over") else usual_domain(kind, op, value, buffer)
        position = line.number_after("at", default=self.names.positions[op] if op is not None else 0)
        loops, lanes, reduced = self.loops(line, domain)
        if kind == "scan" and op is not None:
            reduced = (op.attrs["axis"],)
        line.end()
        return Stmt(kind, op, value, domain, loops, lanes, reduced, buffer, source, width, position, packs_operand_of)

    def computed(self, line: LineParser, kind: str) -> tuple[Op | None, Value | None]:
        """The op and the value of a statement; a copy has a value alone, and zeros have neither."""
        if kind == "zero":
            return None, None
        if re.match(r"\s*%\w+(?!\w|\s*[=,])", line.text[line.position :]):
            return None, self.value(line)
        op, values = self.defined(line)
        return op, values[0] if kind == "compute" else None

    def loops(self, line: LineParser, domain: tuple[int, ...]) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
        """Loop order, the dimension of the lanes, and the reduced dimensions."""
        line.expect("[")
        loops, reduced = list[int](), list[int]()
        lanes = -1
        while not line.accept("once") and line.peek() in ("for", "lanes"):
            has_lanes = line.take("for|lanes", "a loop") == "lanes"
            d = int(line.take(r"d\d+", "a dimension")[1:])
            line.expect("<")
            if line.integer() != dict(enumerate(domain)).get(d):
                line.fail(f"d{d} is not so long: the statement runs over {domain}")
            reduced += [d] if line.accept("*") else []
            loops.append(d)
            lanes = d if has_lanes else lanes
        line.expect("]")
        return tuple(loops), lanes, tuple(reduced)

    # --- library ops --------------------------------------------------------------------------------------------

    def library_op(self, line: LineParser) -> LibraryOp:
        names = {op.name for op in self.function.walk()} & LIBRARY_OPS.keys()
        records = {record.__name__: record for name in sorted(names) for record in LIBRARY_OPS[name]().RECORDS}
        library_op = self.record(line, records)
        if not isinstance(library_op, LibraryOp):
            line.fail(f"{type(library_op).__name__} is no library op")
        self.library_ops[library_op.op] = library_op
        return library_op

    def record(self, line: LineParser, records: dict[str, type]) -> Any:
        """A record with its fields."""
        name = line.take(r"\w+", "a record")
        if name not in records:
            line.fail(f"no library op of this kernel has a record `{name}`")
        line.expect("(")
        given = {}
        while not line.accept(")"):
            key = line.take(r"\w+", "a field")
            line.expect("=")
            given[key] = self.field(line, records)
            line.accept(",")
        try:
            return records[name](**given)
        except TypeError as wrong:
            line.fail(f"{name}: {wrong}")

    def field(self, line: LineParser, records: dict[str, type]) -> Any:
        """A number, word, buffer, value, op, tuple or record."""
        token = line.peek()
        if token.startswith("%"):
            return self.value(line)
        if line.accept("["):
            items = [] if line.peek() == "]" else self.separated(line, lambda: self.field(line, records))
            line.expect("]")
            return tuple(items)
        if line.accept("op"):
            return self.op(line)
        if re.fullmatch(r"b\d+", token):
            return self.named_buffer(line)
        words = {"true": True, "false": False, "none": None, _NEST: _NEST}
        if token in words:
            return words[line.take(r"\w+", "a word")]
        return self.record(line, records) if token in records else line.integer()
