"""From where to where in a kernel each buffer holds something: what planning asks before it shares memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pypto.backends.ascend.blockir.effects import memory_reads, names_in, reads, scalars, writes
from pypto.backends.ascend.blockir.ir import Buffer, If, Instr, Item, Loop, View, While, parts


@dataclass
class Life:
    """The first and the last moment of a buffer, both included; `line` is the user's at the first."""

    first: int
    last: int
    line: int = 0

    def meets(self, other: Life) -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass
class _Walk:
    """Counts moments; knows of each open loop and branch which buffers it began with a read, or under a condition.

    `touches` counts how often each buffer is touched; `totals` are these counts for all of the items.
    """

    totals: Mapping[str, int]
    now: int = 0
    lives: dict[str, Life] = field(default_factory=dict)
    loops: list[_Loop] = field(default_factory=list)
    carried: set[str] = field(default_factory=set)
    touches: Counter[str] = field(default_factory=Counter)


@dataclass
class _Loop:
    """A loop or a side of a branch that is being walked: its begin, and how each buffer is first touched in it.

    `filled` are the buffers of which each iteration writes another part.
    """

    start: int
    name: str = ""
    filled: set[str] = field(default_factory=set)
    carried: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)


def lives(items: tuple[Item, ...]) -> dict[str, Life]:
    """The life of every buffer.

    In a loop, what an iteration writes before it reads it dies with the last read. All others live as long as the
    loop: what comes from before it or from another iteration, and what has stages, so that iterations may overlap.
    """
    return _walked(items).lives


def from_before(items: tuple[Item, ...]) -> frozenset[str]:
    """Buffers of which a loop may read what another iteration wrote, or what was there before it."""
    return frozenset(_walked(items).carried)


def _walked(items: tuple[Item, ...]) -> _Walk:
    counted = _Walk({})
    _items(items, counted)
    walk = _Walk(counted.touches)
    _items(items, walk)
    return walk


def _items(items: tuple[Item, ...], walk: _Walk) -> None:
    for item in items:
        walk.now += 1
        line = item.line
        for view in (v for x in scalars(item) for v in memory_reads(x)):
            _touch(view, False, line, walk)
        match item:
            case Instr():
                for view in reads(item):
                    _touch(view, False, line, walk)
                for view in writes(item):
                    _touch(view, True, line, walk)
            case Loop() | While():
                _loop(item, walk)
            case If():
                for side in parts(item):
                    _side(side, walk)


def _side(items: tuple[Item, ...], walk: _Walk) -> None:
    """One side of a branch: what nothing else touches lives there alone; all else may not be touched at all."""
    before, side = walk.touches.copy(), _Loop(walk.now)
    walk.loops.append(side)
    _items(items, walk)
    walk.loops.pop()
    own = {name for name in side.seen if walk.touches[name] - before[name] == walk.totals.get(name, 0)}
    for outer in walk.loops[-1:]:
        outer.filled |= side.filled
        outer.carried |= (side.seen - own | side.carried) - outer.seen
        outer.seen |= side.seen


def _loop(item: Loop | While, walk: _Walk) -> None:
    loop = _Loop(walk.now, item.name if isinstance(item, Loop) else "")
    walk.loops.append(loop)
    for side in parts(item):
        _items(side, walk)
    if isinstance(item, While):
        for view in memory_reads(item.condition):
            _touch(view, False, item.line, walk)
    walk.loops.pop()
    walk.carried |= loop.carried
    walk.now += 1
    for name in loop.seen:
        life = walk.lives[name]
        if name in loop.carried | loop.filled or life.first < loop.start:
            life.first, life.last = min(life.first, loop.start), walk.now
    for outer in walk.loops[-1:]:  # first touched inside a loop is first touched by the loop around it
        outer.carried |= loop.carried - outer.seen
        outer.seen |= loop.seen


def _touch(view: View, is_write: bool, line: int, walk: _Walk) -> None:
    if not isinstance(view.of, Buffer):
        return
    name = view.of.name
    life = walk.lives.setdefault(name, Life(walk.now, walk.now, line))
    life.last = walk.now
    walk.touches[name] += 1
    if is_write:
        _note_parts(view, walk)
    for loop in walk.loops[-1:]:
        if view.of.stages > 1 or (name not in loop.seen and not is_write):
            loop.carried.add(name)
        loop.seen.add(name)


def _note_parts(view: View, walk: _Walk) -> None:
    """A place that changes with a loop's variable, or with what else is known in the innermost loop alone."""
    used = set(names_in(view.offset))
    varying = [loop for loop in walk.loops if loop.name in used]
    for loop in varying or (walk.loops[-1:] if used else []):
        loop.filled.add(view.of.name)
