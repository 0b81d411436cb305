"""Region deduplication: equal groups, such as the layers of a network, share one tiling decision.

Two groups are equal if their nodes are the same ops of the same types, read each other in the same way, and read
arrays of the same types and layouts from outside. The tiling of one group is then the tiling of the other, with nodes
renamed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pypto.graph.ir.node import Node, key_of
from pypto.graph.schedule.axes import FusionConflict
from pypto.graph.schedule.index_space import IndexSpace, space_of
from pypto.graph.schedule.layout import Layouts
from pypto.graph.schedule.product_tiling import program_of
from pypto.graph.schedule.tiling import Program

Key = tuple[Any, ...]
Check = Callable[[Program], None]


@dataclass(frozen=True, slots=True)
class Decided:
    """A cached tiling decision: the program and the arrays that it reads from outside, or the reason for none."""

    program: Program | None
    outside: tuple[Node, ...]
    problem: str = ""


@dataclass(slots=True)
class Programs:
    """A cache of tilings: equal groups share one decision."""

    layouts: Layouts
    threads: int
    disabled: tuple[str, ...] = ()
    kinds: dict[Any, int] = field(default_factory=dict)  # numbers of what nodes are alike by
    members: dict[Node, int] = field(default_factory=dict)  # the kind of a node as a member of a group
    outsiders: dict[Node, int] = field(default_factory=dict)  # and as an array from outside
    decided: dict[Key, Decided] = field(default_factory=dict)
    checked: dict[Key, str] = field(default_factory=dict)

    def of(self, nodes: Sequence[Node], outputs: Iterable[Node], check: Check | None = None) -> Program:
        """Return the program of some nodes, of which other groups read only the outputs; `check` may refuse it.

        Raises
        ------
        FusionConflict
            With the reason, when no form of kernel fits.
        """
        stored = tuple(outputs)
        key, outside = self.key(nodes, stored)
        program = None if "region_dedup" in self.disabled else self.decided.get(key)
        if program is None:
            program = self.decided[key] = self.decide(nodes, stored, outside)
        if program.program is None:
            raise FusionConflict(program.problem)
        if check is not None:
            problem = self.checked.get(key)
            if problem is None:
                problem = self.checked[key] = problem_of(program.program, check)
            if problem:
                raise FusionConflict(problem)
        return exchanged(program.program, nodes)

    def decide(self, nodes: Sequence[Node], outputs: tuple[Node, ...], outside: tuple[Node, ...]) -> Decided:
        try:
            allows_online = "online_softmax" not in self.disabled
            program = program_of(space_of(nodes, outputs), self.layouts.strides, self.threads, allows_online)
        except FusionConflict as conflict:
            return Decided(None, outside, str(conflict))
        return Decided(program, outside)

    def key(self, nodes: Sequence[Node], outputs: tuple[Node, ...]) -> tuple[Key, tuple[Node, ...]]:
        """Return a key that equal groups share, and the arrays from outside in the order of their reads."""
        numbers = {node: n for n, node in enumerate(nodes)}
        outside: dict[Node, int] = {}
        key: list[int] = []
        members, outsiders = self.members, self.outsiders
        for node in nodes:
            key.append(members[node] if node in members else self.member(node))
            for x in node.inputs:
                number = numbers.get(x)
                key.append(-1 - outside.setdefault(x, len(outside)) if number is None else number)
        key.append(-1)
        key += [numbers[n] for n in outputs]
        key.append(-1)
        key += [outsiders[x] if x in outsiders else self.outsider(x) for x in outside]
        return tuple(key), tuple(outside)

    def member(self, node: Node) -> int:
        """Return the number that equal member nodes share."""
        number = self.members[node] = self.number(("member", node.op, attrs_of(node), node.type))
        return number

    def outsider(self, node: Node) -> int:
        """Return the number that arrays from outside share if their types and layouts are equal."""
        constant = attrs_of(node) if node.is_constant else None
        number = self.outsiders[node] = self.number(("outside", constant, node.type, self.layouts.strides(node)))
        return number

    def number(self, kind: Any) -> int:
        return self.kinds.setdefault(kind, len(self.kinds))


def attrs_of(node: Node) -> Key:
    """Return the attributes of a node as a hashable key."""
    return tuple((name, key_of(value)) for name, value in node.attrs)


def problem_of(program: Program, check: Check) -> str:
    """Return the reason for which a check refuses a program, or an empty string."""
    try:
        check(program)
    except FusionConflict as conflict:
        return str(conflict)
    return ""


def exchanged(program: Program, nodes: Sequence[Node]) -> Program:
    """Rename the nodes of a program to those of an equal group."""
    space = program.space
    if space.nodes[0] is nodes[0]:
        return program
    other = dict(zip(space.nodes, nodes, strict=True))
    online = program.online
    if online is not None:
        online = replace(
            online,
            maximum=other[online.maximum],
            shapes=tuple(other[n] for n in online.shapes),
            difference=other[online.difference],
            sums=tuple(other[n] for n in online.sums),
            second=tuple(other[n] for n in online.second),
            repeated=tuple(other[n] for n in online.repeated),
        )
    renamed = IndexSpace(
        nodes=tuple(nodes),
        outputs=tuple(other[n] for n in space.outputs),
        axes=space.axes,
        values={other[n]: dims for n, dims in space.values.items()},
        reads={(other[n], k): dims for (n, k), dims in space.reads.items()},
        reduced=space.reduced,
        parallel=space.parallel,
    )
    values = {other[n]: line for n, line in program.values.items()}
    reads = {(other[n], k): line for (n, k), line in program.reads.items()}
    p = program
    return Program(
        renamed, p.sizes, values, reads, p.blocks, p.full_axes, p.loop, p.chunk, p.form, online, p.most, p.outer
    )
