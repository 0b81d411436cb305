"""The `torch.autograd.Function` of a kernel; it is imported only if torch is installed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from pypto.arguments import Boundary
from pypto.errors.launch import UntransformedOperator
from pypto.torch.graph.derivatives import caller, each, first_derivative

if TYPE_CHECKING:
    from pypto.torch.autograd import KernelFunction


@dataclass(frozen=True, slots=True)
class Backward:
    """One launch of an adjoint: the names of its tensors, its other arguments, and the requested gradients.

    `tensors` are the saved tensors, followed by the gradients of `stored`.
    """

    function: KernelFunction
    tensors: tuple[str, ...]
    others: dict[str, Any]
    stored: tuple[str, ...]
    wrt: tuple[str, ...]

    def launch(self, *given: Any) -> tuple[Any, ...]:
        """Computes the gradients by `wrt`, in that order."""
        count, f = len(self.tensors), self.function
        tensors = dict(zip(self.tensors, given[:count], strict=True))
        pairs = zip(self.stored, given[count:], strict=True)
        arguments = {f"d_{n}": like(g, tensors[n]) for n, g in pairs if tensors[n].dtype.is_floating_point}
        gradients = {n: torch.empty_like(tensors[n]) for n in self.wrt}
        arguments |= {f"d_{n}": g for n, g in gradients.items()}
        values = {n: x.detach() for n, x in tensors.items()} | self.others
        with torch.no_grad():
            f.adjoint(self.wrt).launch(grid_of(f, values), **values, **arguments)
        return tuple(gradients.values())


def autograd_function(f: KernelFunction) -> Any:
    """Returns a function whose forward launches a kernel, and whose backward launches its adjoint."""

    class Launch(torch.autograd.Function):
        @staticmethod
        def forward(*inputs: Any) -> tuple[Any, ...]:
            values = dict(zip(f.inputs, inputs, strict=True))
            stored = f.allocated(values)
            with torch.no_grad():
                f.kernel.launch(grid_of(f, values | stored), **values, **stored)
            return tuple(stored[n] for n in f.stored)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
            values = dict(zip(f.inputs, inputs, strict=True)) | dict(zip(f.stored, output, strict=True))
            tensors = {n: x for n, x in values.items() if isinstance(x, torch.Tensor)}
            ctx.saved = tuple(tensors), {n: x for n, x in values.items() if n not in tensors}
            ctx.save_for_backward(*tensors.values())

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
            wrt = tuple(n for n, needed in zip(f.inputs, ctx.needs_input_grad, strict=True) if needed)
            backward = Backward(f, *ctx.saved, f.stored, wrt)
            derivatives = first_derivative(backward.launch, f.name, *ctx.saved_tensors, *gradients)
            by_name = dict(zip(wrt, derivatives, strict=True))
            return tuple(by_name.get(n) for n in f.inputs)

        @staticmethod
        def vmap(info: Any, in_dims: Any, *inputs: Any) -> tuple[Any, Any]:
            return each(Launch, info, in_dims, inputs)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> NoReturn:
            refuse(f, "differentiated in forward mode", "use reverse mode: `torch.func.vjp`, `torch.func.jacrev`")

    return type(f.name, (Launch,), {})


def check_exported(f: KernelFunction, values: dict[str, Any]) -> None:
    """Refuses torch.export, whose graph would contain only the forward launch and lose the gradient.

    Raises
    ------
    UntransformedOperator
    """
    recorded = torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in values.values())
    if recorded and torch.compiler.is_exporting():
        refuse(f, "exported with its gradient", "export under `torch.no_grad()`, which exports the forward alone")


def refuse(f: KernelFunction, how: str, way: str) -> NoReturn:
    with Boundary(caller().loc):
        raise UntransformedOperator(kernel=f.name, how=how, way=way)


def grid_of(f: KernelFunction, values: Any) -> Any:
    """Returns the grid for some arguments."""
    return f.grid(values) if callable(f.grid) else f.grid


def like(gradient: Any, stored: Any) -> Any:
    """Returns a gradient in the stored tensor's memory layout; zero for an output that the loss does not use."""
    if gradient is None:
        return torch.zeros_like(stored)
    if gradient.stride() == stored.stride():
        return gradient
    return torch.empty_like(stored).copy_(gradient)
