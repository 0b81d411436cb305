"""The schedule of a plan as data: launches and assemblies, live ranges of arrays, and the arena layout.

In-place updates: a step writes its result to the memory of an operand that no later step reads. The operand is an array
of the arena, or an argument that the function updates. An update by numpy or by indices, and a launch in the user's
function, write into the array that they update. A kernel may overwrite an operand if each of its programs reads
exactly the elements that it writes. Then no program reads elements that another program wrote, and each program loads
before it stores.

Horizontal fusion: list scheduling of independent steps into waves, each of which is one launch. A launch with few
programs leaves threads idle. Independent launches become one launch whose grid is the union of theirs, such as the
projections of an attention layer or the branches of a network. A step joins the first wave after the steps that it
reads from. The live range of an array covers its whole wave, so that steps of a wave share no memory. If that makes the
arena much larger, steps join only recent waves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from pypto.blocking import AUTO, Blocking
from pypto.graph.codegen.scatter import FORM as SCATTER
from pypto.graph.codegen.writer import Access, Argument
from pypto.graph.ir.dims import Sizes, hint, value_of
from pypto.graph.ir.node import Graph, Node, base_of
from pypto.graph.tracing.launches import launch_of
from pypto.jit import Kernel
from pypto.ops.table import REDUCTIONS, TABLE
from pypto.runtime.arena import Arena, Buffer, Slot

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class PlanKernel:
    """A kernel of a plan: its source, which can be pasted into a file, and its compiled form.

    The kernel is not specialized for the sizes of `sized`, the arguments with a named dimension. `blocking` is the
    tuned blocking of its products.
    """

    name: str
    source: str
    form: str
    kernel: Kernel
    sized: tuple[str, ...] = ()
    blocking: Blocking = AUTO


@dataclass(frozen=True, slots=True)
class Step:
    """A launch of a kernel, or, if `kernel` is None, an assembly of an array by numpy.

    Parameters
    ----------
    nodes : tuple of Node
        The computed nodes; a step without a kernel assembles the last one.
    reads, writes : tuple of Node
        The arrays in memory that the step reads and writes.
    accesses : tuple of Access
        Each place in the kernel that reads or writes an argument.
    """

    nodes: tuple[Node, ...]
    reads: tuple[Node, ...]
    writes: tuple[Node, ...]
    kernel: PlanKernel | None = None
    arguments: tuple[Argument, ...] = ()
    grid: tuple[int, ...] = (1,)
    accesses: tuple[Access, ...] = ()


@dataclass(eq=False)
class Schedule:
    """Steps in order, with the live ranges and buffers of their arrays.

    Parameters
    ----------
    graph : Graph
    steps : tuple of Step
    lifetimes : mapping from Node to (int, int)
        The live ranges of arrays in the arena, as first and last step.
    fixed : mapping from Node to ndarray
        Constant arrays from outside of the function.
    constants : tuple of Node
        Numbers that must be stored as arrays.
    buffer_aliases : mapping from Node to Node
        Maps each array that is updated in place to the array that owns its buffer, which may be an argument. Arrays
        that share a buffer have disjoint lifetimes.
    waves : tuple of int
        For the first step of a wave the number of steps in the wave, and 0 for its other steps.
    updates : mapping from Node to Node
        Maps each argument that the function updates to its new value.
    """

    graph: Graph
    steps: tuple[Step, ...]
    lifetimes: dict[Node, tuple[int, int]]
    fixed: dict[Node, Array]
    constants: tuple[Node, ...]
    buffer_aliases: dict[Node, Node] = field(default_factory=dict)
    waves: tuple[int, ...] = ()
    updates: dict[Node, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.waves = self.waves or (1,) * len(self.steps)

    @cached_property
    def has_host_steps(self) -> bool:
        """Whether numpy runs a step, so that no single native call makes all of them."""
        nodes = (step.nodes[-1] for step in self.steps if step.kernel is None or step.kernel.form == SCATTER)
        return any(not node.is_call or launch_of(node) is None for node in nodes)

    @property
    def hints(self) -> Sizes:
        """Return the hints of the named dimensions."""
        return {dim.name: dim.hint for dim in self.graph.dims}

    def arena(self, sizes: Sizes) -> Arena:
        """Lay out the arena for sizes of the named dimensions; arrays that share a buffer use their owner's slot."""
        slots: dict[Node, Slot] = {}
        for node, (first, last) in self.lifetimes.items():
            owner = self.buffer_aliases.get(node, node)
            known = slots.get(owner)
            if known is not None:
                slots[owner] = replace(known, first=min(known.first, first), last=max(known.last, last))
            else:
                slots[owner] = Slot(Buffer(owner, value_of(owner.shape, sizes), owner.type.dtype), first, last)
        return Arena.packed(slots.values())


