"""Implements the vmap rule of operators: a batch of independent items is one call, any other batch a loop of calls.

A batch is one call where the items of all batched arrays and of all results lie along their first axis: the batch and
that axis become one. The batch shares arrays that have no items; a batch of such arrays is a loop.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pypto.arguments import Boundary
from pypto.errors.launch import UntransformedOperator
from pypto.torch.graph.derivatives import caller

if TYPE_CHECKING:
    from pypto.torch.operators.definition import OperatorDefinition

torch: ModuleType = importlib.import_module("torch")


def batched(definition: OperatorDefinition) -> Callable[..., Any]:
    """Returns the vmap rule of an operator.

    Examples
    --------
    >>> import pypto.torch
    >>> torch.vmap(torch.ops.pypto.silu)(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    def rule(info: Any, in_dims: Any, *args: Any, **given: Any) -> tuple[Any, Any]:
        size = info.batch_size
        first = [x if dim is None else x.movedim(dim, 0) for x, dim in zip(args, in_dims, strict=True)]
        is_batched = [dim is not None for dim in in_dims]
        if is_foldable(definition, is_batched):
            results = folded(definition, first, is_batched, size, given)
        else:
            results = looped(definition, first, is_batched, size, given)
        if results is None:
            return None, None
        return results, type(results)([0] * len(results)) if isinstance(results, (tuple, list)) else 0

    return rule


def is_foldable(definition: OperatorDefinition, is_batched: list[bool]) -> bool:
    """Says whether all batched arrays and results have the items along their first axis.

    A batch whose call writes to an argument is not foldable, because the merged axes may be those of a copy.
    """
    names = [name for name, one in zip(definition.names, is_batched, strict=False) if one]
    return not definition.effects and all(definition.items.get(name) == 0 for name in (*names, *definition.outputs))


def folded(definition: OperatorDefinition, args: list[Any], is_batched: list[bool], size: int, given: Any) -> Any:
    """Computes a batch in one call, by merging the axis of the batch with that of the items."""

    def one(name: str, x: Any, is_batched: bool) -> Any:
        if x is None or definition.items.get(name) != 0:
            return x
        members = x if is_batched else x.unsqueeze(0).expand(size, *x.shape)
        return members.contiguous() if definition.is_free else members.reshape(-1, *members.shape[2:])

    flat = [one(name, x, y) for name, x, y in zip(definition.names, args, is_batched, strict=False)]
    results = definition.overload(*flat, **given)
    if definition.is_free:
        return results
    return each(results, lambda y: y.reshape(size, -1 if y.numel() else y.shape[0] // max(size, 1), *y.shape[1:]))


def looped(definition: OperatorDefinition, args: list[Any], is_batched: list[bool], size: int, given: Any) -> Any:
    """Computes the members of a batch one after the other.

    Raises
    ------
    UntransformedOperator
        If all members would write to one array.
    """
    shared = [
        name for name, one in zip(definition.names, is_batched, strict=False) if not one and name in definition.effects
    ]
    if shared:
        how = f"called under vmap where `{shared[0]}` is not batched: all members of the batch would write to it"
        way = f"pass a batch of `{shared[0]}`, or call it in a loop"
        with Boundary(caller().loc):
            raise UntransformedOperator(kernel=definition.name, how=how, way=way)
    rows = [
        definition.overload(*(x[n] if one else x for x, one in zip(args, is_batched, strict=True)), **given)
        for n in range(size)
    ]
    if not isinstance(rows[0], (tuple, list)):
        return None if rows[0] is None else torch.stack(rows)
    return type(rows[0])(torch.stack(column) for column in zip(*rows, strict=True))


def each(results: Any, function: Callable[[Any], Any]) -> Any:
    return tuple(map(function, results)) if isinstance(results, tuple) else function(results)
