"""Tile IR to Block IR for cube cores: kernels whose tiles are operands of products and their sums."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from pypto.backends.ascend.blockir.ir import BlockKernel, Expr, Loop, Scalar, View, Word, fold
from pypto.backends.ascend.cube.l1_resident import L1Residents, l1_residents_of
from pypto.backends.ascend.cube.layout import at
from pypto.backends.ascend.cube.moves import PITCH, STEP, Pitch, fetch, fill, take
from pypto.backends.ascend.cube.operands import (
    Operand,
    existing,
    inside,
    missing,
    operand_of,
    starts_inside,
    surely_there,
)
from pypto.backends.ascend.cube.product import NAMES, Product, both, suffix
from pypto.backends.ascend.cube.swizzle import is_swizzled, swizzled_id
from pypto.backends.ascend.rules.scalars import compared, conjunction
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.tile.blocking import blocking_of
from pypto.backends.ascend.tile.cube_regions import (
    CubeRegions,
    Source,
    carried,
    cube_ops,
    cube_regions_of,
    non_cube_ops,
)
from pypto.backends.ascend.tile.fractals import room
from pypto.backends.ascend.tile.k_blocking import block_k
from pypto.backends.ascend.tile.nonnegative import is_natural
from pypto.backends.ascend.tile.operand_facts import Span, side_of
from pypto.backends.ascend.tile.ub_layout import grain_of
from pypto.backends.ascend.vector import control
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.lower import kernel_of, lower_op, programs
from pypto.backends.ascend.vector.region import region_of
from pypto.backends.ascend.vector.values import Pointer
from pypto.ir.core import Function, Op, Region, Value, walk
from pypto.ir.types import int1, int32, int64
from pypto.ops.memory import Access

_NOTHING: Final = Function("", Region())


class NotCube(Exception):
    """Why a kernel is no work of a cube core alone."""

    @classmethod
    def at(cls, op: Op, reason: str) -> NotCube:
        return cls(f"line {op.loc.user.line}: {reason}")


class TooLarge(NotCube):
    """Sums or operands that the memories of a cube core do not hold as they are."""


@dataclass
class Sums:
    """Sums of products in L0C, whose operands have `made` rows and columns.

    They begin where `first` holds, or the variable `fresh` where that has a name.
    """

    product: Product
    stage: Scalar
    made: tuple[Scalar, Scalar]
    first: Scalar = True
    fresh: str = ""

    @property
    def view(self) -> View:
        return View(self.product.sums, stage=self.stage)

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns that are computed."""
        m, n = self.product.rounded(self.product.blocking.m, self.product.blocking.n)
        assert isinstance(m, int) and isinstance(n, int)
        return m, n


@dataclass
class CubeLowering(Lowering):
    """A lowering of what a cube core does. `turns` count the runs of the loops around, the innermost one last."""

    parts: CubeRegions = field(default_factory=lambda: CubeRegions(_NOTHING))
    done: set[Op] = field(default_factory=set)
    sums: dict[Value, Sums] = field(default_factory=dict)
    swizzles: bool = False
    residents: L1Residents = field(default_factory=L1Residents)
    loops: list[Span] = field(default_factory=list)
    turns: list[Scalar] = field(default_factory=lambda: [fold("//", "program", "blocks")])

    def __post_init__(self) -> None:
        super().__post_init__()
        self.taken.update(NAMES)


def lower_cube(function: Function, target: AscendTarget) -> BlockKernel:
    """A kernel for cube cores alone.

    Raises
    ------
    NotCube
        When something else than products takes part; it says what.
    """
    function = block_k(function, target)
    parts = cube_regions_of(function)
    if not parts.dots:
        raise NotCube("it has no products that the cube core makes")
    for op, reason in non_cube_ops(parts):
        raise NotCube.at(op, reason)
    low = CubeLowering(function, target, grain_of(function), dispatch=lower_cube_op)
    low.parts, low.done, low.swizzles = parts, cube_ops(parts), is_swizzled(parts)
    low.residents = l1_residents_of(parts, target)
    return kernel_of(low, "cube", programs(low))


def lower_cube_op(low: Lowering, op: Op) -> None:
    assert isinstance(low, CubeLowering)
    low.loc = op.loc
    if op.name == "dot" and op in low.done:
        lower_dot(low, op)
    elif op.name == "tile_store" and op in low.done:
        lower_store(low, op)
    elif op.name == "for":
        lower_for(low, op)
    elif op.name == "program_id" and op.attrs["axis"] < 2 and low.swizzles:
        low.env[op.result] = low.let(
            op.result.hint or f"pid_{'xy'[op.attrs['axis']]}", int32, swizzled_id(low, op.attrs["axis"])
        )
    elif op in low.residents.sources:
        lower_load(low, op)
    elif op not in low.done:
        lower_op(low, op)


