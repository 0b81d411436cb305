"""Execution context: an arena with the launches of a plan bound to it; each running call of the plan has one.

A plan pools the contexts that are not in use, so calls of several threads do not share one. With named dimensions a
context belongs to one set of sizes, for which its shapes, views and grids are numbers.

The kernels of a plan are compiled in parallel, before its first step runs. Kernels with named dimensions are compiled
for the hints of the dimensions instead of the first sizes, because an array with one row or one column has strides with
special facts that hold for no other size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from pypto.graph.codegen.scatter import FORM as SCATTER
from pypto.graph.codegen.scatter import check_indices
from pypto.graph.codegen.writer import Argument
from pypto.graph.ir.dims import Sizes, is_fixed, value_of
from pypto.graph.ir.movements import MOVEMENTS
from pypto.graph.ir.node import Node, moved_from
from pypto.graph.ir.node_table import NODES
from pypto.graph.ir.reference import apply
from pypto.graph.ir.types import TensorType
from pypto.graph.plan.schedule import Schedule, Step
from pypto.graph.tracing.launches import Launch, Operand, launch_of
from pypto.jit import Kernel
from pypto.process import get_num_threads
from pypto.runtime.arena import ArrayRef, Buffer
from pypto.runtime.launches import HOST, NOTHING, BoundLaunches, LaunchList, LaunchStep
from pypto.runtime.mode import MODE, PLAIN
from pypto.runtime.places import HostDevice
from pypto.runtime.specialization import Specialization

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Movement:
    """A movement of the graph as a function from an array to its view."""

    op: str
    attrs: Mapping[str, Any]

    def __call__(self, array: Array) -> Array:
        return MOVEMENTS[self.op].reference(array, self.attrs)

    def __str__(self) -> str:
        return f"{self.op}({', '.join(f'{name}={value}' for name, value in self.attrs.items())})"


@dataclass(frozen=True, slots=True)
class Pairs:
    """A complex array as floats, with its two parts along a new last dimension."""

    def __call__(self, array: Array) -> Array:
        return array[..., None].view(array.real.dtype)

    def __str__(self) -> str:
        return "pairs()"


class Frame(BoundLaunches):
    """The launch list of a plan for some sizes, bound to an arena.

    Attributes
    ----------
    picked : tuple of int
        The numbers of the results, and behind them of the inputs, that are the outputs or that they show.
    views : tuple of tuple of Movement
        How each output shows its result; empty if all outputs are results.
    """

    def __init__(
        self, plan: Schedule, given: int, sizes: Sizes, memory: Any = HOST, donated: Mapping[Node, Node] = NOTHING
    ) -> None:
        """`donated` maps results to the donated inputs whose memory they are made in."""
        self.plan = plan
        self.aliases = {**plan.buffer_aliases, **donated}
        self.donated = donated
        self.sizes = sizes
        self.called: dict[Any, Sequence[Array]] = {}
        self.picked: tuple[int, ...] = ()
        self.views: tuple[tuple[Movement, ...], ...] = ()
        self._on_tensors: Any = None
        constants = {**plan.fixed, **{n: self.constant(n) for n in plan.constants}, **self.unread()}
        if not isinstance(memory, HostDevice):
            constants = {node: memory.array(array) for node, array in constants.items()}
        written = [n for s in plan.steps for n in s.writes]
        self.stored = {*constants, *plan.lifetimes, *written}
        results = (n for n in written if n not in plan.lifetimes and n not in self.aliases)
        super().__init__(
            LaunchList(
                tuple(self.launch_step(step, wave) for step, wave in zip(plan.steps, plan.waves, strict=True)),
                tuple(map(self.buffer, plan.graph.inputs[:given])),
                tuple(map(self.buffer, results)),
                plan.arena(sizes),
                constants,
                self.aliases,
                memory=memory,
                written=frozenset(donated.values()),
            )
        )

    def buffer(self, node: Node) -> Buffer:
        return Buffer(node, value_of(node.shape, self.sizes), node.type.dtype)

    def launch_step(self, step: Step, wave: int) -> LaunchStep:
        """Return a step of the plan as a launch for these sizes."""
        node = step.nodes[-1]
        if node.is_call and launch_of(node) is not None:
            return self.users_launch(step, wave)
        if step.kernel is None:
            return LaunchStep(None, wave=wave, host=partial(assemble, node, self.attrs(node), self))
        host = partial(begin_update, node, self) if step.kernel.form == SCATTER else None
        given = {a.name: self.ref(a) for a in step.arguments}
        return LaunchStep(step.kernel.kernel, value_of(step.grid, self.sizes), given, wave, host)

    def users_launch(self, step: Step, wave: int) -> LaunchStep:
        """Return a launch in the user's function; what it updates is copied where it does not lie in place."""
        launch = cast("Launch", launch_of(step.nodes[-1]))
        inputs, results = step.nodes[-1].inputs, {node.attr("result"): node for node in step.nodes}
        keys: list[Any] = [results.get(number, (launch, inputs, number)) for number in range(len(launch.written))]
        copies = [
            (key, inputs[x.source])
            for key, x in zip(keys, launch.written, strict=True)
            if x.source is not None and self.owner(key) is not self.owner(inputs[x.source])
        ]

        def operand(x: Any) -> Any:
            if not isinstance(x, Operand):
                return value_of(x, self.sizes)
            if x.result is None:
                key, path = moved_from(inputs[x.source or 0], self.stored)
                return ArrayRef(key, None, tuple(Movement(n.op, self.attrs(n)) for n in path))
            moves = (Movement(op, {name: value_of(v, self.sizes) for name, v in attrs}) for op, attrs in x.steps)
            return ArrayRef(keys[x.result], None, tuple(moves))

        given = dict(zip(launch.kernel.signature.names, map(operand, launch.values), strict=True))
        host = partial(copy_in, copies, self) if copies else None
        if launch.fault is not None:
            work = partial(checked_launch, launch, given, keys[launch.fault.result], host, self)
            return LaunchStep(None, wave=wave, host=work)
        return LaunchStep(launch.kernel, value_of(launch.grid, self.sizes), given, wave, host)

    def owner(self, key: Any) -> Any:
        """Return the array whose memory an array lies in."""
        return self.aliases.get(key, key)

    def unread(self) -> dict[Any, Array]:
        """Return memory for arrays that launches write and nothing reads."""
        memory: dict[Any, Array] = {}
        for node in (s.nodes[-1] for s in self.plan.steps if s.nodes[-1].is_call):
            launch = launch_of(node)
            for number, x in enumerate(() if launch is None else launch.written):
                memory[launch, node.inputs, number] = np.empty(value_of(x.type.shape, self.sizes), x.type.dtype.numpy)
        live = {(launch_of(n), n.inputs, n.attr("result")) for s in self.plan.steps for n in s.nodes if n.is_call}
        return {key: array for key, array in memory.items() if key not in live}

    def ref(self, argument: Argument) -> ArrayRef:
        """Return the reference that binds an argument of a kernel to its array."""
        node, path = moved_from(argument.node, self.stored)
        views = tuple(Movement(n.op, self.attrs(n)) for n in path)
        shape = value_of(argument.shape, self.sizes)
        return ArrayRef(node, (*shape, 2), (*views, Pairs())) if argument.is_pair else ArrayRef(node, shape, views)

    def constant(self, node: Node) -> Array:
        """Return an array that is filled with the number of a constant node."""
        dtype, value = node.type.dtype.numpy, value_of(node.attr("value"), self.sizes)
        return np.full(value_of(node.shape, self.sizes), value, dtype)

    def attrs(self, node: Node) -> dict[str, Any]:
        """Return the attributes of a node with sizes as numbers."""
        return {name: value_of(value, self.sizes) for name, value in node.attrs}

    def view(self, node: Node) -> Array:
        """Return the array of a node, which is stored or a view of a stored array."""
        stored: Array | None = self.arrays.get(node)
        if stored is not None:
            return stored
        base: Any = self.view(node.inputs[0])
        if isinstance(base, np.ndarray):
            return MOVEMENTS[node.op].reference(base, self.attrs(node))
        view: Array = ArrayRef(0, None, (Movement(node.op, self.attrs(node)),)).seen({0: base})
        return view

    def prepare(self, arrays: Sequence[Array]) -> None:
        super().prepare(arrays)
        number_of = {node: n for n, (node, _, _) in enumerate(self.results)}
        number_of |= {node: len(self.results) + self.inputs.index(owner) for node, owner in self.donated.items()}
        shown = [moved_from(node, self.stored) for node in self.plan.graph.outputs]
        if not all(node in number_of for node, _ in shown):
            self.native = None  # an output is neither a result nor a view of one
        else:
            self.picked = tuple(number_of[node] for node, _ in shown)
            views = tuple(tuple(Movement(n.op, self.attrs(n)) for n in path) for _, path in shown)
            self.views = views if any(views) else ()

    def outputs_of(self, results: Sequence[Array]) -> list[Array]:
        """Return the outputs of a replay from its results, and the inputs behind them."""
        outputs = [results[n] for n in self.picked]
        for number, views in enumerate(self.views):
            for view in views:
                outputs[number] = view(outputs[number])
        return outputs

    def replay_on_tensors(self, make: Callable[[Frame, Sequence[Any]], Any], tensors: Sequence[Any]) -> Any:
        """Return the native replay on tensors of torch, which `make` makes for the first call."""
        if self._on_tensors is None:
            self._on_tensors = make(self, tensors)
        return self._on_tensors

    def leave(self) -> list[Array]:
        """Return the outputs after all steps ran, and release the arrays of the call."""
        results = [self.view(node) for node in self.plan.graph.outputs]
        super().leave()
        self.called.clear()
        return results


