"""Form selection: whether a kernel runs on cube cores alone, on both kinds of cores, or on vector cores alone.

Forms are tried from the fastest to the most general one. A kernel of products alone takes the cube form. Products among
other work take the mixed form: a cube core and its vector cores exchange tiles. All else, and what fits neither, takes
the vector form. Each refusal is kept as a reason that `explain` shows.
"""

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
from pypto.backends.ascend.cube.accumulators import NotCube, TooLarge
from pypto.backends.ascend.cube.lower import lower_cube
from pypto.backends.ascend.cube.mixed import lower_mixed
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.tile.coarsening import coarsen
from pypto.backends.ascend.tile.tile_splitting import is_splittable, split_candidates, split_tiles
from pypto.backends.ascend.vector.atomics import needs_one_core
from pypto.backends.ascend.vector.fit_to_ub import fit_to_ub
from pypto.errors.ascend import NoForm, NoRoomOnAscend, NotOnAscend
from pypto.ir.core import Function
from pypto.passes.cse import cse
from pypto.passes.dimensions import dimension_classes
from pypto.passes.fold_comparisons import fold_comparisons
from pypto.passes.licm import licm
from pypto.passes.products import accumulated

MAX_HALVINGS: Final = 8  # of blocks, until accumulators fit in L0C
# Chunks of rows, and the buffers that get two stages (all, those for loads, none); the cheapest comes first.
ROW_FORMS: Final = (
    *((n, buffering) for n in (1, 2, 4) for buffering in ("all", "loads")),
    *((n, "") for n in (1, 2, 4, 8, 16)),
)
Lower = Callable[[Function, AscendTarget], BlockKernel]


def lower_kernel(function: Function, target: AscendTarget) -> BlockKernel:
    """Return Block IR with addresses, in the best form that takes the kernel."""
    kernel, _ = choose_form(function, target)
    return kernel


def choose_form(function: Function, target: AscendTarget) -> tuple[BlockKernel, tuple[str, ...]]:
    """Return the kernel in its form, and the reason against each better form."""
    reasons: list[str] = []
    function = fold_comparisons(accumulated(function))
    has_products = any(op.name == "dot" for op in function.walk()) and not needs_one_core(function)
    for form in (cube_form, mixed_form) if has_products else ():
        try:
            return form(function, target), tuple(reasons)
        except (NotCube, NoRoomOnAscend, NoForm) as error:
            reasons.append(str(error))
    return bypass_l2(vector_form(function, target), function, target), tuple(reasons)


def vector_form(function: Function, target: AscendTarget) -> BlockKernel:
    """Lower for vector cores; small programs are coarsened where that fits."""
    coarsened = coarsen(function)
    try:
        return fit_to_ub(coarsened if coarsened is not None else function, target)
    except (NoForm, NoRoomOnAscend, NotOnAscend):
        if coarsened is None:
            raise
    return fit_to_ub(function, target)


def cube_form(function: Function, target: AscendTarget) -> BlockKernel:
    """Lower for cube cores, with the largest blocks that fit."""
    return allocate(largest_fitting(function, target, lower_cube), target)


def mixed_form(function: Function, target: AscendTarget) -> BlockKernel:
    """Lower for both kinds of cores, with the largest blocks that fit, and rows of vector cores in as few chunks."""
    first_error: NoRoomOnAscend | TooLarge | None = None
    for smaller in islice(split_candidates(unstack_products(function)), MAX_HALVINGS):
        try:
            return split_rows(smaller, target)
        except (NoRoomOnAscend, TooLarge) as error:
            first_error = first_error or error
    assert first_error is not None
    raise first_error


def split_rows(function: Function, target: AscendTarget) -> BlockKernel:
    """Try row chunks and double buffering, from the cheapest pair to the one that needs the least memory."""
    first_error: NoRoomOnAscend | None = None
    single_buffered: BlockKernel | None = None
    for chunks, buffering in ROW_FORMS:
        try:
            kernel = list_schedule(reuse_in_place(coalesce_copies(lower_mixed(function, target, chunks))))
            kernel = allocate(double_buffer(kernel, buffering == "loads") if buffering else kernel, target)
        except NotCube:
            if first_error is None:
                raise
        except NoRoomOnAscend as error:
            first_error = first_error or error
        else:
            if not buffering or any(b.stages > 1 for b in kernel.buffers if b.space == "UB"):
                return kernel
            single_buffered = single_buffered or kernel  # double buffering found no buffer
    if single_buffered is not None:
        return single_buffered
    assert first_error is not None
    raise first_error


def largest_fitting(function: Function, target: AscendTarget, lower: Lower) -> BlockKernel:
    """Lower with the largest blocks whose accumulators fit in L0C."""
    first_error: TooLarge | None = None
    for smaller in islice(split_candidates(unstack_products(function)), MAX_HALVINGS):
        try:
            return lower(smaller, target)
        except TooLarge as error:
            first_error = first_error or error
    assert first_error is not None
    raise first_error


def unstack_products(function: Function) -> Function:
    """Turn batched products into loops over plain ones."""
    classes = dimension_classes(function)
    stacks = [op.result for op in function.walk() if op.name == "dot" and len(op.result.shape) == 3]
    sizes = {classes.root((v, 0)): 1 for v in stacks if v.shape[0] != 1}
    if not sizes or any(
        dimension in classes.pinned or not is_splittable(function, classes, dimension) for dimension in sizes
    ):
        return function
    return cse(licm(split_tiles(function, classes, sizes)))