def lower_load(low: CubeLowering, op: Op) -> None:
    """An operand that stays in L1 for the loops inside of this one, with zeros for rows or columns that are missing."""
    source, side = low.residents.sources[op]
    if not starts_inside(low, source):
        raise NotCube.at(op, "an operand may begin before its array")
    operand = operand_of(low, source, side.is_left, None)
    buffer, panel = low.residents.place(op, low.turns[-1], low.name("kept"))
    low.buffers.append(buffer)
    few = (compared("<", operand.outer, panel.outer), compared("<=", operand.depth, 0))
    with low.when(few[0] if few[1] is False else True if True in few else Expr("||", few)):
        low.items.append(fill(panel.view, buffer.elements, low.line))
    with low.when(conjunction(compared(">", operand.depth, 0), compared(">", operand.outer, 0))):
        low.items += fetch(panel, operand.view(0), operand.outer, operand.depth, operand.pitch, low.line)


# --- sums -------------------------------------------------------------------------------------------------------------


def begin(low: CubeLowering, dot: Op) -> Sums:
    """Room for the sums of a product and of those that are added to it."""
    sources = [low.parts.sources[v] for v in dot.operands[:2]]
    sides = [side_of(source, i == 0, low.target) for i, source in enumerate(sources)]
    (m, k), n = dot.operands[0].shape[-2:], dot.operands[1].shape[-1]
    blocking = blocking_of(sides[0], sides[1], m, n, k, len(low.parts.dots), low.target, low.residents.bytes)
    if blocking is None:
        raise TooLarge.at(dot, f"sums of {m} by {n} do not fit in L0C")
    twice = 2 * m * n * 4 * len(low.parts.dots) <= low.target.memories["L0C"].bytes  # one is stored while one is made
    product = Product.of(sides[0], sides[1], blocking, suffix(low.buffers, low.taken), 2 if twice else 1)
    low.buffers += product.buffers
    for i, source in enumerate(sources):
        known_pitch(low, source, i if not sides[i].k_down else 1 - i)
    return Sums(product, fold("%", low.turns[-1], 2) if twice else 0, made_of(low, dot))


def made_of(low: CubeLowering, dot: Op) -> tuple[Scalar, Scalar]:
    """How many rows and columns of a product there are, which no loop may change."""
    counts: list[Scalar] = []
    for i, name in enumerate(("rows", "cols")):
        source = low.parts.sources[dot.operands[i]]
        d, access = source.dims[i], source.access
        if source.load in low.residents.panels:
            counts.append(low.residents.panels[source.load].outer)
            continue
        if d is not None and (access.offsets[d] not in low.env or access.extents[d] not in low.env):
            raise NotCube.at(source.load, "what exists of an operand changes from step to step")
        counts.append(existing(low, access, d, None, name))
    return counts[0], counts[1]


def known_pitch(low: CubeLowering, source: Source, i: int) -> None:
    """Ask here whether rows fit a copy, and not in every step of a loop."""
    d = source.dims[i]
    if d is not None and source.access.strides[d] in low.env:
        Pitch.of(low.number(source.access.strides[d]), PITCH, low.let)


def first_dot(op: Op, sums: Value) -> Op:
    """The product that is added to what a loop carries."""
    for inner in op.regions[0].ops:
        if inner.name == "dot" and sums in inner.operands[2:]:
            return inner
        if inner.name == "for" and sums in inner.operands[3:]:
            return first_dot(inner, inner.regions[0].args[1 + inner.operands[3:].index(sums)])
    raise NotCube.at(op, "a loop carries sums that it adds nothing to")