def seen(frame: Frame, argument: Argument) -> Array:
    """Return the array of an argument in the shape that its kernel declares."""
    array: Array = frame.ref(argument).seen(frame.arrays)
    return array


def begin_update(node: Node, frame: Frame) -> None:
    """What comes before an update is written: its array holds the old one, and the indices are right."""
    base, target = frame.view(node.inputs[0]), frame.arrays[node]
    if node.has("indexed"):
        check_indices(node.attr("axis"), target.shape[node.attr("axis")], frame.view(node.inputs[1]))
    if base is not target:
        np.copyto(target, base)


def copy_in(copies: Sequence[tuple[Any, Node]], frame: Frame) -> None:
    """Copy what a launch updates to the memory that it writes."""
    for key, base in copies:
        np.copyto(frame.arrays[key], frame.view(base))


def checked_launch(
    launch: Launch, given: Mapping[str, Any], fault: Any, host: Callable[[], None] | None, frame: Frame
) -> None:
    """Launch a kernel that may refuse its arguments, and raise its error."""
    if host is not None:
        host()
    values = (x.seen(frame.arrays) if isinstance(x, ArrayRef) else x for x in given.values())
    launch.kernel[value_of(launch.grid, frame.sizes)](*values)
    if launch.fault is not None:
        launch.fault.check(frame.arrays[fault])


