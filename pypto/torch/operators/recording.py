"""Implements autograd of operators: each has a `torch.autograd.Function`, whose backward calls its gradient.

A gradient is written in operations of torch and other operators, so a second derivative is recorded as the first is.
Inside of a gradient, an operator without one is called; differentiating that call is an error.
"""

from __future__ import annotations

import contextvars
import importlib
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NoReturn

from torch._functorch.utils import enable_single_level_autograd_function

from pypto.arguments import Boundary
from pypto.errors.gradients import NoGradient
from pypto.errors.launch import RecordedArgument, UntransformedOperator
from pypto.torch.graph.derivatives import caller
from pypto.torch.operators.sharding import ensure_sharding

if TYPE_CHECKING:
    from pypto.torch.operators.definition import OperatorDefinition, Values

torch: ModuleType = importlib.import_module("torch")
_IN_GRADIENT: Final[contextvars.ContextVar[bool]] = contextvars.ContextVar("pypto_in_gradient", default=False)


def autograd_kernel(definition: OperatorDefinition) -> Callable[..., Any]:
    """Returns the operator's kernel for autograd, which records a call, refuses it, or passes it on."""

    sharded: set[str] = set()

    def run(keyset: Any, *args: Any, **given: Any) -> Any:
        refuse_forward_mode(definition, args)
        ensure_sharding(definition, args, sharded)

        def below(*args: Any) -> Any:
            with torch._C._AutoDispatchBelowAutograd():
                return definition.overload.redispatch(keyset & torch._C._after_autograd_keyset, *args, **given)

        if not torch.is_grad_enabled() or not torch._C._any_requires_grad(*args):
            return below(*args)
        if not torch._C._are_functorch_transforms_active():
            return recorded(definition, below, args)

        def at_next_level(*args: Any) -> Any:
            with torch.enable_grad():  # the forward of a function switches it off for all levels
                return below(*args)

        with enable_single_level_autograd_function():
            return recorded(definition, at_next_level, args)

    return run


def recorded(definition: OperatorDefinition, compute: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Computes results, so that autograd records their gradients.

    Raises
    ------
    LostGradient
        If the operator has no gradient.
    RecordedArgument
        If it writes to an argument that requires grad.
    """
    if not definition.is_differentiable:
        with torch.no_grad():
            return compute(*args)
    if definition.gradient is None or definition.effects:
        check_recorded(definition, args)
    return definition.returned(definition.function.record(compute, *args))


def check_recorded(definition: OperatorDefinition, args: tuple[Any, ...]) -> None:
    """Refuses a recorded call of an operator without a gradient, or that writes to an argument that requires grad."""
    required = [name for name, x in zip(definition.names, args, strict=False) if requires_grad(x)]
    written = next((name for name in required if name in definition.effects), None)
    if written is not None:
        with Boundary(caller().loc):
            raise RecordedArgument(kernel=definition.name, arg=written)
    if definition.gradient is None and (definition.effects or not _IN_GRADIENT.get()):
        assert definition.refuse is not None
        with Boundary(caller().loc):
            definition.refuse(required[0])


def recorded_function(definition: OperatorDefinition) -> Any:
    """Returns the `torch.autograd.Function` of an operator; its first input computes the results."""
    names = definition.names

    class Recorded(torch.autograd.Function):  # type: ignore[name-defined, misc]
        @staticmethod
        def forward(ctx: Any, compute: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
            given = definition.arguments(args)
            if definition.effects:  # their elements before the call
                given = tuple(x.clone() if n in definition.effects else x for n, x in zip(names, given, strict=True))
            results = as_tuple(compute(*args))
            if integers := [x for x in results if not x.is_floating_point()]:
                ctx.mark_non_differentiable(*integers)
            if definition.gradient is not None:
                every = (*given, *results)
                ctx.saved = (
                    [isinstance(x, torch.Tensor) for x in every],
                    [x for x in every if not isinstance(x, torch.Tensor)],
                )
                ctx.save_for_backward(*(x for x in every if isinstance(x, torch.Tensor)))
            return results

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
            if definition.gradient is None:
                refuse_second_derivative(definition)
            (is_tensor, others), tensors = ctx.saved, iter(ctx.saved_tensors)
            numbers = iter(others)
            every = [next(tensors if one else numbers) for one in is_tensor]
            values = dict(zip((*names, *definition.outputs), every, strict=True))
            values |= {f"d_{name}": g for name, g in zip(definition.outputs, gradients, strict=True)}
            wanted = frozenset(n for n, needed in zip(names, ctx.needs_input_grad[1:], strict=False) if needed)
            computed = gradients_of(definition, values, wanted)
            return (None, *(computed.get(n) if n in wanted else None for n in names[: len(ctx.needs_input_grad) - 1]))

        @classmethod
        def record(cls, *args: Any) -> Any:
            """Applies the function at the level of torch.func at which the operator runs."""
            return super(torch.autograd.Function, cls).apply(*args)

    return type(definition.name, (Recorded,), {})


def gradients_of(definition: OperatorDefinition, values: Values, wanted: frozenset[str]) -> Values:
    """Computes the gradients by name, of which the caller uses those of `wanted`."""
    assert definition.gradient is not None
    token = _IN_GRADIENT.set(True)
    try:
        return definition.gradient(torch, SimpleNamespace(**values, wanted=wanted))
    finally:
        _IN_GRADIENT.reset(token)


def refuse_second_derivative(definition: OperatorDefinition) -> NoReturn:
    problem = "only its first derivatives are offered, and a backward pass asks for a second one"
    way = "leave `create_graph` out, or write with torch's own operations what is differentiated twice"
    with Boundary(caller().loc):
        raise NoGradient(kernel=definition.title or definition.name, problem=problem, way=way)


def requires_grad(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and bool(x.requires_grad)


def as_tuple(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else tuple(results) if isinstance(results, list) else (results,)


def refuse_forward_mode(definition: OperatorDefinition, args: tuple[Any, ...]) -> None:
    """Refuses tensors with a tangent of forward mode, which would be lost.

    Raises
    ------
    UntransformedOperator
    """
    if torch.autograd.forward_ad._current_level < 0:
        return
    unpack = torch.autograd.forward_ad.unpack_dual
    if any(isinstance(x, torch.Tensor) and unpack(x).tangent is not None for x in args):
        way = "use reverse mode: `torch.func.vjp`, `torch.func.jacrev`"
        with Boundary(caller().loc):
            raise UntransformedOperator(
                kernel=definition.title or definition.name, how="differentiated in forward mode", way=way
            )
