"""Printer of Loop IR: a text with one line for each buffer, nest, statement and scalar.

scratch 4672 bytes
  b0: 1000xf32 @0                                  a buffer, its shape and its offset in scratch
nest sharing 1                                     a nest whose bodies share one outer loop
  - compute exp -> b0 [lanes d0<1000]              `-` begins a body
  | reduce sum [lanes d0<1000*]                    `|` continues it; `*` marks a reduced dimension

`print_schedule` writes this summary for people. `print_kernel` writes all of a schedule, behind its Tile IR, so that
`parser` can read it: values by name, live ranges, and each field that does not follow from the op.

  b0: 1000xf32 padded 1008 @0 live 7-11 holds %e
  - compute %e = exp -> b0 [lanes d0<1000]
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from pypto.backends.cpu.loopir.ir import Buffer, Control, Item, LibraryOp, Nest, Scalar, Schedule, Stmt
from pypto.ir.core import Function, Op, Value
from pypto.ir.printer import FunctionPrinter, attr_text, print_function
from pypto.ops.memory import Access


def print_schedule(schedule: Schedule, with_lines: bool = False) -> str:
    """A summary of a kernel; `with_lines` adds the user's source line behind every statement."""
    buffers = [f"  {buffer_text(b)}" for b in schedule.buffers]
    items = print_items(schedule.items, "", with_lines)
    return "\n".join([f"scratch {schedule.scratch_bytes} bytes", *buffers, *items]) + "\n"


def print_kernel(schedule: Schedule) -> str:
    """All of a kernel: the Tile IR that it was built from, and its Loop IR."""
    return print_function(schedule.function) + print_loops(schedule)


def print_loops(schedule: Schedule) -> str:
    """All of a kernel's Loop IR, with the names that its Tile IR has as text."""
    printer = LoopPrinter(OpNames.of(schedule.function))
    values_by_buffer: dict[Buffer, list[Value]] = {b: [] for b in schedule.buffers}
    for v, b in schedule.buffer_of.items():
        values_by_buffer[b].append(v)
    buffers = [f"  {printer.buffer(b, values)}" for b, values in values_by_buffer.items()]
    return "\n".join([f"scratch {schedule.scratch_bytes} bytes", *buffers, *printer.items(schedule.items, "")]) + "\n"


def buffer_text(b: Buffer) -> str:
    """One line for a buffer: the dimensions that are stored, panels and copies, and the offset."""
    form = f" panels of {b.panel}" if b.panel else ""
    form += f" for {b.copies} steps" if b.copies > 1 else ""
    sizes = "x".join(map(str, b.shape[b.contracted_dims :])) or "1"
    return f"b{b.id}: {sizes}x{b.elem}{form}" + (" (registers)" if b.contracted else f" @{b.offset}")


def print_items(items: list[Item], indent: str, with_lines: bool) -> list[str]:
    """The lines of a region."""
    lines: list[str] = []
    for item in items:
        place = f"  # {item.op.loc.user.line}" if with_lines and not isinstance(item, Nest) else ""
        if isinstance(item, Nest):
            lines.append(f"{indent}nest" + (f" sharing {item.fused_depth}" if item.fused_depth else ""))
            for body in item.bodies:
                texts = (stmt_text(s) + (f"  # {s.op.loc.user.line}" if with_lines and s.op else "") for s in body)
                lines += [f"{indent}  {'| ' if i else '- '}{text}" for i, text in enumerate(texts)]
        elif isinstance(item, Control):
            lines.append(f"{indent}{item.op.name}{place}")
            for region in item.regions:
                lines += [f"{indent}  region", *print_items(region, indent + "    ", with_lines)]
        else:
            lines.append(indent + (f"scalar {item.op.name}" if isinstance(item, Scalar) else str(item)) + place)
    return lines


def stmt_text(stmt: Stmt) -> str:
    """One line for a statement: its kind, op, target and loops from the outermost."""
    what = stmt.op.name if stmt.op is not None else "copy"
    into = f" -> b{stmt.buffer.id}" if stmt.buffer is not None else ""
    return f"{stmt.kind} {what}{into} {loops_text(stmt)}"


def loops_text(stmt: Stmt) -> str:
    """The loops of a statement, from the outermost, named by their dimensions."""
    loops = (
        f"{'lanes' if d == stmt.lanes else 'for'} d{d}<{stmt.domain[d]}{'*' if d in stmt.reduced else ''}"
        for d in stmt.loops
    )
    return f"[{' '.join(loops) or 'once'}]"


# --- all of a schedule -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpNames:
    """How the text of a function's Loop IR names its values and ops.

    An op goes by its results; one without results by its name, with its number where there are several.
    """

    values: dict[Value, str] = field(default_factory=dict)
    ops: dict[Op, str] = field(default_factory=dict)
    positions: dict[Op, int] = field(default_factory=dict)  # those of `Materialization`

    @classmethod
    def of(cls, function: Function) -> OpNames:
        printer = FunctionPrinter(locations=False)
        printer.function(function)
        names = cls(printer.names)
        effects = Counter(op.name for op in function.walk() if not op.results)
        seen = Counter[str]()
        for op in function.walk():
            names.positions[op] = len(names.positions)
            seen[op.name] += not op.results
            number = f" {seen[op.name]}" if effects[op.name] > 1 else ""
            names.ops[op] = f"%{names.values[op.results[0]]}" if op.results else op.name + number
        return names

    def defined(self, op: Op) -> str:
        """An op with its results in front."""
        results = ", ".join(f"%{self.values[v]}" for v in op.results)
        return f"{results} = {op.name}" if results else self.ops[op]


