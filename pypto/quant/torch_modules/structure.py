"""Stores arguments of modules on disk: their structure as JSON, and tensors separately as named arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pypto.errors.quant import WrongCalibration
from pypto.quant.arrays import is_tensor

PLAIN: Final = (bool, int, float, str)
TensorName = Callable[[Any], Any]


def described(value: Any, where: str, of_tensor: TensorName) -> Any:
    """Describes a value as JSON; `of_tensor` returns the reference to a tensor.

    Raises
    ------
    WrongCalibration
        If an object is not a tensor, number, text, list, tuple or dictionary.
    """
    if is_tensor(value):
        return {"tensor": of_tensor(value)}
    if value is None or isinstance(value, PLAIN):
        return {"plain": value}
    if type(value) in (list, tuple):
        parts = [described(one, f"{where}[{i}]", of_tensor) for i, one in enumerate(value)]
        return {type(value).__name__: parts}
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {"dict": {name: described(one, f"{where}[{name!r}]", of_tensor) for name, one in value.items()}}
    what = f"{where} is a {type(value).__name__}, which cannot be kept on disk"
    raise WrongCalibration(what=what, way="call the model without it; a cache of keys, say, by use_cache=False")


def rebuilt(description: Any, tensor: Callable[[Any], Any]) -> Any:
    """Builds the value of a description."""
    ((kind, value),) = description.items()
    if kind == "tensor":
        return tensor(value)
    if kind == "plain":
        return value
    if kind == "dict":
        return {name: rebuilt(one, tensor) for name, one in value.items()}
    parts = [rebuilt(one, tensor) for one in value]
    return tuple(parts) if kind == "tuple" else parts


def tensors(value: Any) -> Iterator[Any]:
    """Returns all tensors of a value, in order."""
    if is_tensor(value):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from tensors(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from tensors(one)
