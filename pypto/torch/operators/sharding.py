"""Derives sharding rules for DTensor: along the items of a row, and along every axis of an elementwise operator.

DTensor computes with whole copies where no rule fits, so every operator without effects runs on DTensors. Rules are
registered at the first call on one, because most programs have none and importing DTensor takes long.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pypto.arguments import Boundary
from pypto.errors.launch import UntransformedOperator
from pypto.torch.graph.derivatives import caller

if TYPE_CHECKING:
    from pypto.torch.operators.definition import OperatorDefinition

torch: ModuleType = importlib.import_module("torch")
Placements = tuple[list[Any], list[Any]]  # of the results, and of the arguments


def ensure_sharding(definition: OperatorDefinition, args: Sequence[Any], sharded: set[str]) -> None:
    """Registers the rules of an operator if an argument is a DTensor; `sharded` names the operators that have rules.

    Raises
    ------
    UntransformedOperator
        If the operator writes to an argument, which may be a copy that DTensor has made.
    """
    distributed = sys.modules.get("torch.distributed.tensor")
    kind = getattr(distributed, "DTensor", None)
    if kind is None or definition.qualified in sharded or not any(isinstance(x, kind) for x in args):
        return
    if definition.effects:
        how = f"called on a DTensor: it writes to `{definition.effects[0]}`"
        with Boundary(caller().loc):
            raise UntransformedOperator(kernel=definition.name, how=how, way="pass local tensors: `.to_local()`")
    from torch.distributed.tensor.experimental import register_sharding

    register_sharding(definition.overload)(rules(definition))
    sharded.add(definition.qualified)


def rules(definition: OperatorDefinition) -> Callable[..., list[Placements]]:
    """Returns a function that lists, for the arguments of a call, all placements with which it may be computed."""
    from torch.distributed.tensor import Replicate, Shard

    names = definition.names

    def placements(args: Sequence[Any], axes: dict[str, int]) -> Placements:
        results = [Shard(axes[name]) if name in axes else Replicate() for name in definition.outputs]
        given: list[Any] = [
            None if not hasattr(x, "ndim") else Shard(axes[name]) if name in axes else Replicate()
            for name, x in zip(names, args, strict=False)
        ]
        return results, given

    def allowed(*args: Any, **given: Any) -> list[Placements]:
        every = [placements(args, {})]
        if definition.is_elementwise:
            arrays = (*definition.outputs, *names)
            every += [placements(args, dict.fromkeys(arrays, axis)) for axis in range(args[0].ndim)]
        elif definition.items and all(name in definition.items for name in definition.outputs):
            every.append(placements(args, dict(definition.items)))
        return every

    return allowed
