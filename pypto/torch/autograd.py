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
    from pypto.torch.operators.definition import OperatorDefinition


@dataclass(frozen=True)
class KernelFunction:
    """A kernel as a function of its inputs, which allocates its outputs; an operator of torch.

    Parameters
    ----------
    kernel : Kernel
        Stores to other arrays than it loads from.
    grid : int, tuple or function
        As in ``kernel[grid]``; a function gets the arguments by name.
    outputs : mapping of str
        For each array that the kernel stores, the input whose shape and dtype it has, or a function of the inputs by
        name that gives an empty tensor.
    name : str
        The operator's name with its namespace, as in ``my_ops::gelu``; empty if it is named when torch asks for it.
    """

    kernel: Kernel
    grid: Any
    outputs: Mapping[str, str | Callable[[Mapping[str, Any]], Any]]
    name: str = ""

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The names of the other parameters."""
        return tuple(n for n in self.kernel.signature.names if n not in self.outputs)

    @property
    def kernel_name(self) -> str:
        """The kernel's name."""
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
    def definitions(self) -> dict[tuple[str, ...], OperatorDefinition]:
        """What torch is told of it, by the types of its arguments."""
        return {}

    def __call__(self, *args: Any, **given: Any) -> Any:
        """Returns the outputs: one tensor, or a tuple in the order of the kernel's parameters.

        Raises
        ------
        UntransformedOperator
            If torch traces or transforms the call, and has no type for an argument.
        """
        if is_traced():
            from pypto.torch.function import traced_function

            return traced_function(self, args, given)
        from pypto.torch.operators.calls import function_call

        values = self.bound(args, given)
        return function_call(self.definition(values), values)

    def definition(self, values: tuple[Any, ...]) -> OperatorDefinition:
        """Returns what torch is told of the function, for arguments of these types."""
        from pypto.torch.kernel_operators import function_definition, kinds_of, stated_kinds

        kinds = () if self.name else kinds_of(self, values)
        if kinds not in self.definitions:
            self.definitions[kinds] = function_definition(self, kinds or stated_kinds(self))
        return self.definitions[kinds]

    def named(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """Returns inputs by name, which torch gives without those that have their default."""
        defaults = self.kernel.signature.defaults
        given = dict(zip(self.inputs, values, strict=False))
        return {n: given[n] if n in given else defaults[n] for n in self.inputs}

    def bound(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> tuple[Any, ...]:
        """Returns the inputs in their order."""
        defaults = self.kernel.signature.defaults
        values = dict(zip(self.inputs, args, strict=False)) | dict(given)
        unknown = [n for n in given if n not in self.inputs]
        missing = [n for n in self.inputs if n not in values and n not in defaults]
        if unknown or missing or len(args) > len(self.inputs):
            problem = f"it takes {', '.join(self.inputs)}"
            with Boundary(Caller.of(sys._getframe(2)).loc):
                way = "pass each input once; outputs are allocated"
                raise WrongGradient(kernel=self.kernel.signature.kernel, problem=problem, way=way)
        return tuple(values[n] if n in values else defaults[n] for n in self.inputs)

    def computed(self, values: Mapping[str, Any]) -> Any:
        """Launches the kernel, and returns what it stores."""
        stored = self.allocated(values)
        self.kernel.launch(self.grid_of({**values, **stored}), **values, **stored)
        return stored[self.stored[0]] if len(stored) == 1 else tuple(stored[n] for n in self.stored)

    def grid_of(self, values: Mapping[str, Any]) -> Any:
        """Returns the grid for some arguments."""
        return self.grid(values) if callable(self.grid) else self.grid

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


def op(
    kernel: Kernel, *, grid: Any, outputs: Mapping[str, str | Callable[[Mapping[str, Any]], Any]], name: str = ""
) -> KernelFunction:
    """Makes a differentiable function of tensors from a kernel, which is an operator of torch.

    Parameters
    ----------
    kernel : Kernel
        Stores to other arrays than it loads from; see `pypto.adjoint` for what can be differentiated.
    grid : int, tuple or function
        As in ``kernel[grid]``; a function gets the arguments by name.
    outputs : mapping of str
        For each array that the kernel stores, the input whose shape and dtype it has, or a function of the inputs by
        name that gives an empty tensor.
    name : str
        The operator's name with a namespace of yours: ``my_ops::gelu`` is `torch.ops.my_ops.gelu`. Without it, the
        operator is named after the kernel when torch traces a call, and a program from a file cannot refer to it.

    Returns
    -------
    KernelFunction
        A function of the inputs, in the order of the kernel's parameters or by name, which returns the outputs.

    Raises
    ------
    WrongGradient
        If a name in `outputs` is not a parameter of the kernel.
    OperatorName
        If `name` has no namespace, or is that of another operator.

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
    function = KernelFunction(kernel, grid, dict(outputs), name)
    with Boundary(Caller.of(sys._getframe(1)).loc):
        check_outputs(function)
        if name:
            from pypto.torch.kernel_operators import register_function

            register_function(function)
    return function


def check_outputs(f: KernelFunction) -> None:
    """Refuses outputs that are no parameters, or like what is no input.

    Raises
    ------
    WrongGradient
    """
    names = f.kernel.signature.names
    unknown = [n for n in f.outputs if n not in names]
    if unknown or not f.outputs:
        problem = f"`{unknown[0]}` is none of its parameters" if unknown else "`outputs` names no array"
        raise WrongGradient(kernel=f.kernel_name, problem=problem, way=f"name some of {', '.join(names)}")
    strange = next((n for n in f.outputs.values() if isinstance(n, str) and n not in f.inputs), None)
    if strange is not None:
        way = suggestion(strange, f.inputs, "did you mean `{}`? ") + f"its inputs are {', '.join(f.inputs)}"
        problem = f"an output is to be like `{strange}`, which is none of its inputs"
        raise WrongGradient(kernel=f.kernel_name, problem=problem, way=way)
