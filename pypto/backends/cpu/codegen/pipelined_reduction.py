"""What a row kernel reduces first, found one program ahead: beside the exponentials of the row before.

A softmax or a loss needs the greatest element of a row before anything else, which takes as long as reading the row.
Where a later loop over the same row computes much, the next program's row goes through it too. The first program of a
thread reduces for itself, and so does one whose rows, or those of the one before, do not exist as a whole. Both ways
take the same chunks, so that results do not depend on who found them. What a program keeps must find room in the first
level of the cache beside both rows: otherwise it is slower.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.codegen.nan_speculation import is_float_extreme, nan_free_combiner
from pypto.backends.cpu.codegen.prefetch import L1_BUDGET
from pypto.backends.cpu.codegen.reductions import combiner_of
from pypto.backends.cpu.codegen.strip_mining import vector_width_of
from pypto.backends.cpu.llvm.value import VectorValue
from pypto.backends.cpu.llvm.writer import Carried
from pypto.backends.cpu.loopir.index_maps import is_inlinable, is_tile
from pypto.backends.cpu.loopir.ir import Nest, Scalar, Schedule, Stmt
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Function, Op, Value, make_op
from pypto.ir.types import int1, int32, int64
from pypto.ops.memory import Access
from pypto.ops.row import Effect
from pypto.ops.table import TABLE
from pypto.passes.memory_effects import is_noalias, is_pure, root, written_arrays

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.function import FunctionEmitter

_HARMLESS: Final = (Effect.PURE, Effect.READ, Effect.WRITE)
Ops = Callable[[Stmt], list[Op]]


@dataclass
class PipelinedReduction:
    """A first nest, a later one over the same rows, and that one with the first nest's work for the next program.

    `next_scalars` say where the next program's rows are; `carried` are the phis of what was found, `is_valid` whether
    it was.
    """

    function: FunctionEmitter
    first: Nest
    host: Nest
    fused: Nest
    next_scalars: list[Op]
    carried: list[Carried] = field(default_factory=list)
    is_valid: Carried = field(default_factory=lambda: Carried("%early", "i1", "false"))

    def loop_carried(self) -> tuple[Carried, ...]:
        """What the loop over programs hands on."""
        *zeros, _ = self.initial_values()
        self.carried = [Carried("%" + self.function.writer.name("early"), zero.type, zero.text) for zero in zeros]
        count = self.function.nests.unroll_factor(self.fused.stmts)
        self.function.nests.unroll_override |= {self.first.stmts[0]: count, self.host.stmts[0]: count}
        return (*self.carried, self.is_valid)

    def emit(self, nest: Nest, once: bool) -> None:
        """A nest of the program."""
        f, values = self.function, reduction_results(nest.stmts)
        if nest is self.first:
            known = [
                VectorValue(phi.name, v.dtype, 1, f.writer.depth) for phi, v in zip(self.carried, values, strict=True)
            ]
            made = f.writer.branch(self.is_valid.name, [lambda: known, lambda: self.emit_separately(nest)])
            f.env.update(zip(values, made, strict=True))
        elif nest is self.host:
            sides = [self.emit_fused, lambda: [*self.emit_separately(nest), *self.initial_values()]]
            made = f.writer.branch(self.next_row_exists().text, sides)
            f.env.update(zip(values, made, strict=False))
            for phi, value in zip((*self.carried, self.is_valid), made[len(values) :], strict=True):
                phi.next = value.text
        else:
            f.nests.emit(nest, once)

    def emit_separately(self, nest: Nest) -> list[VectorValue]:
        self.function.nests.emit(nest, True)
        return [self.function.env[v] for v in reduction_results(nest.stmts)]

    def initial_values(self) -> list[VectorValue]:
        return [
            *(self.function.e.const(0, v.dtype) for v in reduction_results(self.first.stmts)),
            self.function.e.const(False, int1),
        ]

    def next_row_exists(self) -> VectorValue:
        """True when this thread runs the next program, and all rows of both exist as a whole."""
        f, e = self.function, self.function.e
        after = e.add(f.program_index[0], e.const(1, int64))
        ids = f.grid_position(after)
        for op in self.next_scalars:
            own = op.name == "program_id"
            f.env[op.results[0]] = e.convert(ids[op.attrs["axis"]], int32) if own else f.scalar_result(op)
        loads = [op for s in self.fused.stmts for op in f.nests.computed_ops(s) if op.name == "tile_load"]
        inside = f.nests.memory.all_in_bounds(*map(Access.of, loads))
        more = e.cmp("lt", after, VectorValue("%last", int64, 1, 0))
        return more if inside is None else e.and_(more, inside)

    def emit_fused(self) -> list[VectorValue]:
        """The results of both, and whether those for the next program are sound: see `extremes`."""
        e, nests, stmts = self.function.e, self.function.nests, self.fused.stmts
        loads = [op for s in stmts[len(self.host.stmts) :] for op in nests.computed_ops(s) if op.name == "tile_load"]
        nests.prefetched = dict.fromkeys(loads, False)
        nests.stores, nests.may_stream, nests.reduction_of = [], False, nan_free_combiner
        nests.memory.hoist_limits = nests.memory.written_buffers(stmts)
        made = nests.emit_version(self.fused, False)
        nests.reduction_of = combiner_of
        pairs = zip([s.the_op for s in stmts if s.kind == "reduce"], made, strict=True)
        extremes = [(x, nan_free_combiner(op)) for op, x in pairs if is_float_extreme(op)]
        sound = [e.cmp("ne", x, e.const(how.identity[0], how.dtypes[0])) for x, how in extremes]
        return [*made, functools.reduce(e.and_, sound, e.const(True, int1))]


def reduction_results(stmts: list[Stmt]) -> list[Value]:
    return [s.the_op.results[0] for s in stmts if s.kind == "reduce"]


def find_pipelined_reduction(f: FunctionEmitter) -> PipelinedReduction | None:
    """Where a kernel of nests alone can do so; no array that it reads early may be written."""
    function, schedule, ops = f.function, f.schedule, f.nests.computed_ops
    nests = [item for item in schedule.items if isinstance(item, Nest)]
    alone = is_noalias(function) and all(isinstance(item, Nest | Scalar) for item in schedule.items)
    plain = function.programs.factor == 1 and not f.is_large
    if not alone or not plain or len(nests) < 2 or not all(map(is_scalar_reduction, nests[0].stmts)):
        return None
    first, host = nests[0], next((nest for nest in nests[1:] if can_host(nest, nests[0], ops, f.target)), None)
    if host is None or not can_run_ahead(
        function, schedule, needed := backward_slice(function, [s.the_op for s in first.stmts])
    ):
        return None
    made, scalars = clone_for_next_program(needed)
    if not all(v in made for v in reduction_results(first.stmts)):
        return None
    stmts = [replace(s, op=made[s.the_op.results[0]].op) for s in first.stmts]
    return PipelinedReduction(f, first, host, Nest([[*host.stmts, *stmts]], host.fused_depth), scalars)


def can_run_ahead(function: Function, schedule: Schedule, needed: list[Op]) -> bool:
    """True when it does not matter when these ops run, and what they read fits beside what the program keeps."""
    written = written_arrays(function)
    rows = sum(4 * math.prod(op.results[0].shape) for op in needed if op.name == "tile_load")
    fits = not schedule.scratch_bytes or schedule.scratch_bytes + 2 * rows <= L1_BUDGET
    harmless = all(TABLE[op.name].effect in _HARMLESS for op in function.body.body)
    return fits and harmless and None not in written and all(is_recomputable(op, schedule, written) for op in needed)


def is_scalar_reduction(stmt: Stmt) -> bool:
    """True for a reduction of all elements to one."""
    return stmt.kind == "reduce" and stmt.buffer is None and not stmt.the_op.results[0].dtype.is_narrow


def can_host(nest: Nest, first: Nest, ops: Ops, target: CpuTarget) -> bool:
    """True for a nest that computes much, stores nothing, and goes over the same elements in the same lanes."""
    stmts, others = nest.stmts, first.stmts
    if (
        len(nest.bodies) > 1
        or len(first.bodies) > 1
        or not all(s.kind == "compute" or is_scalar_reduction(s) for s in stmts)
    ):
        return False
    alike = bool(others) and stmts[0].signature == others[0].signature and stmts[0].lanes in stmts[0].loops
    plain = stmts[-1].kind == "reduce" and not any(s.kind == "reduce" and is_float_extreme(s.the_op) for s in stmts)
    much = any(TABLE[op.name].ulp for s in stmts for op in ops(s))
    return alike and plain and much and vector_width_of(target, stmts) == vector_width_of(target, others)


def backward_slice(function: Function, ops: list[Op]) -> list[Op]:
    """The ops and all that they are computed from, operands before users."""
    needed = set(ops)
    for op in reversed(function.body.body):
        if op in needed:
            needed.update(v.op for v in op.operands if v.op is not None)
    return [op for op in function.body.body if op in needed]


def is_recomputable(op: Op, schedule: Schedule, written: frozenset[Value | None]) -> bool:
    """True for what can be computed for the next program in the same way, whenever this one runs."""
    if not is_tile(op.results[0]):
        return is_pure(op)
    if op.name == "tile_load":
        access = Access.of(op)
        array = None if is_tile(access.base) else root(access.base)
        return access.mask is None and array is not None and array not in written
    return is_inlinable(op) and op.results[0] not in schedule.buffer_of


def clone_for_next_program(needed: list[Op]) -> tuple[dict[Value, Value], list[Op]]:
    """Values as they are for the next program, where they differ, and the scalar ops among those that make them."""
    made, scalars = dict[Value, Value](), list[Op]()
    for op in needed:
        operands = tuple(made.get(v, v) for v in op.operands)
        if operands == op.operands and op.name != "program_id":
            continue
        new = make_op(op.name, operands, op.attrs, tuple(v.type for v in op.results), loc=op.loc)
        made.update(zip(op.results, new.results, strict=True))
        if not is_tile(op.results[0]) and not any(map(is_tile, op.operands)):
            scalars.append(new)
    return made, scalars