def lower_for(low: CubeLowering, op: Op) -> None:
    """A loop; sums that it carries stay where they are."""
    (body,) = op.regions
    kept = [slot for slot in carried(op) if slot[1] in low.parts.sums]
    others = [slot for slot in carried(op) if slot not in kept and slot[1] not in low.parts.ignored]
    start, stop, step = (low.number(v) for v in op.operands[:3])
    if is_natural(op.operands[0], low.natural) and isinstance(step, int) and step > 0:
        low.natural.add(body.args[0])
    homes = [control.home(low, arg, init) for init, arg, _, _ in others]
    low.natural.update(arg for init, arg, value, _ in others if grows(low, init, arg, value))
    low.env.update(zip((arg for _, arg, _, _ in others), homes, strict=True))
    stop = low.let("stop", op.operands[1].dtype, stop)
    for init, arg, _, _ in kept:
        sums = low.sums[init] if init in low.sums else begin(low, first_dot(op, arg))
        plain = all(always_adds(low, inner, op) for inner in body.body)
        if sums.first is not False and not sums.fresh and not plain:
            sums.fresh = low.variable("fresh", int1, sums.first)
        low.sums[arg] = sums
    loc = low.loc
    with low.block() as items:
        index = low.env[body.args[0]] = low.name(body.args[0].hint or "i")
        for _, arg, _, _ in kept:
            low.sums[arg].first = both(low.sums[arg].first, compared("==", index, start))
        low.loops.append(Span.of(op))
        low.turns.append(fold("//", fold("-", index, start), step))
        for inner in body.body:
            low.dispatch(low, inner)
        low.loops.pop()
        low.turns.pop()
        low.loc = loc
        control.carry(low, homes, [value for _, _, value, _ in others])
    assert isinstance(index, str)
    low.items.append(Loop(index, start, stop, step, tuple(items), low.line, op.operands[0].dtype))
    low.env.update(zip((result for *_, result in others), homes, strict=True))
    for init, _, value, result in kept:
        sums = low.sums[result] = low.sums[value]
        if init not in low.sums:
            with rarely(low, sums.fresh or compared("<=", stop, start)):
                nothing_added(low, sums)
        sums.first = False


def grows(low: CubeLowering, init: Value, arg: Value, value: Value) -> bool:
    """Whether a number that a loop carries begins at 0 or more and gets no smaller."""
    op = value.op
    if not is_natural(init, low.natural) or op is None or op.name != "add" or arg not in op.operands:
        return False
    return all(v is arg or is_natural(v, low.natural) for v in op.operands)


def always_adds(low: CubeLowering, op: Op, loop: Op) -> bool:
    """Whether what an op of a loop adds to sums has something to multiply in every step."""
    if op.regions:
        return not any(inner.name == "dot" for region in op.regions for inner in walk(region))
    if op.name != "dot":
        return True
    return has_terms(low, op, Span.of(loop))


def has_terms(low: CubeLowering, dot: Op, loop: Span | None) -> bool:
    """Whether a product surely has something to multiply."""
    found = [(low.parts.sources[v], i) for i, v in enumerate(dot.operands[:2])]
    return all(surely_there(low, source, source.dims[1 - i], loop) for source, i in found)


@contextmanager
def rarely(low: CubeLowering, condition: Scalar) -> Iterator[None]:
    """Items for a case that hardly comes: they wait for everything, so that nothing else has to wait for them."""
    with low.when(condition):
        if condition is not True and condition is not False:
            low.instr("PipeBarrier", Word("PIPE_ALL"))
        yield
        if condition is not True and condition is not False:
            low.instr("PipeBarrier", Word("PIPE_ALL"))


def nothing_added(low: CubeLowering, sums: Sums) -> None:
    """Sums of no products are zeros: nothing else than a product writes to L0C."""
    low.items += sums.product.zeros(sums.view, sums.size, low.line)


# --- products and stores ----------------------------------------------------------------------------------------------


def lower_dot(low: CubeLowering, op: Op) -> None:
    """A product, panel by panel along K."""
    acc = op.operands[2] if len(op.operands) > 2 else None
    sums = low.sums[acc] if acc is not None and acc in low.sums else begin(low, op)
    sources = [low.parts.sources[v] for v in op.operands[:2]]
    if not all(starts_inside(low, source) for source in sources):
        raise NotCube.at(op, "an operand may begin before its array")
    if made_of(low, op) != sums.made:
        raise NotCube.at(op, "products that are added up have rows or columns of different numbers")
    loop = low.loops[-1] if low.loops else None
    left, right = operand_of(low, sources[0], True, loop), operand_of(low, sources[1], False, loop)
    kept = [low.residents.panels.get(source.load) for source in sources]
    operands = replace(left, panel=kept[0]), replace(right, panel=kept[1])
    depth = common(low, *operands)
    alone = acc is None or acc not in low.sums
    some = compared(">", depth, 0) if sums.fresh or (alone and not has_terms(low, op, loop)) else True
    if sums.fresh:
        with low.when(some):
            panels(low, sums, operands, depth)
            low.assign(sums.fresh, False)
    elif isinstance(some, bool) or operands[0].size > sums.product.blocking.depth:
        panels(low, sums, operands, depth)
    else:  # what nothing exists of is multiplied as zeros: a branch around it would keep copies from going on
        least = low.let("depth", int32, fold("max", depth, 1))
        panel(low, sums, operands, 0, least, sums.first, low.turns[-1], some)
        alone = False
    with rarely(low, compared("<=", depth, 0) if alone and not has_terms(low, op, loop) else False):
        nothing_added(low, sums)
    sums.first = False
    low.sums[op.result] = sums


