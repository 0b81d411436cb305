"""Dependence analysis on Block IR: which accesses of memory meet, and after how many iterations.

`AccessAnalysis` lists the reads and writes of an item with their unit, buffer, stage and byte range. `AliasAnalysis`
compares two of them: they overlap in the same iteration, or the dependence has a distance of so many iterations, or
there is none. Offsets and stages are affine expressions of loop variables; what is not affine may be anywhere. So an
answer "no dependence" is always right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pypto.backends.ascend.block.access_extents import BLOCK, access_bytes, repeat_stride_of
from pypto.backends.ascend.blockir.affine import AffineExpr, affine_of, upper_bound
from pypto.backends.ascend.blockir.effects import (
    assigned,
    items_of,
    memory_reads,
    names_in,
    pipe_of,
    product_fractals,
    row_of,
    scalars,
    starts_from_zero,
    unit_flag,
    views,
)
from pypto.backends.ascend.blockir.ir import (
    Assign,
    BlockKernel,
    Buffer,
    Expr,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Param,
    Scalar,
    View,
    Word,
    fold,
    parts,
)

MAX_DEFINITION_NODES = 48  # of an expression that a name stands for; a larger one counts as unknown
ATOMIC = ("SetAtomicAdd", "SetAtomicMax", "SetAtomicMin")


@dataclass(frozen=True)
class MemoryAccess:
    """A read or a write of memory by one unit.

    With `repeat_stride`, it touches only the second number of bytes at each multiple of the first number.
    """

    pipe: str  # the unit
    writes: bool  # whether it writes
    memory: Buffer | Param  # the buffer or array
    stage: AffineExpr | None  # affine stage number, None where unknown
    start: AffineExpr | None  # affine first byte in the stage, None where unknown
    bytes: int | None  # extent, None for all that follows
    stage_expr: Scalar = 0  # the stage as Block IR has it
    atomic: bool = False  # whether an atomic mode is on
    immediate: bool = False  # it is done before anything is issued behind it
    instruction: str = ""  # name of the instruction
    repeat_stride: tuple[int, int] | None = None  # stride and bytes of its repeats
    fractals: int | None = None  # of a matrix product: the fractals of its result, 0 where unknown
    by_units: bool = False  # whether `unitFlag` orders it with the other unit that uses L0C

    def outside_scope(self, bound_names: frozenset[str]) -> MemoryAccess:
        """Return the access as seen from outside of a scope that binds names: what depends on them is unknown there."""
        stage = None if self.stage is None or self.stage.names() & bound_names else self.stage
        start = None if self.start is None or self.start.names() & bound_names else self.start
        if stage is self.stage and start is self.start:
            return self
        return replace(self, stage=stage, start=start, bytes=None if start is None else self.bytes)

    def over_iterations(self, name: str, first: int, step: int, iterations: int) -> MemoryAccess:
        """Return one access that covers all values of a loop variable."""
        if self.start is None or self.bytes is None or not self.start.of(name):
            return self
        bytes_per_step = self.start.of(name)
        invariant_start = self.start.plus(AffineExpr(0, ((name, 1),)), -bytes_per_step)
        if name in invariant_start.names() or iterations == 0:  # the variable also occurs in a term that is not linear
            return self
        extremes = [bytes_per_step * value for value in (first, first + step * (iterations - 1))]
        size = self.bytes + max(extremes) - min(extremes)
        return replace(self, start=invariant_start.plus(AffineExpr(min(extremes))), bytes=size, repeat_stride=None)


@dataclass
class AccessAnalysis:
    """Lists the memory accesses of items."""

    mutable_names: frozenset[str]  # names with more than one value
    definitions: dict[str, Scalar]  # values of the other names
    atomic: bool = False  # whether an atomic mode is on, in program order

    @staticmethod
    def of(kernel: BlockKernel) -> AccessAnalysis:
        """Analyse the names of a kernel."""
        all_items = kernel.body + kernel.cube_body
        mutable_names = assigned(all_items)
        lets: dict[str, list[Scalar]] = {}
        for item in items_of(all_items):
            if isinstance(item, Let):
                lets.setdefault(item.name, []).append(item.value)
        single = {name: v[0] for name, v in lets.items() if len(v) == 1 and name not in mutable_names}
        mutable_names |= {name for name, values in lets.items() if len(values) > 1}
        return AccessAnalysis(
            mutable_names,
            dict(_bounded_definitions({n: v for n, v in single.items() if not any(True for _ in memory_reads(v))})),
        )

    def resolve(self, value: Scalar) -> Scalar:
        """Replace the names in a number by their definitions."""
        if isinstance(value, str) and value in self.definitions:
            return self.resolve(self.definitions[value])
        if isinstance(value, Expr):
            args = tuple(self.resolve(x) for x in value.args)
            return fold(value.op, *args) if value.op in ("+", "-", "*") else Expr(value.op, args)
        return value

    def affine(self, value: Scalar) -> AffineExpr | None:
        """Return a number as an affine expression; None where it is not affine or depends on mutable names."""
        expr = affine_of(self.resolve(value))
        return None if expr is None or expr.names() & self.mutable_names else expr

    def accesses(self, item: Item) -> list[MemoryAccess]:
        """Return all accesses of an item and of the items inside of it, as seen from outside of it."""
        result = [self._access("S", False, view, view.elem.itemsize) for x in scalars(item) for view in memory_reads(x)]
        if parts(item):  # the scalar unit needs the value of a condition or bound before it goes on
            result = [replace(access, immediate=True) for access in result]
        if is_fenced(item):
            return result
        if isinstance(item, Instr):
            self.atomic = item.name in ATOMIC or (self.atomic and item.name != "SetAtomicNone")
            result += self._instruction(item)
        inside = [x for side in parts(item) for x in side]
        space = self.iteration_space(item) if isinstance(item, Loop) else None
        bound_names = {x.name for x in items_of(tuple(inside)) if isinstance(x, Let | Loop | Assign)}
        bound_names |= {item.name} if isinstance(item, Loop) else set()
        bound_names = {name for name in bound_names if name not in self.definitions}
        for access in (access for x in inside for access in self.accesses(x)):
            widened = (
                access if space is None or not isinstance(item, Loop) else access.over_iterations(item.name, *space)
            )
            result.append(self._leave_scope(widened, frozenset(bound_names)))
        return list(dict.fromkeys(result)) if inside else result

    def iteration_space(self, loop: Loop) -> tuple[int, int, int] | None:
        """Return the first value of a loop variable, its step and the most iterations, if they are known."""
        first = loop.start
        stop = upper_bound(self.resolve(loop.stop))
        step = loop.step
        if not isinstance(first, int) or not isinstance(step, int) or step <= 0 or stop is None:
            return None
        return first, step, max(0, -(-(stop - first) // step))

    def _leave_scope(self, access: MemoryAccess, bound_names: frozenset[str]) -> MemoryAccess:
        """Return an access outside of a scope, with the names in its stage resolved."""
        return replace(access.outside_scope(bound_names), stage_expr=self.resolve(access.stage_expr))

    def _instruction(self, instr: Instr) -> Iterator[MemoryAccess]:
        """Yield the accesses of an instruction's operands; an accumulating instruction also reads its result."""
        row = row_of(instr)
        pipe = ""
        for operand, view in enumerate(views(instr)):
            pipe = pipe or pipe_of(instr)
            size = access_bytes(instr, operand, self.resolve)
            teeth = repeat_stride_of(instr, operand)
            fractals = product_fractals(instr)
            by_units = view.space == "L0C" and unit_flag(instr) != 0
            if operand < row.writes:
                access = self._access(pipe, True, view, size, instr.name)
                yield replace(access, repeat_stride=teeth, fractals=fractals, by_units=by_units)
            if operand >= row.writes or (row.accumulates and not starts_from_zero(instr)):
                access = self._access(pipe, False, view, size, instr.name)
                yield replace(access, repeat_stride=teeth, fractals=fractals, by_units=by_units)

    def _access(self, pipe: str, writes: bool, view: View, size: int | None, instruction: str = "") -> MemoryAccess:
        """Build the access of one operand."""
        offset = self.affine(view.offset)
        start = None if offset is None else offset.times(view.elem.itemsize)
        stages = view.of.stages if isinstance(view.of, Buffer) else 1
        stage = self.affine(view.stage) if stages > 1 else AffineExpr()
        return MemoryAccess(
            pipe,
            writes,
            view.of,
            stage,
            start,
            None if start is None else size,
            view.stage,
            self.atomic,
            instruction=instruction,
        )


