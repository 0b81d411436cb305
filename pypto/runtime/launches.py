"""A launch list: launches over one arena of memory, as data that can be printed, bound to arrays and replayed.

Plans of array functions, derived backward passes and the steps of a decoder are launch lists. A list says by keys
which arrays come with a call, which are made for it, which lie in its arena, and what every launch is given of them. It
is bound once; between two runs only addresses change. So native code fills in the argument blocks of its launches once,
and a run is one native call. On a device the arena lies in the device's memory, and launches go to its stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors import CompilerBug
from pypto.errors.launch import WrongArguments
from pypto.runtime.arena import Arena, Buffer, Ref
from pypto.runtime.device_arrays import DeviceArray, zero
from pypto.runtime.places import HostDevice

Array = np.ndarray[Any, Any]
HOST: Final = HostDevice("cpu")
EMPTY: Final = Arena()
NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LaunchStep:
    """A launch of a kernel, with work of the host before it, or work of the host alone.

    Parameters
    ----------
    kernel : Kernel or None
    grid : tuple of int
    arguments : mapping from str to ArrayRef, ScalarRef, array or number
        By parameter, in the order of the kernel's.
    wave : int
        How many steps, from this one on, may overlap, as none needs another; 0 within those of an earlier one.
    host : callable, optional
        Work of the host, on the arrays of the list.
    """

    kernel: Any
    grid: tuple[int, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    wave: int = 1
    host: Callable[[], None] | None = None

    @staticmethod
    def of(kernel: Any, *args: Any, grid: tuple[int, ...], **given: Any) -> LaunchStep:
        """The launch of a kernel on arrays and numbers, with its arguments as in a call."""
        values = kernel.signature.bind(args, given)
        return LaunchStep(kernel, grid, dict(zip(kernel.signature.names, values, strict=True)))

    def make(self) -> None:
        """Make the launch, whose arguments are arrays and numbers, at once."""
        self.kernel[self.grid](*self.arguments.values())

    @property
    def refs(self) -> list[tuple[str, Ref]]:
        """The arguments that the list names by key, by parameter."""
        return [(name, x) for name, x in self.arguments.items() if isinstance(x, Ref)]


@dataclass(frozen=True)
class LaunchList:
    """Launches in order, and the arrays that they work on.

    Parameters
    ----------
    steps : tuple of LaunchStep
    inputs : tuple of Buffer
        Arrays that come with every call.
    results : tuple of Buffer
        Arrays that every call makes, or is given memory for.
    arena : Arena
        Arrays that the list keeps.
    constants : mapping from key to array
        Arrays that are the same in all calls.
    aliases : mapping from key to key
        Arrays in the memory of another one.
    zeroed : tuple of key
        Arrays that are set to zero before the first step.
    scalars : tuple of key
        Numbers that come with every call, behind its arrays.
    memory : Place
        Where the arena and the results are: the host, or a device.
    written : set of key
        Inputs that launches write. A replay compares their memory with that of all other inputs.
    is_distinct : bool
        Whether an array that is given as two inputs is refused by a replay.

    Raises
    ------
    CompilerBug
        When a launch is given an array that the list does not know.
    """

    steps: tuple[LaunchStep, ...]
    inputs: tuple[Buffer, ...] = ()
    results: tuple[Buffer, ...] = ()
    arena: Arena = EMPTY
    constants: Mapping[Any, Any] = field(default_factory=dict)
    aliases: Mapping[Any, Any] = field(default_factory=dict)
    zeroed: tuple[Any, ...] = ()
    scalars: tuple[Any, ...] = ()
    memory: Any = field(default=HOST, compare=False)
    written: frozenset[Any] = frozenset()
    is_distinct: bool = True

    def __post_init__(self) -> None:
        known = set(self.keys)
        for number, step in enumerate(self.steps):
            for name, ref in step.refs:
                if ref.key not in known:
                    raise CompilerBug(f"step {number}: argument `{name}` is {ref.key}, which is no array of its list")

    @property
    def keys(self) -> tuple[Any, ...]:
        """All that steps may name: inputs, results, arrays of the arena, constants, aliases, scalars."""
        buffers = (*self.inputs, *self.results, *(slot.buffer for slot in self.arena.slots))
        return (*(buffer.key for buffer in buffers), *self.constants, *self.aliases, *self.scalars)

    def bind(self, arrays: Mapping[str, Any] = NOTHING) -> BoundLaunches:
        """The list on the arrays of its inputs, by key.

        Raises
        ------
        WrongArguments
            When one is missing or unknown, or has another shape or dtype; the error names it.
        """
        bound = BoundLaunches(self)
        bound.given = self.checked(arrays)
        return bound

    def checked(self, arrays: Mapping[str, Any]) -> list[Any]:
        """The arrays of the inputs in order."""
        names = [*(str(buffer.key) for buffer in self.inputs), *map(str, self.scalars)]
        if unknown := sorted(set(arrays).difference(names)):
            self.fail(f"`{unknown[0]}` is none of its inputs", f"pass {', '.join(names) or 'no array'}")
        if missing := [name for name in names if name not in arrays]:
            self.fail(f"`{missing[0]}` is missing", f"pass {', '.join(names)}")
        for name, buffer in zip(names, self.inputs, strict=False):
            shape, dtype = tuple(arrays[name].shape), arrays[name].dtype
            if shape != buffer.shape:
                self.fail(f"`{name}` has the shape {shape}", f"pass one of the shape {buffer.shape}")
            if isinstance(dtype, np.dtype) and dtype != buffer.dtype.numpy:
                self.fail(f"`{name}` is {dtype}", f"pass one of {buffer.dtype}")
        return [arrays[name] for name in names]

    def fail(self, problem: str, way: str) -> None:
        raise WrongArguments(kernel="launch list", problem=problem, way=way)

    def __str__(self) -> str:
        from pypto.runtime.launch_text import lines

        return "\n".join(lines(self))


class BoundStep:
    """A step on the arrays of a bound list.

    What it is launched with is kept, except arrays that change from call to call: these are looked up before every
    launch, and released once the run ends.

    Attributes
    ----------
    moving : list of (int, ArrayRef or ScalarRef)
        Arguments that are other arrays in other calls, by their place.
    """

    __slots__ = ("arguments", "launch", "moving", "step")

    def __init__(self, step: LaunchStep) -> None:
        self.step = step
        self.arguments: list[Any] = []
        self.moving: list[tuple[int, Ref]] = []
        self.launch: Callable[..., Any] | None = None

    def run(self, bound: BoundLaunches) -> None:
        step = self.step
        if step.kernel is not None:
            self.look_up(bound)
        if step.host is not None:
            step.host()
        if self.launch is not None:
            self.launch(*self.arguments)

    def look_up(self, bound: BoundLaunches) -> None:
        """Find the arguments of the launch."""
        arrays = bound.arrays
        bound.started.append(self)
        if self.launch is not None:
            for n, ref in self.moving:
                self.arguments[n] = ref.seen(arrays)
            return
        given = self.step.arguments.values()
        self.launch = self.step.kernel[self.step.grid]
        self.arguments = [x.seen(arrays) if isinstance(x, Ref) else x for x in given]
        changing = bound.changing
        self.moving = [(n, x) for n, x in enumerate(given) if isinstance(x, Ref) and x.key in changing]

    def release(self) -> None:
        """Keep no array of the caller alive."""
        for n, _ in self.moving:
            self.arguments[n] = None


@dataclass(frozen=True, slots=True)
class Section:
    """Steps in a row: launches in one native call, or where `native` is None each by itself."""

    steps: tuple[BoundStep, ...]
    native: Any = None

    def run(self, bound: BoundLaunches, arrays: Sequence[Any]) -> None:
        """Make all steps, on the inputs and results of a call."""
        if self.native is None:
            for step in self.steps:
                step.run(bound)
        else:
            self.resume(bound, arrays, self.native.run(*arrays))

    def resume(self, bound: BoundLaunches, arrays: Sequence[Any], left: int | None) -> None:
        """Make the step that native code leaves to Python, and all behind it."""
        while left is not None:
            if left < 0:  # arrays of a class of their own, or the same one twice
                Section(self.steps).run(bound, arrays)
                return
            self.steps[left].run(bound)
            left = self.native.run(*arrays)


class BoundLaunches:
    """A launch list with an arena, which runs on the arrays of one call after the other.

    The first run finds the arguments of every launch. From the second one on, launches in a row are one native call
    where native code knows them all; work of the host stands between two such calls. One thread runs it at a time.

    Attributes
    ----------
    arrays : dict
        All arrays by key; those of a call are there while it runs.
    sections : tuple of Section
        From the second run on, how steps are made.
    started : list of BoundStep
        Those that hold arrays of the call.
    native : Replay or None
        Replays all steps in one native call.
    """

    def __init__(self, launches: LaunchList, memory: Any = None) -> None:
        """`memory` is what the arena lies in, as bytes; without, fresh memory."""
        self.launches = launches
        self.given: Sequence[Any] = ()
        self.memory = memory = launches.arena.memory(launches.memory) if memory is None else memory
        self.arrays: dict[Any, Any] = {**launches.constants, **launches.arena.arrays(memory)}
        self.arrays |= {key: self.arrays[owner] for key, owner in launches.aliases.items() if owner in self.arrays}
        self.shared = [(key, owner) for key, owner in launches.aliases.items() if key not in self.arrays]
        self.results = [(x.key, x.shape, x.dtype.numpy) for x in launches.results]
        self.inputs = [*(x.key for x in launches.inputs), *launches.scalars]
        self.changing = frozenset((*self.inputs, *(x.key for x in launches.results), *dict(self.shared)))
        self.zeroed = (*launches.zeroed, *(s.buffer.key for s in launches.arena.slots if s.is_zeroed))
        self.steps = [BoundStep(step) for step in launches.steps]
        self.started: list[BoundStep] = []
        self.has_run = False
        self.native: Any = None
        self.sections: tuple[Section, ...] = ()

    @property
    def is_lost(self) -> bool:
        """Whether a fault has taken the arena from its device."""
        return isinstance(self.memory, DeviceArray) and self.memory.is_lost

    def run(self, arrays: Sequence[Any] | None = None, memory: Mapping[Any, Any] = NOTHING) -> list[Any]:
        """The results for the arrays of a call, without which they are those that the list was bound to.

        `memory` has arrays that results are made in.
        """
        given = self.given if arrays is None else arrays
        is_first, self.has_run = not self.has_run, True
        self.enter(given, memory)
        if is_first or (memory and not are_apart(memory.values(), given)):
            for step in self.steps:
                step.run(self)
            return self.leave()
        if not self.sections:
            self.prepare(given)
        changing = (*given, *[self.arrays[key] for key, _, _ in self.results])
        for section in self.sections:
            section.run(self, changing)
        return self.leave()

    def replay(self, arrays: Sequence[Any]) -> bool:
        """Run on inputs that launches write, in one native call; False where that does not fit and nothing ran."""
        if self.native is None:
            return False
        results = [np.empty(shape, dtype) for _, shape, dtype in self.results]
        left = self.native.run(*arrays, *results)
        if left is not None and left >= 0:
            self.resume(arrays, results, left)
        return left is None or left >= 0

    def resume(self, arrays: Sequence[Any], results: Sequence[Any], left: int) -> None:
        """Go on with the step that a native replay left to Python."""
        self.enter(arrays, {key: x for (key, _, _), x in zip(self.results, results, strict=True)})
        self.sections[0].resume(self, (*arrays, *results), left)
        self.leave()

    def enter(self, arrays: Sequence[Any], memory: Mapping[Any, Any] = NOTHING) -> None:
        """Take the arrays of a call, and make those of its results."""
        self.arrays.update(zip(self.inputs, arrays, strict=False))
        self.make_results(memory)
        for key in self.zeroed:
            zero(self.arrays[key])

    def make_results(self, memory: Mapping[Any, Any] = NOTHING) -> None:
        """Give all results memory, their own or what is given, with the arrays that share it."""
        for key, shape, dtype in self.results:
            self.arrays[key] = memory[key] if key in memory else self.launches.memory.empty(shape, dtype)
        for key, owner in self.shared:
            self.arrays[key] = self.arrays[owner]

    def leave(self) -> list[Any]:
        """The results, once all steps ran; arrays of the call are released."""
        results = [self.arrays.pop(key) for key, _, _ in self.results]
        for key, _ in self.shared:
            del self.arrays[key]
        for key in self.inputs:
            self.arrays.pop(key, None)
        for step in self.started:
            step.release()
        self.started.clear()
        return results

    def prepare(self, arrays: Sequence[Any]) -> None:
        """Fill in the arguments of all launches, for arrays like these."""
        numbers = {key: n for n, key in enumerate((*self.inputs, *(key for key, _, _ in self.results)))}
        for is_native, group in groupby(self.steps, lambda bound: bound.step.host is None):
            steps = tuple(group)
            self.sections += (Section(steps, self.replay_of(steps, arrays, numbers) if is_native else None),)
        self.native = self.sections[0].native if len(self.sections) == 1 and not self.zeroed else None

    def replay_of(self, steps: Sequence[BoundStep], arrays: Sequence[Any], numbers: Mapping[Any, int]) -> Any:
        """The native replay of some launches; None where there is none."""
        if self.launches.scalars or not isinstance(self.launches.memory, HostDevice):
            return None
        kernel = steps[0].step.kernel
        launcher = None if any(kernel.modes) else kernel.compiler.session().launcher
        if launcher is None:
            return None
        rows = []
        for bound in steps:
            bound.look_up(self)
            moves = self.moves(bound, numbers)
            if moves is None:
                return None
            rows.append((bound.step.kernel, bound.step.grid, tuple(bound.arguments), moves, bound.step.wave))
        return launcher.replay(rows, arrays, len(numbers), self.pairs(arrays), self.launches.is_distinct)

    def pairs(self, arrays: Sequence[Array]) -> list[tuple[int, int, int, int]]:
        """Inputs that must not overlap, by number, with the range that the distance of overlapping ones is in."""
        pairs = []
        for a, key in enumerate(self.inputs):
            for b, other in enumerate(self.inputs[:a]):
                if key in self.launches.written or other in self.launches.written:
                    (low_a, high_a), (low_b, high_b) = reach(arrays[a]), reach(arrays[b])
                    pairs.append((a, b, low_b - high_a, high_b - low_a))
        return pairs

    def moves(self, bound: BoundStep, numbers: Mapping[Any, int]) -> tuple[tuple[int, int, int], ...] | None:
        """Which arguments differ from call to call, in which array of the call they lie, and where; None for copies."""
        moves = []
        for at, ref in bound.moving:
            array, memory = bound.arguments[at], self.arrays[ref.key]
            if not (isinstance(array, np.ndarray) and isinstance(memory, np.ndarray)):
                return None
            if array.size and not np.may_share_memory(array, memory):
                return None
            offset = array.__array_interface__["data"][0] - memory.__array_interface__["data"][0] if array.size else 0
            moves.append((at, numbers[self.launches.aliases.get(ref.key, ref.key)], offset))
        return tuple(moves)


def reach(array: Array) -> tuple[int, int]:
    """Bytes from the first element of an array to the lowest one, and to the end of the highest."""
    low, high = np.lib.array_utils.byte_bounds(array) if array.size else (0, 0)
    start = array.__array_interface__["data"][0] if array.size else 0
    return low - start, high - start


def are_apart(written: Any, read: Sequence[Array]) -> bool:
    """Whether pieces of memory that are written lie apart from those that are read, each seen from end to end."""
    return not any(np.may_share_memory(a, b) for a in written for b in read)
