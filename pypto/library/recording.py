"""Records the launches of a checked call as a launch list, which later calls like it replay in one native call.

The function of an implementation is Python code that views arrays, allocates memory between launches, and launches
kernels. It runs once on recorded arrays, which have shapes and views but no elements, so nothing is launched and no
decision can depend on an element. Each launch becomes a step of the list. A function that reads elements, or that
launches on memory from elsewhere, is not recorded, and its calls launch kernel by kernel.

A list holds the numbers of its call. So it serves calls whose numbers have the same bits.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from pypto.ir.types import DType
from pypto.runtime.arena import Arena, ArrayRef, Buffer, Slot
from pypto.runtime.arrays import array_info
from pypto.runtime.launches import HOST, BoundLaunches, LaunchList, LaunchStep
from pypto.runtime.mode import mode

Values = dict[str, Any]
View = Callable[[Any], Any]
ARENA_BYTES: Final = 1 << 18  # bytes between launches that a list keeps; larger memory is allocated for every call
MOST: Final = 8  # calls of several threads at the same time that replay a list; more launch one by one
FAILED: Final = (TypeError, AttributeError, ValueError, LookupError, AssertionError, NotImplementedError)


class NotRecorded(ValueError):
    """Says why a call's launches are no launch list."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """The view of an array that basic indices give."""

    index: Any

    def __call__(self, array: Any) -> Any:
        return array[self.index]

    def __str__(self) -> str:
        return f"[{self.index}]"


@dataclass(frozen=True, slots=True)
class Reshaped:
    """The view of an array in another shape."""

    shape: tuple[int, ...]

    def __call__(self, array: Any) -> Any:
        return np.reshape(array, self.shape, copy=False)

    def __str__(self) -> str:
        return f"reshape{self.shape}"


@dataclass(frozen=True, slots=True, eq=False)
class RecordedArray:
    """An array of a call that is recorded: its type and views are known, and its elements are not.

    Parameters
    ----------
    recording : Recording
    key : str or int
        The argument or result, or the number of the memory between launches.
    array : ndarray
        An array of this shape and layout, whose elements nobody reads.
    views : tuple of callable
        How it lies in the array of its key.
    """

    recording: Recording
    key: Any
    array: np.ndarray[Any, Any]
    views: tuple[View, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.array.shape
        return shape

    @property
    def strides(self) -> tuple[int, ...]:
        return self.array.strides

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def size(self) -> int:
        return self.array.size

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: Any) -> RecordedArray:
        return self.seen(Indexed(index))

    def reshape(self, *shape: Any) -> RecordedArray:
        """Views it in another shape."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        return self.seen(Reshaped(np.reshape(self.array, sizes, copy=False).shape))

    def view(self, shape: tuple[int, ...]) -> RecordedArray:
        """Views it in another shape, as a tensor's method does."""
        return self.reshape(shape)

    def seen(self, view: View) -> RecordedArray:
        """Returns a view of it."""
        array = view(self.array)
        if not isinstance(array, np.ndarray) or (array.size and not np.may_share_memory(array, self.array)):
            raise NotRecorded("it reads an element")
        return RecordedArray(self.recording, self.key, array, (*self.views, view))

    def allocate(self, shape: tuple[int, ...], dtype: DType) -> RecordedArray:
        """Returns memory between launches."""
        return self.recording.allocate(shape, dtype)


@dataclass(slots=True)
class Recording:
    """The launches of a call, while its function runs.

    Attributes
    ----------
    steps : list of LaunchStep
    buffers : list of Buffer
        The memory between launches.
    spans : dict of int to (int, int)
        The first and the last step that is given each of them.
    """

    steps: list[LaunchStep] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)

    def allocate(self, shape: tuple[int, ...], dtype: DType) -> RecordedArray:
        """Returns memory between launches."""
        key = len(self.buffers)
        self.buffers.append(Buffer(key, tuple(shape), dtype))
        return RecordedArray(self, key, np.empty(shape, dtype.numpy))

    def launched(self, kernel: Any, grid: tuple[int, ...], values: Sequence[Any], interpret: bool) -> None:
        """Records a launch in place of making it."""
        if interpret or kernel.pre_run_hooks or kernel.post_run_hooks:
            raise NotRecorded("the kernel is interpreted, or has hooks")
        if not all(grid):
            return
        given = dict(zip(kernel.signature.names, map(self.argument, values), strict=True))
        self.steps.append(LaunchStep(kernel, grid, given))

    def argument(self, value: Any) -> Any:
        """Returns an argument of a launch as a step has it."""
        if not isinstance(value, RecordedArray):
            if hasattr(value, "dtype") or hasattr(value, "data_ptr"):
                raise NotRecorded("a launch works on an array that is no argument")
            return value
        if value.key in range(len(self.buffers)):
            first, _ = self.spans.get(value.key, (len(self.steps), 0))
            self.spans[value.key] = first, len(self.steps)
        return ArrayRef(value.key, None, value.views)

    def launches(self, inputs: tuple[Buffer, ...], most: int, written: frozenset[str], place: Any) -> LaunchList:
        """Returns the launch list, which keeps the memory between launches if that is not more than `most` bytes."""
        slots = [Slot(self.buffers[key], first, last) for key, (first, last) in self.spans.items()]
        arena, fresh = Arena.packed(slots), tuple(slot.buffer for slot in slots)
        arena, results = (arena, ()) if arena.nbytes <= most else (Arena(), fresh)
        steps = tuple(self.steps)
        return LaunchList(steps, inputs, results, arena, memory=place, written=written, is_distinct=False)


