"""The fast path of a fused function: replays the launches of a plan in one native call, to save Python time.

Argument flattening collects the arrays in arguments of a known structure, in the order of the inputs of a plan. A
reader is built for the arguments of one call. It checks the containers, names and constants that a plan depends on. The
facts about arrays are checked later, at the launch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, index
from typing import Any

import numpy as np

from pypto.graph.capture.guards import is_array, is_number, is_plain
from pypto.graph.exchange.libraries import library_name
from pypto.graph.ir.node import key_of
from pypto.graph.plan.execution_context import Frame
from pypto.graph.tracing.arguments import children
from pypto.runtime.launches import are_apart

Reader = Callable[[Any, "Taken"], bool]  # adds the arrays of a tree to a list; whether the tree has the form
CallReader = Callable[[tuple[Any, ...], dict[str, Any]], list[Any] | None]


class Taken(list[Any]):
    """The arrays of a call, and its other leaves that the reader does not compare, such as numbers."""

    __slots__ = ("others",)

    def __init__(self) -> None:
        super().__init__()
        self.others: list[Any] = []


def reader_of_call(
    args: tuple[Any, ...], kwargs: dict[str, Any], more: Callable[[Taken], list[Any] | None] | None = None
) -> CallReader:
    """Build a function that returns the arrays of matching arguments, then those of `more`; None on a mismatch."""
    count, readers = len(args), [reader_of(x) for x in args]
    named = reader_of(kwargs) if kwargs else None

    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any] | None:
        leaves = Taken()
        if len(args) != count or (named is None) is not (not kwargs):
            return None
        for reader, x in zip(readers, args, strict=True):
            if not reader(x, leaves):
                return None
        if named is not None and not named(kwargs, leaves):
            return None
        if more is None:
            return leaves
        arrays = more(leaves)
        return None if arrays is None else [*leaves, *arrays]

    return read


def reader_of(tree: Any) -> Reader:
    """Build the reader of trees with the structure of this tree.

    Examples
    --------
    >>> import numpy as np
    >>> x, found = np.ones(2), Taken()
    >>> read = reader_of({"x": x, "mode": "same", "n": 3})
    >>> read({"x": x, "mode": "same", "n": 4}, found), found[0] is x, found.others
    (True, True, [4])
    >>> read({"x": x, "mode": "full", "n": 3}, Taken())
    False
    """
    if is_any_array(tree):
        return added
    items = children(tree)
    if items is None:
        return reader_of_constant(tree)
    values = [x for _, x in items[1]]
    if values and all(map(is_any_array, values)):
        return reader_of_arrays(tree, tuple(name for name, _ in items[1]))
    return reader_of_container(tree, tuple(name for name, _ in items[1]), [reader_of(x) for x in values])


def is_any_array(value: Any) -> bool:
    """Whether a value is an array of numpy, or of another library."""
    return is_array(value) or bool(library_name(value))


def added(array: Any, into: Taken) -> bool:
    into.append(array)
    return True


def noted(value: Any, into: Taken) -> bool:
    into.others.append(value)
    return True


def reader_of_constant(value: Any) -> Reader:
    if not is_plain(value) or is_number(value):
        return noted
    key = key_of(value)
    return lambda x, into: x is value or key_of(x) == key


def reader_of_arrays(tree: Any, names: tuple[str, ...]) -> Reader:
    """Build the reader of a container that holds only arrays."""
    kind, count = type(tree), len(names)
    if isinstance(tree, dict):
        keys = list(tree)

        def of_dict(x: Any, into: Taken) -> bool:
            if type(x) is not kind or list(x) != keys:
                return False
            into += x.values()
            return True

        return of_dict
    if isinstance(tree, tuple | list):

        def of_sequence(x: Any, into: Taken) -> bool:
            if type(x) is not kind or len(x) != count:
                return False
            into += x
            return True

        return of_sequence

    fields = attrgetter(*names, names[0])  # of two names at least it gives a tuple

    def of_fields(x: Any, into: Taken) -> bool:
        if type(x) is not kind:
            return False
        into += fields(x)[:-1]
        return True

    return of_fields


def reader_of_container(tree: Any, names: tuple[str, ...], readers: list[Reader]) -> Reader:
    """Build the reader of a container that holds other values than arrays, too."""
    kind, count = type(tree), len(names)
    keys = tuple(tree) if isinstance(tree, dict) else ()
    is_sequence = isinstance(tree, tuple | list)

    def read(x: Any, into: Taken) -> bool:
        if type(x) is not kind:
            return False
        if is_sequence:
            if len(x) != count:
                return False
            values: Any = x
        elif isinstance(x, dict):
            if tuple(x) != keys:
                return False
            values = x.values()
        else:
            values = [getattr(x, name) for name in names]
        return all(reader(value, into) for reader, value in zip(readers, values, strict=True))

    return read


Array = np.ndarray[Any, Any]
NOT_REPLAYED = object()


@dataclass(eq=False, slots=True)
class FastPath:
    """Replays calls for which Python only has to allocate the results.

    Parameters
    ----------
    frames : mapping from tuple of int to list of Frame
        The unused execution contexts of the plan, by the sizes of named dimensions.
    places : sequence of (int, int or None)
        For each of these sizes the array of the call and the axis that have it, or the argument that is it, and None.
    fill : callable, optional
        Builds the function's result from the outputs; without it, the result is the only output.
    reader : callable, optional
        Returns the arrays of a call, from positional and named arguments and from outside; without it, all arguments
        are positional arrays, and the function reads nothing from outside.
    constants : sequence of ndarray, optional
        Arrays from outside of the function that an `out` may not overlap; None if calls take no `out`.
    donated : tuple of int
        The inputs whose memory becomes results.
    """

    frames: Mapping[tuple[Any, ...], list[Frame]]
    places: Sequence[tuple[int, int | None]]
    fill: Callable[..., Any] | None
    reader: CallReader | None = None
    constants: Sequence[Array] | None = None
    donated: tuple[int, ...] = ()

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result, or NOT_REPLAYED if the call does not fit and nothing ran."""
        out: Any = None
        arrays: Sequence[Any] = args
        if kwargs and self.constants is not None and "out" in kwargs:
            kwargs = kwargs.copy()
            out = kwargs.pop("out")
        if kwargs or self.reader is not None:
            leaves = None if self.reader is None else self.reader(args, kwargs)
            if leaves is None:
                return NOT_REPLAYED
            arrays = leaves
        try:
            sizes = [index(args[n]) if axis is None else arrays[n].shape[axis] for n, axis in self.places]
            if self.donated:
                if out is not None or not all(arrays[n].flags.writeable for n in self.donated):
                    return NOT_REPLAYED
                sizes.append(self.donated)
            frames = self.frames[tuple(sizes)]
            frame = frames.pop()
        except (LookupError, AttributeError, TypeError):
            return NOT_REPLAYED
        results = NOT_REPLAYED if frame.native is None else self.replayed(frame, arrays, out)
        frames.append(frame)
        return results

    def replayed(self, frame: Frame, arrays: Sequence[Any], out: Any) -> Any:
        """Run all launches in one native call, and return the result."""
        at = -1
        if out is not None:
            if not self.fits(frame, arrays, out):
                return NOT_REPLAYED
            at = frame.picked[0]
        results = [out if n == at else np.empty(shape, dtype) for n, (_, shape, dtype) in enumerate(frame.results)]
        left = frame.native.run(*arrays, *results)
        if left is not None and (left < 1 or not self.donated):
            frame.native.restart()
            return NOT_REPLAYED
        if left is not None:  # memory of the call has been written
            frame.resume(arrays, results, left)
        if self.donated:
            results += arrays
        if self.fill is not None:
            return self.fill(outputs=frame.outputs_of(results), sizes=frame.sizes)
        return frame.outputs_of(results)[0] if frame.views else results[frame.picked[0]]

    def fits(self, frame: Frame, arrays: Sequence[Any], out: Any) -> bool:
        """Whether the launches can write the result directly to an array."""
        _, shape, dtype = frame.results[frame.picked[0]]
        if frame.views or type(out) is not np.ndarray or out.shape != shape or out.dtype != dtype:
            return False
        flags = out.flags
        if not (flags.c_contiguous and flags.writeable and flags.aligned):
            return False
        for array in arrays:
            if np.may_share_memory(out, array):
                return False
        return not self.constants or are_apart((out,), self.constants)
