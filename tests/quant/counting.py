"""How many kernels fused functions have compiled, for tests that a call compiles nothing."""

from __future__ import annotations

from typing import Any

from pypto.graph.tracing.launches import launch_of


def compiled(*functions: Any) -> int:
    """Counts the versions of the kernels in the plans of fused functions."""
    steps = [step for function in functions for version in function.versions for step in version.plan.steps]
    launches = [launch_of(step.nodes[-1]) for step in steps]
    kernels = {step.kernel.kernel for step in steps if step.kernel} | {x.kernel for x in launches if x}
    return sum(len(kernel.specializations) for kernel in kernels)
