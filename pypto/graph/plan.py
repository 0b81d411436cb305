"""The execution plan of a graph: steps over one arena of memory.

A step launches a kernel, or moves an array into another. Arrays between steps lie in the arena, results are arrays of
their own, and movements are views. A `Frame` is an arena with everything bound to it; a plan keeps the frames that are
not in use, so that calls of several threads do not meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pypto.graph.arena import ALIGNMENT, Lifetime, allocate
from pypto.graph.groups import Group, Partition
from pypto.graph.kernels import full_source, kernel_of
from pypto.graph.meaning import apply, moved
from pypto.graph.node import Graph, Node
from pypto.graph.nodes import span
from pypto.graph.rules import MOVEMENT
from pypto.graph.steps import steps_of
from pypto.graph.writer import Argument, KernelText
from pypto.jit import Kernel

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class PlanKernel:
    """A kernel of a plan: its text, which can be pasted into a file, and what it is launched as."""

    name: str
    source: str
    form: str
    kernel: Kernel


@dataclass(frozen=True, slots=True)
class Step:
    """A launch, or where `kernel` is None an assembly of the node's array from its inputs'.

    Parameters
    ----------
    nodes : tuple of Node
        What it computes; the last is what a step without a kernel assembles.
    reads, writes : tuple of Node
        Arrays in memory.
    """

    nodes: tuple[Node, ...]
    reads: tuple[Node, ...]
    writes: tuple[Node, ...]
    kernel: PlanKernel | None = None
    arguments: tuple[Argument, ...] = ()
    grid: tuple[int, ...] = (1,)


@dataclass(eq=False)
class Plan:
    """Steps in order, and where their arrays are.

    Parameters
    ----------
    graph : Graph
    partition : Partition
        The groups, and why there are no fewer.
    steps : tuple of Step
    offsets : mapping from Node to int
        Of arrays in the arena, in bytes.
    arena_bytes : int
    fixed : mapping from Node to ndarray
        Arrays that do not change: captured ones and constants.
    """

    graph: Graph
    partition: Partition
    steps: tuple[Step, ...]
    offsets: dict[Node, int]
    arena_bytes: int
    fixed: dict[Node, Array]
    frames: list[Frame] = field(default_factory=list)

    @property
    def kernels(self) -> tuple[PlanKernel, ...]:
        """The distinct kernels, in the order of their first step."""
        return tuple(dict.fromkeys(s.kernel for s in self.steps if s.kernel is not None))

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs for arrays of the given inputs."""
        try:
            frame = self.frames.pop()
        except IndexError:
            frame = Frame(self, len(arrays))
        found = frame.run(arrays)
        self.frames.append(frame)
        return found

    def __str__(self) -> str:
        from pypto.graph.explain import plan_text

        return plan_text(self)


def make_plan(graph: Graph, parts: Partition, fixed: dict[Node, Array], precision: str = "") -> Plan:
    """The plan of a partition."""
    texts = dict(zip(parts.groups, parts.texts(precision), strict=True))
    stored = {n for g in parts.groups for n in (g.program.space.outputs if g.program else g.nodes)}
    steps = tuple(make_step(g, texts.get(g), stored) for g in steps_of(graph, parts))
    constants = {n for s in steps for n in s.reads if n.op == "constant"} | {
        n for n in graph.outputs if n.op == "constant"
    }
    fixed = {**fixed, **{n: np.full(n.shape, n.attr("value"), n.type.dtype.numpy) for n in constants}}
    results = {memory_of(n, stored) for n in graph.outputs}
    offsets, size = place(steps, results, stored)
    return Plan(graph, parts, steps, offsets, size, fixed)


def memory_of(node: Node, stored: set[Node]) -> Node:
    """The array in memory that a node is, or is a view of."""
    while node.op in MOVEMENT and node not in stored:
        node = node.inputs[0]
    return node


def make_step(group: Group, text: KernelText | None, stored: set[Node]) -> Step:
    if text is None:
        node = group.nodes[-1]
        return Step(tuple(group.nodes), tuple(memory_of(x, stored) for x in node.inputs), (node,))
    kernel = PlanKernel(text.name, full_source(text), text.form, kernel_of(full_source(text), text.name))
    reads = dict.fromkeys(memory_of(a.node, stored) for a in text.arguments if not a.is_output)
    writes = tuple(a.node for a in text.arguments if a.is_output)
    return Step(tuple(group.nodes), tuple(reads), writes, kernel, text.arguments, text.grid)


def place(steps: Sequence[Step], results: set[Node], stored: set[Node]) -> tuple[dict[Node, int], int]:
    """Offsets of arrays that are no results."""
    first: dict[Node, int] = {}
    last: dict[Node, int] = {}
    for number, step in enumerate(steps):
        for node in step.writes:
            first[node] = number
            last[node] = number
        for node in step.reads:
            if node in first:
                last[node] = number
    inner = [n for n in first if n not in results]
    offsets, size = allocate(Lifetime(n.type.nbytes, first[n], last[n]) for n in inner)
    return dict(zip(inner, offsets, strict=True)), size