LEAST_BYTES: Final = 1 << 18  # of an array; smaller ones are worth no second version of a kernel
FORMS: Final = ("pointwise", "rows", "columns")  # of kernels that are as fast in place
Spans = Mapping[Node, tuple[int, int]]


def updated_in_place(
    steps: Sequence[Step],
    ends: Sequence[tuple[int, int]],
    spans: Spans,
    stored: set[Node],
    updates: Mapping[Node, Node],
) -> dict[Node, Node]:
    """Buffer aliasing: map each array that a step overwrites to the array that owns the shared buffer.

    The last array of a chain of updates owns the buffer: if it is a result, the whole chain uses the result's memory.
    If it is the new value of an argument that the function updates, the chain uses the argument's memory.
    """
    aliases: dict[Node, Node] = {}
    last = {node: number for number, step in enumerate(steps) for node in step.reads if node in updates}
    for number in reversed(range(len(steps))):
        if ends[number] != (number, number):
            continue  # a step that overlaps this one may still read
        updated = set[Node]()
        for base, node in updates_of(steps[number], stored):
            if base in spans and spans[base][1] == number and base not in aliases and node not in updated:
                aliases[base] = aliases.get(node, node)
                updated.add(node)
            elif last.get(base) == number and updates[base] is aliases.get(node, node) and node not in updated:
                final = updates[base]
                aliases |= dict.fromkeys([final, *(n for n, owner in aliases.items() if owner is final)], base)
                updated.add(node)
    return aliases


def updates_in(graph: Graph, updates: Mapping[Node, Node], steps: Sequence[Step]) -> Mapping[Node, Node]:
    """Return the arguments, with their new values, whose memory steps may write.

    A step that may raise leaves all arguments as they were, so a plan with such a step writes to none of them.
    """
    read = set(map(base_of, graph.outputs))
    hosts = (s.nodes[-1] for s in steps)
    if any(n.has("indexed") or (n.is_call and runs_on_host(n)) for n in hosts):
        return {}
    return {node: final for node, final in updates.items() if node not in read and not final.is_movement}


def runs_on_host(node: Node) -> bool:
    """Whether a call is no launch, or one whose errors the host raises."""
    launch = launch_of(node)
    return launch is None or launch.may_raise


def updates_of(step: Step, stored: set[Node]) -> Iterator[tuple[Node, Node]]:
    """Yield the operands that a step may overwrite, each with the result that overwrites it."""
    node = step.nodes[-1]
    launch = launch_of(node) if node.is_call else None
    if launch is not None:
        for result in step.nodes:
            source = launch.written[result.attr("result")].source
            others = [base_of(x, stored) for n, x in enumerate(node.inputs) if n != source]
            if source is not None and node.inputs[source] not in others:
                yield node.inputs[source], result
        return
    if step.kernel is None or step.kernel.form == SCATTER:
        if node.has("update") and node.type.size:
            base, *others = node.inputs
            if all(base_of(x, stored) is not base for x in others):
                yield base, node
        return
    if step.kernel.form not in FORMS:
        return
    for result in (x for x in step.writes if hint(x.type.nbytes) >= LEAST_BYTES):
        yield from ((x, result) for x in step.reads if x.type == result.type and is_in_place(step, x, result))


def is_in_place(step: Step, source: Node, result: Node) -> bool:
    """Whether each program of a kernel reads exactly those elements of an array that it writes of the result.

    The kernel must have one load of the array and one store of the result, indexed by the same axes. A second load
    could read elements that the program already wrote.
    """
    read = [a for a in step.arguments if not a.is_output and base_of(a.node, {source}) is source]
    if len(read) != 1 or read[0].node is not source:
        return False
    (target,) = [a for a in step.arguments if a.is_output and a.node is result] or (None,)
    places = [x for x in step.accesses if x.array == read[0].name]
    if target is None or len(places) != 1 or None in places[0].axes:
        return False
    return [x for x in step.accesses if x.array == target.name] == [Access(target.name, places[0].axes, "write")]


