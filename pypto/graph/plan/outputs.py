"""Output arrays of a call: arrays of the caller (`out=`), or arguments that the caller donates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from pypto.errors.graph import WrongOut
from pypto.graph.capture.guards import is_array
from pypto.graph.ir.dims import Sizes, value_of
from pypto.graph.ir.node import Node, base_of
from pypto.graph.plan.plan import NO_DONATION, Plan
from pypto.graph.plan.schedule import Schedule, Step, ends_of, is_in_place
from pypto.graph.tracing.arguments import leaves
from pypto.graph.tracing.launches import launch_of
from pypto.graph.tracing.trace import Slot, Traced
from pypto.runtime.places import HostDevice

Array = np.ndarray[Any, Any]
Target = tuple[int, Array]  # the number of an output, and where it is written
_MOST_WORK: Final = 10_000  # of numpy's exact test for overlaps


def run_into(
    plan: Plan, traced: Traced, arrays: list[Array], sizes: Sizes, out: Any, donated: Mapping[Node, int],
    place: HostDevice,
) -> list[Array]:  # fmt: skip
    """Run a plan, and write its outputs to the arrays of `out`, others to donated inputs or new memory.

    Raises
    ------
    WrongOut
        Before anything was written.
    """
    targets = targets_of(traced.result, out, plan, sizes)
    check_apart([("`out`", array) for _, array in targets], [*arrays, *plan.fixed.values()])
    memory = {plan.graph.outputs[number]: array for number, array in targets}
    usable = {node: array for node, array in memory.items() if array.flags.c_contiguous and not may_raise(plan)}
    others = {node: number for node, number in donated.items() if node not in usable}
    outputs = plan.run(arrays, sizes, usable, others, place)
    for number, array in targets:
        if outputs[number] is not array:
            np.copyto(array, outputs[number])
            outputs[number] = array
    return outputs


def donated_inputs(
    plan: Plan, traced: Traced, arrays: list[Array], donated: Sequence[tuple[str, Array]]
) -> Mapping[Node, int]:
    """Map results to the numbers of the donated inputs whose memory they are made in.

    Raises
    ------
    WrongOut
        When a donated array overlaps another one that the function reads, or another donated one.
    """
    given = {id(array) for _, array in donated}
    live = [*(a for a in arrays if id(a) not in given), *plan.fixed.values()]
    check_apart([(f"`{path}`, which is given away,", array) for path, array in donated], live)
    if may_raise(plan):
        return NO_DONATION
    updated = {number for number, _ in traced.updates}
    flags = [array.flags for array in arrays]
    numbers = [n for n, a in enumerate(arrays) if id(a) in given and n not in updated]
    usable = (n for n in numbers if flags[n].writeable and flags[n].c_contiguous)
    return {result: number for number, result in donations(plan, usable).items()}


def may_raise(plan: Plan) -> bool:
    """Whether a step may raise, as for negative exponents, so that no array of the caller may be written before it."""
    calls = (step.nodes[-1] for step in plan.steps if step.kernel is None)
    return any(node.is_call and getattr(node.attr("function"), "may_raise", False) for node in calls)


def targets_of(result: Any, out: Any, plan: Schedule, sizes: Sizes) -> list[Target]:
    """Return the arrays of `out`, each with the number of its output.

    Raises
    ------
    WrongOut
        When its structure differs from the result's, or an array has the wrong shape or type, or is read-only.
    """
    wanted = {path: leaf for path, leaf in leaves(result) if isinstance(leaf, Slot)}
    given = {} if out is None else {path: leaf for path, leaf in leaves(out) if leaf is not None}
    targets = []
    for path, array in given.items():
        name = f"`out{'.' if path else ''}{path}`"
        if path not in wanted:
            raise WrongOut(what=name, problem="the result has no array there")
        if not is_array(array):
            raise WrongOut(what=name, problem=f"it is a {type(array).__name__}, and no array of numpy")
        node = plan.graph.outputs[wanted[path].number]
        shape, dtype = value_of(node.shape, sizes), node.type.dtype.numpy
        if (array.shape, array.dtype) != (shape, dtype):
            problem = f"it is {array.dtype}{list(array.shape)}, and the result is {dtype}{list(shape)}"
            raise WrongOut(what=name, problem=problem)
        if not array.flags.writeable:
            raise WrongOut(what=name, problem="it is read-only")
        targets.append((wanted[path].number, array))
    return targets


def check_apart(written: Sequence[tuple[str, Array]], read: Iterable[Array]) -> None:
    """Refuse written arrays that overlap each other, or an array that the function reads.

    Raises
    ------
    WrongOut
        Before anything was written.
    """
    others = list(read)
    for number, (name, array) in enumerate(written):
        if any(overlap(array, other) for other in others):
            raise WrongOut(what=name, problem="it overlaps an array that the function reads")
        if any(overlap(array, other) for _, other in written[:number]):
            raise WrongOut(what=name, problem="it overlaps another array that is written")


def check_updates(plan: Plan, traced: Traced, arrays: Sequence[Array]) -> None:
    """Refuse arguments that the function updates if they are read-only, or overlap others, which would change too.

    Raises
    ------
    WrongOut
        Before anything was written.
    """
    for number, _ in traced.updates:
        others = [*arrays[:number], *arrays[number + 1 :], *plan.fixed.values()]
        problem = "it is read-only" if not arrays[number].flags.writeable else ""
        if any(overlap(arrays[number], other) for other in others):
            problem = "it overlaps another array of the call"
        if problem:
            name = plan.graph.inputs[number].attr("name")
            raise WrongOut(what=f"`{name}`", problem=f"the function writes to it, and {problem}")


def write_back(traced: Traced, arrays: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Copy the new values of updated arguments that are not written where they lie."""
    for number, output in traced.updates:
        if outputs[output] is not arrays[number]:
            np.copyto(arrays[number], outputs[output])