def called(node: Node, frame: Frame) -> Array:
    """Return one result of a function that runs between kernels; the function runs once for all its results."""
    function = node.attr("function")
    key = id(function), node.inputs
    if key not in frame.called:
        frame.called[key] = function(*map(frame.view, node.inputs))
    array: Array = frame.called[key][node.attr("result")]
    return array


def assemble(node: Node, attrs: Mapping[str, Any], frame: Frame) -> None:
    """Run a step without a kernel: concatenate arrays, replace a part of an array, or call a function."""
    target = frame.arrays[node]
    into = NODES[node.op].into if node.op in NODES else None
    if node.is_call:
        np.copyto(target, called(node, frame))
    elif into is None:  # there are no elements to compute with
        type = TensorType(target.shape, node.type.dtype)
        np.copyto(target, apply(node.op, [frame.view(x) for x in node.inputs], attrs, type))
    elif node.has("update"):
        begin_update(node, frame)
        into(attrs, target, *(frame.view(x) for x in node.inputs[1:]))
    else:
        into(attrs, target, *map(frame.view, node.inputs))


def compile_ahead(plan: Schedule, arrays: Sequence[Array]) -> dict[Kernel, Specialization] | None:
    """Compile the kernels of a plan for arrays like these; return None if they must be compiled at launch.

    That is so on a device, in the interpreter and under checks, and if arrays of the hinted sizes do not fit into
    memory, because those of the call may be small.
    """
    kernels = list(dict.fromkeys(s.kernel.kernel for s in plan.steps if s.kernel is not None))
    if MODE.get() is not PLAIN or any(any(k.modes) for k in kernels):
        return None
    if not kernels:
        return {}
    if kernels[0].compiler.session().devices.default is not None:
        return None
    try:
        jobs = list(launches(plan, arrays).items())
    except MemoryError:
        return None
    with ThreadPoolExecutor(min(len(jobs), get_num_threads())) as pool:
        versions = list(pool.map(lambda job: job[0].compile(*job[1]), jobs))
    return dict(zip((kernel for kernel, _ in jobs), versions, strict=True))


def launches(plan: Schedule, arrays: Sequence[Array]) -> dict[Kernel, list[Array]]:
    """Return the arguments for which each kernel is compiled."""
    frame = Frame(plan, len(arrays), plan.hints)
    for node, array in zip(plan.graph.inputs, arrays, strict=False):
        is_given = all(map(is_fixed, node.shape))
        frame.arrays[node] = array if is_given else np.empty(value_of(node.shape, plan.hints), array.dtype)
    frame.make_results()
    launches: dict[Kernel, list[Array]] = {}
    for step in sorted(plan.steps, key=partial(writes_apart, plan)):
        if step.kernel is not None and step.kernel.kernel not in launches:
            launches[step.kernel.kernel] = [seen(frame, a) for a in step.arguments]
    return launches


def writes_apart(plan: Schedule, step: Step) -> bool:
    """Whether a step writes no array that it reads; a kernel compiled for in-place arguments serves all steps."""
    read = {plan.buffer_aliases.get(x, x) for x in step.reads}
    return not any(plan.buffer_aliases.get(x, x) in read for x in step.writes)
