"""Which cores a kernel is for: cube cores alone, blocks of both kinds, or vector cores alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from pypto.backends.ascend.block.allocate import allocate
from pypto.backends.ascend.block.copy_coalescing import coalesce_copies
from pypto.backends.ascend.block.double_buffering import double_buffer
from pypto.backends.ascend.block.in_place import reuse_in_place
from pypto.backends.ascend.block.l2_bypass import bypass_l2
from pypto.backends.ascend.block.list_scheduling import list_schedule
from pypto.backends.ascend.blockir.ir import BlockKernel
from pypto.backends.ascend.cube.lower import NotCube, TooLarge, lower_cube
from pypto.backends.ascend.cube.mixed import lower_mixed
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.tile.coarsening import coarsen
from pypto.backends.ascend.tile.range_analysis import fold_comparisons
from pypto.backends.ascend.tile.tile_splitting import is_splittable, split_candidates, split_tiles
from pypto.backends.ascend.vector.atomics import needs_one_core
from pypto.backends.ascend.vector.fit_to_ub import fit_to_ub
from pypto.errors.ascend import NoForm, NoRoomOnAscend, NotOnAscend
from pypto.ir.core import Function
from pypto.passes.cse import cse
from pypto.passes.dimensions import dimension_classes
from pypto.passes.licm import licm
from pypto.passes.products import accumulated

MAX_SIZES: Final = 8  # halvings of blocks until sums fit in L0C
# Rows in so many parts, and which buffers take turns: what costs least comes first.
FORMS: Final = (*((n, turns) for n in (1, 2, 4) for turns in ("all", "loads")), *((n, "") for n in (1, 2, 4, 8, 16)))
Lower = Callable[[Function, AscendTarget], BlockKernel]


def lower_kernel(function: Function, target: AscendTarget) -> BlockKernel:
    """Block IR with addresses.

    It is for cube cores where a kernel is made of products alone, for both kinds of cores where it has products among
    other work, and else for vector cores.
    """
    kernel, _ = choose_form(function, target)
    return kernel


def choose_form(function: Function, target: AscendTarget) -> tuple[BlockKernel, tuple[str, ...]]:
    """The kernel, and for each better form why it is not that one."""
    reasons: list[str] = []
    function = fold_comparisons(accumulated(function))
    has_dots = any(op.name == "dot" for op in function.walk()) and not needs_one_core(function)
    for form in (cube_form, mixed_form) if has_dots else ():
        try:
            return form(function, target), tuple(reasons)
        except (NotCube, NoRoomOnAscend, NoForm) as error:
            reasons.append(str(error))
    return bypass_l2(vector_form(function, target), function, target), tuple(reasons)


def vector_form(function: Function, target: AscendTarget) -> BlockKernel:
    """For vector cores alone, several programs at once where they are small."""
    group = coarsen(function)
    try:
        return fit_to_ub(group if group is not None else function, target)
    except (NoForm, NoRoomOnAscend, NotOnAscend):
        if group is None:
            raise
    return fit_to_ub(function, target)


def cube_form(function: Function, target: AscendTarget) -> BlockKernel:
    return allocate(of_size(function, target, lower_cube), target)


def mixed_form(function: Function, target: AscendTarget) -> BlockKernel:
    """With blocks as large as the cores' memories allow, and rows of vector cores in as few parts."""
    first: NoRoomOnAscend | TooLarge | None = None
    for smaller in islice(split_candidates(unstack_products(function)), MAX_SIZES):
        try:
            return split_rows(smaller, target)
        except (NoRoomOnAscend, TooLarge) as error:
            first = first or error
    assert first is not None
    raise first


def split_rows(function: Function, target: AscendTarget) -> BlockKernel:
    """With two buffers in turns where there is room, at least for loads, if need be with rows in more parts."""
    first: NoRoomOnAscend | None = None
    plain: BlockKernel | None = None
    for parts, turns in FORMS:
        try:
            kernel = list_schedule(reuse_in_place(coalesce_copies(lower_mixed(function, target, parts))))
            kernel = allocate(double_buffer(kernel, turns == "loads") if turns else kernel, target)
        except NotCube:
            if first is None:
                raise
        except NoRoomOnAscend as error:
            first = first or error
        else:
            if not turns or any(b.stages > 1 for b in kernel.buffers if b.space == "UB"):
                return kernel
            plain = plain or kernel  # without stages after all
    if plain is not None:
        return plain
    assert first is not None
    raise first


def of_size(function: Function, target: AscendTarget, lower: Lower) -> BlockKernel:
    """The kernel with the largest blocks whose sums fit in L0C."""
    first: TooLarge | None = None
    for smaller in islice(split_candidates(unstack_products(function)), MAX_SIZES):
        try:
            return lower(smaller, target)
        except TooLarge as error:
            first = first or error
    assert first is not None
    raise first


def unstack_products(function: Function) -> Function:
    """The kernel with loops over its stacks of products."""
    found = dimension_classes(function)
    stacks = [op.result for op in function.walk() if op.name == "dot" and len(op.result.shape) == 3]
    cuts = {found.root((v, 0)): 1 for v in stacks if v.shape[0] != 1}
    if not cuts or any(family in found.pinned or not is_splittable(function, found, family) for family in cuts):
        return function
    return cse(licm(split_tiles(function, found, cuts)))
