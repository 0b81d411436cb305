"""Mixed kernels: products run on the cube core of each block, all else on its vector cores.

The two sides exchange tiles through channels in the workspace in GM, each with several slots. The producer waits until
a slot is empty, writes the tile and sets a full flag; the consumer waits for that flag, copies the tile and sets an
empty flag. A channel has two flags. The consumer sets the empty flags in advance, and the producer takes back the
unused ones at the end.

    cube core                                   vector cores
    CrossCoreWaitFlag(empty)                    CrossCoreWaitFlag(full)
    Fixpipe(workspace[slot], scores)            DataCopy(s, workspace[slot])
    CrossCoreSetFlag(full)                      CrossCoreSetFlag(empty)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pypto.backends.ascend.block.stage_interleaving import interleave_stages
from pypto.backends.ascend.blockir.conditions import compared
from pypto.backends.ascend.blockir.effects import items_of, memory_reads, scalars
from pypto.backends.ascend.blockir.ir import BlockKernel, Expr, Instr, Item, Let, Loop, Param, Scalar, Word, fold
from pypto.backends.ascend.cube.accumulators import CubeLowering, NotCube
from pypto.backends.ascend.cube.l1_resident import l1_residents_of
from pypto.backends.ascend.cube.lower import lower_cube_op
from pypto.backends.ascend.cube.passes import CUBE_SIDE, K_BLOCKING, PARTITION
from pypto.backends.ascend.cube.pipeline_emit import PipelinedLoop
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.techniques import is_enabled
from pypto.backends.ascend.tile.core_partition import CorePartition
from pypto.backends.ascend.tile.cube_regions import CUBE_MOVEMENT_OPS, cube_ops, cube_regions_of, non_cube_ops
from pypto.backends.ascend.tile.gm_hazards import loads_results, reloads_match_stores, reloads_of_stored
from pypto.backends.ascend.tile.operand_facts import Span
from pypto.backends.ascend.tile.pipeline_partition import PipelinePartition
from pypto.backends.ascend.tile.row_split import SUB_BLOCK, RowChunk, split_rows_in_two
from pypto.backends.ascend.tile.software_pipeline import PIPELINE_DEPTH
from pypto.backends.ascend.tile.transfers import NotPartitionable, Transfer
from pypto.backends.ascend.tile.ub_layout import grain_of
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.lower import kernel_of, lower_op, programs
from pypto.backends.ascend.vector.values import Pointer
from pypto.ir.core import Function, Op, Value
from pypto.ir.types import int32, int64, uint8
from pypto.passes.analysis.memory_effects import writes_memory
from pypto.passes.manager import run

STAGES = PIPELINE_DEPTH + 1
FLAG_MODE = 2  # flag mode between a cube core and the vector cores of its block
ALIGNMENT = 512  # bytes, of tiles in the workspace


@dataclass
class ChannelState:
    """The channels as one side's lowering sees them."""

    partition: CorePartition  # the two sides and their channels
    is_cube: bool  # whether this is the cube core's side
    # workspace arrays by the argument that stands for them
    arrays: dict[Value, tuple[Transfer, Param]] = field(default_factory=dict)
    released_after: dict[Op, list[Transfer]] = field(default_factory=dict)  # channels whose slot is empty behind an op

    def is_producer(self, channel: Transfer) -> bool:
        """Whether this side writes to a channel."""
        return channel.to_cube != self.is_cube

    def counter(self, channel: Transfer) -> str:
        """Return the variable that counts the tiles of a channel."""
        return f"turn_{channel.channel}"

    def wait(self, low: Lowering, flag: int) -> None:
        """Wait for a flag."""
        low.instr("CrossCoreWaitFlag", flag)

    def signal(self, low: Lowering, pipe: str, flag: int) -> None:
        """Set a flag once a unit is done."""
        low.instr("CrossCoreSetFlag", FLAG_MODE, Word(f"PIPE_{pipe}"), flag)

    def acquire(self, low: Lowering, channel: Transfer) -> None:
        """Wait for an empty slot, or for a full one."""
        self.wait(low, empty_flag(channel) if self.is_producer(channel) else full_flag(channel))

    def release(self, low: Lowering, channel: Transfer) -> None:
        """Signal that a slot is full, or that it is empty."""
        if self.is_producer(channel):
            self.signal(low, "FIX" if self.is_cube else "MTE3", full_flag(channel))
        else:
            self.signal(low, "MTE2", empty_flag(channel))
        low.assign(self.counter(channel), Expr("+", (self.counter(channel), 1)))

    def prologue(self) -> Iterator[Item]:
        """Yield what comes before the programs: counters, and the empty flags that a consumer sets in advance."""
        for channel in self.partition.channels:
            yield Let(self.counter(channel), int32, 0)
            if not self.is_producer(channel):
                yield from (set_flag("MTE2", empty_flag(channel)) for _ in range(STAGES))

    def epilogue(self) -> Iterator[Item]:
        """Yield what comes behind the programs: a producer takes back the unused empty flags."""
        for channel in self.partition.channels:
            if self.is_producer(channel):
                yield from (Instr("CrossCoreWaitFlag", (empty_flag(channel),)) for _ in range(STAGES))

    def lower_slot_pointer(self, low: Lowering, op: Op) -> bool:
        """Lower an op that is the address of a slot; whether it was one."""
        workspace_array = self.arrays.get(op.operands[0]) if op.name == "array_ptr" else None
        if workspace_array is None:
            return False
        channel, param = workspace_array
        stage = Expr("i64", (Expr("%", (self.counter(channel), STAGES)),))
        slot = low.variable(
            "slot", int64, fold("*", stage, channel.elements)
        )  # named here, since the counter changes later
        low.env[op.result] = Pointer(param, slot)
        return True