def common(low: CubeLowering, left: Operand, right: Operand) -> Scalar:
    """How much of K both operands have."""
    return left.depth if left.depth == right.depth else low.let("depth", int32, fold("min", left.depth, right.depth))


def panels(low: CubeLowering, sums: Sums, operands: tuple[Operand, Operand], depth: Scalar) -> None:
    blocking, first = sums.product.blocking, sums.fresh or sums.first
    most = blocking.depth
    if operands[0].size <= most:
        panel(low, sums, operands, 0, depth, first, low.turns[-1])
        return
    with low.loop("p", fold("//", fold("+", depth, most - 1), most), dtype=int32) as p:
        k = fold("*", p, most)
        whole = isinstance(depth, int) and depth % most == 0
        here: Scalar = most if whole else low.let("depth", int32, fold("min", most, fold("-", depth, k)))
        panel(low, sums, operands, k, here, both(first, compared("==", p, 0)), p)


def panel(
    low: CubeLowering,
    sums: Sums,
    operands: tuple[Operand, Operand],
    k: Scalar,
    depth: Scalar,
    first: Scalar,
    turn: Scalar,
    exists: Scalar = True,
) -> None:
    """From GM to L1, and through L0 to the sums; zeros where nothing `exists`."""
    one, two = sums.product.panels(fold("%", turn, 2))
    pair = operands[0].panel or one, operands[1].panel or two
    new = [(to, x) for to, x in zip(pair, operands, strict=True) if x.panel is None]
    with low.when(exists):
        for to, x in new:
            low.items += fetch(to, x.view(k), x.outer, depth, x.pitch, low.line)
    with rarely(low, False if exists is True else Expr("not", (exists,))):
        for to, _ in new:
            rows, cols = room(to.side, to.outer, to.depth)
            low.items.append(fill(to.view, rows * cols, low.line))
    low.items += sums.product.items(pair, (*sums.size, depth), first, None, turn, low.line, sums.view)


def lower_store(low: CubeLowering, op: Op) -> None:
    """Sums to GM."""
    access = Access.of(op)
    assert access.value is not None
    value = low.parts.stored(access.value)
    area, sums = region_of(low, access), low.sums[value]
    assert isinstance(area.base, Pointer)
    if not all(n == 1 or inside(low, access, d) for d, n in enumerate(access.shape)):
        raise NotCube.at(op, "a store may begin before its array")
    wide = iter([d for d, n in enumerate(access.shape) if n != 1])
    rows, cols = (next(wide) if n != 1 else None for n in value.shape[-2:])
    to = View(area.base.array, low.let("at", int64, fold("+", area.base.offset, area.first)))
    size = existing(low, access, rows, None, "rows"), existing(low, access, cols, None, "cols")
    pitch = Pitch.of(max(1, value.shape[-1]) if rows is None else area.dims[rows].stride, STEP, low.let)
    with low.when(area.exists):
        store(low, sums, to, size, pitch)


def store(low: CubeLowering, sums: Sums, to: View, size: tuple[Scalar, Scalar], pitch: Pitch) -> None:
    """Rows and columns of sums to GM; those that no operand has are 0."""
    full = sums.product.blocking.m, sums.product.blocking.n
    there = [
        a if b in (a, n) else low.let(x, int32, fold("min", a, b))
        for x, a, b, n in zip(("rows", "cols"), size, sums.made, full, strict=True)
    ]
    with low.when(conjunction(*(compared(">", x, 0) for x in there))):
        low.items += take(sums.view, to, (there[0], there[1]), sums.size[0], pitch, 0, low.line)
    made = [a if b == n else b for a, b, n in zip(size, sums.made, full, strict=True)]
    with rarely(low, missing((made[0], made[1]), size)):
        nothing_added(low, sums)
        below, beside = fold("-", size[0], there[0]), fold("-", size[1], there[1])
        for start, rows, cols in ((fold("*", there[0], pitch.stride), below, size[1]), (there[1], there[0], beside)):
            with low.when(conjunction(compared(">", rows, 0), compared(">", cols, 0))):
                low.items += take(sums.view, at(to, start), (rows, cols), sums.size[0], pitch, 0, low.line)
