"""Lowering of kernels for cube cores: loads, products, accumulators and stores.

A product loops over panels along K: GM to L1, L1 to L0, multiply into L0C; a store takes the result to GM. Loops that
carry sums keep their accumulators in L0C. Everything else is scalar code, which `vector.lower` handles; a kernel with
other tile ops has no cube form (`NotCube`).

    acc = dot(a, b, acc)        ->      for p in range(panels):
                                            DataCopy(a1, a[...])       # GM to L1
                                            for step in range(steps):
                                                LoadData(a2, a1[...])  # L1 to L0
                                                Mmad(sums, a2, b2, ...)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pypto.backends.ascend.blockir.conditions import compared, conjunction
from pypto.backends.ascend.blockir.ir import BlockKernel, Expr, Loop, Scalar, View, fold
from pypto.backends.ascend.cube.accumulators import (
    Accumulator,
    CubeLowering,
    NotCube,
    begin_accumulator,
    fenced_branch,
    first_dot,
    store_accumulator,
    valid_extent,
    zero_accumulator,
)
from pypto.backends.ascend.cube.l1_resident import l1_residents_of
from pypto.backends.ascend.cube.layout import Panel
from pypto.backends.ascend.cube.moves import STORE_PITCH, Pitch, load_l1, zero_fill
from pypto.backends.ascend.cube.operands import (
    Operand,
    existing_count,
    is_loadable,
    operand_of,
    starts_in_array,
    surely_exists,
)
from pypto.backends.ascend.cube.passes import K_BLOCKING
from pypto.backends.ascend.cube.product import folded_and
from pypto.backends.ascend.cube.swizzle import is_swizzled, swizzled_id
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.techniques import is_enabled
from pypto.backends.ascend.tile.cube_regions import OTHER_FORM, carried, cube_ops, cube_regions_of, non_cube_ops
from pypto.backends.ascend.tile.fractals import room
from pypto.backends.ascend.tile.operand_facts import Span, side_of, upper_bounds
from pypto.backends.ascend.tile.ub_layout import grain_of
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.handlers import control
from pypto.backends.ascend.vector.lower import kernel_of, lower_op, programs
from pypto.backends.ascend.vector.region import region_of
from pypto.backends.ascend.vector.values import Pointer
from pypto.ir.core import Function, Op, Value, walk
from pypto.ir.types import int1, int32, int64
from pypto.ops.memory import Access
from pypto.passes.analysis.ranges import is_nonnegative
from pypto.passes.manager import run
from pypto.passes.pattern import constant_of

BEFORE_ARRAY: Final = "an operand may begin before its array along its rows in memory"


def lower_cube(function: Function, target: AscendTarget) -> BlockKernel:
    """Lower a kernel for cube cores alone.

    Raises
    ------
    NotCube
        When something else than products takes part; it says what.
    """
    function = run(function, K_BLOCKING, target)
    regions = cube_regions_of(function)
    if not regions.dots:
        raise NotCube.at(*regions.refused_product) if regions.refused_product else NotCube("it has no products")
    for op, reason in non_cube_ops(regions):
        raise NotCube.at(op, reason)
    low = CubeLowering(function, target, grain_of(function), dispatch=lower_cube_op)
    low.regions = regions
    low.cube_ops = cube_ops(regions)
    low.is_swizzled = is_enabled(function, "swizzle") and is_swizzled(regions)
    low.residents = l1_residents_of(regions, target)
    return kernel_of(low, "cube", programs(low))


def lower_cube_op(low: Lowering, op: Op) -> None:
    """Lower one op on a cube core."""
    assert isinstance(low, CubeLowering)
    low.loc = op.loc
    if op.name == "dot" and op in low.cube_ops:
        lower_dot(low, op)
    elif op.name == "tile_store" and op in low.cube_ops:
        lower_store(low, op)
    elif op.name == "for":
        lower_for(low, op)
    elif op.name == "program_id" and op.attrs["axis"] < 2 and low.is_swizzled:
        low.env[op.result] = low.let(
            op.result.hint or f"pid_{'xy'[op.attrs['axis']]}", int32, swizzled_id(low, op.attrs["axis"])
        )
    elif op in low.residents.sources:
        lower_load(low, op)
    elif op not in low.cube_ops:
        lower_op(low, op)


def lower_load(low: CubeLowering, op: Op) -> None:
    """Load an operand that stays in L1 for inner loops; rows or columns that do not exist are zeros."""
    source, side = low.residents.sources[op]
    if not is_loadable(low, source, side):
        raise NotCube.at(op, BEFORE_ARRAY)
    operand = operand_of(low, source, side.is_left, None)
    buffer, panel = low.residents.place(op, low.iterations[-1], low.name("kept"))
    low.buffers.append(buffer)
    needs_zeros = (compared("<", operand.outer, panel.outer), compared("<=", operand.depth, 0))
    with low.when(
        needs_zeros[0] if needs_zeros[1] is False else True if True in needs_zeros else Expr("||", needs_zeros)
    ):
        low.items.append(zero_fill(panel.view, buffer.elements, low.line))
    with low.when(conjunction(compared(">", operand.depth, 0), compared(">", operand.outer, 0))):
        low.items += load_l1(
            panel, operand.view(0), operand.outer, operand.depth, operand.pitch, low.line, operand.missing
        )


def lower_for(low: CubeLowering, op: Op) -> None:
    """Lower a loop; sums that it carries stay in their accumulators."""
    (body,) = op.regions
    accumulated = [slot for slot in carried(op) if slot[1] in low.regions.sums]
    plain_slots = [slot for slot in carried(op) if slot not in accumulated and slot[1] not in low.regions.ignored]
    start, stop, step = (low.number(v) for v in op.operands[:3])
    if is_nonnegative(op.operands[0], low.nonnegative) and isinstance(step, int) and step > 0:
        low.nonnegative.add(body.args[0])
    places = [control.allocate_carried(low, arg, init) for init, arg, _, _ in plain_slots]
    low.nonnegative.update(arg for init, arg, value, _ in plain_slots if is_nondecreasing(low, init, arg, value))
    low.env.update(zip((arg for _, arg, _, _ in plain_slots), places, strict=True))
    stop = low.let("stop", op.operands[1].dtype, stop)
    for init, arg, _, _ in accumulated:
        sums = low.accumulators[init] if init in low.accumulators else begin_accumulator(low, first_dot(op, arg))
        always_added = all(always_adds(low, inner, op) for inner in body.body)
        if sums.is_first is not False and not sums.fresh_flag and not always_added:
            sums.fresh_flag = low.variable("fresh", int1, sums.is_first)
        low.accumulators[arg] = sums
    loc = low.loc
    with low.block() as items:
        index = low.env[body.args[0]] = low.name(body.args[0].hint or "i")
        for _, arg, _, _ in accumulated:
            low.accumulators[arg].is_first = folded_and(low.accumulators[arg].is_first, compared("==", index, start))
        with low.iterating(Span.of(op), fold("//", fold("-", index, start), step), most_iterations(op)):
            for inner in op.regions[0].body:
                low.dispatch(low, inner)
        low.loc = loc
        control.update_carried(low, places, [value for _, _, value, _ in plain_slots])
    assert isinstance(index, str)
    low.items.append(Loop(index, start, stop, step, tuple(items), low.line, op.operands[0].dtype))
    low.env.update(zip((result for *_, result in plain_slots), places, strict=True))
    for init, _, value, result in accumulated:
        sums = low.accumulators[result] = low.accumulators[value]
        if init not in low.accumulators:
            with fenced_branch(low, sums.fresh_flag or compared("<=", stop, start)):
                zero_accumulator(low, sums)
        sums.is_first = False


def most_iterations(loop: Op) -> int | None:
    """How often a loop runs at most; None where that is not known."""
    start, step = constant_of(loop.operands[0]), constant_of(loop.operands[2])
    stops = [int(n) for v in upper_bounds(loop.operands[1]) if (n := constant_of(v)) is not None]
    if start is None or step is None or step <= 0 or not stops:
        return None
    return max(0, -(-(min(stops) - int(start)) // int(step)))


def is_nondecreasing(low: CubeLowering, init: Value, arg: Value, value: Value) -> bool:
    """Whether a number that a loop carries begins at 0 or more and never decreases."""
    op = value.op
    if not is_nonnegative(init, low.nonnegative) or op is None or op.name != "add" or arg not in op.operands:
        return False
    return all(v is arg or is_nonnegative(v, low.nonnegative) for v in op.operands)


def always_adds(low: CubeLowering, op: Op, loop: Op) -> bool:
    """Whether an op adds at least one product to an accumulator in every iteration of a loop."""
    if op.regions:
        return not any(inner.name == "dot" for region in op.regions for inner in walk(region))
    if op.name != "dot":
        return True
    return is_never_empty(low, op, Span.of(loop))


def is_never_empty(low: CubeLowering, dot: Op, loop: Span | None) -> bool:
    """Whether a product surely has something to multiply."""
    operands = [(low.regions.sources[v], i) for i, v in enumerate(dot.operands[:2])]
    return all(surely_exists(low, source, source.dims[1 - i], loop) for source, i in operands)


def lower_dot(low: CubeLowering, op: Op) -> None:
    """Lower a product, panel by panel along K."""
    acc = op.operands[2] if len(op.operands) > 2 else None
    sums = low.accumulators[acc] if acc is not None and acc in low.accumulators else begin_accumulator(low, op)
    sources = [low.regions.sources[v] for v in op.operands[:2]]
    sides = [side_of(x, i == 0, low.target) for i, x in enumerate(sources)]
    if not all(is_loadable(low, x, side) for x, side in zip(sources, sides, strict=True)):
        raise NotCube.at(op, BEFORE_ARRAY)
    if sides != [sums.product.left, sums.product.right]:
        raise NotCube.at(op, OTHER_FORM)
    if valid_extent(low, op, sums.is_padded) != sums.valid:
        raise NotCube.at(op, "products that are added up have rows or columns of different numbers")
    loop = low.spans[-1] if low.spans else None
    left = operand_of(low, sources[0], True, loop, sums.is_padded[0])
    right = operand_of(low, sources[1], False, loop, sums.is_padded[1])
    residents = [low.residents.panels.get(source.load) for source in sources]
    operands = replace(left, panel=residents[0]), replace(right, panel=residents[1])
    depth = common_depth(low, *operands)
    starts_sum = acc is None or acc not in low.accumulators
    may_be_empty = (sums.fresh_flag or starts_sum) and not is_never_empty(low, op, loop)
    exists = compared(">", depth, 0) if may_be_empty else True
    if isinstance(exists, bool) or operands[0].size > sums.product.blocking.depth:
        with low.when(exists if sums.fresh_flag else True):
            lower_panels(low, sums, operands, depth)
            if sums.fresh_flag:
                low.assign(sums.fresh_flag, False)
    else:  # an empty panel is multiplied as zeros: a branch around it would stall the copies
        least = low.let("depth", int32, fold("max", depth, 1))
        lower_panel(low, sums, operands, 0, least, sums.fresh_flag or sums.is_first, low.panel_number, exists)
        if sums.fresh_flag:
            low.assign(sums.fresh_flag, False)
        starts_sum = False
    with fenced_branch(low, compared("<=", depth, 0) if starts_sum and not is_never_empty(low, op, loop) else False):
        zero_accumulator(low, sums)
    sums.is_first = False
    low.accumulators[op.result] = sums


def common_depth(low: CubeLowering, left: Operand, right: Operand) -> Scalar:
    """Return the depth along K that both operands have."""
    return left.depth if left.depth == right.depth else low.let("depth", int32, fold("min", left.depth, right.depth))


def lower_panels(low: CubeLowering, sums: Accumulator, operands: tuple[Operand, Operand], depth: Scalar) -> None:
    """Loop over the panels of a product along K."""
    blocking = sums.product.blocking
    first = sums.fresh_flag or sums.is_first
    panel_depth = blocking.depth
    if operands[0].size <= panel_depth:
        lower_panel(low, sums, operands, 0, depth, first, low.panel_number)
        return
    with low.loop("p", fold("//", fold("+", depth, panel_depth - 1), panel_depth), dtype=int32) as p:
        k = fold("*", p, panel_depth)
        is_even = isinstance(depth, int) and depth % panel_depth == 0
        size: Scalar = (
            panel_depth if is_even else low.let("depth", int32, fold("min", panel_depth, fold("-", depth, k)))
        )
        lower_panel(low, sums, operands, k, size, folded_and(first, compared("==", p, 0)), p)


def lower_panel(
    low: CubeLowering,
    sums: Accumulator,
    operands: tuple[Operand, Operand],
    k: Scalar,
    depth: Scalar,
    first: Scalar,
    iteration: Scalar,
    exists: Scalar = True,
) -> None:
    """Copy a panel from GM to L1 and multiply it into the accumulator; zeros where nothing `exists`."""
    left_panel, right_panel = sums.product.panels(fold("%", iteration, 2))
    panels_used = operands[0].panel or left_panel, operands[1].panel or right_panel
    to_load = [(to, operand) for to, operand in zip(panels_used, operands, strict=True) if operand.panel is None]
    with low.when(exists):
        for to, operand in to_load:
            load_panel(low, to, operand, k, depth)
    with fenced_branch(low, False if exists is True else Expr("not", (exists,))):
        for to, _ in to_load:
            rows, cols = room(to.side, to.outer, to.depth)
            low.items.append(zero_fill(to.view, rows * cols, low.line))
    left, right = (0 if operand.panel is None else k for operand in operands)
    low.items += sums.product.emit_panels(
        panels_used, (*sums.computed, depth), first, None, iteration, low.line, sums.view, (left, right)
    )


def load_panel(low: CubeLowering, to: Panel, operand: Operand, k: Scalar, depth: Scalar) -> None:
    """Copy a panel from GM to L1; what does not exist along M or N is zeros where the operand is padded."""
    rows, cols = room(to.side, to.outer, to.depth)
    with low.when(compared("<", operand.outer, to.outer) if operand.is_padded else False):
        low.items.append(zero_fill(to.view, rows * cols, low.line))
    with low.when(compared(">", operand.outer, 0) if operand.is_padded else True):
        low.items += load_l1(to, operand.view(k), operand.outer, depth, operand.pitch, low.line, operand.missing)


def lower_store(low: CubeLowering, op: Op) -> None:
    """Store an accumulator to GM."""
    access = Access.of(op)
    assert access.value is not None
    value = low.regions.stored_sum(access.value)
    area = region_of(low, access)
    sums = low.accumulators[value]
    assert isinstance(area.base, Pointer)
    wide_dims = iter([d for d, n in enumerate(access.shape) if n != 1])
    rows, cols = (next(wide_dims) if n != 1 else None for n in value.shape[-2:])
    if cols is not None and not starts_in_array(low, access, cols):
        raise NotCube.at(op, "a store may begin before its array")
    size = existing_count(low, access, rows, None, "rows"), existing_count(low, access, cols, None, "cols")
    pitch = Pitch.of(max(1, value.shape[-1]) if rows is None else area.dims[rows].stride, STORE_PITCH, low.let)
    at = fold("+", area.base.offset, area.first)
    skipped: Scalar = 0
    if rows is not None and not starts_in_array(low, access, rows):
        skipped = low.let("skipped", int32, Expr("i32", (area.dims[rows].start,)))
        size = low.let("rows", int32, Expr("i32", (area.dims[rows].count,))), size[1]
        at = fold("+", at, fold("*", skipped, pitch.stride))
    to = View(area.base.array, low.let("at", int64, at))
    with low.when(area.exists):
        store_accumulator(low, sums, to, size, pitch, skipped)