def overlap(a: Array, b: Array) -> bool:
    """Whether two arrays share an element; the answer is True if the exact test takes too long."""
    if not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, max_work=_MOST_WORK)  # type: ignore[arg-type]  # numpy takes any number
    except np.exceptions.TooHardError:
        return True


def is_overwritten(step: Step, source: Node, result: Node) -> bool:
    """Whether a step may write a result over an array that it reads: in place, or by a launch that updates it."""
    launch = launch_of(result)
    if launch is None:
        return is_in_place(step, source, result)
    updated = launch.written[result.attr("result")].source
    places = [n for n, x in enumerate(result.inputs) if base_of(x, {source}) is source]
    return updated is not None and places == [updated] and result.inputs[updated] is source


def donations(plan: Schedule, donated: Iterable[int]) -> dict[int, Node]:
    """Map donated inputs to the results that may use their memory.

    The result has the type of the input. A step after the last read of the input writes it, or the step of the last
    read itself if that step may run in place.
    """
    stored = {n for s in plan.steps for n in s.writes}
    live = {base_of(n, stored) for n in plan.graph.outputs} - set(plan.buffer_aliases.values())
    donors: dict[int, Node] = {}
    ends = ends_of(plan.waves)
    for number in donated:
        node = plan.graph.inputs[number]
        last = max((n for n, s in enumerate(plan.steps) if node in s.reads), default=-1)
        behind = ends[last][1] if last >= 0 else -1  # the last step that overlaps the one that reads it
        rows = ((n, r) for n, s in enumerate(plan.steps) for r in s.writes if r in live and r not in donors.values())
        fitting = (
            r for n, r in rows
            if r.type == node.type
            and (n > behind or (ends[n] == (last, last) and is_overwritten(plan.steps[n], node, r)))
        )  # fmt: skip
        result = None if node in live else next(fitting, None)
        if result is not None:
            donors[number] = result
    return donors
