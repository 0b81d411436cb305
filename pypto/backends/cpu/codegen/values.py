"""Values of a chunk: memoised, read from memory or scratch, or computed where they are read (rematerialised).

`value` follows the operands of an op down to memory, with an index map for each operand. What a frame has computed is
memoised there, so that a value that two statements read is computed once, in the outermost frame that it can be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pypto.backends.cpu.codegen.memory import Chunk, register_dtype
from pypto.backends.cpu.codegen.prefetch import L2, prefetch_next
from pypto.backends.cpu.codegen.register_transpose import TransposeTiling, transposed_tile, with_index
from pypto.backends.cpu.codegen.tile_access import AccessEmitter
from pypto.backends.cpu.instrument.hooks import Unchecked
from pypto.backends.cpu.loopir.index_maps import GATHERING, IndexMap, is_tile, operand_map, operand_reads
from pypto.backends.cpu.loopir.ir import Buffer
from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
from pypto.backends.cpu.techniques import is_enabled
from pypto.backends.llvm.value import VectorValue
from pypto.errors import CompilerBug
from pypto.ir.core import Function, Op, Value
from pypto.ir.types import PtrType, float32, int64
from pypto.ops.memory import Access
from pypto.ops.table import MOVEMENT_OPS, TABLE
from pypto.passes.analysis.memory_effects import may_alias


class ValueEmitter:
    """Emits values of tiles, over an environment of scalars and the addresses of buffers."""

    def __init__(
        self,
        e: CpuLaneEmitter,
        function: Function,
        env: dict[Value, VectorValue],
        buffers: dict[Value, Buffer],
        base: Callable[[Buffer], VectorValue],
    ) -> None:
        self.e = e
        self.w = e.w
        self.function = function
        self.env = env
        self.buffers = buffers
        self.base_of = base
        self.memory = AccessEmitter(e, env.__getitem__)
        enabled = is_enabled(function, "register_transpose")
        self.transposes = TransposeTiling(self.in_memory, self.is_overwritten, env.__getitem__, enabled)
        self.checks = Unchecked()
        self.vector_width = 1  # lanes of a register
        self.computed_here: set[Value] = set()  # values that the body computes and does not read
        self.stores: list[Op] = []  # of the nest
        self.prefetched: dict[Op, bool] = {}  # loads with a prefetch, and whether no other nest reads them
        self.prefetch_level = L2
        self.loop: Op | None = None  # the persistent loop, for whose next iteration they prefetch

    def operand(self, v: Value, op: Op, index: IndexMap, at: Chunk) -> VectorValue:
        """The lanes of an operand, at an index map of the result."""
        return self.value(v, operand_map(op, v, index), at)

    def optional_operand(self, v: Value | None, op: Op, index: IndexMap, at: Chunk) -> VectorValue | None:
        """The lanes of an operand that an op may not have."""
        return None if v is None else self.operand(v, op, index, at)

    def value(self, v: Value, index: IndexMap, at: Chunk) -> VectorValue:
        """The lanes of a value at an index map: memoised, read from a buffer, or computed here."""
        if not is_tile(v):
            return self.env[v]
        key = self.memo_key(v, index, at)
        for frame in reversed(self.w.frames[self.w.hoist_floor :]):
            if key in frame.memo:
                return frame.memo[key]
        if at.row_indices and self.transposes.reads_transposed(v, index, at.lanes, at.transpose_axis):
            memo = self.w.frames[-1].memo
            rows = transposed_tile(self, v, index, at, self.vector_width)
            for row_index, row in zip(at.row_indices, rows, strict=True):
                memo[self.memo_key(v, index, with_index(at, at.transpose_axis, row_index))] = row
            return memo[key]
        buffer = self.in_memory(v)
        if buffer is not None:
            result = self.memory.read_scratch(buffer, self.base_of(buffer), index, at)
        else:
            if v.op is None:
                raise CompilerBug(f"a value of type {v.type} has no memory")
            result = self.compute(v.op, index, at)
        self.w.frames[max(result.hoist_depth, self.w.hoist_floor)].memo[key] = result
        return result

    def memo_key(self, v: Value, index: IndexMap, at: Chunk) -> object:
        """The key under which a frame memoises a value at an index map."""
        indices = tuple((p, at.index[p].text) if p is not None else None for p in index)
        return v, indices, at.width, at.tail, at.lanes

    def in_memory(self, v: Value) -> Buffer | None:
        """The buffer that the body reads a value from, or None where it computes the value."""
        return self.buffers.get(v) if v not in self.computed_here else None

    def is_overwritten(self, v: Value) -> bool:
        """Whether the nest writes what reading a value reads."""
        buffer = self.in_memory(v)
        if buffer is not None or v.op is None:
            return buffer is not None and buffer.memory in self.memory.hoist_limits
        if any(may_alias(self.function, v.op, store) for store in self.stores):
            return True
        # Pointers and mask of a load may be read from memory, too.
        return any(self.is_overwritten(x) for x, _ in self.transposes.memory_operands(operand_reads(v.op)))

    def compute(self, op: Op, index: IndexMap, at: Chunk) -> VectorValue:
        """The lanes of an op's result."""
        if op.name in MOVEMENT_OPS or op.name == "ptr_cast":  # registers hold pointers as addresses
            return self.operand(op.operands[0], op, index, at)
        if op.name == "constant":
            return self.e.const(op.attrs["value"], op.results[0].dtype)
        if op.name == "undef":
            return self.e.const(0, register_dtype(op.results[0].tile.elem))
        if op.name == "arange":
            return self.arange(op, index, at)
        if op.name == "addptr":
            return pointer_plus(self.e, op, *(self.operand(v, op, index, at) for v in op.operands))
        if op.name in GATHERING:
            return self.emit_gather(op, index, at)
        if op.name == "tile_load":
            access = Access.of(op)
            base = self.operand(access.base, op, index, at)
            mask = self.optional_operand(access.mask, op, index, at)
            other = self.optional_operand(access.other, op, index, at) if at.masked or mask is not None else None
            if op in self.prefetched:
                prefetch_next(self.memory, op, base, index, at, self.prefetch_level, self.loop, self.prefetched[op])
            is_pinned = self.checks.lanes(op, base, index, at, mask) or self.is_overwritten(op.results[0])
            level = self.w.depth if is_pinned else self.w.hoist_floor
            return self.memory.load_tile(access, op.results[0].dtype, base, index, at, mask, other, level)
        return self.apply(op, tuple(self.operand(v, op, index, at) for v in op.operands))

    def apply(self, op: Op, operands: tuple[VectorValue, ...]) -> VectorValue:
        """An elementwise op by its lane rule; 16-bit floats are computed in float32 and rounded."""
        result = register_dtype(op.results[0].tile.elem)
        if op.name not in ("cast", "bitcast"):
            operands = tuple(v.as_dtype(float32) if v.dtype.is_narrow else v for v in operands)
        rule = TABLE[op.name].lane_rule
        if not callable(rule):
            raise CompilerBug(f"{op.name} has no rule for lanes")
        lanes: VectorValue = rule(self.e, op, *operands)
        may_lack_zero = op.name == "neg" and result.bits == 8  # some 8-bit floats have no -0
        if result.is_narrow and (may_lack_zero or "exact_in_narrow" not in TABLE[op.name].traits):
            return self.e.round_to(lanes, result)
        return lanes.as_dtype(result)

    def emit_gather(self, op: Op, index: IndexMap, at: Chunk) -> VectorValue:
        """Elements of a buffer at other indices than the result's."""
        source = self.buffers[op.operands[0]]
        if op.name == "slice":
            starts, steps = op.attrs["starts"], op.attrs["steps"]
            return self.memory.read_scratch(source, self.base_of(source), index, at, starts, steps)
        where = self.operand(op.operands[1], op, index, at)
        result = self.memory.gather_scratch(source, self.base_of(source), index, at, where, op.attrs["axis"])
        return replace(result, hoist_depth=self.w.depth) if self.checks.picked(op, where, at) else result

    def arange(self, op: Op, index: IndexMap, at: Chunk) -> VectorValue:
        """The lanes of an index sequence."""
        dtype = op.results[0].dtype
        position = index[0]
        first = self.e.add(self.e.convert(at.index_of(position), dtype), self.e.const(op.attrs["start"], dtype))
        if position is None or position != at.lanes or at.width == 1:
            return first
        return self.e.add(first, self.e.iota(at.width, dtype))


def pointer_plus(e: CpuLaneEmitter, op: Op, base: VectorValue, offset: VectorValue) -> VectorValue:
    """A pointer, advanced by a number of elements."""
    elem = op.results[0].tile.elem
    assert isinstance(elem, PtrType)
    return e.add(base, e.mul(e.convert(offset, int64), e.const(elem.pointee.itemsize, int64)))
