"""Kernels for both kinds of core: products on the cube core of each block, all else on its vector cores.

A tile that goes over lies in the workspace, in several stages. Who makes it waits until a stage is free, and tells the
others once it is there; who takes it tells back once it has been copied. For that each site has two flags; who takes
tiles sets the second one in advance, and who makes them takes back at the end what nobody used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pypto.backends.ascend.block.stage_interleaving import interleave_stages
from pypto.backends.ascend.blockir.effects import items_of, memory_reads, scalars
from pypto.backends.ascend.blockir.ir import (
    BlockKernel,
    Expr,
    Instr,
    Item,
    Let,
    Loop,
    Param,
    Scalar,
    Word,
    fold,
)  # fmt: skip
from pypto.backends.ascend.cube.l1_resident import l1_residents_of
from pypto.backends.ascend.cube.lower import CubeLowering, NotCube, lower_cube_op
from pypto.backends.ascend.cube.pipeline_emit import PipelinedLoop
from pypto.backends.ascend.rules.scalars import compared
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.tile.column_tiling import tile_columns
from pypto.backends.ascend.tile.core_partition import CorePartition, NotPartitionable, Transfer, partition
from pypto.backends.ascend.tile.cube_regions import cube_ops, cube_regions_of, non_cube_ops
from pypto.backends.ascend.tile.gm_hazards import loads_results, reloads_match_stores, reloads_of_stored
from pypto.backends.ascend.tile.k_blocking import block_k
from pypto.backends.ascend.tile.operand_facts import Span
from pypto.backends.ascend.tile.pipeline_partition import PipelinePartition
from pypto.backends.ascend.tile.row_split import SUB_BLOCK, RowChunk, split_rows_in_two
from pypto.backends.ascend.tile.software_pipeline import PIPELINE_DEPTH, software_pipeline
from pypto.backends.ascend.tile.ub_layout import grain_of
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.lower import kernel_of, lower_op, programs
from pypto.backends.ascend.vector.values import Pointer
from pypto.ir.core import Function, Op, Value
from pypto.ir.types import int32, int64, uint8
from pypto.passes.memory_effects import writes_memory

STAGES = PIPELINE_DEPTH + 1
BETWEEN = 2  # the mode of flags between a cube core and the vector cores of its block
ALIGNMENT = 512  # bytes, of tiles in the workspace


@dataclass
class Crossing:
    """What both lowerings share: the arrays in the workspace, and whose turn it is in each."""

    sides: CorePartition
    is_cube: bool
    arrays: dict[Value, tuple[Transfer, Param]] = field(default_factory=dict)
    frees: dict[Op, list[Transfer]] = field(default_factory=dict)

    def makes(self, site: Transfer) -> bool:
        return site.to_cube != self.is_cube

    def turn(self, site: Transfer) -> str:
        """The variable that counts the tiles."""
        return f"turn_{site.number}"

    def wait(self, low: Lowering, number: int) -> None:
        low.instr("CrossCoreWaitFlag", number)

    def tell(self, low: Lowering, pipe: str, number: int) -> None:
        low.instr("CrossCoreSetFlag", BETWEEN, Word(f"PIPE_{pipe}"), number)

    def before(self, low: Lowering, site: Transfer) -> None:
        """Wait for a stage to be free, or for a tile to be there."""
        self.wait(low, free(site) if self.makes(site) else there(site))

    def after(self, low: Lowering, site: Transfer) -> None:
        """Tell that a tile is there, or that its stage is free."""
        if self.makes(site):
            self.tell(low, "FIX" if self.is_cube else "MTE3", there(site))
        else:
            self.tell(low, "MTE2", free(site))
        low.assign(self.turn(site), Expr("+", (self.turn(site), 1)))

    def opening(self) -> Iterator[Item]:
        for site in self.sides.channels:
            yield Let(self.turn(site), int32, 0)
            if not self.makes(site):
                yield from (flag_set("MTE2", free(site)) for _ in range(STAGES))

    def closing(self) -> Iterator[Item]:
        for site in self.sides.channels:
            if self.makes(site):
                yield from (Instr("CrossCoreWaitFlag", (free(site),)) for _ in range(STAGES))

    def pointer(self, low: Lowering, op: Op) -> bool:
        """Whether an op is the address of a tile in the workspace, which depends on whose turn it is."""
        found = self.arrays.get(op.operands[0]) if op.name == "array_ptr" else None
        if found is None:
            return False
        site, param = found
        stage = Expr("i64", (Expr("%", (self.turn(site), STAGES)),))
        start = low.variable("slot", int64, fold("*", stage, site.elements))  # under a name of its own, as turns change
        low.env[op.result] = Pointer(param, start)
        return True


def there(site: Transfer) -> int:
    return 2 * site.number


def free(site: Transfer) -> int:
    return 2 * site.number + 1


def flag_set(pipe: str, number: int) -> Instr:
    return Instr("CrossCoreSetFlag", (BETWEEN, Word(f"PIPE_{pipe}"), number))


def lower_mixed(function: Function, target: AscendTarget, parts: int = 1) -> BlockKernel:
    """A kernel for blocks of a cube core and its vector cores, which go through their rows in so many parts.

    Raises
    ------
    NotCube
        When its products cannot be made apart from what else it does; it says why.
    """
    try:
        sides = partition(block_k(function, target))
    except NotPartitionable as error:
        raise NotCube(str(error)) from None
    if not reloads_match_stores(function) or loads_results(sides.cube, function):
        raise NotCube("it reads memory that it writes, in another place or under another name")
    places, size = workspace(sides)
    cube = cube_side(sides, places, target)
    cube_body = programs(cube)
    cube_body = replace(cube_body, body=interleave_stages(cube_body.body))
    vector = vector_side(sides, places, target, cube, parts)
    body = programs(vector)
    if any(view.of in places for item in items_of((body,)) for x in scalars(item) for view in memory_reads(x)):
        raise NotCube("results would be taken one by one, which no flag between cores orders")
    made = kernel_of(vector, "mix", body)
    hidden = {SUB_BLOCK, *(p.name for p in places)}
    slots = tuple(slot for slot in made.slots if slot.arg not in hidden)
    params = tuple(p for p in made.params if p.name not in hidden)
    shared = [Param("workspace", uint8, True)] if size else []  # two sides may have nothing to say to each other
    return BlockKernel(
        made.name, "mix", (*params, *shared), (*cube.buffers, *vector.buffers),
        around(vector, body), around(cube, cube_body), slots, size, made.file, made.noalias,
    )  # fmt: skip


def around(low: CubeSide | VectorSide, body: Loop) -> tuple[Item, ...]:
    return (*low.crossing.opening(), *low.front, body, *low.crossing.closing())


def workspace(sides: CorePartition) -> tuple[list[Param], int]:
    """Where tiles lie in a block's part of the workspace, and its bytes."""
    places, end = [], 0
    for site in sides.channels:
        places.append(Param(f"over_{site.number}", site.dtype, True, end))
        end += -(-STAGES * site.elements * site.dtype.itemsize // ALIGNMENT) * ALIGNMENT
    return places, end


def crossing_of(function: Function, sides: CorePartition, places: list[Param], is_cube: bool) -> Crossing:
    by_name = {param.name: (site, param) for site, param in zip(sides.channels, places, strict=True)}
    arrays = {arg: by_name[arg.hint] for arg in function.args if arg.hint in by_name}
    return Crossing(sides, is_cube, arrays)


# --- the cube core's side ---------------------------------------------------------------------------------------------


@dataclass
class CubeSide(CubeLowering):
    crossing: Crossing = field(default_factory=lambda: Crossing(None, True))  # type: ignore[arg-type]  # always given


def cube_side(sides: CorePartition, places: list[Param], target: AscendTarget) -> CubeSide:
    function = tile_columns(software_pipeline(sides), sides, target)
    parts = cube_regions_of(function)
    for op, reason in non_cube_ops(parts):
        raise NotCube.at(op, reason)
    low = CubeSide(function, target, grain_of(function), dispatch=cube_op)
    low.parts, low.done = parts, cube_ops(parts)
    low.residents = l1_residents_of(parts, target)
    low.crossing = crossing_of(function, sides, places, True)
    low.natural |= sides.natural
    for op in function.walk():
        if op in sides.marks and op.name == "tile_load":
            low.crossing.frees.setdefault(last_use(low, op), []).append(sides.marks[op])
    return low


def last_use(low: CubeSide, load: Op) -> Op:
    """The op of a load's own region after which the tile is no longer needed."""
    region = next(r for r in low.parts.regions() if load in r.ops)
    ops = {op: i for i, op in enumerate(region.ops)}
    inside = {inner: op for op in region.ops for inner in (op, *everything(op))}
    users, todo = [load], [load.result]
    while todo:
        for user in low.parts.users.get(todo.pop(), []):
            users.append(inside[user])
            if user.name in ("permute", "reshape", "cast"):
                todo.append(user.result)
    return max(users, key=ops.__getitem__)


def everything(op: Op) -> Iterator[Op]:
    for region in op.regions:
        for inner in region.ops:
            yield inner
            yield from everything(inner)


def cube_op(low: Lowering, op: Op) -> None:
    assert isinstance(low, CubeSide)
    crossing, site = low.crossing, low.crossing.sides.marks.get(op)
    low.loc = op.loc
    if crossing.pointer(low, op):
        return
    if op in crossing.sides.loop_spans:
        half_a_step(low, op, crossing.sides.loop_spans[op])
        return
    column, last = crossing.sides.columns.get(op, (None, 0))
    if site is not None:
        with low.when(True if column is None else compared("==", low.number(column), 0)):
            crossing.before(low, site)
    lower_cube_op(low, op)
    if site is not None and op.name == "tile_store":
        with low.when(True if column is None else compared("==", low.number(column), last)):
            crossing.after(low, site)
    for done in crossing.frees.get(op, []):
        crossing.after(low, done)


def half_a_step(low: CubeSide, op: Op, span: Span) -> None:
    """A half of a step, where there is such a step: a loop that takes no turns of its own."""
    exists = low.number(op.operands[1])
    with low.block() as items:
        low.loops.append(span)
        for inner in op.regions[0].body:
            low.dispatch(low, inner)
        low.loops.pop()
    low.items.append(Loop(low.name("once"), 0, exists, 1, tuple(items), low.line, int32))


# --- the vector cores' side -------------------------------------------------------------------------------------------


@dataclass
class VectorSide(Lowering):
    crossing: Crossing = field(default_factory=lambda: Crossing(None, False))  # type: ignore[arg-type]  # always given
    shares_rows: bool = False
    chunk: RowChunk | None = None
    steps: PipelinePartition | None = None

    def at_end(self, last: bool) -> Scalar:
        """Whether the part of the rows is the first one, or the last one."""
        if self.chunk is None or self.chunk.size == self.chunk.rows:
            return True
        part = self.number(self.chunk.part)
        return compared("==", part, self.chunk.rows - self.chunk.size if last else 0)


def vector_side(
    sides: CorePartition, places: list[Param], target: AscendTarget, cube: CubeSide, parts: int
) -> VectorSide:
    """The other side, with the same parameters, and with names that differ."""
    half = split_rows_in_two(sides, parts)
    if parts > 1 and half is None:
        raise NotCube("the vector cores cannot go through their rows in parts")
    if half is None and reloads_of_stored(sides.vector):
        raise NotCube("it reads memory that it writes, and the vector cores cannot share its rows")
    function = half.function if half else sides.vector
    low = VectorSide(function, target, grain_of(function), params=cube.params, dispatch=vector_op)
    low.taken = cube.taken
    low.crossing = crossing_of(function, sides, places, False)
    if half is not None:
        low.shares_rows, low.chunk, low.steps = True, half.chunk, half.steps
    low.natural.update(arg for arg in function.args if arg.hint == SUB_BLOCK)
    return low


def vector_op(low: Lowering, op: Op) -> None:
    assert isinstance(low, VectorSide)
    crossing, site = low.crossing, low.crossing.sides.marks.get(op)
    low.loc = op.loc
    if crossing.pointer(low, op):
        return
    if site is not None:
        with low.when(low.at_end(last=False)):
            crossing.before(low, site)
    if low.chunk and low.steps and op.name == "for" and op.regions[0].args[0] is low.chunk.part:
        loads = (low.steps.only_load(half, crossing.sides) for half in (low.steps.produce, low.steps.consume))
        PipelinedLoop(low, low.chunk, low.steps, *loads).write()
        return
    writes = writes_memory(op)
    with low.when(is_first() if writes and not low.shares_rows else True):
        lower_op(low, op)
    if site is not None:
        with low.when(low.at_end(last=True)):
            crossing.after(low, site)


def is_first() -> Scalar:
    """Both vector cores of a block compute everything, and one of them writes it."""
    return compared("==", SUB_BLOCK, 0)
