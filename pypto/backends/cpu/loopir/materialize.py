"""Decides which tiles get memory: the rest is computed where it is read.

A tile is kept when something needs it whole (a dot, a loop, a reshape), when computing it again for a second reader
would cost more than storing it, or when a store in between might change what a load gives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pypto.backends.cpu.loopir.index_maps import GATHERING, is_inlinable, is_tile, tile_operands
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Function, Op, Region, Value
from pypto.ops.memory import Access
from pypto.ops.table import TABLE
from pypto.passes.dimensions import is_unit_reshape
from pypto.passes.dot_facts import packs_transposed, values_read_by_dot
from pypto.passes.memory_effects import is_same_access, may_alias, writes_memory

_MAX_EXPR_DEPTH = 64  # of ops that are computed where they are read: what follows a chain is recursive
_MAX_RECOMPUTED_COST = (
    4  # cost of a value (in simple lane instructions) from which a second reader loads it from memory
)


@dataclass
class Materialization:
    """Facts about a function that scheduling asks for.

    `readers[v]` are the ops that read a value's memory or start the nest that computes it.
    """

    function: Function
    uses: dict[Value, list[Op]] = field(default_factory=lambda: defaultdict(list))
    position: dict[Op, int] = field(default_factory=dict)
    end_position: dict[Op, int] = field(default_factory=dict)
    enclosing_loops: dict[Op, tuple[Op, ...]] = field(default_factory=dict)
    parent_loop: dict[Value, Op] = field(default_factory=dict)  # the control op whose region has this argument
    materialized: set[Value] = field(default_factory=set)
    readers: dict[Value, tuple[Op, ...]] = field(default_factory=dict)
    writes: list[Op] = field(default_factory=list)
    read_in_place: set[Value] = field(default_factory=set)  # on the way from memory to a dot that reads it itself
    packed: set[Op] = field(default_factory=set)  # dots with panels of what their right side is the transpose of
    expr_depth: dict[Value, int] = field(default_factory=dict)  # most ops on the way to a reader

    def defined_at(self, v: Value) -> int:
        if v.op is None:
            return self.position[self.parent_loop[v]]
        return self.end_position[v.op] if v.op.regions else self.position[v.op]

    def last_read(self, v: Value) -> int:
        """Position of the last read; a read in a loop that the value enters from outside lasts until the loop ends."""
        reads = (self.read_until(v, reader) for reader in self.readers.get(v, ()))
        return max((self.defined_at(v), *reads))

    def read_until(self, v: Value, reader: Op) -> int:
        inside = self.enclosing(v)
        outer = next((loop for loop in self.enclosing_loops[reader] if loop not in inside), None)
        return self.position[reader] if outer is None else self.end_position[outer]

    def enclosing(self, v: Value) -> tuple[Op, ...]:
        """The loops that a value is computed in."""
        if v.op is None:
            home = self.parent_loop.get(v)
            return () if home is None else (*self.enclosing_loops[home], home)
        return self.enclosing_loops[v.op]


def plan_materialization(function: Function, target: CpuTarget) -> Materialization:
    plan = Materialization(function)
    ops = number_ops(plan, function.body, ())
    plan.writes = [op for op in ops if writes_memory(op)]
    sides = (
        (op, way)
        for op in ops
        if op.name == "dot"
        for way in values_read_by_dot(plan.function, plan.uses, plan.enclosing_loops, op, target)
    )
    plan.read_in_place = {v for op, way in sides if not is_clobbered_before(plan, way[-1], op) for v in way}
    plan.packed = {op for op in ops if op.name == "dot" and packs_transposed(op, target)}
    cost: dict[Value, int] = {}
    for op in ops:
        for v in op.results:
            cost[v] = op_cost(op) + min(1000, sum(cost.get(o, 0) for o in tile_operands(op))) if is_inlinable(op) else 0
    for op in reversed(ops):
        for v in op.results:
            if is_tile(v):
                decide_materialized(plan, op, v, cost[v])
        for region in op.regions:
            for v in region.args:
                if is_tile(v):
                    plan.materialized.add(v)
                    plan.readers[v] = readers_of(plan, v)
    return plan


def number_ops(plan: Materialization, region: Region, loops: tuple[Op, ...]) -> list[Op]:
    """Positions of all ops, outer before inner; gives them in that order."""
    ops = []
    for op in region.ops:
        plan.position[op] = len(plan.position)
        plan.enclosing_loops[op] = loops
        for v in op.operands:
            plan.uses[v].append(op)
        ops.append(op)
        for inner in op.regions:
            for v in inner.args:
                plan.parent_loop[v] = op
            ops += number_ops(plan, inner, (*loops, op) if op.name != "if" else loops)
        plan.end_position[op] = len(plan.position) - 1
    return ops


def op_cost(op: Op) -> int:
    row = TABLE[op.name]
    if row.cost == 0:
        return 0
    if op.name == "tile_load":
        access = Access.of(op)
        return 8 if is_tile(access.base) else 4 if access.mask is not None else 1
    return 10 if row.ulp else row.cost


def readers_of(plan: Materialization, v: Value) -> tuple[Op, ...]:
    found: dict[Op, None] = {}
    for user in plan.uses[v]:
        result = user.results[0] if user.results else None
        if result is not None and is_inlinable(user) and result not in plan.materialized:
            found.update(dict.fromkeys(plan.readers[result]))
        elif result is not None and user.name == "reshape" and not is_unit_reshape(user):
            found.update(dict.fromkeys((user, *plan.readers[result])))  # the result is the same memory
        elif result is not None and user.name == "permute":
            found.update(dict.fromkeys((user, *packing_dots(plan, result))))
        else:
            found[user] = None
    return tuple(found)


def packing_dots(plan: Materialization, v: Value) -> list[Op]:
    """Dots whose panels are packed from what a value is the transpose of: they read that, not the value."""
    return [user for user in plan.uses[v] if user in plan.packed and v is user.operands[1]]


def decide_materialized(plan: Materialization, op: Op, v: Value, cost: int) -> None:
    plan.readers[v] = readers_of(plan, v)
    past = packing_dots(plan, v)
    own = [reader for reader in plan.readers[v] if reader not in past]
    dear = cost > _MAX_RECOMPUTED_COST and (len(own) > 1 or is_read_in_loop(plan, v, own))
    pulled = [u.results[0] for u in plan.uses[v] if u.results and u.results[0] in plan.expr_depth]
    plan.expr_depth[v] = 1 + max((plan.expr_depth[r] for r in pulled if r not in plan.materialized), default=0)
    long = plan.expr_depth[v] % _MAX_EXPR_DEPTH == 0
    whole = v not in plan.read_in_place and any(requires_buffer(user, v) for user in plan.uses[v])
    if dear or long or whole or not is_inlinable(op) or is_load_clobbered(plan, op, v):
        plan.materialized.add(v)


def requires_buffer(user: Op, v: Value) -> bool:
    """True for a dot's left side and accumulator, and for what is read in another order than it is made in.

    The right side of a dot is computed straight into its panels.
    """
    if user.name in (*GATHERING, "dot") and v is user.operands[0]:
        return True
    if user.name == "reshape":
        return not is_unit_reshape(user)
    return not is_constant(v) and ((user.name == "dot" and v in user.operands[2:]) or permutes_lanes(user))


def permutes_lanes(op: Op) -> bool:
    """True for a permute that puts another dimension along the lanes."""
    dims: Any = op.attrs.get("dims")
    return op.name == "permute" and bool(dims) and dims[-1] != len(dims) - 1


def is_constant(v: Value) -> bool:
    return v.op is not None and v.op.name in ("constant", "undef")


def is_read_in_loop(plan: Materialization, v: Value, readers: Iterable[Op]) -> bool:
    inside = plan.enclosing(v)
    return any(loop not in inside for r in readers for loop in plan.enclosing_loops[r])


def is_load_clobbered(plan: Materialization, op: Op, v: Value) -> bool:
    """True when a store may touch a load's memory before its last reader has run."""
    if op.name != "tile_load":
        return False
    writes = [w for w in plan.writes if plan.position[op] < plan.position[w] and may_alias(plan.function, op, w)]
    harmless = [
        w for w in writes if is_same_access(op, w) and keeps_element_order(plan, v)
    ]  # if they themselves read the load
    return any(
        plan.position[w] <= plan.read_until(v, reader) and not (w is reader and w in harmless)
        for reader in plan.readers[v]
        for w in writes
    )


def is_clobbered_before(plan: Materialization, v: Value, reader: Op) -> bool:
    """True when a store may touch the memory of a loaded value before its reader has run."""
    load = v.op
    assert load is not None
    between = (w for w in plan.writes if plan.position[load] < plan.position[w] <= plan.read_until(v, reader))
    return any(may_alias(plan.function, load, w) for w in between)


def keeps_element_order(plan: Materialization, v: Value) -> bool:
    """True when all that is computed from a value where it is read has its elements in the same order."""
    found, seen = [v], {v}
    for x in found:
        users = [user for user in plan.uses[x] if user.results and is_inlinable(user)]
        if any(user.name == "permute" for user in users):
            return False
        new = [
            user.results[0]
            for user in users
            if user.results[0] not in plan.materialized and user.results[0] not in seen
        ]
        found += new
        seen.update(new)
    return True
