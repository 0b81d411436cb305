"""Inspects the kernel of a step of a plan, for the arrays that the step passes to it."""

from __future__ import annotations

from typing import Any

from pypto.debug.inspection import Inspection
from pypto.graph.plan.execution_context import launches
from pypto.graph.plan.plan_cache import Planned


def inspected(
    fused: Planned, args: tuple[Any, ...], kwargs: dict[str, Any], number: int, target: str | None
) -> Inspection:
    """Returns the levels of the kernel of a step, from its source to its code."""
    version, arrays, _ = fused.version_for(args, kwargs)
    steps = version.plan.steps
    if not 0 <= number < len(steps):
        raise ValueError(f"there is no step {number}; the plan has {len(steps)}")
    kernel = steps[number].kernel
    if kernel is None:
        raise ValueError(f"step {number} has no kernel: numpy makes the array")
    given = launches(version.plan, arrays)[kernel.kernel]
    chip = {} if target is None else {"target": target}
    inspection: Inspection = kernel.kernel.inspect(*given, **chip)
    return inspection
