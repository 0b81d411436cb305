"""Ahead-of-time compilation of a plan's kernels, in parallel, before its first step runs.

Kernels with named dimensions are compiled for the hints of the dimensions instead of the first sizes, because an array
with one row or one column has strides with special facts that hold for no other size.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from pypto.graph.ir.dims import is_fixed, value_of
from pypto.graph.plan.execution_context import Frame, seen
from pypto.graph.plan.schedule import Schedule, Step
from pypto.jit import Kernel
from pypto.process import get_num_threads
from pypto.runtime.mode import MODE, PLAIN
from pypto.runtime.specialization import Specialization

Array = np.ndarray[Any, Any]


def compile_ahead(plan: Schedule, arrays: Sequence[Array]) -> dict[Kernel, Specialization] | None:
    """Compile the kernels of a plan for arrays like these; return None if they must be compiled at launch.

    That is so on a device, in the interpreter and under checks, and if arrays of the hinted sizes do not fit into
    memory, because those of the call may be small.
    """
    kernels = list(dict.fromkeys(s.kernel.kernel for s in plan.steps if s.kernel is not None))
    if MODE.get() is not PLAIN or any(any(k.modes) for k in kernels):
        return None
    if not kernels:
        return {}
    if kernels[0].compiler.session().devices.default is not None:
        return None
    try:
        jobs = list(launches(plan, arrays).items())
    except MemoryError:
        return None
    with ThreadPoolExecutor(min(len(jobs), get_num_threads())) as pool:
        versions = list(pool.map(lambda job: job[0].compile(*job[1]), jobs))
    return dict(zip((kernel for kernel, _ in jobs), versions, strict=True))


def launches(plan: Schedule, arrays: Sequence[Array]) -> dict[Kernel, list[Array]]:
    """Return the arguments for which each kernel is compiled."""
    frame = Frame(plan, len(arrays), plan.hints)
    for node, array in zip(plan.graph.inputs, arrays, strict=False):
        is_given = all(map(is_fixed, node.shape))
        frame.arrays[node] = array if is_given else np.empty(value_of(node.shape, plan.hints), array.dtype)
    frame.make_results()
    launches: dict[Kernel, list[Array]] = {}
    for step in sorted(plan.steps, key=partial(writes_apart, plan)):
        if step.kernel is not None and step.kernel.kernel not in launches:
            launches[step.kernel.kernel] = [seen(frame, a) for a in step.arguments]
    return launches


def writes_apart(plan: Schedule, step: Step) -> bool:
    """Whether a step writes no array that it reads; a kernel compiled for in-place arguments serves all steps."""
    read = {plan.buffer_aliases.get(x, x) for x in step.reads}
    return not any(plan.buffer_aliases.get(x, x) in read for x in step.writes)
