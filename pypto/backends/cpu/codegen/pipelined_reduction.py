"""Software pipelining over programs: the first reduction of the next program runs inside a loop of this one.

A softmax or a loss needs the maximum of its row before anything else, which takes as long as reading the row. A later
loop over the same rows, the host, is bound by exponentials; the next program's maximum fits beside it. The prologue is
in the first program of a range: it reduces for itself. So does one whose rows, or whose predecessor's, are partly out
of bounds. Both ways take the same chunks, so that results are bit-identical.

Legal where the kernel is nests alone and all that the reduction reads is pure, unmasked and never written. It pays
where scratch and both rows fit into the first-level cache.

for p in programs: m = max(row p); s = sum(exp(row p - m)); ... becomes m = max(row first) for p in programs: s =
sum(exp(row p - m)) and m' = max(row p+1), in one loop; ...; m = m'
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.codegen.nan_speculation import is_float_extreme, nan_free_combiner
from pypto.backends.cpu.codegen.reductions import combiner_of
from pypto.backends.cpu.codegen.strip_mining import vector_width_of
from pypto.backends.cpu.loopir.index_maps import is_inlinable, is_tile
from pypto.backends.cpu.loopir.ir import Nest, Scalar, Schedule, Stmt
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.llvm.value import VectorValue
from pypto.backends.llvm.writer import Carried
from pypto.ir.core import Function, Op, Value, make_op
from pypto.ir.types import int1, int32, int64
from pypto.ops.memory import Access
from pypto.ops.row import Effect
from pypto.ops.table import TABLE
from pypto.passes.analysis.memory_effects import is_noalias, is_pure, root, written_arrays

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.function import FunctionEmitter

_HARMLESS: Final = (Effect.PURE, Effect.READ, Effect.WRITE)
Ops = Callable[[Stmt], list[Op]]


@dataclass
class PipelinedReduction:
    """The pipelined nest, its host, and the fused nest that does the host's work and that of the next program's
    reduction.
    """

    function: FunctionEmitter
    first: Nest
    host: Nest
    fused: Nest
    next_scalars: list[Op]  # compute where the next program's rows are
    carried: list[Carried] = field(default_factory=list)  # results of the reduction, from the program before
    is_valid: Carried = field(default_factory=lambda: Carried("%next_valid", "i1", "false"))

    def loop_carried(self) -> tuple[Carried, ...]:
        """The phis of the loop over programs: results of the reduction for this program, and whether they are valid."""
        *zeros, _ = self.initial_values()
        self.carried = [Carried("%" + self.function.writer.name("next"), zero.type, zero.text) for zero in zeros]
        count = self.function.nests.unroll_factor(self.fused.stmts)
        self.function.nests.unroll_override |= {self.first.stmts[0]: count, self.host.stmts[0]: count}
        return (*self.carried, self.is_valid)

    def emit(self, nest: Nest, once: bool) -> None:
        """Emit a nest of the program."""
        f = self.function
        values = reduction_results(nest.stmts)
        if nest is self.first:
            pairs = zip(self.carried, values, strict=True)
            carried = [VectorValue(phi.name, v.dtype, 1, f.writer.depth) for phi, v in pairs]
            results = f.writer.branch(self.is_valid.name, [lambda: carried, lambda: self.emit_separately(nest)])
            f.env.update(zip(values, results, strict=True))
        elif nest is self.host:
            sides = [self.emit_fused, lambda: [*self.emit_separately(nest), *self.initial_values()]]
            results = f.writer.branch(self.next_row_exists().text, sides)
            f.env.update(zip(values, results, strict=False))
            for phi, value in zip((*self.carried, self.is_valid), results[len(values) :], strict=True):
                phi.next = value.text
        else:
            f.nests.emit(nest, once)

    def emit_separately(self, nest: Nest) -> list[VectorValue]:
        """Emit a nest as it is, and give the results of its reductions."""
        self.function.nests.emit(nest, True)
        return [self.function.env[v] for v in reduction_results(nest.stmts)]

    def initial_values(self) -> list[VectorValue]:
        """What a program hands on that does not reduce for the next one: no valid results."""
        e = self.function.e
        return [*(e.const(0, v.dtype) for v in reduction_results(self.first.stmts)), e.const(False, int1)]

    def next_row_exists(self) -> VectorValue:
        """Whether this thread runs the next program, and all rows of both programs are in bounds."""
        f = self.function
        e = f.e
        next_program = e.add(f.program_index[0], e.const(1, int64))
        ids = f.grid_position(next_program)
        for op in self.next_scalars:
            is_id = op.name == "program_id"
            f.env[op.results[0]] = e.convert(ids[op.attrs["axis"]], int32) if is_id else f.scalar_result(op)
        loads = [op for s in self.fused.stmts for op in f.nests.computed_ops(s) if op.name == "tile_load"]
        in_bounds = f.nests.memory.all_in_bounds(*map(Access.of, loads))
        exists = e.cmp("lt", next_program, VectorValue("%last", int64, 1, 0))
        return exists if in_bounds is None else e.and_(exists, in_bounds)

    def emit_fused(self) -> list[VectorValue]:
        """The results of the host, those for the next program, and whether the latter are exact: see
        `nan_speculation`.
        """
        e = self.function.e
        nests = self.function.nests
        stmts = self.fused.stmts
        loads = [op for s in stmts[len(self.host.stmts) :] for op in nests.computed_ops(s) if op.name == "tile_load"]
        nests.prefetched = dict.fromkeys(loads, False)
        nests.stores = []
        nests.may_stream = False
        nests.reduction_of = nan_free_combiner
        nests.memory.hoist_limits = nests.memory.written_buffers(stmts)
        results = nests.emit_version(self.fused, False)
        nests.reduction_of = combiner_of
        pairs = zip([s.the_op for s in stmts if s.kind == "reduce"], results, strict=True)
        extremes = [(x, nan_free_combiner(op)) for op, x in pairs if is_float_extreme(op)]
        exact = [e.cmp("ne", x, e.const(combiner.identity[0], combiner.dtypes[0])) for x, combiner in extremes]
        return [*results, functools.reduce(e.and_, exact, e.const(True, int1))]


def reduction_results(stmts: list[Stmt]) -> list[Value]:
    """The results of the reductions among statements."""
    return [s.the_op.results[0] for s in stmts if s.kind == "reduce"]


def find_pipelined_reduction(f: FunctionEmitter) -> PipelinedReduction | None:
    """The pipelined reduction of a kernel, or None where that is not legal or does not pay."""
    function = f.function
    schedule = f.schedule
    if not is_noalias(function) or function.programs.factor > 1 or f.is_large:
        return None
    if not all(isinstance(item, Nest | Scalar) for item in schedule.items):
        return None
    nests = [item for item in schedule.items if isinstance(item, Nest)]
    if len(nests) < 2 or not all(map(is_scalar_reduction, nests[0].stmts)):
        return None
    first = nests[0]
    host = next((nest for nest in nests[1:] if can_host(nest, first, f.nests.computed_ops, f.target)), None)
    if host is None:
        return None
    needed = backward_slice(function, [s.the_op for s in first.stmts])
    if not can_run_ahead(function, schedule, needed, f.target.l1_budget):
        return None
    cloned, scalars = clone_for_next_program(needed)
    if not all(v in cloned for v in reduction_results(first.stmts)):
        return None
    stmts = [replace(s, op=cloned[s.the_op.results[0]].op) for s in first.stmts]
    return PipelinedReduction(f, first, host, Nest([[*host.stmts, *stmts]], host.fused_depth), scalars)


def can_run_ahead(function: Function, schedule: Schedule, needed: list[Op], budget: int) -> bool:
    """Whether ops may run for the next program at any time, and their rows fit into `budget` bytes beside scratch."""
    written = written_arrays(function)
    row_bytes = sum(4 * math.prod(op.results[0].shape) for op in needed if op.name == "tile_load")
    if schedule.scratch_bytes and schedule.scratch_bytes + 2 * row_bytes > budget:
        return False
    if None in written or any(TABLE[op.name].effect not in _HARMLESS for op in function.body.body):
        return False
    return all(is_recomputable(op, schedule, written) for op in needed)


def is_scalar_reduction(stmt: Stmt) -> bool:
    """Whether a statement reduces all elements to one."""
    return stmt.kind == "reduce" and stmt.buffer is None and not stmt.the_op.results[0].dtype.is_narrow


def can_host(nest: Nest, first: Nest, ops: Ops, target: CpuTarget) -> bool:
    """Whether a nest is bound by computation, stores nothing, and shares loops and chunks with the first nest."""
    stmts = nest.stmts
    if len(nest.bodies) > 1 or len(first.bodies) > 1 or not first.stmts:
        return False
    if not all(s.kind == "compute" or is_scalar_reduction(s) for s in stmts) or stmts[-1].kind != "reduce":
        return False
    if stmts[0].signature != first.stmts[0].signature or stmts[0].lanes not in stmts[0].loops:
        return False
    has_extreme = any(s.kind == "reduce" and is_float_extreme(s.the_op) for s in stmts)
    has_transcendentals = any(TABLE[op.name].ulp for s in stmts for op in ops(s))
    if has_extreme or not has_transcendentals:
        return False
    return vector_width_of(target, stmts) == vector_width_of(target, first.stmts)


def backward_slice(function: Function, ops: list[Op]) -> list[Op]:
    """The ops and all that they are computed from, operands before users."""
    needed = set(ops)
    for op in reversed(function.body.body):
        if op in needed:
            needed.update(v.op for v in op.operands if v.op is not None)
    return [op for op in function.body.body if op in needed]


def is_recomputable(op: Op, schedule: Schedule, written: frozenset[Value | None]) -> bool:
    """Whether an op gives the same result for the next program whenever it runs."""
    if not is_tile(op.results[0]):
        return is_pure(op)
    if op.name == "tile_load":
        access = Access.of(op)
        array = None if is_tile(access.base) else root(access.base)
        return access.mask is None and array is not None and array not in written
    return is_inlinable(op) and op.results[0] not in schedule.buffer_of


def clone_for_next_program(needed: list[Op]) -> tuple[dict[Value, Value], list[Op]]:
    """The values of the next program, where they differ, and the cloned scalar ops among those that compute them."""
    cloned = dict[Value, Value]()
    scalars = list[Op]()
    for op in needed:
        operands = tuple(cloned.get(v, v) for v in op.operands)
        if operands == op.operands and op.name != "program_id":
            continue
        new = make_op(op.name, operands, op.attrs, tuple(v.type for v in op.results), loc=op.loc)
        cloned.update(zip(op.results, new.results, strict=True))
        if not is_tile(op.results[0]) and not any(map(is_tile, op.operands)):
            scalars.append(new)
    return cloned, scalars
