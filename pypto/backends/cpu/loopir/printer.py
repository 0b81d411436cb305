"""Printer of Loop IR: a text with one line for each buffer, nest, statement and scalar, for people and golden files.

scratch 4672 bytes
  b0: 1000xf32 @0                                  a buffer, its shape and its offset in scratch
nest sharing 1                                     a nest whose bodies share one outer loop
  - compute exp -> b0 [lanes d0<1000]              `-` begins a body
  | reduce sum [lanes d0<1000*]                    `|` continues it; `*` marks a reduced dimension
"""

from __future__ import annotations

from pypto.backends.cpu.loopir.ir import Buffer, Control, Item, Nest, Scalar, Schedule, Stmt


def print_schedule(schedule: Schedule, with_lines: bool = False) -> str:
    """The text of a kernel; `with_lines` adds the user's source line behind every statement."""
    buffers = [f"  {buffer_text(b)}" for b in schedule.buffers]
    items = print_items(schedule.items, "", with_lines)
    return "\n".join([f"scratch {schedule.scratch_bytes} bytes", *buffers, *items]) + "\n"


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
                texts = (stmt_text(s) + (f"  # {s.the_op.loc.user.line}" if with_lines else "") for s in body)
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
    loops = " ".join(loop_text(stmt, d) for d in stmt.loops)
    what = stmt.op.name if stmt.op is not None else "copy"
    into = f" -> b{stmt.buffer.id}" if stmt.buffer is not None else ""
    return f"{stmt.kind} {what}{into} [{loops or 'once'}]"


def loop_text(stmt: Stmt, d: int) -> str:
    """One loop, named by its dimension."""
    return f"{'lanes' if d == stmt.lanes else 'for'} d{d}<{stmt.domain[d]}{'*' if d in stmt.reduced else ''}"