def _bounded_definitions(values: dict[str, Scalar]) -> Iterator[tuple[str, Scalar]]:
    """Yield, in program order, the definitions that stay small once their names are resolved."""
    sizes: dict[str, int] = {}

    def size(value: Scalar) -> int:
        if isinstance(value, Expr):
            return 1 + sum(map(size, value.args))
        return sizes.get(value, 1) if isinstance(value, str) else 1

    for name, value in values.items():
        nodes = size(value)
        if nodes <= MAX_DEFINITION_NODES:
            sizes[name] = nodes
            yield name, value


@dataclass(frozen=True)
class AliasAnalysis:
    """Compares memory accesses. With `noalias`, arrays of different names do not overlap."""

    noalias: bool

    def may_share_memory(self, a: MemoryAccess, b: MemoryAccess) -> bool:
        """Whether two buffers or arrays have memory in common."""
        if a.memory.name == b.memory.name:
            return True
        if isinstance(a.memory, Param) or isinstance(b.memory, Param):
            return isinstance(a.memory, Param) and isinstance(b.memory, Param) and not self.noalias
        if a.memory.space != b.memory.space or a.memory.address is None or b.memory.address is None:
            return False
        return (
            a.memory.address < b.memory.address + b.memory.bytes
            and b.memory.address < a.memory.address + a.memory.bytes
        )

    def may_overlap(self, a: MemoryAccess, b: MemoryAccess) -> bool:
        """Whether two accesses may overlap in one pass through a sequence, where each name has one value."""
        if not self.may_share_memory(a, b):
            return False
        if a.memory.name != b.memory.name:
            return True
        return not (_are_in_different_stages(a, b) or are_disjoint(a, b))

    def dependence_distance(
        self, a: MemoryAccess, b: MemoryAccess, loop: Loop, bound_names: frozenset[str]
    ) -> int | None:
        """Return the least number of iterations after which `b` may meet what `a` touched, None for never."""
        if not self.may_share_memory(a, b):
            return None
        if a.memory.name != b.memory.name or a.stage is None or b.stage is None:
            return 1
        a = a.outside_scope(bound_names)
        b = b.outside_scope(bound_names)
        if _moves_away(a, b, loop):
            return None
        stages = a.memory.stages if isinstance(a.memory, Buffer) else 1
        return _stage_distance(a, b, loop, stages) if stages > 1 else 1


