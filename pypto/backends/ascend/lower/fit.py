"""Kernels with addresses, in parts where a core has too little memory for the tiles as they are."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from pypto.backends.ascend.blockir import BlockKernel
from pypto.backends.ascend.lower import lower
from pypto.backends.ascend.lower.coalesce import coalesced
from pypto.backends.ascend.lower.hoist import hoisted
from pypto.backends.ascend.lower.inplace import in_place
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
    tight: list[BlockKernel] = []
    for smaller in all_sizes(with_whole_atomics(function)):
        kernel = hoisted(coalesced(lower(smaller, target)))
        try:
            found.append(plan(in_turns(kernel), target))
        except NoRoomOnAscend as error:
            problem = problem or error
            tight += [] if tight else planned((in_turns(in_place(kernel, True)), in_place(kernel, True)), target)
            continue
        if any(buffer.stages > 1 for buffer in found[-1].buffers):
            return found[-1]
        if len(found) == TRIES:
            break
    if problem is not None and not found and not tight:
        raise problem
    return (found or tight)[0]


def planned(kernels: Iterable[BlockKernel], target: AscendTarget) -> list[BlockKernel]:
    """Those of some kernels that there is room for, with addresses."""
    found = []
    for kernel in kernels:
        with suppress(NoRoomOnAscend):
            found.append(plan(kernel, target))
    return found
