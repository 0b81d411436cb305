"""From Tile IR to the text of a kernel, step by step."""

from __future__ import annotations

from pypto.backends.ascend.blockir import BlockKernel
from pypto.backends.ascend.cube.forms import placed
from pypto.backends.ascend.emit import emit
from pypto.backends.ascend.sync import sync
from pypto.backends.ascend.target import AscendTarget
from pypto.ir.core import Function


def lowered(function: Function, target: AscendTarget) -> tuple[BlockKernel, str]:
    """Block IR with addresses and events, and Ascend C, of an optimised kernel."""
    kernel = sync(placed(function, target), target)
    return kernel, emit(kernel, target)