def _are_in_different_stages(a: MemoryAccess, b: MemoryAccess) -> bool:
    """Whether two accesses of one buffer are surely in different stages."""
    if a.stage is None or b.stage is None:
        return False
    phase_a = stage_phase(a.stage)
    phase_b = stage_phase(b.stage)
    difference = phase_a[0].plus(phase_b[0], -1)
    modulus = phase_a[1] if phase_a[1] == phase_b[1] else 0
    if difference.terms:
        return False
    return (
        difference.constant % modulus != 0
        if modulus
        else difference.constant != 0 and not phase_a[1] and not phase_b[1]
    )


def stage_phase(stage: AffineExpr) -> tuple[AffineExpr, int]:
    """Split a stage `x % n` into x and n; n is 0 where the stage is no remainder."""
    if len(stage.terms) == 1 and stage.constant == 0:
        ((atom, times),) = stage.terms
        if times == 1 and isinstance(atom, Expr) and atom.op == "%" and isinstance(atom.args[1], int):
            dividend = affine_of(atom.args[0])
            return (dividend, atom.args[1]) if dividend is not None else (stage, 0)
    return stage, 0


def are_disjoint(a: MemoryAccess, b: MemoryAccess) -> bool:
    """Whether the bytes of two accesses of one memory surely do not overlap.

    Two operands with the same stride between repeats may also interleave without overlap.
    """
    if a.start is None or b.start is None:
        return False
    distance = b.start.plus(a.start, -1)
    if distance.terms:
        return False
    if a.repeat_stride and b.repeat_stride and a.repeat_stride[0] == b.repeat_stride[0]:
        step, width = a.repeat_stride
        if step and width <= distance.constant % step <= step - b.repeat_stride[1]:
            return True
    return _is_past(distance.constant, a.bytes, a) or _is_past(-distance.constant, b.bytes, b)


