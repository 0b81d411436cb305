"""What passes for the CPU give, as text: Tile IR, the versions of a kernel, the values with memory, or Loop IR."""

from __future__ import annotations

from typing import Any

from pypto.backends.cpu.loopir.allocate import BufferAllocation
from pypto.backends.cpu.loopir.ir import Schedule
from pypto.backends.cpu.loopir.materialize import Materialization
from pypto.backends.cpu.loopir.printer import buffer_text, print_schedule
from pypto.ir.core import Value
from pypto.ir.printer import print_function


def print_ir(ir: Any) -> str:
    """The text of what a pass gives."""
    if isinstance(ir, Schedule):
        return print_schedule(ir)
    if isinstance(ir, Materialization):
        return "".join(f"{value_text(v)}\n" for v in ir.readers if v in ir.materialized)
    if isinstance(ir, BufferAllocation):
        held = {b: [value_text(v) for v in ir.buffer_of if ir.buffer_of[v] is b] for b in ir.buffers}
        return "".join(f"{buffer_text(b)} holds {', '.join(held[b])}\n" for b in ir.buffers)
    if isinstance(ir, list):
        return "\n".join(print_function(version) for version in ir)
    return print_function(ir)


def value_text(v: Value) -> str:
    """A value by its name, or else by the op that gives it."""
    name = f"%{v.hint}" if v.hint else v.op.name if v.op is not None else "an argument"
    return f"{name}: {v.type}"