def aligned_bytes(size: int) -> Array:
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]


class Frame:
    """An arena, and the launches of a plan on it."""

    def __init__(self, plan: Plan, given: int) -> None:
        self.plan = plan
        self.given = given
        self.arrays: dict[Node, Array] = dict(plan.fixed)
        memory = aligned_bytes(plan.arena_bytes)
        for node, at in plan.offsets.items():
            part = memory[at : at + node.type.nbytes]
            self.arrays[node] = part.view(node.type.dtype.numpy).reshape(node.shape)
        self.stored = set(self.arrays) | {n for s in plan.steps for n in s.writes}
        self.results = [n for s in plan.steps for n in s.writes if n not in plan.offsets]
        self.changing = {*plan.graph.inputs[:given], *self.results}
        self.made = [(n, n.shape, n.type.dtype.numpy) for n in self.results]
        self.last: list[Any] = [None] * given
        self.calls = [self.call_of(step) for step in plan.steps]

    def view(self, node: Node) -> Array:
        """The array of a node: in memory, or a view of one that is."""
        found = self.arrays.get(node)
        return moved(node.op, self.view(node.inputs[0]), dict(node.attrs)) if found is None else found

    def call_of(self, step: Step) -> Call:
        bases = [memory_of(a.node, self.stored) for a in step.arguments]
        changing = frozenset(n for n in (*bases, *step.reads, *step.writes) if n in self.changing)
        return Call(step, changing)

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs for arrays of the given inputs, which are kept until the next call, for steps that read them."""
        changed = set(self.results)
        for number, array in enumerate(arrays):
            if array is not self.last[number]:
                node = self.plan.graph.inputs[number]
                self.arrays[node] = array
                self.last[number] = array
                changed.add(node)
        for node, shape, dtype in self.made:
            self.arrays[node] = np.empty(shape, dtype)
        for call in self.calls:
            if call.prepared is not None and call.changing.isdisjoint(changed):
                call.prepared()
            else:
                call.run(self)
        found = [self.view(node) for node in self.plan.graph.outputs]
        for node in self.results:
            del self.arrays[node]
        return found


class Call:
    """A step on the arrays of a frame.

    What it is launched with is kept; before a launch, only arrays that change from call to call are looked up again. A
    step that met the same arrays twice is prepared, so that later calls launch it without a look at its arguments.
    """

    __slots__ = ("arguments", "changing", "launch", "moving", "prepared", "seen", "step")

    def __init__(self, step: Step, changing: frozenset[Node]) -> None:
        self.step = step
        self.changing = changing
        self.prepared: Callable[[], Any] | None = None
        self.arguments: list[Array] = []
        self.moving: list[tuple[int, Argument]] = []
        self.launch: Callable[..., Any] | None = None
        self.seen = False

    def run(self, frame: Frame) -> None:
        step = self.step
        if step.kernel is None:
            assemble(step.nodes[-1], frame)
            return
        if self.launch is None:
            self.launch = step.kernel.kernel[step.grid]
            self.arguments = [seen(frame, a) for a in step.arguments]
            bases = [memory_of(a.node, frame.stored) for a in step.arguments]
            self.moving = [
                (n, a) for n, (a, base) in enumerate(zip(step.arguments, bases, strict=True)) if base in self.changing
            ]
        for n, a in self.moving:
            self.arguments[n] = seen(frame, a)
        self.launch(*self.arguments)
        if self.changing.isdisjoint(frame.results):
            self.prepared = step.kernel.kernel.bind(*self.arguments, grid=step.grid)


def seen(frame: Frame, argument: Argument) -> Array:
    """The array of an argument in the shape that its kernel has it."""
    array = frame.arrays.get(argument.node)
    if array is None:
        array = frame.view(argument.node)
    return array if array.shape == argument.shape else np.reshape(array, argument.shape, copy=False)


def assemble(node: Node, frame: Frame) -> None:
    """Make an array out of others: parts side by side, or one with a part replaced."""
    target = frame.arrays[node]
    if node.op == "place":
        base, value = (frame.view(x) for x in node.inputs)
        np.copyto(target, base)
        spans = zip(node.attr("starts"), value.shape, node.attr("steps"), strict=True)
        np.copyto(target[tuple(span(*each) for each in spans)], value)
        return
    if node.op != "concat":  # there are no elements to compute with
        np.copyto(target, apply(node.op, [frame.view(x) for x in node.inputs], dict(node.attrs), node.type))
        return
    axis, at = node.attr("axis"), 0
    for x in node.inputs:
        end = at + x.shape[axis]
        np.copyto(target[(*(slice(None),) * axis, slice(at, end))], frame.view(x))
        at = end
