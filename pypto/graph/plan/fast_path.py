"""The fast path of a fused function: calls that replay the launches of a plan, and leave all else out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pypto.graph.plan.argument_flattening import CallReader
from pypto.graph.plan.execution_context import Frame
from pypto.runtime.launches import are_apart

Array = np.ndarray[Any, Any]
NOT_REPLAYED = object()


class FastPath:
    """Calls of a fused function that need of Python nothing but memory for results.

    Parameters
    ----------
    frames : mapping from tuple of int to list of Frame
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

    __slots__ = ("constants", "fill", "frames", "places", "reader")

    def __init__(
        self,
        frames: Mapping[tuple[int, ...], list[Frame]],
        places: Sequence[tuple[int, int]],
        fill: Callable[..., Any] | None,
        reader: CallReader | None = None,
        constants: Sequence[Array] | None = None,
    ) -> None:
        self.frames = frames
        self.places = places
        self.fill = fill
        self.reader = reader
        self.constants = constants

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result, or NOT_REPLAYED where nothing was done."""
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
            frames = self.frames[tuple([args[n].shape[axis] for n, axis in self.places])]
            frame = frames.pop()
        except (LookupError, AttributeError, TypeError):
            return NOT_REPLAYED
        results = NOT_REPLAYED if frame.native is None else self.replayed(frame, arrays, out)
        frames.append(frame)
        return results

    def replayed(self, frame: Frame, arrays: Sequence[Any], out: Any) -> Any:
        """The result of all launches in one native call."""
        at = -1
        if out is not None:
            if not self.fits(frame, arrays, out):
                return NOT_REPLAYED
            at = frame.picked[0]
        results = [out if n == at else np.empty(shape, dtype) for n, (_, shape, dtype) in enumerate(frame.results)]
        if frame.native.run(*arrays, *results) is not None:
            frame.native.restart()
            return NOT_REPLAYED
        if self.fill is None:
            return results[frame.picked[0]]
        return self.fill(outputs=[results[n] for n in frame.picked], sizes=frame.sizes)

    def fits(self, frame: Frame, arrays: Sequence[Any], out: Any) -> bool:
        """Whether the result can be made in an array as it is."""
        _, shape, dtype = frame.results[frame.picked[0]]
        if type(out) is not np.ndarray or out.shape != shape or out.dtype != dtype:
            return False
        flags = out.flags
        if not (flags.c_contiguous and flags.writeable and flags.aligned):
            return False
        for array in arrays:
            if np.may_share_memory(out, array):
                return False
        return not self.constants or are_apart((out,), self.constants)
