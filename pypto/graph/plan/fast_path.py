"""The fast path of a fused function: replays the launches of a plan in one native call, to save Python time."""

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
    """Replays calls for which Python only has to allocate the results.

    Parameters
    ----------
    frames : mapping from tuple of int to list of Frame
        The unused execution contexts of the plan, by the sizes of named dimensions.
    places : sequence of (int, int)
        For each of these sizes the argument and the axis that have it.
    fill : callable, optional
        Builds the function's result from the outputs; without it, the result is the only output.
    reader : callable, optional
        Returns the arrays of a call, from positional and named arguments and from outside; without it, all arguments
        are positional arrays, and the function reads nothing from outside.
    kept : sequence of ndarray, optional
        Arrays from outside of the function that an `out` may not overlap; None if calls take no `out`.
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
            frames = self.frames[tuple([args[n].shape[axis] for n, axis in self.places])]
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
        if frame.native.run(*arrays, *results) is not None:
            frame.native.restart()
            return NOT_REPLAYED
        if self.fill is None:
            return results[frame.picked[0]]
        return self.fill(outputs=[results[n] for n in frame.picked], sizes=frame.sizes)

    def fits(self, frame: Frame, arrays: Sequence[Any], out: Any) -> bool:
        """Whether the launches can write the result directly to an array."""
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
