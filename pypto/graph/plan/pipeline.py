"""The pass list of the plan: from the groups of a graph to steps over one arena of memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from pypto.graph.codegen.best_configurations import Choice
from pypto.graph.codegen.kernel_text import texts_of
from pypto.graph.codegen.kernels import full_source, kernel_of
from pypto.graph.codegen.scatter import FORM as SCATTER
from pypto.graph.codegen.scatter import has_kernel, scatter_text
from pypto.graph.codegen.writer import KernelText
from pypto.graph.ir.node import Node, base_of
from pypto.graph.plan.horizontal_fusion import MOST_GROWTH, SMALL_ARENA, WINDOWS, Waves, alone, waves_of
from pypto.graph.plan.plan import Plan, planned
from pypto.graph.plan.schedule import PlanKernel, Step
from pypto.graph.plan.step_order import steps_of
from pypto.graph.schedule.group import Group
from pypto.graph.schedule.partition import Partition
from pypto.passes.manager import DISABLE, Pass, run_unverified

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class PlanContext:
    """The inputs of the passes of the plan.

    Parameters
    ----------
    fixed : mapping from Node to ndarray
        Constant arrays from outside of the function.
    precision : str
    choose : callable, optional
        Replaces the kernel of a group by an equivalent tuned kernel.
    threads : int
    disabled : tuple of str
        The passes that are switched off.
    """

    fixed: dict[Node, Array]
    precision: str
    choose: Choice | None
    threads: int
    disabled: tuple[str, ...] = ()

    @property
    def in_place(self) -> bool:
        """Whether steps may write results to the memory of operands."""
        return IN_PLACE.name not in self.disabled


def order_steps(parts: Partition, context: PlanContext) -> Partition:
    """Order the groups and the assemblies between them, so that each runs after its operands."""
    return replace(parts, groups=steps_of(parts.graph, parts))


def make_steps(parts: Partition, context: PlanContext) -> Plan:
    """Make a step for each group, with its kernel."""
    texts = texts_of(parts, context.precision)
    if context.choose is not None:
        pairs = zip(parts.groups, texts, strict=True)
        texts = [t if g.program is None or t is None else context.choose(g.program, t) for g, t in pairs]
    stored = {n for g in parts.groups if g.program for n in g.program.space.outputs}
    reasons: dict[Node, dict[str, None]] = {}
    for refused in (r for r in parts.refused if r.producer in stored):
        reasons.setdefault(refused.producer, {})[refused.reason] = None
    steps = [make_step(g, t, stored) for g, t in zip(parts.groups, texts, strict=True)]
    explained = {n: tuple(why) for n, why in reasons.items()}
    return planned(parts.graph, alone(steps), context.fixed, explained, parts.programs.layouts.updates, False)


def update_in_place(plan: Plan, context: PlanContext) -> Plan:
    """Update arrays in place, for steps in sequential order."""
    return planned(plan.graph, Waves(plan.steps, plan.waves), plan.fixed, plan.reasons, plan.updates)


def overlap_steps(serial: Plan, context: PlanContext) -> Plan:
    """Let independent steps overlap if the arena grows little; otherwise return the plan unchanged."""
    for window in WINDOWS:
        waves = waves_of(serial.steps, context.threads, window)
        if all(waves.sizes):
            return serial
        plan = planned(serial.graph, waves, serial.fixed, serial.reasons, serial.updates, context.in_place)
        if plan.arena_bytes <= max(SMALL_ARENA, MOST_GROWTH * serial.arena_bytes):
            return plan
    return serial


def make_step(group: Group, text: KernelText | None, stored: set[Node]) -> Step:
    node = group.nodes[-1]
    if text is None and has_kernel(node):
        text = scatter_text(node)
    if text is None:
        reads = dict.fromkeys(base_of(x, stored) for x in node.inputs)
        return Step(tuple(group.nodes), tuple(reads), tuple(group.nodes))
    source = full_source(text)
    function = kernel_of(source, text.name, text.sized, text.blocking)
    kernel = PlanKernel(text.name, source, text.form, function, text.sized, text.blocking)
    operands = node.inputs if text.form == SCATTER else (a.node for a in text.arguments if not a.is_output)
    reads = dict.fromkeys(base_of(x, stored) for x in operands)
    writes = tuple(a.node for a in text.arguments if a.is_output)
    return Step(tuple(group.nodes), tuple(reads), writes, kernel, text.arguments, text.grid, text.accesses)


IN_PLACE: Final = Pass("in_place", update_in_place, "after kernels, which record what they access", optional=True)
# The first two take groups, the others a plan.
PLAN: Final = (
    Pass("step_order", order_steps, "first: steps are made in the order in which they run"),
    Pass("kernels", make_steps, "after step_order: a step knows which arrays are in memory"),
    IN_PLACE,
    Pass("horizontal_fusion", overlap_steps, "last: it compares the arenas of whole plans", optional=True),
)  # fmt: skip


def make_plan(parts: Partition, context: PlanContext) -> Plan:
    """Run all passes that are not switched off, and return the plan of a partition."""
    plan: Plan = run_unverified(parts, PLAN, context, attrs={DISABLE: context.disabled})
    return plan
