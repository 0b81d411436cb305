"""The pass list of Ascend: from optimised Tile IR to Block IR with events, and the text of Ascend C.

`choose_form` tries the forms of a kernel in turn: cube cores alone where it is made of products, cube and vector cores
together where it has products among other work, and else vector cores. Within a form, tiles are split until what a
core holds fits into its memories.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from pypto.backends.ascend.block.allocate import allocate
from pypto.backends.ascend.block.copy_coalescing import coalesce_copies
from pypto.backends.ascend.block.double_buffering import double_buffer
from pypto.backends.ascend.block.in_place import reuse_in_place
from pypto.backends.ascend.block.insert_sync import sync
from pypto.backends.ascend.block.l2_bypass import bypass_l2
from pypto.backends.ascend.block.licm import hoist_invariants
from pypto.backends.ascend.block.list_scheduling import list_schedule
from pypto.backends.ascend.block.unit_flags import flag_units
from pypto.backends.ascend.blockir.ir import BlockKernel, CubeRefusal
from pypto.backends.ascend.cube import passes as cube_passes
from pypto.backends.ascend.cube.accumulators import NotCube, TooLarge
from pypto.backends.ascend.cube.lower import lower_cube
from pypto.backends.ascend.cube.mixed import lower_mixed
from pypto.backends.ascend.emit.ascendc import emit
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.techniques import TECHNIQUES
from pypto.backends.ascend.tile.activation_idioms import recognize_activations
from pypto.backends.ascend.tile.coarsening import coarsen
from pypto.backends.ascend.tile.float8_operands import widen_float8
from pypto.backends.ascend.tile.interleaving import reduce_interleaving
from pypto.backends.ascend.tile.narrow_comparisons import narrow_comparisons
from pypto.backends.ascend.tile.reduction_splitting import reduction_candidates, refusal_of_rows
from pypto.backends.ascend.tile.scalar_loads import scalarize_loads
from pypto.backends.ascend.tile.tile_splitting import is_splittable, split_candidates, split_tiles
from pypto.backends.ascend.vector.bulk_atomics import raise_bulk_atomics
from pypto.backends.ascend.vector.handlers.atomics import needs_one_core
from pypto.backends.ascend.vector.lower import lower
from pypto.errors.ascend import NoForm, NoRoomOnAscend, NotOnAscend
from pypto.ir.core import Function
from pypto.passes.analysis.dimensions import dimension_classes
from pypto.passes.cse import cse
from pypto.passes.licm import licm
from pypto.passes.manager import Pass, observe, run
from pypto.passes.normalize_loops import normalize_pointer_loops
from pypto.passes.products import accumulated
from pypto.passes.program_order import order_programs
from pypto.passes.rules.fold_comparisons import fold_comparisons
from pypto.passes.unswitch_modulo import unswitch_modulo

ONE_CORE: Final = "one core does all programs, since the copy engines lack an atomic operation of the kernel"
MAX_SIZES: Final = 8  # halvings of blocks until sums fit in L0C
MAX_TRIES: Final = 3  # sizes that fit, until one is taken whose loads and stores have no second buffer


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of one attempt: rows split into `parts`, and double-buffered `stages`: all, loads or none.

    If memory `is_tight`, results reuse the buffers of operands even where that makes units wait for each other, and
    instructions keep their order, in which buffers are needed for a shorter time.
    """

    parts: int = 1
    stages: str = "all"
    is_tight: bool = False


# Of mixed kernels: what costs least comes first.
MIXED_CHOICES: Final = (
    *(Choices(parts, stages) for parts in (1, 2, 3, 4) for stages in ("all", "loads")),
    *(Choices(parts, "") for parts in (1, 2, 3, 4, 8, 16)),
    *(Choices(parts, stages, is_tight=True) for parts in (1, 2, 4) for stages in ("loads", "")),
)


def unstack_products(function: Function) -> Function:
    """Split batched products into loops over matrices, since the cube core multiplies matrices."""
    found = dimension_classes(function)
    stacks = [op.result for op in function.walk() if op.name == "dot" and len(op.result.shape) == 3]
    cuts = {found.root((v, 0)): 1 for v in stacks if v.shape[0] != 1}
    if not cuts or any(family in found.pinned or not is_splittable(function, found, family) for family in cuts):
        return function
    return cse(licm(split_tiles(function, found, cuts)))


