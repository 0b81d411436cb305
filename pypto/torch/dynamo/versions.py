"""The plans of a compiled graph, one for each form of its arguments."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from pypto.errors.base import Diagnostic
from pypto.errors.graph import NoKernel
from pypto.graph.ir.dims import value_of
from pypto.graph.plan.foreign_path import TensorReplay
from pypto.graph.plan.pipeline import plan_of, surroundings_of
from pypto.graph.plan.plan import Plan
from pypto.graph.rewrite.pipeline import rewritten
from pypto.graph.tracing.trace import Traced
from pypto.graph.tune.tune import tuned_plan
from pypto.torch.aten.layout import inverse, memory_order
from pypto.torch.aten.row import NotLowered
from pypto.torch.dynamo.lowering import Lowered, TorchStep, lower
from pypto.torch.dynamo.memory import as_array, as_tensor
from pypto.torch.dynamo.sizes import Symbols
from pypto.torch.dynamo.steps import IndexCheck

torch: Any = importlib.import_module("torch")
Array = np.ndarray[Any, Any]
BUDGET: Final = 20.0  # seconds that the search for the sizes of tiles takes for a graph under "max-autotune"
_MOST: Final = 64  # ops of a graph that torch runs because their kernel cannot be written


@dataclass(frozen=True, slots=True)
class Version:
    """A plan for some layouts of the inputs.

    Parameters
    ----------
    plan : Plan or None
        Nothing where torch runs the whole graph.
    result : list
        A `Slot`, size or constant for each wanted result.
    orders : list
        How each result's dimensions are put back.
    steps : list of TorchStep
    guards : object or None
        The comparisons of sizes for which the plan is valid.
    checks : sequence of (int, int, IndexCheck)
        Tensors that hold indices, by number, with the sizes of the axes that they count along.
    """

    plan: Plan | None
    result: list[Any]
    orders: list[tuple[int, ...] | None]
    steps: list[TorchStep]
    guards: Any = None
    checks: Sequence[tuple[int, Any, IndexCheck]] = ()

    def serves(self, sizes: Mapping[str, int]) -> bool:
        return self.guards is None or bool(self.guards.hold(sizes))

    def dims(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return the sizes of the plan's named dimensions."""
        return {} if self.plan is None else {dim.name: sizes[dim.name] for dim in self.plan.graph.dims}

    def check(self, tensors: Sequence[Any], sizes: Mapping[str, int]) -> None:
        """Refuse indices outside of their axes, before anything runs.

        Raises
        ------
        IndexOutside
        """
        for number, size, check in self.checks:
            if tensors[number].numel():
                low, high = torch.aminmax(tensors[number])
                check.check(int(low), int(high), value_of(size, sizes))

    def replayed(self, tensors: Sequence[Any], dims: Mapping[str, int]) -> list[Any] | None:
        """Run the plan in one native call that reads the tensors itself, and return its outputs.

        The result is None where the plan has not run for these sizes yet, has steps of torch, or does not fit.
        """
        plan = self.plan
        if plan is None or plan.has_host_steps:
            return None
        frames = plan.frames.get((*dims.values(),))
        if not frames:
            return None
        try:
            frame = frames.pop()
        except IndexError:  # another thread has it
            return None
        try:
            if frame.native is None:
                return None
            replay, makers = frame.replay_on_tensors(TensorReplay.of, tensors)
            results = [make() for make in makers]
            if replay is None or replay.run(*tensors, *results) is not None:
                if replay is not None:
                    replay.restart()
                return None
            if not frame.views:
                return [results[n] for n in frame.picked]
            return [as_tensor(x) for x in frame.outputs_of([as_array(x) for x in results])]
        finally:
            frames.append(frame)


def version_of(
    module: Any, arrays: Mapping[Any, Array], sizes: dict[str, int], wanted: Sequence[Any], name: str, tune: bool
) -> Version:
    """Lower a graph for arrays and sizes like those of a call, and make its plan.

    An op whose kernel cannot be written is run by torch. A graph that cannot be lowered at all is run by torch whole.
    """
    refused: dict[Any, str] = {}
    for _ in range(_MOST):
        try:
            lowered = lower(module, arrays, Symbols(sizes), wanted, name, refused)
        except (NotLowered, Diagnostic) as error:
            return unplanned(wanted, error)
        traced = replace(lowered.traced, graph=rewritten(lowered.traced.graph))
        try:
            plan = planned(traced, list(arrays.values()), sizes, tune)
        except NoKernel as error:
            node = next((n for n in candidates(lowered, error) if n not in refused), None)
            if node is None:
                return unplanned(wanted, error)
            refused[node] = str(error.message)
            continue
        orders = [memory_order(node.meta["val"]) for node in wanted]
        back = [None if order is None else inverse(order) for order in orders]
        return Version(plan, traced.result[: len(wanted)], back, lowered.steps, traced.graph.guards, lowered.checks)
    return unplanned(wanted, NotLowered("too many of its operations have no kernel"))


def planned(traced: Traced, arrays: Sequence[Array], sizes: dict[str, int], tune: bool) -> Plan:
    """Make the plan of a lowered graph, and search for the sizes of tiles where that is asked for."""
    dims = {dim.name: sizes[dim.name] for dim in traced.graph.dims}
    if tune:
        return tuned_plan(traced, "", (), arrays, dims, BUDGET)[0]
    layouts, fixed = surroundings_of(traced)
    return plan_of(traced.graph, layouts, fixed, "")


def candidates(lowered: Lowered, error: NoKernel) -> list[Any]:
    """Return the ops that may have made the node that has no kernel, the likeliest first."""
    return lowered.makers(str(error.fields["op"]), error.fields["type"])


def unplanned(wanted: Sequence[Any], error: Exception) -> Version:
    """Return the version in which torch runs the graph."""
    reason = str(getattr(error, "message", error)).partition("\n")[0]
    return Version(None, [], [None for _ in wanted], [TorchStep("the whole graph", reason, "")])
