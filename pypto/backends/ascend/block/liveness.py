"""Liveness analysis: the live range of each buffer, from its first to its last use.

The allocator lets buffers with disjoint live ranges share memory. Time is counted in items of the kernel. A buffer that
carries data from one iteration of a loop to another, or that has several stages, lives for the whole loop.

    a = f(x)                   # 1    a: 1 to 2
    b = g(a)                   # 2    b: 2 to 6, carried by the loop
    for i in range(n):         # 3
        c = f(b)               # 4    c: 4 to 5
        b = g(c)               # 5
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pypto.backends.ascend.blockir.effects import memory_reads, names_in, reads, scalars, writes
from pypto.backends.ascend.blockir.ir import Buffer, If, Instr, Item, Loop, View, While, parts


@dataclass
class LiveRange:
    """The first and the last moment of a buffer, both included."""

    first: int  # moment of the first use
    last: int  # moment of the last use
    line: int = 0  # the user's line at the first use

    def overlaps(self, other: LiveRange) -> bool:
        """Whether two buffers are live at the same moment."""
        return self.first <= other.last and other.first <= self.last


@dataclass
class _LivenessWalk:
    """The state of a walk in program order."""

    total_uses: Mapping[str, int]  # uses of each buffer in all items
    now: int = 0  # the present moment
    live_ranges: dict[str, LiveRange] = field(default_factory=dict)  # by buffer
    scopes: list[_Scope] = field(default_factory=list)  # the open loops and branches, outermost first
    carried: set[str] = field(default_factory=set)  # buffers that a loop may carry from an earlier iteration
    use_counts: Counter[str] = field(default_factory=Counter)  # uses of each buffer so far


@dataclass
class _Scope:
    """A loop or a side of a branch that is being walked."""

    start: int  # the moment at which it begins
    name: str = ""  # the loop's variable
    partly_written: set[str] = field(default_factory=set)  # buffers of which each iteration writes another part
    carried: set[str] = field(default_factory=set)  # buffers that it may read before it writes them
    seen: set[str] = field(default_factory=set)  # buffers that it touches


def live_ranges(items: tuple[Item, ...]) -> dict[str, LiveRange]:
    """Return the live range of every buffer.

    What an iteration writes before it reads it dies with its last read. All else lives as long as the loop: data from
    before the loop or from another iteration, and buffers with stages, since iterations may overlap.
    """
    return _analyse(items).live_ranges


def loop_carried_buffers(items: tuple[Item, ...]) -> frozenset[str]:
    """Return the buffers of which a loop may read what another iteration, or something before the loop, wrote."""
    return frozenset(_analyse(items).carried)


def _analyse(items: tuple[Item, ...]) -> _LivenessWalk:
    """Walk twice: the first walk counts the uses of each buffer."""
    counted = _LivenessWalk({})
    _visit_items(items, counted)
    walk = _LivenessWalk(counted.use_counts)
    _visit_items(items, walk)
    return walk


def _visit_items(items: tuple[Item, ...], walk: _LivenessWalk) -> None:
    """Visit items in program order."""
    for item in items:
        walk.now += 1
        line = item.line
        for view in (v for x in scalars(item) for v in memory_reads(x)):
            _visit_access(view, False, line, walk)
        match item:
            case Instr():
                for view in reads(item):
                    _visit_access(view, False, line, walk)
                for view in writes(item):
                    _visit_access(view, True, line, walk)
            case Loop() | While():
                _visit_loop(item, walk)
            case If():
                for side in parts(item):
                    _visit_branch(side, walk)


def _visit_branch(items: tuple[Item, ...], walk: _LivenessWalk) -> None:
    """Visit one side of a branch.

    A buffer that lives outside of it, too, counts as carried: the branch may leave it unwritten.
    """
    before = walk.use_counts.copy()
    scope = _Scope(walk.now)
    walk.scopes.append(scope)
    _visit_items(items, walk)
    walk.scopes.pop()
    only_here = {name for name in scope.seen if walk.use_counts[name] - before[name] == walk.total_uses.get(name, 0)}
    for outer in walk.scopes[-1:]:
        outer.partly_written |= scope.partly_written
        outer.carried |= (scope.seen - only_here | scope.carried) - outer.seen
        outer.seen |= scope.seen


def _visit_loop(item: Loop | While, walk: _LivenessWalk) -> None:
    """Visit a loop, and extend the live ranges of what it carries to all of it."""
    loop = _Scope(walk.now, item.name if isinstance(item, Loop) else "")
    walk.scopes.append(loop)
    for side in parts(item):
        _visit_items(side, walk)
    if isinstance(item, While):
        for view in memory_reads(item.condition):
            _visit_access(view, False, item.line, walk)
    walk.scopes.pop()
    walk.carried |= loop.carried
    walk.now += 1
    for name in loop.seen:
        live_range = walk.live_ranges[name]
        if name in loop.carried | loop.partly_written or live_range.first < loop.start:
            live_range.first = min(live_range.first, loop.start)
            live_range.last = walk.now
    for outer in walk.scopes[-1:]:  # the first use in an inner loop is a use of the outer one
        outer.carried |= loop.carried - outer.seen
        outer.seen |= loop.seen


def _visit_access(view: View, is_write: bool, line: int, walk: _LivenessWalk) -> None:
    """Note a read or a write of a buffer."""
    if not isinstance(view.of, Buffer):
        return
    name = view.of.name
    live_range = walk.live_ranges.setdefault(name, LiveRange(walk.now, walk.now, line))
    live_range.last = walk.now
    walk.use_counts[name] += 1
    if is_write:
        _note_partial_writes(view, walk)
    for loop in walk.scopes[-1:]:
        if view.of.stages > 1 or (name not in loop.seen and not is_write):
            loop.carried.add(name)
        loop.seen.add(name)


def _note_partial_writes(view: View, walk: _LivenessWalk) -> None:
    """Note a write whose offset changes with a loop, or with numbers that the innermost loop defines."""
    offset_names = set(names_in(view.offset))
    varying = [loop for loop in walk.scopes if loop.name in offset_names]
    for loop in varying or (walk.scopes[-1:] if offset_names else []):
        loop.partly_written.add(view.of.name)