MOST_MEMBERS: Final = 16
MOST_WORK: Final = 100_000.0  # nanoseconds of a step that fills the threads by itself
MOST_GROWTH: Final = 1.125  # of the arena
SMALL_ARENA: Final = 1 << 20  # bytes that an arena may have anyway
WINDOWS: Final = (1 << 30, 4, 1)  # waves behind the last one that a step may join
_LANES: Final = 16.0  # operations in a nanosecond, on one thread
_PRODUCTS: Final = 32.0
_BYTES: Final = 8.0
_FUNCTION: Final = 10  # operations of what is not exact: an exponential
_UNKNOWN: Final = 4


@dataclass(frozen=True, slots=True)
class Waves:
    """Steps in their new order; `sizes` has the wave's size at its first step, and 0 at the others."""

    steps: tuple[Step, ...]
    sizes: tuple[int, ...]


def alone(steps: Sequence[Step]) -> Waves:
    """Return waves of one step each."""
    return Waves(tuple(steps), (1,) * len(steps))


def waves_of(steps: Sequence[Step], threads: int, window: int) -> Waves:
    """List scheduling: put each step into the first open wave after its operands, or into a new wave."""
    waves: list[list[Step]] = []
    number: dict[Node, int] = {}  # of the wave that writes an array
    is_open: list[bool] = []
    for step in steps:
        joins = leaves_idle(step, threads)
        after = max((number[n] + 1 for n in step.reads if n in number), default=0)
        first = max(after, len(waves) - window)
        fitting = (n for n in range(first, len(waves)) if is_open[n] and len(waves[n]) < MOST_MEMBERS)
        at = next(fitting, len(waves)) if joins else len(waves)
        if at == len(waves):
            waves.append([])
            is_open.append(joins)
        waves[at].append(step)
        number.update(dict.fromkeys(step.writes, at))
    sizes = (size for wave in waves for size in (len(wave), *(0,) * (len(wave) - 1)))
    return Waves(tuple(step for wave in waves for step in wave), tuple(sizes))


def ends_of(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last step of each step's wave.

    Examples
    --------
    >>> ends_of([1, 2, 0, 1])
    [(0, 0), (1, 2), (1, 2), (3, 3)]
    """
    ends: list[tuple[int, int]] = []
    for number, size in enumerate(sizes):
        ends += [(number, number + size - 1)] * size
    return ends


def leaves_idle(step: Step, threads: int) -> bool:
    """Whether a launch has too few programs, or too little work, for all threads."""
    if step.kernel is None or step.kernel.form == SCATTER or threads < 2:
        return False
    return programs(step) < threads or work(step) < MOST_WORK


def programs(step: Step) -> int:
    """Return the number of programs of a launch for the hints of named dimensions."""
    return math.prod(map(hint, step.grid))


def work(step: Step) -> float:
    """Estimate the nanoseconds of a step on one thread: the larger of computation and memory traffic."""
    moved = sum(hint(n.type.nbytes) for n in (*step.reads, *step.writes))
    return max(moved / _BYTES, sum(map(operations, step.nodes)))


def operations(node: Node) -> float:
    """Estimate the nanoseconds that the operations of a node take."""
    if node.is_movement:
        return 0.0
    if node.is_product:
        return hint(node.type.size) * hint(node.inputs[0].shape[-1]) / _PRODUCTS
    row = TABLE.get(node.op)
    elements = hint(node.inputs[0].type.size if node.op in REDUCTIONS else node.type.size)
    each = _UNKNOWN if row is None else _FUNCTION if any(row.ulp.values()) else row.cost
    return elements * each / _LANES


def overlap_text(step: Step, others: Sequence[int]) -> str:
    """Explain why a step overlaps some others."""
    count = programs(step)
    amount = f"{count} program{'' if count == 1 else 's'}, about {max(1, round(work(step) / 1000))} µs of work"
    return f"overlaps {', '.join(map(str, others))}: none reads what another stores, and {amount} fill no threads"


def check_wave(steps: Sequence[Step]) -> str:
    """Return the reason why steps may not form a wave, or an empty string."""
    if any(s.kernel is None or s.kernel.form == SCATTER for s in steps):
        return "a step that overlaps others launches a kernel and nothing else"
    written = {n for s in steps for n in s.writes}
    if any(n in written for s in steps for n in s.reads):
        return "a step that overlaps others reads what one of them stores"
    return ""
