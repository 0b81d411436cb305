"""Entry points of installed packages beside references in float64: values, and gradients where there are any."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch

from tests.compat.world import close

Check = Callable[[], None]
Entries = Mapping[str, Check]


@contextmanager
def in_float64() -> Iterator[None]:
    """What a package's own plain reference takes for single precision is double precision here."""
    with ExitStack() as changes:
        for name in ("float", "float32"):
            changes.enter_context(patch.object(torch, name, torch.float64))
        changes.enter_context(patch.object(torch.Tensor, "float", torch.Tensor.double))
        was = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        changes.callback(torch.set_default_dtype, was)
        yield


def first(result: Any) -> Any:
    """The first tensor of a result."""
    while isinstance(result, tuple | list):
        result = result[0]
    return result


def tensors(result: Any) -> list[Any]:
    """All tensors of a result, in order."""
    if isinstance(result, tuple | list):
        return [x for part in result for x in tensors(part)]
    return [result] if isinstance(result, torch.Tensor) else []


def double(x: Any) -> Any:
    return x.detach().clone().double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def leaf(x: Any) -> Any:
    return x.clone().requires_grad_(True) if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def same(function: Any, reference: Any, *inputs: Any, tolerance: float = 1e-5) -> None:
    """All tensors of a result against those of a reference on the inputs in float64."""
    found = tensors(function(*[x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]))
    with in_float64():
        wanted = tensors(reference(*map(double, inputs)))
    assert found, "no tensor came back"
    for x, y in zip(found, wanted, strict=True):
        close(x, y, tolerance)


def differentiable(function: Any, reference: Any, *inputs: Any, tolerance: float = 1e-4, **named: Any) -> None:
    """The first tensor of a result, and the gradients of all inputs, against those of a reference in float64."""
    ours = [leaf(x) for x in inputs]
    theirs = [leaf(double(x)) for x in inputs]
    found = first(function(*ours, **named))
    with in_float64():
        wanted = first(reference(*theirs))
        close(found, wanted, tolerance)
        slope = torch.randn(wanted.shape)
        wanted.backward(slope)
    found.backward(slope.to(found.dtype))
    for x, y in zip(ours, theirs, strict=True):
        if isinstance(y, torch.Tensor) and y.grad is not None:
            assert x.grad is not None, "a gradient is missing"
            close(x.grad, y.grad, tolerance)


def later(check: Callable[..., None], *args: Any, **named: Any) -> Check:
    """A check that is run when it is its turn: packages are imported then."""
    return partial(check, *args, **named)
