"""Differentiable torch functions from kernels: the forward is a launch, the backward runs the derived kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pypto.arguments import Boundary
from pypto.errors.gradients import WrongGradient
from pypto.gradients import AdjointKernel, adjoint
from pypto.loc import Caller
from pypto.options import suggestion
from pypto.runtime.tensors import is_traced

if TYPE_CHECKING:
    from pypto.jit import Kernel


@dataclass(frozen=True)
class KernelFunction:
    """A kernel as a function of its inputs, which allocates its outputs.

    Parameters
    ----------
    kernel : Kernel
        Stores to other arrays than it loads from.
    grid : int, tuple or function
        As in ``kernel[grid]``; a function gets the arguments by name.
    outputs : mapping of str
        For each array that the kernel stores, the input whose shape and dtype it has, or a function of the inputs by
        name that gives an empty tensor.
    """

    kernel: Kernel
    grid: Any
    outputs: Mapping[str, str | Callable[[Mapping[str, Any]], Any]]

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The names of the other parameters."""
        return tuple(n for n in self.kernel.signature.names if n not in self.outputs)

    @property
    def name(self) -> str:
        """The kernel's."""
        return self.kernel.signature.kernel

    @cached_property
    def stored(self) -> tuple[str, ...]:
        """The names of the outputs, in the order of the parameters."""
        return tuple(n for n in self.kernel.signature.names if n in self.outputs)

    @cached_property
    def adjoints(self) -> dict[tuple[str, ...], AdjointKernel]:
        """The derived kernels, by the inputs by which they differentiate."""
        return {}

    @cached_property
    def autograd(self) -> Any:
        """The `torch.autograd.Function` of the kernel."""
        from pypto.torch.function import autograd_function

        return autograd_function(self)

    def __call__(self, *args: Any, **given: Any) -> Any:
        """Returns the outputs: one tensor, or a tuple in the order of the kernel's parameters."""
        if is_traced():
            from pypto.torch.graph.tracing import outside_call

            return outside_call(self, args, given)
        from pypto.torch.function import check_exported

        values = self.bound(args, given)
        check_exported(self, values)
        outputs = self.autograd.apply(*(values[n] for n in self.inputs))
        return outputs[0] if len(outputs) == 1 else outputs

    def bound(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the inputs by name."""
        values = dict(zip(self.inputs, args, strict=False)) | dict(given)
        unknown = [n for n in given if n not in self.inputs]
        missing = [n for n in self.inputs if n not in values]
        if unknown or missing or len(args) > len(self.inputs):
            problem = f"it takes {', '.join(self.inputs)}"
            with Boundary(Caller.of(sys._getframe(2)).loc):
                way = "pass each input once; outputs are allocated"
                raise WrongGradient(kernel=self.kernel.signature.kernel, problem=problem, way=way)
        return values

    def allocated(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Allocates the kernel's outputs."""
        import torch

        tensors = {}
        for name, like in self.outputs.items():
            tensors[name] = like(values) if callable(like) else torch.empty_like(values[like])
        return tensors

    def adjoint(self, wrt: Iterable[str]) -> AdjointKernel:
        """Returns the derived kernel for some inputs."""
        names = tuple(wrt)
        if names not in self.adjoints:
            request = replace(adjoint(self.kernel, names).request, in_place=False)  # it does not write its inputs
            self.adjoints[names] = AdjointKernel(self.kernel, request)
        return self.adjoints[names]


def op(kernel: Kernel, *, grid: Any, outputs: Mapping[str, str | Callable[[Mapping[str, Any]], Any]]) -> KernelFunction:
    """Makes a differentiable function of tensors from a kernel.

    Parameters
    ----------
    kernel : Kernel
        Stores to other arrays than it loads from; see `pypto.adjoint` for what can be differentiated.
    grid : int, tuple or function
        As in ``kernel[grid]``; a function gets the arguments by name.
    outputs : mapping of str
        For each array that the kernel stores, the input whose shape and dtype it has, or a function of the inputs by
        name that gives an empty tensor.

    Returns
    -------
    KernelFunction
        A function of the inputs, in the order of the kernel's parameters or by name, which returns the outputs.

    Raises
    ------
    WrongGradient
        If a name in `outputs` is not a parameter of the kernel.

    Examples
    --------
    >>> import pypto as pto, pypto.torch, torch
    >>> @pto.jit
    ... def square(x, y):
    ...     y[:] = x[:] * x[:]
    >>> f = pypto.torch.op(square, grid=1, outputs={"y": "x"})
    >>> x = torch.arange(3.0, requires_grad=True)
    >>> f(x).sum().backward()
    >>> x.grad
    tensor([0., 2., 4.])
    """
    unknown = [n for n in outputs if n not in kernel.signature.names]
    if unknown or not outputs:
        problem = f"`{unknown[0]}` is none of its parameters" if unknown else "`outputs` names no array"
        with Boundary(Caller.of(sys._getframe(1)).loc):
            way = f"name some of {', '.join(kernel.signature.names)}"
            raise WrongGradient(kernel=kernel.signature.kernel, problem=problem, way=way)
    inputs = [n for n in kernel.signature.names if n not in outputs]
    strange = next((n for n in outputs.values() if isinstance(n, str) and n not in inputs), None)
    if strange is not None:
        with Boundary(Caller.of(sys._getframe(1)).loc):
            way = suggestion(strange, inputs, "did you mean `{}`? ") + f"its inputs are {', '.join(inputs)}"
            problem = f"an output is to be like `{strange}`, which is none of its inputs"
            raise WrongGradient(kernel=kernel.signature.kernel, problem=problem, way=way)
    return KernelFunction(kernel, grid, dict(outputs))