def full_flag(channel: Transfer) -> int:
    """Return the number of the flag that says that a slot is full."""
    return 2 * channel.channel


def empty_flag(channel: Transfer) -> int:
    """Return the number of the flag that says that a slot is empty."""
    return 2 * channel.channel + 1


def set_flag(pipe: str, flag: int) -> Instr:
    """Build the instruction that sets a flag for the other kind of core."""
    return Instr("CrossCoreSetFlag", (FLAG_MODE, Word(f"PIPE_{pipe}"), flag))


def lower_mixed(function: Function, target: AscendTarget, chunks: int = 1) -> BlockKernel:
    """Lower a kernel for blocks of a cube core and its vector cores, which process their rows in some chunks.

    Raises
    ------
    NotCube
        When its products cannot be separated from its other work; it says why.
    """
    try:
        sides: CorePartition = run(function, (*K_BLOCKING, *PARTITION), target, attrs=function.attrs)
    except NotPartitionable as error:
        raise NotCube(str(error)) from None
    if not reloads_match_stores(function) or loads_results(sides.cube, function):
        raise NotCube("it reads memory that it writes, in another place or under another name")
    arrays, bytes_ = workspace(sides)
    cube = make_cube_side(sides, arrays, target)
    cube_body = programs(cube)
    if is_enabled(function, "stage_interleaving"):
        cube_body = replace(cube_body, body=interleave_stages(cube_body.body))
    vector = make_vector_side(sides, arrays, target, cube, chunks)
    body = programs(vector)
    if any(view.of in arrays for item in items_of((body,)) for x in scalars(item) for view in memory_reads(x)):
        raise NotCube("results would be taken one by one, which no flag between cores orders")
    vector_kernel = kernel_of(vector, "mix", body)
    hidden_names = {SUB_BLOCK, *(p.name for p in arrays)}
    slots = tuple(slot for slot in vector_kernel.slots if slot.arg not in hidden_names)
    params = tuple(p for p in vector_kernel.params if p.name not in hidden_names)
    workspace_param = [Param("workspace", uint8, True)] if bytes_ else []  # the sides may exchange no tiles
    return BlockKernel(
        vector_kernel.name,
        "mix",
        (*params, *workspace_param),
        (*cube.buffers, *vector.buffers),
        with_prologue(vector, body),
        with_prologue(cube, cube_body),
        slots,
        bytes_,
        vector_kernel.file,
        vector_kernel.noalias,
    )


