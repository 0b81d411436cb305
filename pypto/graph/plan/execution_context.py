"""Execution context: an arena with the launches of a plan bound to it, which a call of the plan runs.

A plan keeps the contexts that are not in use, so that calls of several threads do not share one. With named
dimensions a context belongs to one set of sizes: it has all shapes, views and grids as numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from pypto.graph.codegen.scatter import FORM as SCATTER
from pypto.graph.codegen.scatter import check_indices
from pypto.graph.codegen.writer import Argument
from pypto.graph.ir.dims import Sizes, value_of
from pypto.graph.ir.node import Node
from pypto.graph.ir.node_table import put_into, span
from pypto.graph.ir.reference import apply, moved
from pypto.graph.ir.type_rules import MOVEMENT
from pypto.graph.ir.types import TensorType
from pypto.graph.plan.memory_planning import ALIGNMENT
from pypto.graph.plan.schedule import Schedule, Step

Array = np.ndarray[Any, Any]


def memory_of(node: Node, stored: set[Node]) -> Node:
    """The array in memory that a node is, or is a view of."""
    while node.op in MOVEMENT and node not in stored:
        node = node.inputs[0]
    return node


def aligned_bytes(size: int) -> Array:
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]


class Frame:
    """An arena, and the launches of a plan on it."""

    def __init__(self, plan: Schedule, given: int, sizes: Sizes) -> None:
        self.plan = plan
        self.sizes = sizes
        self.arrays: dict[Node, Array] = dict(plan.fixed)
        self.arrays.update((n, self.constant(n)) for n in plan.constants)
        offsets, arena_bytes = plan.places(sizes)
        memory = aligned_bytes(arena_bytes)
        for node, at in offsets.items():
            shape, dtype = value_of(node.shape, sizes), node.type.dtype.numpy
            part = memory[at : at + math.prod(shape) * dtype.itemsize]
            self.arrays[node] = part.view(dtype).reshape(shape)
        self.arrays.update((n, self.arrays[owner]) for n, owner in plan.buffer_aliases.items() if owner in offsets)
        self.stored = set(self.arrays) | {n for s in plan.steps for n in s.writes}
        self.results = [n for s in plan.steps for n in s.writes if n not in offsets]
        self.changing = {*plan.graph.inputs[:given], *self.results}
        self.shared = [(n, owner) for n, owner in plan.buffer_aliases.items() if owner not in offsets]
        own = [n for n in self.results if n not in plan.buffer_aliases]
        self.made = [(n, value_of(n.shape, sizes), n.type.dtype.numpy) for n in own]
        self.called: dict[Any, Sequence[Array]] = {}
        self.calls = [self.call_of(step, wave) for step, wave in zip(plan.steps, plan.waves, strict=True)]

    def constant(self, node: Node) -> Array:
        """An array of one number throughout."""
        dtype, value = node.type.dtype.numpy, value_of(node.attr("value"), self.sizes)
        return np.full(value_of(node.shape, self.sizes), value, dtype)

    def attrs(self, node: Node) -> dict[str, Any]:
        """The attributes of a node, with sizes as numbers."""
        return {name: value_of(value, self.sizes) for name, value in node.attrs}

    def view(self, node: Node) -> Array:
        """The array of a node: in memory, or a view of one that is."""
        found = self.arrays.get(node)
        return moved(node.op, self.view(node.inputs[0]), self.attrs(node)) if found is None else found

    def call_of(self, step: Step, wave: int) -> Call:
        bases = [memory_of(a.node, self.stored) for a in step.arguments]
        changing = frozenset(n for n in (*bases, *step.reads, *step.writes) if n in self.changing)
        return Call(step, changing, wave)

    def run(self, arrays: Sequence[Array], memory: Mapping[Node, Array]) -> list[Array]:
        """The outputs for arrays of the given inputs, which are kept until the next call, for steps that read them."""
        self.enter(arrays, memory)
        for call in self.calls:
            call.run(self)
        return self.leave()

    def base(self, node: Node) -> Node:
        """The array in memory that a node is, or is a view of."""
        return memory_of(node, self.stored)

    def enter(self, arrays: Sequence[Array], memory: Mapping[Node, Array]) -> None:
        """Take the arrays of a call, and make those of its results."""
        self.arrays.update(zip(self.plan.graph.inputs, arrays, strict=False))
        self.make_results(memory)

    def make_results(self, memory: Mapping[Node, Array] = MappingProxyType({})) -> None:
        """Give all results memory, their own or what is given, with the arrays that are updated in it."""
        for node, shape, dtype in self.made:
            self.arrays[node] = memory[node] if node in memory else np.empty(shape, dtype)
        for node, owner in self.shared:
            self.arrays[node] = self.arrays[owner]

    def leave(self) -> list[Array]:
        """The outputs, once all steps ran."""
        found = [self.view(node) for node in self.plan.graph.outputs]
        for node in self.results:
            del self.arrays[node]
        self.called.clear()
        return found


class Call:
    """A step on the arrays of a frame.

    What it is launched with is kept; before a launch, only arrays that change from call to call are looked up again.

    Attributes
    ----------
    moving : list of (int, Argument)
        Arguments that are other arrays in other calls, by their place.
    wave : int
        How many steps, from this one on, may overlap; 0 within those of an earlier one.
    """

    __slots__ = ("arguments", "changing", "grid", "launch", "moving", "step", "wave")

    def __init__(self, step: Step, changing: frozenset[Node], wave: int = 1) -> None:
        self.step = step
        self.changing = changing
        self.wave = wave
        self.arguments: list[Array] = []
        self.moving: list[tuple[int, Argument]] = []
        self.launch: Callable[..., Any] | None = None
        self.grid: tuple[int, ...] = ()

    def run(self, frame: Frame) -> None:
        if self.step.kernel is None:
            assemble(self.step.nodes[-1], frame)
            return
        self.look_up(frame)
        if self.step.kernel.form == SCATTER:
            begin_update(self.step.nodes[-1], frame)
        assert self.launch is not None
        self.launch(*self.arguments)

    def look_up(self, frame: Frame) -> None:
        """Find the arguments of the launch."""
        step = self.step
        if self.launch is None:
            assert step.kernel is not None
            self.grid = value_of(step.grid, frame.sizes)
            self.launch = step.kernel.kernel[self.grid]
            self.arguments = [seen(frame, a) for a in step.arguments]
            bases = map(frame.base, (a.node for a in step.arguments))
            pairs = zip(step.arguments, bases, strict=True)
            self.moving = [(n, a) for n, (a, base) in enumerate(pairs) if base in self.changing]
            return
        for n, a in self.moving:
            self.arguments[n] = seen(frame, a)


def seen(frame: Frame, argument: Argument) -> Array:
    """The array of an argument in the shape that its kernel has it."""
    array = frame.arrays.get(argument.node)
    if array is None:
        array = frame.view(argument.node)
    shape = value_of(argument.shape, frame.sizes) if frame.sizes else argument.shape
    return array if array.shape == shape else np.reshape(array, shape, copy=False)


def begin_update(node: Node, frame: Frame) -> None:
    """What comes before the kernel of an update by indices: its array holds the old one, and the indices are right."""
    base, index, _ = (frame.view(x) for x in node.inputs)
    target = frame.arrays[node]
    check_indices(node.attr("axis"), target.shape[node.attr("axis")], index)
    if base is not target:
        np.copyto(target, base)


def called(node: Node, frame: Frame) -> Array:
    """A result of a function that runs between kernels; it runs once for all its results."""
    function = node.attr("function")
    key = id(function), node.inputs
    if key not in frame.called:
        frame.called[key] = function(*map(frame.view, node.inputs))
    found: Array = frame.called[key][node.attr("result")]
    return found


def assemble(node: Node, frame: Frame) -> None:
    """Make an array out of others: parts side by side, or one with a part replaced."""
    target = frame.arrays[node]
    if node.op == "place":
        base, value = (frame.view(x) for x in node.inputs)
        if base is not target:
            np.copyto(target, base)
        attrs = frame.attrs(node)
        spans = zip(attrs["starts"], value.shape, attrs["steps"], strict=True)
        np.copyto(target[tuple(span(*each) for each in spans)], value)
        return
    if node.op == "call":
        np.copyto(target, called(node, frame))
        return
    if node.op == "put":
        begin_update(node, frame)
        put_into(frame.attrs(node), target, *(frame.view(x) for x in node.inputs[1:]))
        return
    if node.op != "concat":  # there are no elements to compute with
        type = TensorType(target.shape, node.type.dtype)
        np.copyto(target, apply(node.op, [frame.view(x) for x in node.inputs], frame.attrs(node), type))
        return
    axis, at = node.attr("axis"), 0
    for part in map(frame.view, node.inputs):
        end = at + part.shape[axis]
        np.copyto(target[(*(slice(None),) * axis, slice(at, end))], part)
        at = end
