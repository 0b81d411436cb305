"""Loop-invariant code motion: what every iteration would compute alike is computed once, before the loop.

A pure op moves out of every loop that defines none of its operands. It moves out of an `if` only together with a loop:
on its own that would compute more. A load moves out of a loop that surely runs and stores to no array that it may read.

Tiles that cost nothing (see `FREE`) stay where they are used, since a tile that outlives the loop nest of its users
must be kept in memory. A user that moves out takes a copy of them along.

Legality: a pure op gives the same in every iteration and touches no memory. A load may fault, so its loop must have a
trip count of 1 or more.

    for %i { %t = exp %x; %y = add %a, %t }      ->      %t = exp %x;  for %i { %y = add %a, %t }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pypto.ir.core import Function, Op, Region, Value, make_op, walk
from pypto.ir.rewrite import Rewriter
from pypto.ops.build import OpBuilder
from pypto.ops.table import TABLE
from pypto.passes.analysis.memory_effects import has_side_effects, is_load, is_noalias, root, writes_memory
from pypto.passes.pattern import constant_range

FREE: Final = ("constant", "undef", "arange", "broadcast_to")


def licm(function: Function) -> Function:
    """Move invariant ops out of loops."""
    return _Hoister(OpBuilder(Region()), _rule, noalias=is_noalias(function)).function(function)


@dataclass(slots=True)
class _Frame:
    """A region under construction, and the old loop that it belongs to."""

    region: Region
    loop: Op | None
    runs: bool = False
    stored: set[Value | None] = field(default_factory=set)  # arrays that the loop writes; None is any


@dataclass
class _Hoister(Rewriter[OpBuilder]):
    """Places each op in the outermost region that defines its operands."""

    noalias: bool = False
    frames: list[_Frame] = field(default_factory=list)
    level: dict[Value, int] = field(default_factory=dict)  # of the region that defines a value
    reach: dict[Value, int] = field(default_factory=dict)  # of the outermost region that could
    copies: dict[tuple[Value, int], Value] = field(default_factory=dict)
    parent: Op | None = None

    def copy(self, op: Op) -> Op:
        outer, self.parent = self.parent, op
        new = super().copy(op)
        self.parent = outer
        here = len(self.frames) - 1
        self.note(new.results, here, here)
        return new

    def fill(self, new: Region, old: Region) -> None:
        self.note(new.args, len(self.frames), len(self.frames))
        self.frames.append(self.frame(new))
        super().fill(new, old)
        self.frames.pop()

    def frame(self, region: Region) -> _Frame:
        """The frame of a region; for the body of a loop with the arrays that the loop stores to."""
        loop = self.parent if self.parent is not None and self.parent.name in ("for", "while") else None
        if loop is None:
            return _Frame(region, None)
        stored = {self.stored_array(op) for r in loop.regions for op in walk(r) if has_side_effects(op)}
        return _Frame(region, loop, self.runs(loop), stored)

    def stored_array(self, op: Op) -> Value | None:
        """The array that an op stores to."""
        array = root(op.operands[0]) if writes_memory(op) else None
        return None if array is None else self.value(array)

    def runs(self, loop: Op) -> bool:
        """Whether the trip count of a loop is known to be 1 or more."""
        return loop.name == "for" and bool(constant_range(map(self.value, loop.operands[:3])))

    def target(self, op: Op, operands: Sequence[Value]) -> int:
        """The outermost region that the op may move to."""
        here = len(self.frames) - 1
        visible = max((self.reach[v] for v in operands), default=0)
        reads = is_load(op)
        for level in range(visible, here):
            inside = self.frames[level + 1 :]
            if inside[0].loop is not None and (not reads or self.may_load(operands[0], inside)):
                return level
        return here

    def may_load(self, pointer: Value, inside: Sequence[_Frame]) -> bool:
        """Whether a load may move out of loops: all of them run, and none stores to its array."""
        array = root(pointer)
        return all(
            f.runs and (not f.stored or (self.noalias and array is not None and not f.stored & {array, None}))
            for f in inside
        )

    def note(self, values: Sequence[Value], level: int, reach: int) -> None:
        """Record where values are defined, and the outermost region that could define them."""
        self.level.update(dict.fromkeys(values, level))
        self.reach.update(dict.fromkeys(values, reach))

    def place(self, op: Op, operands: Sequence[Value], level: int, reach: int) -> Op:
        """Put an op at the end of a region, with copies of the free tiles that it needs there."""
        visible = tuple(self.visible(v, level) for v in operands)
        new = make_op(op.name, visible, op.attrs, tuple(v.type for v in op.results), (), op.loc)
        self.frames[level].region.ops.append(new)
        self.note(new.results, level, reach)
        return new

    def visible(self, v: Value, level: int) -> Value:
        """The value itself, or its rematerialisation in an outer region."""
        if self.level[v] <= level:
            return v
        if (v, level) not in self.copies:
            assert v.op is not None
            self.copies[v, level] = self.place(v.op, v.op.operands, level, self.reach[v]).result
        return self.copies[v, level]


def _rule(rewriter: _Hoister, op: Op) -> Sequence[Value] | None:
    """Loop-invariant code motion of one op."""
    if op.regions or has_side_effects(op) or "terminator" in TABLE[op.name].traits:
        return None
    operands = rewriter.operands(op)
    target = rewriter.target(op, operands)
    is_free = op.name in FREE and op.result.shape != ()
    return rewriter.place(op, operands, len(rewriter.frames) - 1 if is_free else target, target).results
