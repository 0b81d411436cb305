"""The fast path of calls on arrays of another library, and the choice of the fast path of a call."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pypto.graph.capture.guards import Roots
from pypto.graph.exchange.call import Call
from pypto.graph.exchange.tensors import Torch, numpy_types, numpy_view, torch_type
from pypto.graph.ir.types import contiguous
from pypto.graph.plan.execution_context import Frame
from pypto.graph.plan.fast_path import NOT_REPLAYED, CallReader, FastPath, reader_of_call
from pypto.graph.plan.plan import Donated
from pypto.graph.plan.plan_cache import Version
from pypto.graph.tracing.arguments import filled, mapped
from pypto.graph.tracing.named_dims import places_of
from pypto.graph.tracing.trace import Slot

Array = np.ndarray[Any, Any]


class TensorPath(FastPath):
    """The fast path of calls on tensors of torch: native code reads the tensors themselves."""

    __slots__ = ()

    def replayed(self, frame: Frame, arrays: Sequence[Any], out: Any) -> Any:
        """Run all launches in one native call, and return the result."""
        if out is not None or sys.modules["torch"].autograd.forward_ad._current_level >= 0:
            return NOT_REPLAYED
        replay, makers = frame.replay_on_tensors(TensorReplay.of, arrays)
        if replay is None:
            return NOT_REPLAYED
        results = [make() for make in makers]
        if replay.run(*arrays, *results) is not None:
            replay.restart()
            return NOT_REPLAYED
        if not frame.views:
            if self.fill is None:
                return results[frame.picked[0]]
            return self.fill(outputs=[results[n] for n in frame.picked], sizes=frame.sizes)
        outputs = [Torch().leave(x) for x in frame.outputs_of([numpy_view(x, numpy_types()[x.dtype]) for x in results])]
        return outputs[0] if self.fill is None else self.fill(outputs=outputs, sizes=frame.sizes)


class TensorReplay(NamedTuple):
    """The native replay of a plan on tensors, and the functions that make its results; None without such a replay."""

    replay: Any
    results: tuple[Callable[[], Any], ...] = ()

    @staticmethod
    def of(frame: Frame, arrays: Sequence[Any]) -> TensorReplay:
        """Return the replay of an execution context for tensors like these."""
        make = allocator()
        rows = ((tuple(shape), torch_type(np.dtype(dtype))) for _, shape, dtype in frame.results)
        results = tuple(functools.partial(make, shape, contiguous(shape), dtype) for shape, dtype in rows)
        return TensorReplay(frame.native.on_tensors(arrays), results)


def allocator() -> Callable[..., Any]:
    """Return torch's function for a new tensor of a shape, strides and dtype: Inductor's, which has no dispatch."""
    torch = sys.modules["torch"]
    fast = getattr(getattr(getattr(torch._C, "_dynamo", None), "guards", None), "_empty_strided_cpu", None)
    return fast or (lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype))


def fast_path_for(
    fused: Any, version: Version, roots: Roots, args: tuple[Any, ...], kwargs: dict[str, Any], donated: Donated,
    call: Call,
) -> FastPath | None:  # fmt: skip
    """Return the fast path for calls like this one, or None if a result needs more than its memory."""
    reader: CallReader | None = None
    outside, function = version.traced.outside, roots.function
    places = places_of(fused._dims, fused._named, roots.arrays, args, kwargs) if fused._named else ()
    if call.library is not None and (call.name != "torch" or donated):
        return None
    arrays = roots.given or roots.arrays
    args, kwargs = mapped((args, kwargs), lambda _, x: call.originals.get(id(x), x)) if roots.given else (args, kwargs)
    if version.traced.updates or places is None or version.plan.has_host_steps:
        return None
    if kwargs or outside.rows or len(args) != len(arrays) or not all(map(operator.is_, args, arrays)):
        more = (lambda x: outside.read(Roots(function, x, x.others))) if outside.rows else None
        reader = reader_of_call(args, kwargs, more)
        if len(reader(args, kwargs) or ()) != len(arrays) + len(outside.given):
            return None  # an array is given twice
    plan, result = version.plan, version.traced.result
    alone = isinstance(result, Slot) and bool(plan.graph.outputs[result.number].shape)
    fill = None if alone else functools.partial(filled, result)
    constants = tuple(plan.fixed.values()) if alone and fused._gives_out else None
    if donated and plan.fixed:
        return None  # every call compares what it gives away with the arrays from outside
    if call.library is not None:
        return TensorPath(plan.frames, places, fill, reader)
    return FastPath(plan.frames, places, fill, reader, constants, tuple(donated.values()))
