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

from pypto.backends.cpu.extremes import has_extreme, trusting
from pypto.backends.cpu.lanes import Lanes
from pypto.backends.cpu.loopir import Nest, Scalar, Schedule, Stmt
from pypto.backends.cpu.parts import lanes_of
from pypto.backends.cpu.prefetch import ROOM
from pypto.backends.cpu.pull import can_pull, is_tile
from pypto.backends.cpu.reductions import joining
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.cpu.writer import Carried
from pypto.ir.core import Function, Op, Value, make_op
from pypto.ir.types import int1, int32, int64
from pypto.ops.memory import Access
from pypto.ops.row import Effect
from pypto.ops.table import TABLE
from pypto.passes.pattern import root

if TYPE_CHECKING:
    from pypto.backends.cpu.lower import FunctionEmitter

_HARMLESS: Final = (Effect.PURE, Effect.READ, Effect.WRITE)
Ops = Callable[[Stmt], list[Op]]


@dataclass
class Early:
    """A first nest, a later one over the same rows, and that one with the first nest's work for the next program.

    `scalars` say where the next program's rows are; `found` are the phis of what was found, `valid` whether it was.
    """

    f: FunctionEmitter
    first: Nest
    host: Nest
    both: Nest
    scalars: list[Op]
    found: list[Carried] = field(default_factory=list)
    valid: Carried = field(default_factory=lambda: Carried("%early", "i1", "false"))

    def begin(self) -> tuple[Carried, ...]:
        """What the loop over programs hands on."""
        *zeros, _ = self.nothing()
        self.found = [Carried("%" + self.f.writer.name("early"), zero.type, zero.text) for zero in zeros]
        count = self.f.nests.registers(self.both.stmts)
        self.f.nests.most |= {self.first.stmts[0]: count, self.host.stmts[0]: count}
        return (*self.found, self.valid)

    def emit(self, nest: Nest, once: bool) -> None:
        """A nest of the program."""
        f, values = self.f, results(nest.stmts)
        if nest is self.first:
            known = [Lanes(phi.name, v.dtype, 1, f.writer.depth) for phi, v in zip(self.found, values, strict=True)]
            made = f.writer.branch(self.valid.name, [lambda: known, lambda: self.alone(nest)])
            f.env.update(zip(values, made, strict=True))
        elif nest is self.host:
            sides = [self.side_by_side, lambda: [*self.alone(nest), *self.nothing()]]
            made = f.writer.branch(self.condition().text, sides)
            f.env.update(zip(values, made, strict=False))
            for phi, value in zip((*self.found, self.valid), made[len(values) :], strict=True):
                phi.next = value.text
        else:
            f.nests.emit(nest, once)

    def alone(self, nest: Nest) -> list[Lanes]:
        self.f.nests.emit(nest, True)
        return [self.f.env[v] for v in results(nest.stmts)]

    def nothing(self) -> list[Lanes]:
        return [*(self.f.e.const(0, v.dtype) for v in results(self.first.stmts)), self.f.e.const(False, int1)]

    def condition(self) -> Lanes:
        """True when this thread runs the next program, and all rows of both exist as a whole."""
        f, e = self.f, self.f.e
        after = e.add(f.here[0], e.const(1, int64))
        ids = f.places(after)
        for op in self.scalars:
            own = op.name == "program_id"
            f.env[op.results[0]] = e.convert(ids[op.attrs["axis"]], int32) if own else f.scalar_result(op)
        loads = [op for s in self.both.stmts for op in f.nests.ops(s) if op.name == "tile_load"]
        inside = f.nests.memory.interior(*map(Access.of, loads))
        more = e.cmp("lt", after, Lanes("%last", int64, 1, 0))
        return more if inside is None else e.and_(more, inside)

    def side_by_side(self) -> list[Lanes]:
        """The results of both, and whether those for the next program are sound: see `extremes`."""
        e, nests, stmts = self.f.e, self.f.nests, self.both.stmts
        loads = [op for s in stmts[len(self.host.stmts) :] for op in nests.ops(s) if op.name == "tile_load"]
        nests.ahead = dict.fromkeys(loads, False)
        nests.stores, nests.streaming, nests.joining = [], False, trusting
        nests.memory.written = nests.memory.writes(stmts)
        made = nests.version(self.both, False)
        nests.joining = joining
        pairs = zip([s.does for s in stmts if s.kind == "reduce"], made, strict=True)
        extremes = [(x, trusting(op)) for op, x in pairs if has_extreme(op)]
        sound = [e.cmp("ne", x, e.const(how.start[0], how.dtypes[0])) for x, how in extremes]
        return [*made, functools.reduce(e.and_, sound, e.const(True, int1))]


