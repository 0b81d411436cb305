"""Kernels of the language on the simulated device, by way of what a lowering makes of them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from pypto.backends.ascend.block.insert_sync import sync
from pypto.backends.ascend.block.verify import verify
from pypto.backends.ascend.blockir.ir import BlockKernel
from pypto.backends.ascend.emit.ascendc import emit
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.base import Slot
from pypto.ir.core import Function
from pypto.passes import optimize
from pypto.runtime.acl import Memory, opened
from tests.backends_ascend.products import B2, whole
from tests.sim.device import built, compiled

Lower = Callable[[Function, AscendTarget], BlockKernel]
_PACKED = {"i1": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u32": "I", "f32": "f"}


def function_of(kernel: Any, arguments: dict[str, Any]) -> Function:
    return optimize(kernel.compile(**arguments).program.function)


def value_of(slot: Slot, arguments: dict[str, Any], memory: dict[str, Memory]) -> Any:
    """What a launch passes for a slot."""
    x = arguments[slot.arg]
    if slot.kind in ("ptr", "scalar"):
        return memory[slot.arg].address if slot.kind == "ptr" else x
    return x.shape[slot.dim] if slot.kind == "shape" else x.strides[slot.dim] // x.itemsize


def run(
    kernel: Any,
    grid: tuple[int, ...],
    lower: Lower,
    blocks: int = 3,
    kind: str = "",
    chip: AscendTarget = B2,
    verifies: bool = True,
    edit: Callable[[str], str] = str,
    **arguments: Any,
) -> None:
    """Launch on the simulated device, in place of a launch on the CPU; `edit` changes the text."""
    made = lower(function_of(kernel, arguments), chip)
    assert kind in ("", made.kind)
    placed = bool(made.buffers) and made.buffers[0].address is not None
    ready = sync(made, chip) if placed else whole(made, chip)
    if verifies:
        verify(ready, chip)
    text = edit(emit(ready, chip))
    device = opened(built() / "lib64" / "libascendcl.so")  # the one that `pto.device` has, too
    arrays = {name: x for name, x in arguments.items() if isinstance(x, np.ndarray)}
    try:
        memory = {name: device.copied(np.ascontiguousarray(x)) for name, x in arrays.items()}
        values: list[Any] = []
        layout = "="
        for slot, param in zip(made.slots, made.params, strict=False):
            code = "Q" if slot.kind == "ptr" else _PACKED[param.dtype.mnemonic]
            size = max(4, struct.calcsize(code))
            layout += "x" * (-struct.calcsize(layout) % size) + code
            values.append(value_of(slot, arguments, memory))
        layout += "3i"
        values += [*grid, 1, 1, 1][:3]
        if made.workspace:
            memory["workspace"] = device.empty(made.workspace * blocks)
            layout += "x" * (-struct.calcsize(layout) % 8) + "Q"
            values.append(memory["workspace"].address)
        binary = compiled(text.split("using namespace AscendC;\n", 1)[1], arch=chip.flag)
        device.launch(device.load(binary).function(made.name), blocks, struct.pack(layout, *values))
        device.synchronize()
        for name, x in arrays.items():
            memory[name].read(x)
    finally:
        device.close()
