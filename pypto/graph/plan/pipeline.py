"""The pass list of the plan: from the groups of a graph to steps over one arena of memory.

`plan_of` loads the plan of a traced function from the disk cache, or makes it by all passes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pypto.compile import session
from pypto.errors.graph import NoKernel
from pypto.graph.codegen.best_configurations import Choice, stored_choice
from pypto.graph.codegen.kernel_text import texts_of
from pypto.graph.codegen.scatter import FORM as SCATTER
from pypto.graph.codegen.scatter import has_kernel, scatter_text
from pypto.graph.codegen.writer import KernelText, full_source
from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import Graph, Node, base_of
from pypto.graph.ir.types import contiguous
from pypto.graph.plan.plan import Plan, planned
from pypto.graph.plan.schedule import MOST_GROWTH, SMALL_ARENA, WINDOWS, PlanKernel, Step, Waves, alone, waves_of
from pypto.graph.plan.store import key_of_plan, load_plan, store_plan
from pypto.graph.schedule.fusion import Context, Partition, is_assembled
from pypto.graph.schedule.group import Group, Layouts, Unit
from pypto.graph.schedule.pipeline import scheduled
from pypto.graph.tracing.launches import launch_of
from pypto.graph.tracing.trace import Traced
from pypto.jit.generated import kernel_of
from pypto.passes.manager import DISABLE, Pass, is_observed, run_unverified
from pypto.process import get_num_threads


def steps_of(graph: Graph, parts: Partition) -> list[Group]:
    """Sort groups and assemblies so that each follows its operands."""
    owner: dict[Node, Group] = {n: g for g in reversed(parts.groups) for n in g.nodes}
    launches: dict[tuple[Any, ...], Group] = {}
    for node in graph.live():
        if is_assembled(node) and node not in owner:
            launch, group = launch_of(node), Group([], Unit(0))
            if launch is not None:  # the results of one launch of a kernel are one step
                group = launches.setdefault((launch, node.inputs), group)
            group.nodes.append(node)
            owner[node] = group
    done: dict[Group, None] = {}
    for node in graph.live():
        if node in owner and owner[node] not in done:
            visit(owner[node], owner, done)
    return list(done)


def visit(group: Group, owner: dict[Node, Group], done: dict[Group, None]) -> None:
    """Place a group after the groups that it reads; a stack replaces recursion, because graphs are deep."""
    stack = [(group, sources(group, owner))]
    entered = {group}
    while stack:
        current, pending = stack[-1]
        if current in done:
            stack.pop()
        elif pending:
            source = pending.pop()
            if source not in done and source not in entered:
                entered.add(source)
                stack.append((source, sources(source, owner)))
        else:
            done[current] = None
            stack.pop()


def sources(group: Group, owner: dict[Node, Group]) -> list[Group]:
    """Return the groups whose arrays a group reads."""
    groups: dict[Group, None] = {}
    stack = [x for n in group.nodes for x in n.inputs]
    seen = set(group.nodes)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in owner:
            groups[owner[node]] = None
        else:
            stack += node.inputs
    return list(groups)


if TYPE_CHECKING:
    from pypto.runtime.disk_cache.cache import CacheKey

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
    stored = {n for g in parts.groups for n in (g.program.space.outputs if g.program else g.nodes)}
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


Names = tuple[str, ...]  # of passes that are switched off


def surroundings_of(traced: Traced) -> tuple[Layouts, dict[Node, Array]]:
    """Return the memory layouts of a traced function's inputs, and its constant arrays from outside."""
    graph = traced.graph
    given = {x: strides_in(x, a) for x, a in zip(graph.inputs, traced.arrays, strict=True)}
    pairs = ((graph.inputs[number], graph.outputs[output]) for number, output in traced.updates)
    layouts = Layouts(given, {x: new for x, new in pairs if given[x] == contiguous(x.shape)})
    return layouts, dict(zip(graph.inputs[traced.given :], traced.arrays[traced.given :], strict=True))


def plan_of(graph: Graph, layouts: Layouts, fixed: dict[Node, Array], precision: str, disabled: Names = ()) -> Plan:
    """Load the plan of a graph from disk, or make it; a new plan is stored once its kernels are compiled."""
    key = None if is_observed() else key_on_disk(graph, layouts, precision, disabled)
    stored = None if key is None else load_plan(key, graph, fixed)
    if stored is not None:
        return stored
    parts = groups_of(graph, layouts, disabled)
    choose = None if key is None else stored_choice(precision)
    plan = make_plan(parts, PlanContext(fixed, precision, choose, get_num_threads(), disabled))
    if key is None:
        return plan
    plan.keep = partial(store_plan, key)
    return plan


def key_on_disk(graph: Graph, layouts: Layouts, precision: str, disabled: Names) -> CacheKey | None:
    """Return the key of a plan in the disk cache, or None where plans are not stored."""
    return None if session().settings.cache == "off" else key_of_plan(graph, layouts, precision, disabled)


def groups_of(graph: Graph, layouts: Layouts, disabled: Names = ()) -> Partition:
    """Partition a graph into groups that all have a kernel, but for movements, which numpy makes if no kernel can.

    Raises
    ------
    NoKernel
        At the line of an operation without a kernel.
    """
    parts = scheduled(graph, Context(layouts, get_num_threads(), disabled))
    for group in parts.groups:
        if group.problem and not all(node.is_movement for node in group.nodes):
            node = group.nodes[-1]
            raise NoKernel(node.loc, op=node.op, type=node.type, problem=group.problem)
    return parts


def strides_in(node: Node, array: Array) -> tuple[int, ...]:
    """Return the strides of an input in elements; an input with named dimensions is in C order."""
    if all(map(is_fixed, node.shape)):
        return tuple(s // max(1, array.itemsize) for s in array.strides)
    return contiguous(node.shape)