def _is_past(distance: int, size: int | None, access: MemoryAccess) -> bool:
    """Whether something that begins so many bytes further lies behind an access; buffers are kept in whole blocks."""
    if size is None:
        return False
    return distance >= (-(-size // BLOCK) * BLOCK if isinstance(access.memory, Buffer) else size)


def _moves_away(a: MemoryAccess, b: MemoryAccess, loop: Loop) -> bool:
    """Whether `b` advances with every iteration of a loop, away from what `a` touched."""
    if a.start is None or b.start is None or not isinstance(loop.step, int):
        return False
    advance = b.start.of(loop.name) * loop.step
    distance = b.start.plus(a.start, -1)
    if distance.terms:
        return False
    if advance > 0:
        return _is_past(distance.constant + advance, a.bytes, a)
    return advance < 0 and _is_past(-distance.constant - advance, b.bytes, b)


def _stage_distance(a: MemoryAccess, b: MemoryAccess, loop: Loop, stages: int) -> int | None:
    """Return the number of iterations after which `b` is in the stage that `a` was in."""
    if a.stage is None or b.stage is None:
        return 1
    (phase_a, stages_a), (phase_b, stages_b) = stage_phase(a.stage), stage_phase(b.stage)
    difference = phase_a.plus(phase_b, -1)
    if stages_a != stages_b or difference.terms:
        return 1
    if stages_a == 0:
        fixed = loop.name not in phase_a.names()
        return (1 if difference.constant == 0 else None) if fixed else 1
    advance = _stage_advance(phase_a, loop)
    if advance is None or stages_a != stages:
        return 1
    distances = (d for d in range(1, stages_a + 1) if (difference.constant - advance * d) % stages_a == 0)
    return next(distances, None)


def _stage_advance(value: AffineExpr, loop: Loop) -> int | None:
    """Return the growth of an affine expression in one iteration of a loop, None where it is unknown."""
    advance = 0
    for atom, factor in value.terms:
        if loop.name not in set(names_in(atom)):
            continue
        if atom == loop.name and isinstance(loop.step, int):
            advance += factor * loop.step
        elif atom == Expr("//", (loop.name, loop.step)):
            advance += factor
        else:
            return None
    return advance


def is_fenced(item: Item) -> bool:
    """Whether a branch begins and ends with a barrier of all units."""
    barrier = ("PipeBarrier", (Word("PIPE_ALL"),))
    ends = (item.body[0], item.body[-1]) if isinstance(item, If) and item.body and not item.orelse else ()
    return bool(ends) and all(isinstance(x, Instr) and (x.name, x.args) == barrier for x in ends)
