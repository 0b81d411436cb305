"""Replay of a plan: native calls that make the launches of an execution context on new arrays.

Between two calls only the addresses of arguments and results change. So the argument blocks of kernels are filled in
once, when a context runs for the second time. Steps that numpy makes stand between two native calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto.graph.codegen.scatter import FORM as SCATTER
from pypto.graph.ir.dims import Sizes
from pypto.graph.ir.node import Node
from pypto.graph.plan.argument_flattening import CallReader
from pypto.graph.plan.execution_context import Call, Frame
from pypto.graph.plan.schedule import Schedule

Array = np.ndarray[Any, Any]
NOT_REPLAYED = object()


@dataclass(frozen=True, slots=True)
class Part:
    """Steps in a row: launches in one native call, or where `native` is None each by itself."""

    calls: tuple[Call, ...]
    native: Any = None

    def run(self, frame: Frame, arrays: Sequence[Array]) -> None:
        """Make all steps, on the arguments and results of a call."""
        if self.native is None:
            for call in self.calls:
                call.run(frame)
            return
        left = self.native.run(*arrays)
        while left is not None:
            if left < 0:  # arrays of a class of their own, or the same one twice
                Part(self.calls).run(frame, arrays)
                return
            self.calls[left].run(frame)
            left = self.native.run(*arrays)


class ReplayedFrame(Frame):
    """A frame that makes its launches in native calls, from its second run on.

    Attributes
    ----------
    native : object or None
        What makes all steps in one native call, where the outputs are results as they are.
    picked : tuple of int
        Which results these are.
    """

    def __init__(self, plan: Schedule, given: int, sizes: Sizes) -> None:
        super().__init__(plan, given, sizes)
        self.has_run = False
        self.parts: tuple[Part, ...] = ()
        self.native: Any = None
        self.picked: tuple[int, ...] = ()

    def run(self, arrays: Sequence[Array], memory: Mapping[Node, Array]) -> list[Array]:
        if not self.has_run or (memory and not are_apart(memory.values(), arrays)):
            self.has_run = True
            return super().run(arrays, memory)
        self.enter(arrays, memory)
        if not self.parts:
            self.prepare(arrays)
        made = [self.arrays[node] for node, _, _ in self.made]
        for part in self.parts:
            part.run(self, (*arrays, *made))
        return self.leave()

    def prepare(self, arrays: Sequence[Array]) -> None:
        """Fill in the arguments of all launches, for arrays like these."""
        self.parts = parts_of(self, arrays)
        made = {node: n for n, (node, _, _) in enumerate(self.made)}
        if len(self.parts) == 1 and all(node in made for node in self.plan.graph.outputs):
            self.native = self.parts[0].native
            self.picked = tuple(made[node] for node in self.plan.graph.outputs)


def parts_of(frame: Frame, arrays: Sequence[Array]) -> tuple[Part, ...]:
    """The parts of a frame that has run once, for arrays like those of a call that it has entered."""
    found: list[Part] = []
    numbers = {node: n for n, node in enumerate(changing(frame, len(arrays)))}
    for calls, is_native in runs(frame.calls):
        native = replay_of(frame, calls, arrays, numbers) if is_native else None
        found.append(Part(calls, native))
    return tuple(found)


def changing(frame: Frame, given: int) -> Iterator[Node]:
    """The arrays of a call, in the order in which a replay takes them: arguments, then results."""
    yield from frame.plan.graph.inputs[:given]
    for node, _, _ in frame.made:
        yield node


def runs(calls: Sequence[Call]) -> Iterator[tuple[tuple[Call, ...], bool]]:
    """Calls in a row that are launches and nothing else, or that numpy has a part in."""
    start = 0
    kinds = [c.step.kernel is not None and c.step.kernel.form != SCATTER for c in calls]
    for n in range(1, len(calls) + 1):
        if n == len(calls) or kinds[n] != kinds[start]:
            yield tuple(calls[start:n]), kinds[start]
            start = n


def replay_of(frame: Frame, calls: Sequence[Call], arrays: Sequence[Array], numbers: dict[Node, int]) -> Any:
    """The native replay of some calls; None where there is none."""
    kernel = calls[0].step.kernel
    assert kernel is not None
    launcher = None if any(kernel.kernel.modes) else kernel.kernel.compiler.session().launcher
    if launcher is None:
        return None
    rows = []
    for call in calls:
        call.look_up(frame)
        moves = moves_of(frame, call, numbers)
        if moves is None:
            return None
        rows.append((call.step.kernel.kernel, call.grid, tuple(call.arguments), moves, call.wave))  # type: ignore[union-attr]
    return launcher.replay(rows, arrays, len(numbers))


def moves_of(frame: Frame, call: Call, numbers: dict[Node, int]) -> tuple[tuple[int, int, int], ...] | None:
    """Which arguments differ from call to call, in which array of the call they lie, and where; None for copies."""
    moves = []
    for at, argument in call.moving:
        base = frame.base(argument.node)
        array, memory = call.arguments[at], frame.arrays[base]
        if array.size and not np.may_share_memory(array, memory):
            return None
        offset = array.__array_interface__["data"][0] - memory.__array_interface__["data"][0] if array.size else 0
        moves.append((at, numbers[frame.plan.buffer_aliases.get(base, base)], offset))
    return tuple(moves)


def are_apart(written: Iterable[Array], read: Sequence[Array]) -> bool:
    """Whether pieces of memory that are written lie apart from those that are read, each seen from end to end."""
    return not any(np.may_share_memory(a, b) for a in written for b in read)


class FastPath:
    """Calls of a fused function that need of Python nothing but memory for results.

    Parameters
    ----------
    frames : mapping from tuple of int to list of ReplayedFrame
        Those of the plan that are not in use, by the sizes of dimensions by name.
    places : sequence of (int, int)
        Where these sizes are: of which argument, along which axis.
    fill : callable, optional
        Makes the result of the function out of the outputs; without it, it is the output.
    reader : callable, optional
        Gives the arrays of a call, from positional and named arguments and from outside; without it, all arguments are
        positional and arrays, and nothing is read from outside.
    kept : sequence of ndarray, optional
        Arrays from outside of the function that an `out` may not overlap; None where there is no `out`.
    """

    __slots__ = ("fill", "frames", "kept", "places", "reader")

    def __init__(
        self,
        frames: Mapping[tuple[int, ...], list[ReplayedFrame]],
        places: Sequence[tuple[int, int]],
        fill: Callable[..., Any] | None,
        reader: CallReader | None = None,
        kept: Sequence[Array] | None = None,
    ) -> None:
        self.frames = frames
        self.places = places
        self.fill = fill
        self.reader = reader
        self.kept = kept

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result, or NOT_REPLAYED where nothing was done."""
        out: Any = None
        arrays: Sequence[Any] = args
        if kwargs and self.kept is not None and "out" in kwargs:
            kwargs = kwargs.copy()
            out = kwargs.pop("out")
        if kwargs or self.reader is not None:
            taken = None if self.reader is None else self.reader(args, kwargs)
            if taken is None:
                return NOT_REPLAYED
            arrays = taken
        try:
            frames = self.frames[tuple([args[n].shape[axis] for n, axis in self.places])]
            frame = frames.pop()
        except (LookupError, AttributeError, TypeError):
            return NOT_REPLAYED
        found = NOT_REPLAYED if frame.native is None else self.replayed(frame, arrays, out)
        frames.append(frame)
        return found

    def replayed(self, frame: ReplayedFrame, arrays: Sequence[Any], out: Any) -> Any:
        """The result of all launches in one native call."""
        at = -1
        if out is not None:
            if not self.fits(frame, arrays, out):
                return NOT_REPLAYED
            at = frame.picked[0]
        made = [out if n == at else np.empty(shape, dtype) for n, (_, shape, dtype) in enumerate(frame.made)]
        if frame.native.run(*arrays, *made) is not None:
            frame.native.restart()
            return NOT_REPLAYED
        if self.fill is None:
            return made[frame.picked[0]]
        return self.fill(outputs=[made[n] for n in frame.picked], sizes=frame.sizes)

    def fits(self, frame: ReplayedFrame, arrays: Sequence[Any], out: Any) -> bool:
        """Whether the result can be made in an array as it is."""
        _, shape, dtype = frame.made[frame.picked[0]]
        if type(out) is not np.ndarray or out.shape != shape or out.dtype != dtype:
            return False
        flags = out.flags
        if not (flags.c_contiguous and flags.writeable and flags.aligned):
            return False
        for array in arrays:
            if np.may_share_memory(out, array):
                return False
        return not self.kept or are_apart((out,), self.kept)
