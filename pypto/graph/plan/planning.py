"""Planning: loads the plan of a traced function from the disk cache, or makes it by all passes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pypto.errors.graph import NoKernel
from pypto.graph.codegen.best_configurations import stored_choice
from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import Graph, Node
from pypto.graph.ir.strides import contiguous
from pypto.graph.plan.pipeline import PlanContext, make_plan
from pypto.graph.plan.plan import Plan
from pypto.graph.plan.store import key_of_plan, load_plan, store_plan
from pypto.graph.schedule.layout import Layouts
from pypto.graph.schedule.partition import Context, Partition
from pypto.graph.schedule.pipeline import scheduled
from pypto.graph.tracing.trace import Traced
from pypto.passes.manager import is_observed
from pypto.process import get_num_threads

Array = np.ndarray[Any, Any]
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
    key = None if is_observed() else key_of_plan(graph, layouts, precision, disabled)
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


def groups_of(graph: Graph, layouts: Layouts, disabled: Names = ()) -> Partition:
    """Partition a graph into groups that all have a kernel.

    Raises
    ------
    NoKernel
        At the line of an operation without a kernel.
    """
    parts = scheduled(graph, Context(layouts, get_num_threads(), disabled))
    for group in parts.groups:
        if group.problem:
            node = group.nodes[-1]
            raise NoKernel(node.loc, op=node.op, type=node.type, problem=group.problem)
    return parts


def strides_in(node: Node, array: Array) -> tuple[int, ...]:
    """Return the strides of an input in elements; an input with named dimensions is in C order."""
    if all(map(is_fixed, node.shape)):
        return tuple(s // max(1, array.itemsize) for s in array.strides)
    return contiguous(node.shape)
