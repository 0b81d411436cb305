"""Calls on arrays of a device: the launches of a plan go to the device, and arrays between them lie in its memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from pypto.errors.launch import UnsupportedArgument
from pypto.graph.ir.dims import Sizes
from pypto.graph.plan.execution_context import Frame
from pypto.graph.plan.plan_cache import Version
from pypto.graph.tracing.arguments import filled, leaves, mapped, path_of, positional
from pypto.runtime.device_arrays import DeviceArray


def device_call(fused: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run a fused function on arrays of a device; its results lie there, and nothing is copied to the host.

    Raises
    ------
    UnsupportedArgument
        When another array is elsewhere, or a step runs on the host; the error names it.
    """
    arrays = {path: x for path, x in leaves((args, dict(kwargs))) if isinstance(x, DeviceArray | np.ndarray)}
    given = {path: x for path, x in arrays.items() if isinstance(x, DeviceArray)}
    place = next(iter(given.values())).device
    refuse = partial(refused, fused, next(iter(given)), place)
    if any(not isinstance(x, DeviceArray) or x.device is not place for x in arrays.values()):
        refuse("another array of the call is elsewhere", "move all of them there: `pto.to_device(x, …)`")
    hosts = {id(x): x.like() for x in given.values()}
    on_place = {id(hosts[id(x)]): x for x in given.values()}

    def on_host(_: str, x: Any) -> Any:
        return hosts[id(x)] if isinstance(x, DeviceArray) else x

    host_args, host_kwargs = mapped((args, dict(kwargs)), on_host)
    version, inputs, sizes = fused.version_for(host_args, host_kwargs)
    moved = [on_place[id(x)] if id(x) in on_place else place.array(x) for x in inputs]
    outputs = run(version, moved, sizes, place, refuse)
    return filled(version.traced.result, outputs, sizes)


def run(version: Version, arrays: Sequence[Any], sizes: Sizes, place: Any, refuse: Any) -> list[Any]:
    """Run a plan on a device; its execution contexts there are kept beside those of the host."""
    plan = version.plan
    frames = plan.frames_for((*sizes.values(), *place.stream))  # sizes alone are those of the host's frames
    frames[:] = [frame for frame in frames if not frame.is_lost]
    frame = frames.pop() if frames else Frame(plan, len(arrays), dict(sizes), place)
    for number, step in enumerate(frame.launches.steps):
        if step.host is not None:
            what = plan.steps[number].nodes[-1].op
            refuse(f"step {number} of the plan, `{what}`, runs on the host", "pass host arrays, or move that step out")
    for number, output in version.traced.updates:
        if plan.buffer_aliases.get(plan.graph.outputs[output]) is not plan.graph.inputs[number]:
            refuse("an argument is not updated in place", "return the new array, and update nothing")
    outputs = frame.run(arrays)
    frames.append(frame)
    return outputs


def refused(fused: Any, arg: str, place: Any, problem: str, way: str) -> None:
    """Refuse a call on arrays of a device, with the reason."""
    name = getattr(fused, "__name__", "the function")
    path = path_of(arg, positional(fused.function))
    raise UnsupportedArgument(kernel=name, arg=path, got=f"an array on the device {place}, and {problem}", way=way)