# --- Tile IR -------------------------------------------------------------------------------------------------------
TILE: Final = (
    Pass("program_order", order_programs, "first: all others know axis 0 as the fastest one"),
    Pass("scalarize_loads", scalarize_loads, "first: whether an operand lies at a number decides about its product",
        ),
    Pass("unswitch_modulo", unswitch_modulo, "before loops are counted anew: without gathers, operands are copies",
        "dot", optional=True),
    Pass("normalize_loops", normalize_pointer_loops, "before K blocking, which knows loops over K alone", "dot",
        optional=True),
    Pass("accumulate", accumulated, "before all that looks for loops which add up products"),
    Pass("interleaving", reduce_interleaving, "before tiles are split: dimensions of pairs take a block for each pair",
        optional=True),
    Pass("activation_idioms", recognize_activations, "of the ops as they were written, whatever the tiles' sizes",
        optional=True),
    Pass("range_analysis", fold_comparisons, "before dimensions are analysed: a mask that is always true ties none",
        optional=True),
    Pass("narrow_comparisons", narrow_comparisons, "of what ranges do not decide: the vector unit compares 32 bits",
        optional=True),
)  # fmt: skip
FLOAT8: Final = (
    Pass("float8_operands", widen_float8, "before the form is chosen: cube units of some chips take float16 alone"),
)
UNSTACK: Final = (
    Pass("unstack_products", unstack_products, "before tiles are split: the cube core multiplies matrices", "dot"),
)
COARSENING: Final = (
    Pass("coarsening", lambda function: coarsen(function) or function, "of vector kernels, before tiles are split: it"
        " makes them larger", optional=True),
)  # fmt: skip
BULK_ATOMICS: Final = (
    Pass("bulk_atomics", raise_bulk_atomics, "before tiles are split, which knows stores, but no atomic ops"),
)
SPLIT: Final = Pass("tile_splitting", split_candidates, "gives one size after the other, until one fits")
SPLIT_REDUCTIONS: Final = Pass(
    "reduction_splitting", reduction_candidates, "of vector kernels that do not fit with all independent dimensions"
    " in parts: it reads rows again", optional=True,
)  # fmt: skip

# --- Tile IR to Block IR, and Block IR ------------------------------------------------------------------------------
# Each takes the IR, the target and the choices of the form.
LOWER_CUBE: Final = Pass("lower_cube", lambda function, target, how: lower_cube(function, target), "of cube kernels")
LOWER_MIXED: Final = Pass(
    "lower_mixed", lambda function, target, how: lower_mixed(function, target, how.parts), "of mixed kernels"
)
LOWER_VECTOR: Final = Pass("lower_vector", lambda function, target, how: lower(function, target), "of vector kernels")
COPY_COALESCING: Final = Pass(
    "copy_coalescing", lambda kernel, target, how: coalesce_copies(kernel), "first: fewer buffers are to be placed",
    optional=True,
)  # fmt: skip
LICM: Final = Pass(
    "block_licm", lambda kernel, target, how: hoist_invariants(kernel), "after copies are gone that would tie an"
    " instruction to its loop", optional=True,
)  # fmt: skip
IN_PLACE: Final = Pass(
    "in_place", lambda kernel, target, how: reuse_in_place(kernel, how.is_tight), "before instructions are scheduled:"
    " what shares a buffer is ordered; of vector kernels only where memory is tight", optional=True,
)  # fmt: skip
LIST_SCHEDULING: Final = Pass(
    "list_scheduling", lambda kernel, target, how: kernel if how.is_tight else list_schedule(kernel), "before double"
    " buffering, whose stages follow the order of instructions; not where memory is tight", optional=True,
)  # fmt: skip
DOUBLE_BUFFERING: Final = Pass(
    "double_buffering", lambda kernel, target, how: double_buffer(kernel, how.stages == "loads") if how.stages
    else kernel, "before allocation, which finds room for both stages", optional=True,
)  # fmt: skip
ALLOCATE: Final = Pass(
    "block_allocate", lambda kernel, target, how: allocate(kernel, target), "after all that adds or removes buffers"
)
UNIT_FLAGS: Final = Pass(
    "unit_flags", lambda kernel, target, how: flag_units(kernel, target), "of kernels with products, once accumulators"
    " have their stages and addresses; before events, of which it makes some needless", optional=True,
)  # fmt: skip
L2_BYPASS: Final = (
    Pass("l2_bypass", bypass_l2, "of vector kernels, once"
        " the form is chosen", optional=True),
)  # fmt: skip
SYNC: Final = (Pass("insert_sync", sync, "last: events order instructions as they stand, with their addresses"),)

