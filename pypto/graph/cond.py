"""`cond`: a branch in a plan, which replaces an `if` on the value of an array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto.errors.graph import NotTraced, WrongShapes
from pypto.graph.fused import Fused
from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import Node, here
from pypto.graph.ir.types import TensorType
from pypto.graph.tracing.arguments import Slot, leaves, mapped
from pypto.graph.tracing.numpy_steps import results_of
from pypto.graph.tracing.tensor import Tensor, TensorGraph
from pypto.graph.tracing.trace import Traced, trace
from pypto.graph.tracing.ufuncs import lift
from pypto.graph.vmap import mapped_over

Array = np.ndarray[Any, Any]


class Branches:
    """A step that runs one of two traced branches; it takes the condition and the operands' arrays, in order."""

    def __init__(self, branches: tuple[Fused, Fused], operands: Any) -> None:
        self.branches = branches
        self.operands = operands  # with slots for arrays
        self.__qualname__ = " or ".join(b.__name__ for b in branches)  # type: ignore[attr-defined]

    def __call__(self, condition: Array, *arrays: Array) -> Sequence[Array]:
        operands = mapped(self.operands, lambda _, x: arrays[x.number] if isinstance(x, Slot) else x)
        result = self.branches[0 if condition else 1](*operands)
        return [np.asarray(leaf) for _, leaf in leaves(result)]

    def batched(self, types: Sequence[TensorType], stacks: Sequence[bool], size: int) -> Any:
        """Return the branch on stacks of all operands, and which operands it takes as stacks; None for conditions."""
        if stacks[0]:
            return None
        true, false = (mapped_over(x, *self.operands) for x in self.branches)
        return Branches((true, false), self.operands), [False, *(True for _ in types[1:])]


def cond(condition: Any, true: Callable[..., Any], false: Callable[..., Any], *operands: Any) -> Any:
    """Run one of two functions, depending on a condition, and return its result.

    Parameters
    ----------
    condition : bool or array without dimensions
    true, false : callable
        Functions of the operands; their results have equal structure, shapes and types.
    *operands
        Arrays, or dicts, lists, tuples and dataclasses of them.

    Returns
    -------
    Any
        The result of `true` if the condition is not zero, otherwise that of `false`.

    Raises
    ------
    WrongShapes, NotTraced
        When the results differ in structure, or a branch reads an array of the traced function that is no operand.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> @pto.fuse
    ... def step(x):
    ...     return cond(x.sum() > 0, lambda x: x * 2, lambda x: -x, x)
    >>> step(np.float32([-1, 0.5])), step(np.float32([1, 2]))
    (array([ 1. , -0.5], dtype=float32), array([2., 4.], dtype=float32))
    """
    tensors = [leaf for _, leaf in leaves((condition, operands)) if isinstance(leaf, Tensor)]
    if not tensors:
        return (true if condition else false)(*operands)
    graph = tensors[0].graph
    chosen = lift(graph, condition)
    if chosen.node.shape != ():
        raise WrongShapes(here().loc(), what="the condition of `cond`", problem="it has dimensions")
    given: list[Node] = []
    slots = mapped(operands, lambda _, leaf: slot_of(graph, leaf, given))
    traced = [branch_of(graph, branch, slots, given) for branch in (true, false)]
    check_alike(*traced)
    function = Branches((fused(true), fused(false)), slots)
    flat = [leaf for _, leaf in leaves(traced[0].result)]
    results = iter(results_of(graph, function, [chosen.node, *given], types_of(traced[0])))
    if not all(isinstance(leaf, Slot) for leaf in flat):
        raise NotTraced(here().loc(), what="`cond`", problem="a branch returns what is no array", way="return arrays")
    return mapped(traced[0].result, lambda _, leaf: next(results).marked(not leaf.is_number))


def fused(branch: Callable[..., Any]) -> Fused:
    return branch if isinstance(branch, Fused) else Fused(branch)


def slot_of(graph: TensorGraph, leaf: Any, given: list[Node]) -> Any:
    """Return the slot of an array among the operands."""
    if not isinstance(leaf, Tensor | np.ndarray):
        return leaf
    given.append(lift(graph, leaf).node)
    return Slot(len(given) - 1)


def branch_of(graph: TensorGraph, branch: Callable[..., Any], slots: Any, given: list[Node]) -> Traced:
    """Trace a branch on stand-ins of its operands."""
    if not all(is_fixed(n) for node in given for n in node.shape):
        raise NotTraced(
            here().loc(), what="`cond`", problem="an operand has dimensions by name", way="give its shape as it is"
        )  # fmt: skip
    stand_ins = [np.empty(node.shape, node.type.dtype.numpy) for node in given]
    operands = mapped(slots, lambda _, x: stand_ins[x.number] if isinstance(x, Slot) else x)
    function = branch.function if isinstance(branch, Fused) else branch
    traced = trace(function, *operands)
    if traced.updates:
        raise NotTraced(
            here().loc(), what="`cond`", problem="a branch writes to its operands", way="return new arrays"
        )  # fmt: skip
    return traced


def types_of(traced: Traced) -> list[TensorType]:
    """Return the types of a result's leaves."""
    rows = [leaf for _, leaf in leaves(traced.result)]
    return [traced.graph.outputs[leaf.number].type for leaf in rows if isinstance(leaf, Slot)]


def check_alike(true: Traced, false: Traced) -> None:
    """Refuse branches whose results differ."""
    rows = [([path for path, _ in leaves(t.result)], types_of(t)) for t in (true, false)]
    if rows[0] != rows[1]:
        types_text = " and ".join(", ".join(map(str, types)) or "no array" for _, types in rows)
        raise WrongShapes(here().loc(), what="`cond`", problem=f"its branches return {types_text}")