def recorded(
    launch: Callable[[Values], None],
    values: Values,
    names: Sequence[str],
    written: frozenset[str] = frozenset(),
    most: int = ARENA_BYTES,
    place: Any = HOST,
) -> LaunchList | None:
    """Records the launches of a call; None if they are no launch list.

    Parameters
    ----------
    launch : callable
        Launches the kernels on arguments and results by name.
    values : dict of str
        Arguments and results of a call.
    names : sequence of str
        Those that are arrays.
    written : frozenset of str
        Arguments that the call updates.
    most : int
        The bytes that the list may keep. More memory between launches is allocated in every run.
    place : Place
        Where the arrays lie.

    Examples
    --------
    >>> import pypto as pto
    >>> @pto.jit
    ... def double(x, y):
    ...     y[:] = x[:] * 2
    >>> x, y = np.zeros((2, 4), np.float32)
    >>> print(recorded(lambda v: double[1](v["x"], v["y"]), {"x": x, "y": y}, ["x", "y"]))
    input x: f32[4]
    input y: f32[4]
    arena 0 bytes on cpu
    double[1, 1, 1](x=x, y=y)
    """
    recording = Recording()
    arrays = {name: RecordedArray(recording, name, laid_out(values[name])) for name in names}
    try:
        with mode(watch=recording.launched):
            launch({**values, **arrays})
    except FAILED:
        return None
    inputs = tuple(buffer_of(name, values[name]) for name in names)
    return recording.launches(inputs, min(ARENA_BYTES, most), written, place)


def buffer_of(name: str, array: Any) -> Buffer:
    """Returns an argument or a result as a launch list describes it."""
    info = array_info(array, "", name)
    assert info is not None
    return Buffer(name, info.shape, info.dtype)


def laid_out(array: Any) -> np.ndarray[Any, Any]:
    """Returns an array of the host with the layout of another, whose elements nobody reads."""
    like: np.ndarray[Any, Any] = array if isinstance(array, np.ndarray) else array.like()
    return like


@dataclass(slots=True)
class Numbers:
    """The numbers of calls that no key contains, as bytes that are equal where all bits are.

    Examples
    --------
    >>> numbers = Numbers(("scale", "n"), {"scale": 0.0, "n": 3})
    >>> numbers.of({"scale": 0.0, "n": 3}) == numbers.of({"scale": -0.0, "n": 3})
    False
    """

    names: tuple[str, ...]
    pack: Callable[..., bytes]

    def __init__(self, names: Sequence[str], values: Mapping[str, Any]) -> None:
        self.names = tuple(names)
        self.pack = struct.Struct("".join("d" if isinstance(values[name], float) else "q" for name in names)).pack

    def of(self, values: Mapping[str, Any]) -> bytes:
        """Returns the numbers of a call; integers of more than 64 bits are none."""
        try:
            return self.pack(*[values[name] for name in self.names])
        except struct.error:
            return b""


@dataclass(slots=True)
class RecordedCall:
    """The launch list of a checked call; each running call has one that is bound to memory of its own.

    Parameters
    ----------
    launches : LaunchList
    names : tuple of str
        Its arrays.
    numbers : Numbers
    given : bytes
        The numbers of the recorded call.
    check : callable
        Refuses updated arrays that overlap each other, before they are written.
    """

    launches: LaunchList
    names: tuple[str, ...]
    numbers: Numbers
    given: bytes
    check: Callable[[Values], None]
    idle: list[BoundLaunches] = field(default_factory=list)
    bound: int = 0

    def replay(self, values: dict[str, Any]) -> bool:
        """Makes all launches on arguments and results; False if nothing was done, and they are to be made one by one.

        That is so if the numbers are others, or updated arrays overlap others.
        """
        if self.numbers.names and self.numbers.of(values) != self.given:
            return False
        bound = self.free_list()
        if bound is None:
            return False
        if bound.sections and self.launches.memory is HOST:
            is_done = bound.replay([values[name] for name in self.names])
        else:  # its first runs, and all on a device
            self.check(values)
            bound.run([values[name] for name in self.names])
            is_done = True
        self.idle.append(bound)
        return is_done

    def free_list(self) -> BoundLaunches | None:
        """Returns the list on memory that no running call uses; None if too many calls run at the same time."""
        try:
            while (bound := self.idle.pop()).is_lost:
                self.bound -= 1
            return bound
        except IndexError:
            if self.bound >= MOST:
                return None
        self.bound += 1
        return BoundLaunches(self.launches)