CUBE: Final = (LOWER_CUBE,)
MIXED: Final = (LOWER_MIXED, COPY_COALESCING, IN_PLACE, LIST_SCHEDULING)
VECTOR: Final = (LOWER_VECTOR, COPY_COALESCING, LICM)
PLACE: Final = (DOUBLE_BUFFERING, ALLOCATE)
PASSES: Final = (
    *TILE, *FLOAT8, *UNSTACK, *COARSENING, *BULK_ATOMICS, SPLIT, SPLIT_REDUCTIONS, *cube_passes.PASSES, *TECHNIQUES,
    LOWER_CUBE, LOWER_MIXED, LOWER_VECTOR, COPY_COALESCING, LICM, IN_PLACE, LIST_SCHEDULING, DOUBLE_BUFFERING, ALLOCATE,
    UNIT_FLAGS, *L2_BYPASS, *SYNC,
)  # fmt: skip


def lower_to_text(function: Function, target: AscendTarget) -> tuple[BlockKernel, str]:
    """Lower an optimised kernel to Block IR with addresses and events, and to Ascend C."""
    kernel: BlockKernel = run(lower_kernel(function, target), SYNC, target, attrs=function.attrs)
    return kernel, emit(kernel, target)


def lower_kernel(function: Function, target: AscendTarget) -> BlockKernel:
    """Lower a kernel to Block IR with addresses, in its best form.

    A kernel of products alone runs on cube cores, one with products among other work on both kinds of cores, and any
    other on vector cores.
    """
    kernel, _ = choose_form(function, target)
    return kernel


def choose_form(function: Function, target: AscendTarget) -> tuple[BlockKernel, tuple[str, ...]]:
    """Lower a kernel in the first form that is possible, with the reason why each better form is not."""
    reasons: list[str] = []
    function = run(run(function, TILE), FLOAT8, target.multiplies)
    has_dots = any(op.name == "dot" for op in function.walk()) and not needs_one_core(function)
    for form in (cube_form, mixed_form) if has_dots else ():
        try:
            return form(function, target), tuple(reasons)
        except (NotCube, NoRoomOnAscend, NoForm) as error:
            reasons.append(str(error))
    on_vectors = run(function, FLOAT8, ())
    return replace(vector_form(on_vectors, target), off_cube=refusal_of(function, reasons)), tuple(reasons)


def refusal_of(function: Function, reasons: list[str]) -> CubeRefusal | None:
    """The reason why a vector kernel's products are not on the cube core; None without products."""
    product = next((op for op in function.walk() if op.name == "dot"), None)
    if product is None:
        return None
    reason = reasons[-1].splitlines()[0] if reasons else ONE_CORE
    return CubeRefusal(product.loc.user.line, reason)


def split(function: Function) -> Iterator[Function]:
    """Tile splitting: the kernel, then with smaller and smaller tiles."""
    for smaller in split_candidates(function):
        observe(SPLIT, function, smaller)
        yield smaller


def split_reductions(function: Function, target: AscendTarget) -> Iterator[Function]:
    """Reduction splitting: the kernel with reduced dimensions in smaller and smaller parts."""
    for smaller in reduction_candidates(function, target.memories["UB"].bytes):
        observe(SPLIT_REDUCTIONS, function, smaller)
        yield smaller


def block_passes(ir: Any, passes: tuple[Pass, ...], function: Function, target: AscendTarget, how: Choices) -> Any:
    """Run passes that lower to Block IR, or rewrite it."""
    return run(ir, passes, target, how, attrs=function.attrs)


# --- cube and mixed kernels ------------------------------------------------------------------------------------------


def cube_form(function: Function, target: AscendTarget) -> BlockKernel:
    """Lower to a cube kernel, with the largest blocks whose accumulators fit in L0C."""
    first: TooLarge | None = None
    for smaller in islice(split(run(function, UNSTACK)), MAX_SIZES):
        try:
            kernel: BlockKernel = block_passes(smaller, CUBE, function, target, Choices(stages=""))
        except TooLarge as error:
            first = first or error
        else:
            placed: BlockKernel = block_passes(kernel, (ALLOCATE, UNIT_FLAGS), function, target, Choices(stages=""))
            return placed
    assert first is not None
    raise first


def mixed_form(function: Function, target: AscendTarget) -> BlockKernel:
    """Lower to a mixed kernel, with the largest blocks that fit, and rows of the vector cores in the fewest parts."""
    first: NoRoomOnAscend | TooLarge | None = None
    for smaller in islice(split(run(function, UNSTACK)), MAX_SIZES):
        try:
            return split_rows(smaller, target)
        except (NoRoomOnAscend, TooLarge) as error:
            first = first or error
    assert first is not None
    raise first


