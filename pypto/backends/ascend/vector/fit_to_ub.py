"""Kernels with addresses, in parts where a core has too little memory for the tiles as they are."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from pypto.backends.ascend.block.allocate import allocate
from pypto.backends.ascend.block.copy_coalescing import coalesce_copies
from pypto.backends.ascend.block.double_buffering import double_buffer
from pypto.backends.ascend.block.in_place import reuse_in_place
from pypto.backends.ascend.block.licm import hoist_invariants
from pypto.backends.ascend.blockir.ir import BlockKernel
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.tile.tile_splitting import split_candidates
from pypto.backends.ascend.vector.bulk_atomics import raise_bulk_atomics
from pypto.backends.ascend.vector.lower import lower
from pypto.errors.ascend import NoRoomOnAscend
from pypto.ir.core import Function

MAX_TRIES = 3  # sizes that fit, until one is taken whose loads and stores have no second buffer


def fit_to_ub(function: Function, target: AscendTarget) -> BlockKernel:
    """Block IR with addresses, of the largest parts that fit; with a second buffer for copies, if at all possible.

    Raises
    ------
    NoRoomOnAscend
        When the tiles are too large and cannot be taken apart.
    """
    problem: NoRoomOnAscend | None = None
    found: list[BlockKernel] = []
    tight: list[BlockKernel] = []
    for smaller in split_candidates(raise_bulk_atomics(function)):
        kernel = hoist_invariants(coalesce_copies(lower(smaller, target)))
        try:
            found.append(allocate(double_buffer(kernel), target))
        except NoRoomOnAscend as error:
            problem = problem or error
            tight += (
                []
                if tight
                else allocate_first_fitting(
                    (double_buffer(reuse_in_place(kernel, True)), reuse_in_place(kernel, True)), target
                )
            )
            continue
        if any(buffer.stages > 1 for buffer in found[-1].buffers):
            return found[-1]
        if len(found) == MAX_TRIES:
            break
    if problem is not None and not found and not tight:
        raise problem
    return (found or tight)[0]


def allocate_first_fitting(kernels: Iterable[BlockKernel], target: AscendTarget) -> list[BlockKernel]:
    """Those of some kernels that there is room for, with addresses."""
    found = []
    for kernel in kernels:
        with suppress(NoRoomOnAscend):
            found.append(allocate(kernel, target))
    return found
