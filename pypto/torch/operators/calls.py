"""Calls operators of rows and kernels where torch has to see a call on tensors."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from pypto.runtime.tensors import is_dispatched_to
from pypto.torch.operators.definition import ROWS, OperatorDefinition, operators
from pypto.torch.operators.recording import recorded

torch: ModuleType = importlib.import_module("torch")


def traced_call(name: str, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """Calls a row's operator in a function that Dynamo traces."""
    return getattr(torch.ops.pypto, name)(*args, **given)


def operator_call(row: Any, args: tuple[Any, ...], given: Mapping[str, Any], version: str) -> Any:
    """Calls a row's operator where a mode, a transform, a subclass of tensors, or autograd has to see it.

    Where only autograd has to see it, the call bypasses the dispatcher, which takes less time.
    """
    definition = operators().definitions[f"{ROWS}::{row.name}"]
    if (given and not given.keys() <= set(definition.names[len(args) :])) or len(args) > len(definition.names):
        row.bind(args, given)  # says what is wrong
    values = definition.arguments(args, given)
    if is_dispatched_to(values):
        return definition.overload(*values, version=version)
    return recorded(definition, lambda *args: row(*args, version=version), values)


def function_call(definition: OperatorDefinition, args: tuple[Any, ...]) -> Any:
    """Calls the function of a kernel, by its operator where the dispatcher of torch has to see it."""
    if is_dispatched_to(args):
        return operators().ensure(definition).overload(*args)
    if torch.is_grad_enabled() and torch._C._any_requires_grad(*args):
        return recorded(definition, definition.run, args)
    return definition.run(*args)
