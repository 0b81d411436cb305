"""Bound calls: the launches of a call on arrays that stay the same, for programs that make the call many times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from pypto.graph.exchange.call import Call
from pypto.graph.ir.dims import Size, Sizes
from pypto.graph.plan.execution_context import Frame
from pypto.graph.plan.outputs import check_updates
from pypto.graph.plan.plan import Donated, Plan
from pypto.graph.tracing.arguments import mapped
from pypto.graph.tracing.launches import launch_of
from pypto.graph.tracing.trace import Slot, Traced
from pypto.runtime.arena import ArrayRef
from pypto.runtime.launches import BoundLaunches, LaunchList, LaunchStep

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A call whose arrays are bound: it reads them where they lie, and writes its results to memory that stays.

    Parameters
    ----------
    result : Any
        The result of the function, whose arrays every run overwrites.
    launches : LaunchList
        The steps, which may be joined with those of other calls to one list.
    """

    result: Any
    launches: LaunchList
    bound: BoundLaunches = field(repr=False)

    def run(self) -> Any:
        """Make the call, from the second time on without Python between launches; return the result."""
        self.bound.run()
        return self.result


def bound_call(
    plan: Plan, traced: Traced, arrays: Sequence[Array], sizes: Sizes, donated: Donated, call: Call
) -> BoundCall:
    """Bind the steps of a plan to arrays; `donated` maps results to the inputs whose memory they are made in.

    Raises
    ------
    WrongOut
        When an argument that the function updates is read-only, or overlaps another one.
    """
    check_updates(plan, traced, arrays)
    plan.compile(arrays)
    owners = {result: plan.graph.inputs[number] for result, number in donated.items()}
    frame = Frame(plan, len(arrays), dict(sizes), call.memory, owners)
    frame.enter(arrays)
    outputs = [frame.view(node) for node in plan.graph.outputs]
    steps = [on_arrays(step, frame) for step in frame.launches.steps]
    if any(node.is_call and launch_of(node) is None for step in plan.steps for node in step.nodes):
        steps.insert(0, LaunchStep(None, host=frame.called.clear))  # functions run again in every call
    copies = [(arrays[number], outputs[output]) for number, output in traced.updates]
    steps += [LaunchStep(None, host=partial(np.copyto, to, array)) for to, array in copies if to is not array]
    written = [*(array for array, _ in copies), *outputs]
    if call.library is not None:
        steps.append(LaunchStep(None, host=partial(call.note_writes, written)))
    launches = LaunchList(tuple(steps))

    def result(_: str, leaf: Any) -> Any:
        return (
            call.leave(outputs[leaf.number])
            if isinstance(leaf, Slot)
            else leaf.at(sizes)
            if isinstance(leaf, Size)
            else leaf
        )

    return BoundCall(mapped(traced.result, result), launches, launches.bind())


def on_arrays(step: LaunchStep, frame: Frame) -> LaunchStep:
    """Return a step with the arrays that it is launched on in place of their keys."""
    given = {name: x.seen(frame.arrays) if isinstance(x, ArrayRef) else x for name, x in step.arguments.items()}
    return replace(step, arguments=given)
