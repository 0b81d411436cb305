"""Refuses second derivatives of gradients that kernels compute, because no kernel computes those."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

import torch

from pypto.arguments import Boundary
from pypto.errors.gradients import NoGradient
from pypto.loc import Caller

_INSIDE: Final = ("torch", "pypto")


class FirstDerivative(torch.autograd.Function):
    """Gradients as a function of all tensors from which they are computed; differentiating it is an error.

    Without it, gradients would be constants to autograd, and second derivatives would miss a term. The error is raised
    when a second derivative is computed, because `create_graph=True` alone does not tell whether one will be.
    """

    @staticmethod
    def forward(compute: Callable[..., tuple[Any, ...]], operator: str, *given: Any) -> tuple[Any, ...]:
        return compute(*given)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.operator = inputs[1]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> NoReturn:
        problem = "only its first derivatives are offered, and a backward pass asks for a second one"
        way = "leave `create_graph` out, or write with torch's own operations what is differentiated twice"
        with Boundary(caller().loc):
            raise NoGradient(kernel=ctx.operator, problem=problem, way=way)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *given: Any) -> tuple[Any, Any]:
        return each(FirstDerivative, info, in_dims, given)


def first_derivative(compute: Callable[..., tuple[Any, ...]], operator: str, *given: Any) -> Any:
    """Returns gradients that are computed from some tensors, for the backward pass of an operator."""
    function: Any = FirstDerivative
    return function.apply(compute, operator, *given)


def each(function: Any, info: Any, in_dims: Any, given: tuple[Any, ...]) -> tuple[Any, Any]:
    """Defines the torch.vmap rule of an autograd function that processes the items of a batch one after the other."""
    dims = tuple(in_dims)
    rows = [
        function.apply(*(x if d is None else x.select(d, item) for x, d in zip(given, dims, strict=True)))
        for item in range(info.batch_size)
    ]
    results = tuple(torch.stack(column) for column in zip(*rows, strict=True))
    return results, (0,) * len(results)


def caller() -> Caller:
    """Returns the call in the program that led here through torch and this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INSIDE:
        frame = frame.f_back
    return Caller.of(frame)
