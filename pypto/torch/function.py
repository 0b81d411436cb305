"""The `torch.autograd.Function` of a kernel. Loaded beside torch only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import once_differentiable

if TYPE_CHECKING:
    from pypto.torch.autograd import KernelFunction


def autograd_function(f: KernelFunction) -> Any:
    """A function whose forward is a launch of a kernel, and whose backward is one of its adjoint."""

    class Launch(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> tuple[Any, ...]:
            values = dict(zip(f.inputs, inputs, strict=True))
            stored = f.allocated(values)
            with torch.no_grad():
                f.kernel.launch(grid_of(f, values | stored), **values, **stored)
            tensors = {n: x for n, x in (values | stored).items() if isinstance(x, torch.Tensor)}
            ctx.names = tuple(tensors)
            ctx.others = {n: x for n, x in values.items() if n not in tensors}
            ctx.save_for_backward(*tensors.values())
            return tuple(stored[n] for n in f.kernel.signature.names if n in stored)

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
            tensors = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
            wrt = [n for n, needed in zip(f.inputs, ctx.needs_input_grad, strict=True) if needed]
            stored = [n for n in f.kernel.signature.names if n in f.outputs]
            arguments = {
                f"d_{n}": like(g, tensors[n]) for n, g in zip(stored, gradients, strict=True) if is_real(tensors[n])
            }
            found = {n: torch.empty_like(tensors[n]) for n in wrt}
            arguments |= {f"d_{n}": g for n, g in found.items()}
            values = {n: x.detach() for n, x in tensors.items()} | ctx.others
            f.adjoint(wrt).launch(grid_of(f, values), **values, **arguments)
            return tuple(found.get(n) for n in f.inputs)

    Launch.__name__ = Launch.__qualname__ = f.kernel.signature.kernel
    return Launch


def grid_of(f: KernelFunction, values: Any) -> Any:
    """The grid for some arguments."""
    return f.grid(values) if callable(f.grid) else f.grid


def like(gradient: Any, stored: Any) -> Any:
    """A gradient that lies in memory as the stored tensor does; zero for an output that the loss does not use."""
    if gradient is None:
        return torch.zeros_like(stored)
    if gradient.stride() == stored.stride():
        return gradient
    return torch.empty_like(stored).copy_(gradient)


def is_real(x: Any) -> bool:
    return bool(x.dtype.is_floating_point)