def with_prologue(low: CubeSide | VectorSide, body: Loop) -> tuple[Item, ...]:
    """Return a side's programs with what comes before and behind them."""
    return (*low.channels.prologue(), *low.preamble, body, *low.channels.epilogue())


def workspace(sides: CorePartition) -> tuple[list[Param], int]:
    """Return the channels' arrays in a block's part of the workspace, and its bytes."""
    arrays = []
    offset = 0
    for channel in sides.channels:
        arrays.append(Param(channel.name, channel.dtype, True, offset))
        offset += -(-STAGES * channel.elements * channel.dtype.itemsize // ALIGNMENT) * ALIGNMENT
    return arrays, offset


def channel_state(function: Function, sides: CorePartition, places: list[Param], is_cube: bool) -> ChannelState:
    """Build the state of one side."""
    by_name = {param.name: (channel, param) for channel, param in zip(sides.channels, places, strict=True)}
    arrays = {arg: by_name[arg.hint] for arg in function.args if arg.hint in by_name}
    return ChannelState(sides, is_cube, arrays)


# --- the cube core's side ---------------------------------------------------------------------------------------------


@dataclass
class CubeSide(CubeLowering):
    """The lowering of a mixed kernel's cube side."""

    channels: ChannelState = field(default_factory=lambda: ChannelState(None, True))  # type: ignore[arg-type]  # always given


def make_cube_side(sides: CorePartition, arrays: list[Param], target: AscendTarget) -> CubeSide:
    """Build the cube side: software pipelined, with its results in column tiles."""
    function: Function = run(sides.cube, CUBE_SIDE, sides, target)
    regions = cube_regions_of(function)
    for op, reason in non_cube_ops(regions):
        raise NotCube.at(op, reason)
    low = CubeSide(function, target, grain_of(function), dispatch=cube_op)
    low.regions = regions
    low.cube_ops = cube_ops(regions)
    low.residents = l1_residents_of(regions, target)
    low.channels = channel_state(function, sides, arrays, True)
    low.nonnegative |= sides.nonnegative
    for op in function.walk():
        if op in sides.transfer_of_op and op.name == "tile_load":
            low.channels.released_after.setdefault(last_use(low, op), []).append(sides.transfer_of_op[op])
    return low


def last_use(low: CubeSide, load: Op) -> Op:
    """Return the op of a load's own region after which the tile is dead."""
    region = next(r for r in low.regions.regions() if load in r.ops)
    positions = {op: i for i, op in enumerate(region.ops)}
    op_around = {inner: op for op in region.ops for inner in (op, *nested_ops(op))}
    users = [load]
    worklist = [load.result]
    while worklist:
        for user in low.regions.users.get(worklist.pop(), []):
            users.append(op_around[user])
            if user.name in CUBE_MOVEMENT_OPS:
                worklist.append(user.result)
    return max(users, key=positions.__getitem__)


def nested_ops(op: Op) -> Iterator[Op]:
    """Yield all ops inside of an op."""
    for region in op.regions:
        for inner in region.ops:
            yield inner
            yield from nested_ops(inner)


def cube_op(low: Lowering, op: Op) -> None:
    """Lower an op of the cube side, with the waits and signals of its channel."""
    assert isinstance(low, CubeSide)
    crossing = low.channels
    channel = low.channels.partition.transfer_of_op.get(op)
    low.loc = op.loc
    if crossing.lower_slot_pointer(low, op):
        return
    if op in crossing.partition.loop_spans:
        lower_pipeline_stage(low, op, crossing.partition.loop_spans[op])
        return
    column_index, last_column = crossing.partition.column_stores.get(op, (None, 0))
    if channel is not None:
        with low.when(True if column_index is None else compared("==", low.number(column_index), 0)):
            crossing.acquire(low, channel)
    lower_cube_op(low, op)
    if channel is not None and op.name == "tile_store":
        with low.when(True if column_index is None else compared("==", low.number(column_index), last_column)):
            crossing.release(low, channel)
    for done in crossing.released_after.get(op, []):
        crossing.release(low, done)


def lower_pipeline_stage(low: CubeSide, op: Op, span: Span) -> None:
    """Lower one stage of a pipelined step as a loop that runs once or not at all."""
    exists = low.number(op.operands[1])
    with low.block() as items:
        low.spans.append(span)
        for inner in op.regions[0].body:
            low.dispatch(low, inner)
        low.spans.pop()
    low.items.append(Loop(low.name("once"), 0, exists, 1, tuple(items), low.line, int32))


# --- the vector cores' side -------------------------------------------------------------------------------------------


@dataclass
class VectorSide(Lowering):
    """The lowering of a mixed kernel's vector side."""

    channels: ChannelState = field(default_factory=lambda: ChannelState(None, False))  # type: ignore[arg-type]  # always given
    shares_rows: bool = False  # whether the two vector cores split the rows
    chunk: RowChunk | None = None  # the rows that one pass processes
    steps: PipelinePartition | None = None  # the stages of its pipelined loop

    def is_boundary_chunk(self, last: bool) -> Scalar:
        """Whether a pass over rows is the first one, or the last one."""
        if self.chunk is None or self.chunk.size == self.chunk.rows:
            return True
        start = self.number(self.chunk.start)
        return compared("==", start, self.chunk.rows - self.chunk.size if last else 0)


def make_vector_side(
    sides: CorePartition, places: list[Param], target: AscendTarget, cube: CubeSide, chunks: int
) -> VectorSide:
    """Build the vector side, with the same parameters and other names."""
    split = split_rows_in_two(sides, chunks) if is_enabled(sides.vector, "row_split") else None
    if chunks > 1 and split is None:
        raise NotCube("the vector cores cannot go through their rows in parts")
    if split is None and reloads_of_stored(sides.vector):
        raise NotCube("it reads memory that it writes, and the vector cores cannot share its rows")
    function = split.function if split else sides.vector
    low = VectorSide(function, target, grain_of(function), params=cube.params, dispatch=vector_op)
    low.used_names = cube.used_names
    low.channels = channel_state(function, sides, places, False)
    if split is not None:
        low.shares_rows, low.chunk, low.steps = True, split.chunk, split.steps
    low.nonnegative.update(arg for arg in function.args if arg.hint == SUB_BLOCK)
    return low


def vector_op(low: Lowering, op: Op) -> None:
    """Lower an op of the vector side, with the waits and signals of its channel."""
    assert isinstance(low, VectorSide)
    crossing = low.channels
    channel = low.channels.partition.transfer_of_op.get(op)
    low.loc = op.loc
    if crossing.lower_slot_pointer(low, op):
        return
    if channel is not None:
        with low.when(low.is_boundary_chunk(last=False)):
            crossing.acquire(low, channel)
    if low.chunk and low.steps and op.name == "for" and op.regions[0].args[0] is low.chunk.start:
        loads = (low.steps.only_received(stage, crossing.partition) for stage in (low.steps.produce, low.steps.consume))
        PipelinedLoop(low, low.chunk, low.steps, *loads).emit()
        return
    writes = writes_memory(op)
    with low.when(is_first_core() if writes and not low.shares_rows else True):
        lower_op(low, op)
    if channel is not None:
        with low.when(low.is_boundary_chunk(last=True)):
            crossing.release(low, channel)


def is_first_core() -> Scalar:
    """Return the condition under which a core writes: both compute everything, and one of them writes it."""
    return compared("==", SUB_BLOCK, 0)