def results(stmts: list[Stmt]) -> list[Value]:
    return [s.does.results[0] for s in stmts if s.kind == "reduce"]


def find(f: FunctionEmitter) -> Early | None:
    """Where a kernel of nests alone can do so; no array that it reads early may be written."""
    function, schedule, ops = f.function, f.schedule, f.nests.ops
    nests = [item for item in schedule.items if isinstance(item, Nest)]
    alone = function.attrs.get("noalias") and all(isinstance(item, Nest | Scalar) for item in schedule.items)
    plain = f.merged.most == 1 and not f.is_large and not function.attrs.get("profile")
    if not alone or not plain or len(nests) < 2 or not all(map(is_scalar, nests[0].stmts)):
        return None
    first, host = nests[0], next((nest for nest in nests[1:] if can_host(nest, nests[0], ops, f.target)), None)
    if host is None or not is_free(function, schedule, needed := behind(function, [s.does for s in first.stmts])):
        return None
    made, scalars = copies(needed)
    if not all(v in made for v in results(first.stmts)):
        return None
    stmts = [replace(s, op=made[s.does.results[0]].op) for s in first.stmts]
    return Early(f, first, host, Nest([[*host.stmts, *stmts]], host.shared), scalars)


def is_free(function: Function, schedule: Schedule, needed: list[Op]) -> bool:
    """True when it does not matter when these ops run, and what they read fits beside what the program keeps."""
    written = {root(op.operands[0]) for op in function.walk() if TABLE[op.name].effect is Effect.WRITE}
    rows = sum(4 * math.prod(op.results[0].shape) for op in needed if op.name == "tile_load")
    fits = not schedule.scratch_bytes or schedule.scratch_bytes + 2 * rows <= ROOM
    harmless = all(TABLE[op.name].effect in _HARMLESS for op in function.body.body)
    return fits and harmless and None not in written and all(is_pure(op, schedule, written) for op in needed)


def is_scalar(stmt: Stmt) -> bool:
    """True for a reduction of all elements to one."""
    return stmt.kind == "reduce" and stmt.buffer is None and not stmt.does.results[0].dtype.is_narrow


def can_host(nest: Nest, first: Nest, ops: Ops, target: CpuTarget) -> bool:
    """True for a nest that computes much, stores nothing, and goes over the same elements in the same lanes."""
    stmts, others = nest.stmts, first.stmts
    if len(nest.bodies) > 1 or len(first.bodies) > 1 or not all(s.kind == "compute" or is_scalar(s) for s in stmts):
        return False
    alike = bool(others) and stmts[0].signature == others[0].signature and stmts[0].lanes in stmts[0].loops
    plain = stmts[-1].kind == "reduce" and not any(s.kind == "reduce" and has_extreme(s.does) for s in stmts)
    much = any(TABLE[op.name].ulp for s in stmts for op in ops(s))
    return alike and plain and much and lanes_of(target, stmts) == lanes_of(target, others)


def behind(function: Function, ops: list[Op]) -> list[Op]:
    """The ops and all that they are computed from, operands before users."""
    needed = set(ops)
    for op in reversed(function.body.body):
        if op in needed:
            needed.update(v.op for v in op.operands if v.op is not None)
    return [op for op in function.body.body if op in needed]


def is_pure(op: Op, schedule: Schedule, written: set[Value | None]) -> bool:
    """True for what can be computed for the next program in the same way, whenever this one runs."""
    if not is_tile(op.results[0]):
        return TABLE[op.name].effect is Effect.PURE
    if op.name == "tile_load":
        access = Access.of(op)
        array = None if is_tile(access.base) else root(access.base)
        return access.mask is None and array is not None and array not in written
    return can_pull(op) and op.results[0] not in schedule.of


def copies(needed: list[Op]) -> tuple[dict[Value, Value], list[Op]]:
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
