"""The pipeline of fused functions: all passes from a traced function to its plan, and the text after each pass.

There are three pass lists: rewriting (`rewrite.pipeline`), the schedule (`schedule.pipeline`) and the plan
(`plan.pipeline`). Their data are a graph, a partition into groups, and a plan, each of which has a text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from pypto.compile import check_disabled
from pypto.errors import OptionError
from pypto.graph.ir.node import Graph
from pypto.graph.ir.node import text as graph_text
from pypto.graph.plan.pipeline import PLAN
from pypto.graph.plan.plan_text import steps_text
from pypto.graph.rewrite import pipeline as rewriting
from pypto.graph.schedule.fusion import Partition
from pypto.graph.schedule.pipeline import SCHEDULE, TECHNIQUES
from pypto.graph.schedule.printer import schedule_text
from pypto.options import suggestion
from pypto.passes.manager import Pass, observed

LEVELS: Final = ("traced", "graph", "schedule", "plan")


def passes() -> dict[str, Pass]:
    """Return all passes of fused functions by name, in order, with the techniques within them."""
    return {row.name: row for row in (*rewriting.REWRITES, *SCHEDULE, *PLAN, *TECHNIQUES)}


def check_names(names: Sequence[str]) -> None:
    """Refuse names of unknown passes, and of passes that correct code needs.

    Raises
    ------
    WrongPass
    """
    if names:
        check_disabled(names, passes(), "pto.fuse")


def print_ir(ir: Any) -> str:
    """Print the input or output of a pass."""
    if isinstance(ir, Graph):
        return graph_text(ir)
    return schedule_text(ir) if isinstance(ir, Partition) else steps_text(ir)


def logged(name: str) -> AbstractContextManager[None]:
    """Log the passes of a fused function that change something."""
    from pypto.debug.passes import PassLog

    return observed(PassLog(name, print_ir))


def emitted(what: str, plan: Callable[[], object]) -> str:
    """Make a plan, and return one of its levels, or the output of a pass, as text.

    Raises
    ------
    OptionError
        When the level or pass does not exist, or the pass does not run for this function.
    """
    from pypto.debug.passes import AFTER

    name = what.removeprefix(AFTER)
    rows = [row.name for row in passes().values() if row.run is not None]
    known = rows if what.startswith(AFTER) else list(LEVELS)
    if name not in known:
        kind = "pass that gives a text" if what.startswith(AFTER) else "level"
        raise OptionError(f"`{what}` names no {kind}{suggestion(name, known)}; there are {', '.join(known)}")
    texts: dict[str, str] = {}

    known_passes = passes()

    def observer(step: Pass, before: Any, after: Any) -> None:
        if known_passes.get(step.name) is not step:
            return  # of a kernel that the trace compiles
        if isinstance(before, Graph):
            texts["graph"] = print_ir(before)
            texts.setdefault("traced", texts["graph"])
        texts[step.name] = print_ir(after)
        level = "graph" if isinstance(after, Graph) else "schedule" if isinstance(after, Partition) else "plan"
        if step.name != "step_order":
            texts[level] = texts[step.name]

    with observed(observer):
        plan()
    if name not in texts:
        raise OptionError(f"`{what}`: the pass does not run for this function")
    return texts[name]
