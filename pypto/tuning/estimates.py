"""Estimated times rank the configurations of Triton kernels, whose lists are for GPUs, before any is compiled.

Most of such a list is far too large for a CPU, or has blocks that are mostly padding. The backend's cost of a program,
times the number of programs, tells these apart: it counts vector instructions of the Tile IR, which takes a fraction of
the time of a compilation. For the estimate, integers among the arguments count as constants, so that loops have known
trip counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pypto.arguments import describe, launched_kernel
from pypto.errors import PyptoError
from pypto.ops.public import constexpr
from pypto.runtime.collection import without_collection
from pypto.tuning.grids import sizes
from pypto.tuning.launching import Launchable, call_by_name

if TYPE_CHECKING:
    from pypto.tuning.search import Outcome

MOST: Final = 2  # candidates that are compiled and run, of those with the shortest estimates
_SHORT: Final = 4  # candidates of a list that is tried as it is


@without_collection()
def ranked_by_estimates(
    fn: Launchable, outcomes: Sequence[Outcome], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[Outcome] | None:
    """Return candidates in the order of their estimated times, or None for a short list or where nothing is known.

    What has no estimate comes last.
    """
    if len(outcomes) <= _SHORT:
        return None
    times = [estimated(fn, args, {**kwargs, **outcome.config.all_kwargs()}) for outcome in outcomes]
    order = sorted(range(len(outcomes)), key=lambda n: times[n])
    return [outcomes[n] for n in order] if min(times) < math.inf else None


def estimated(fn: Launchable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
    """Return the estimated nanoseconds of a launch with one configuration; infinity where nothing is known of it."""
    from pypto.compile import session
    from pypto.jit.specialize import build

    while hasattr(fn, "completed"):
        fn, kwargs = fn.fn, fn.completed(args, kwargs)
    kernel, programs = launched_kernel(fn), sizes(kwargs.get("grid"), call_by_name(fn.arg_names, args, kwargs))
    if programs is None:
        return math.inf
    try:
        values = kernel.signature.bind(args, {name: x for name, x in kwargs.items() if name in fn.arg_names})
        infos, specs = describe(kernel.signature, tuple(constexpr(x) if type(x) is int else x for x in values))
        built, _ = build(kernel, infos, specs, frozenset(), {})
        cost = session().backend(kernel.options).estimate(built.function)
    except PyptoError:  # a compilation says what is wrong, or finds nothing wrong with what is no constant there
        return math.inf
    return math.inf if cost is None else math.prod(programs) * float(cost)
