"""What passes for the CPU give, as text: Tile IR, the versions of a kernel, the values with memory, or Loop IR."""

from __future__ import annotations

from typing import Any

from pypto.backends.cpu.loopir.allocate import BufferAllocation
from pypto.backends.cpu.loopir.ir import Schedule
from pypto.backends.cpu.loopir.materialize import Materialization
from pypto.backends.cpu.loopir.printer import LoopPrinter, OpNames, print_loops
from pypto.ir.printer import print_function


def print_ir(ir: Any) -> str:
    """The text of what a pass gives."""
    if isinstance(ir, Schedule):
        return print_loops(ir)
    if isinstance(ir, Materialization):
        return print_materialization(ir)
    if isinstance(ir, BufferAllocation):
        return print_allocation(ir)
    if isinstance(ir, list):
        return "\n".join(print_function(version) for version in ir)
    return print_function(ir)


def print_materialization(plan: Materialization) -> str:
    """The values with memory, from the last one to the first, and who reads them."""
    names = OpNames.of(plan.function)
    readers = {v: ", ".join(names.ops[op] for op in plan.readers[v]) for v in plan.readers if v in plan.materialized}
    return "".join(f"%{names.values[v]}: {v.type} read by {ops or 'nobody'}\n" for v, ops in readers.items())


def print_allocation(storage: BufferAllocation) -> str:
    """The buffers, their live ranges and their values."""
    printer = LoopPrinter(OpNames.of(storage.plan.function))
    values_by_buffer = {b: [v for v in storage.buffer_of if storage.buffer_of[v] is b] for b in storage.buffers}
    return "".join(f"{printer.buffer(b, values)}\n" for b, values in values_by_buffer.items())