def split_rows(function: Function, target: AscendTarget) -> BlockKernel:
    """Lower a mixed kernel with double buffering of all buffers or of loads; rows are split further until it fits."""
    first: NoRoomOnAscend | None = None
    plain: BlockKernel | None = None
    for how in MIXED_CHOICES:
        try:
            kernel: BlockKernel = block_passes(function, (*MIXED, *PLACE, UNIT_FLAGS), function, target, how)
        except NotCube:
            if first is None:
                raise
        except NoRoomOnAscend as error:
            first = first or error
        else:
            if not how.stages or any(b.stages > 1 for b in kernel.buffers if b.space == "UB"):
                return kernel
            plain = plain or kernel  # without stages after all
    if plain is not None:
        return plain
    assert first is not None
    raise first


# --- vector kernels --------------------------------------------------------------------------------------------------


def vector_form(function: Function, target: AscendTarget) -> BlockKernel:
    """Lower to a vector kernel, with coarsened programs where these are small, or long rows in parts."""
    accesses = function
    try:
        kernel = fit_programs(function, target)
    except NoRoomOnAscend as error:
        if not SPLIT_REDUCTIONS.is_enabled(function.attrs):
            raise
        kernel, accesses = fit_parts_of_rows(function, target, error)
    bypassing: BlockKernel = run(kernel, L2_BYPASS, accesses, target, attrs=function.attrs)
    return bypassing


def fit_programs(function: Function, target: AscendTarget) -> BlockKernel:
    """Lower with coarsened programs if these fit, or else with the kernel's own."""
    coarse: Function = run(function, COARSENING)
    if coarse is not function:
        with suppress(NoForm, NoRoomOnAscend, NotOnAscend):
            return fit_to_ub(coarse, target, split(run(coarse, BULK_ATOMICS)))[0]
    return fit_to_ub(function, target, split(run(function, BULK_ATOMICS)))[0]


def fit_parts_of_rows(
    function: Function, target: AscendTarget, problem: NoRoomOnAscend
) -> tuple[BlockKernel, Function]:
    """Lower with reduced dimensions in parts, where the kernel has a problem with whole rows.

    Raises
    ------
    NoRoomOnAscend
        When parts of rows are too large, too, or a row cannot be processed in parts.
    """
    function = run(function, BULK_ATOMICS)
    try:
        return fit_to_ub(function, target, split_reductions(function, target), problem)
    except NoRoomOnAscend:
        refusal = refusal_of_rows(function)
        if refusal is None:
            raise problem from None
        against = (f"the row cannot be processed in parts, since {refusal.reason}", refusal.loc)
        fields = {**problem.fields, "otherwise": f"; otherwise {refusal.way}"}
        raise NoRoomOnAscend(problem.loc, (against,), **fields) from None


def fit_to_ub(
    function: Function, target: AscendTarget, candidates: Iterator[Function], problem: NoRoomOnAscend | None = None
) -> tuple[BlockKernel, Function]:
    """Lower to Block IR with addresses: the first candidate that fits UB with double buffering, or at all.

    Raises
    ------
    NoRoomOnAscend
        When the tiles of all candidates are too large: the problem that is given, or that of the first candidate.
    """
    fitting: list[tuple[BlockKernel, Function]] = []
    tight: list[tuple[BlockKernel, Function]] = []
    for smaller in candidates:
        kernel: BlockKernel = block_passes(smaller, VECTOR, function, target, Choices())
        try:
            placed: BlockKernel = block_passes(kernel, PLACE, function, target, Choices())
        except NoRoomOnAscend as error:
            problem = problem or error
            tight += [] if tight else [(fit, smaller) for fit in fit_tightly(kernel, function, target)]
            continue
        fitting.append((placed, smaller))
        if any(buffer.stages > 1 for buffer in placed.buffers):
            return fitting[-1]
        if len(fitting) == MAX_TRIES:
            break
    if not fitting and not tight:
        assert problem is not None
        raise problem
    return (fitting or tight)[0]


def fit_tightly(kernel: BlockKernel, function: Function, target: AscendTarget) -> list[BlockKernel]:
    """The versions that fit, with results in the buffers of operands, with double buffering and without it."""
    found: list[BlockKernel] = []
    for stages in ("all", ""):
        how = Choices(stages=stages, is_tight=True)
        with suppress(NoRoomOnAscend):
            found.append(block_passes(kernel, (IN_PLACE, *PLACE), function, target, how))
    return found
