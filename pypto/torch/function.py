"""Calls of functions of kernels that Dynamo traces: one operator of the graph."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pypto.torch.graph.tracing import outside_call
from pypto.torch.kernel_operators import function_definition, stated_kinds
from pypto.torch.operators.definition import operators

if TYPE_CHECKING:
    from pypto.torch.autograd import KernelFunction

torch: ModuleType = importlib.import_module("torch")


def traced_function(f: KernelFunction, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """Calls a function's operator in a function that Dynamo traces; it uses only Python that Dynamo follows."""
    names, constants, optional, defaults = traced_parameters(f)
    values = {**dict(zip(optional, defaults)), **dict(zip(names, args)), **given}  # noqa: B905
    if len(args) > len(names) or len(values) != len(names):
        return outside_call(f, args, given)
    kinds: list[str] = []
    for name in names:
        x = values[name]
        if isinstance(x, torch.Tensor):
            kinds.append("Tensor")
        elif x is None:
            kinds.append("Tensor?")
        elif isinstance(x, bool):
            kinds.append("bool")
        elif isinstance(x, int):
            kinds.append("int" if name in constants else "SymInt")
        elif isinstance(x, float):
            kinds.append("float")
        elif isinstance(x, str):
            kinds.append("str")
        else:
            return outside_call(f, args, given)
    namespace, operator = traced_operator(f, *kinds)
    return getattr(getattr(torch.ops, namespace), operator)(*[values[name] for name in names])


@torch.compiler.assume_constant_result
def traced_parameters(f: KernelFunction) -> tuple[tuple[Any, ...], ...]:
    """Returns the names of a function's inputs, of the constant ones, and of those with defaults, and the defaults."""
    signature = f.kernel.signature
    constant = tuple(n for n, fixed in zip(signature.names, signature.constant, strict=True) if fixed)
    defaults = {n: x for n, x in signature.defaults.items() if n in f.inputs}
    return f.inputs, constant, tuple(defaults), tuple(defaults.values())


@torch.compiler.assume_constant_result
def traced_operator(f: KernelFunction, *kinds: str) -> tuple[str, str]:
    """Registers a function for arguments of some types, and returns the namespace and the name of its operator."""
    key = () if f.name else kinds
    if key not in f.definitions:
        f.definitions[key] = function_definition(f, key or stated_kinds(f))
    definition = operators().ensure(f.definitions[key])
    return definition.namespace, definition.name