@dataclass(frozen=True, slots=True)
class LoopPrinter:
    """Writes all fields of items and buffers that do not follow from their ops."""

    names: OpNames

    def buffer(self, b: Buffer, values: list[Value]) -> str:
        """One line: the shape, then what is not as usual, the place, the live range, and the values that it holds."""
        parts = [f"b{b.id}: {sizes_text(b.shape)}x{b.elem}"]
        parts += [f"padded {sizes_text(b.sizes)}"] if tuple(b.sizes) != b.shape else []
        parts += ["unpadded"] if b.unpadded else []
        parts += [f"panels of {b.panel}"] if b.panel else []
        parts += [f"for {b.copies} steps"] if b.copies != 1 else []
        parts += ["in memory format"] if b.in_memory_format else []
        parts += [f"contracted {b.contracted_dims}"] if b.contracted_dims else []
        parts += ["(registers)"] if b.contracted else []
        parts += [f"@{b.offset}", f"live {b.live_start} to {b.live_end}"]
        parts += [f"view of b{b.view_of.id}"] if b.view_of is not None else []
        parts += [f"holds {', '.join(f'%{self.names.values[v]}' for v in values)}"] if values else []
        return " ".join(parts)

    def items(self, items: list[Item], indent: str) -> list[str]:
        """The lines of a region."""
        lines: list[str] = []
        for item in items:
            if isinstance(item, Nest):
                lines += self.nest(item, indent)
            elif isinstance(item, Control):
                lines.append(indent + self.names.defined(item.op))
                for region in item.regions:
                    lines += [f"{indent}  region", *self.items(region, indent + "    ")]
            elif isinstance(item, LibraryOp):
                lines.append(f"{indent}library {self.field(item)}")
            else:
                lines.append(f"{indent}scalar {self.names.defined(item.op)}")
        return lines

    def nest(self, nest: Nest, indent: str) -> list[str]:
        """The line of a nest, and those of its statements."""
        head = f"{indent}nest" + (f" sharing {nest.fused_depth}" if nest.fused_depth else "")
        head += f" unless done by {self.names.ops[nest.fallback_of.op]}" if nest.fallback_of is not None else ""
        bodies = (enumerate(body) for body in nest.bodies)
        return [head, *(f"{indent}  {'| ' if i else '- '}{self.stmt(s)}" for body in bodies for i, s in body)]

    def stmt(self, stmt: Stmt) -> str:
        """One line for a statement: its kind, op, target and loops, and what does not follow from these."""
        parts = [stmt.kind]
        if stmt.op is not None:
            parts.append(self.names.defined(stmt.op) if stmt.value is None else self.computed(stmt.value, stmt.op))
        elif stmt.value is not None:
            parts.append(f"%{self.names.values[stmt.value]}")
        parts += [f"-> b{stmt.buffer.id}"] if stmt.buffer is not None else []
        parts += [f"from b{stmt.source.id}"] if stmt.source is not None else []
        parts += [f"packing for {self.names.ops[stmt.packs_operand_of]}"] if stmt.packs_operand_of is not None else []
        parts += [f"in chunks of {stmt.forced_width}"] if stmt.forced_width else []
        usual = usual_domain(stmt.kind, stmt.op, stmt.value, stmt.buffer)
        parts += [f"over {sizes_text(stmt.domain)}"] if stmt.domain != usual else []
        at_op = stmt.op is not None and self.names.positions[stmt.op] == stmt.position
        parts += [] if at_op else [f"at {stmt.position}"]
        return f"{' '.join(parts)} {loops_text(stmt)}"

    def computed(self, value: Value, op: Op) -> str:
        """One result of an op that is written."""
        return f"%{self.names.values[value]} = {op.name}"

    def field(self, value: Any) -> str:
        """A field of a library op: a number, buffer, value, op, tuple or record, whose usual fields are left out."""
        if isinstance(value, Buffer):
            return f"b{value.id}"
        if isinstance(value, Value):
            return f"%{self.names.values[value]}"
        if isinstance(value, Op):
            return f"op {self.names.ops[value]}"
        if isinstance(value, tuple):
            return f"[{', '.join(map(self.field, value))}]"
        if isinstance(value, Nest):
            return "nest"  # the one that is its fallback
        if not is_dataclass(value):
            return attr_text(value)
        given = [(f.name, getattr(value, f.name)) for f in fields(value) if getattr(value, f.name) != f.default]
        return f"{type(value).__name__}({', '.join(f'{name} = {self.field(x)}' for name, x in given)})"


def sizes_text(sizes: tuple[int, ...] | list[int]) -> str:
    """Sizes as in `8x64`."""
    return "x".join(map(str, sizes))


def usual_domain(kind: str, op: Op | None, value: Value | None, buffer: Buffer | None) -> tuple[int, ...]:
    """The domain that a statement of this kind has, by what it computes, or by the buffer that it clears."""
    if value is not None or op is None:
        return value.shape if value is not None else buffer.shape if buffer is not None else ()
    if kind == "store":
        return Access.of(op).shape
    return (op.results if kind == "atomic" else op.operands)[0].shape
