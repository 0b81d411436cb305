"""Tile fitting: splits the tiles of a kernel until all its buffers fit UB.

Each candidate from `split_candidates` is lowered and allocated, the largest tiles first. The first one with room for
double buffering wins. If none has it, in-place reuse and single buffers make room.

    tile of 64 x 1024: no room     ->     loop over 4 parts of 16 x 1024, double buffered
"""

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

MAX_TRIES = 3  # sizes that fit without double buffers, before the first of them is taken


def fit_to_ub(function: Function, target: AscendTarget) -> BlockKernel:
    """Return Block IR with addresses, of the largest tiles that fit, with double buffering if at all possible.

    Raises
    ------
    NoRoomOnAscend
        When the tiles are too large and cannot be split.
    """
    first_error: NoRoomOnAscend | None = None
    fitting: list[BlockKernel] = []
    tight: list[BlockKernel] = []
    for smaller in split_candidates(raise_bulk_atomics(function)):
        kernel = hoist_invariants(coalesce_copies(lower(smaller, target)))
        try:
            fitting.append(allocate(double_buffer(kernel), target))
        except NoRoomOnAscend as error:
            first_error = first_error or error
            tight += (
                []
                if tight
                else allocate_first_fitting(
                    (double_buffer(reuse_in_place(kernel, True)), reuse_in_place(kernel, True)), target
                )
            )
            continue
        if any(buffer.stages > 1 for buffer in fitting[-1].buffers):
            return fitting[-1]
        if len(fitting) == MAX_TRIES:
            break
    if first_error is not None and not fitting and not tight:
        raise first_error
    return (fitting or tight)[0]


def allocate_first_fitting(kernels: Iterable[BlockKernel], target: AscendTarget) -> list[BlockKernel]:
    """Return those of some kernels that fit, with addresses."""
    allocated = []
    for kernel in kernels:
        with suppress(NoRoomOnAscend):
            allocated.append(allocate(kernel, target))
    return allocated
