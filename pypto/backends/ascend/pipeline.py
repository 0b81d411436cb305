"""From Tile IR to the text of a kernel, step by step."""

from __future__ import annotations

from pypto.backends.ascend.block.insert_sync import sync
from pypto.backends.ascend.blockir.ir import BlockKernel
from pypto.backends.ascend.cube.forms import lower_kernel
from pypto.backends.ascend.emit.ascendc import emit
from pypto.backends.ascend.target import AscendTarget
from pypto.ir.core import Function


def lower_to_text(function: Function, target: AscendTarget) -> tuple[BlockKernel, str]:
    """Block IR with addresses and events, and Ascend C, of an optimised kernel."""
    kernel = sync(lower_kernel(function, target), target)
    return kernel, emit(kernel, target)
