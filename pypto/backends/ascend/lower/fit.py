"""Kernels with addresses, in parts where a core has too little memory for the tiles as they are."""

from __future__ import annotations

from pypto.backends.ascend.blockir import BlockKernel
from pypto.backends.ascend.lower import lower
from pypto.backends.ascend.lower.coalesce import coalesced
from pypto.backends.ascend.lower.split import all_sizes
from pypto.backends.ascend.lower.stages import in_turns
from pypto.backends.ascend.lower.whole import with_whole_atomics
from pypto.backends.ascend.plan import plan
from pypto.backends.ascend.target import AscendTarget
from pypto.errors.ascend import NoRoomOnAscend
from pypto.ir.core import Function

TRIES = 3  # sizes that fit, until one is taken whose loads and stores have no second buffer


def fitted(function: Function, target: AscendTarget) -> BlockKernel:
    """Block IR with addresses, of the largest parts that fit; with a second buffer for copies, if at all possible.

    Raises
    ------
    NoRoomOnAscend
        When the tiles are too large and cannot be taken apart.
    """
    problem: NoRoomOnAscend | None = None
    found: list[BlockKernel] = []
    for smaller in all_sizes(with_whole_atomics(function)):
        try:
            kernel = plan(in_turns(coalesced(lower(smaller, target))), target)
        except NoRoomOnAscend as error:
            problem = problem or error
            continue
        found.append(kernel)
        if any(buffer.stages > 1 for buffer in kernel.buffers):
            return kernel
        if len(found) == TRIES:
            break
    if problem is not None and not found:
        raise problem
    return found[0]
