"""Kernels as differentiable functions of tensors."""

from __future__ import annotations

from typing import Any

import pytest

import pypto as pto
from pypto.errors.gradients import WrongGradient

torch = pytest.importorskip("torch")

import pypto.torch  # noqa: E402


@pto.jit
def scaled_norm(x, weight, y, rstd, eps):
    row = pto.program_id(0)
    t = x[row, :]
    scale = pto.rsqrt(pto.sum(t * t) / t.shape[0] + eps)
    y[row, :] = t * scale * weight[:]
    rstd[row] = scale


def function() -> Any:
    outputs = {"y": "x", "rstd": lambda values: torch.empty(values["x"].shape[0], dtype=values["x"].dtype)}
    return pypto.torch.op(scaled_norm, grid=lambda values: values["x"].shape[0], outputs=outputs)


def composed(x: Any, weight: Any, eps: float) -> Any:
    scale = torch.rsqrt((x * x).mean(1) + eps)
    return x * scale[:, None] * weight, scale


def test_gradcheck() -> None:
    f = function()
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: f(x, w, 1e-3), (x, weight))
    assert torch.autograd.gradcheck(lambda w: f(x.detach(), w, 1e-3)[0], (weight,))


@pytest.mark.parametrize("used", [0, 1])
def test_gradients_are_those_of_torch(used: int) -> None:
    """Of both outputs, also where the loss uses one alone, and a gradient that is no plain tensor."""
    x, weight = torch.randn(9, 33), torch.randn(33)
    found, wanted = [], []
    for f, grads in ((function(), found), (composed, wanted)):
        leaves = x.clone().requires_grad_(), weight.clone().requires_grad_()
        out = f(*leaves, 1e-5)[used]
        loss = out.T.sum() if out.ndim > 1 else out.sum()  # an expanded gradient
        loss.backward()
        grads += [leaf.grad for leaf in leaves]
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b if b is not None else torch.zeros_like(a), rtol=1e-4, atol=1e-5)


def test_inputs_by_name_and_wrong_ones() -> None:
    f = function()
    x, weight = torch.randn(3, 8), torch.ones(8)
    y, _ = f(x, weight=weight, eps=1e-5)
    torch.testing.assert_close(y, composed(x, weight, 1e-5)[0], rtol=1e-5, atol=1e-6)
    with pytest.raises(WrongGradient, match="it takes x, weight, eps"):
        f(x, weight)
    with pytest.raises(WrongGradient, match="`z` is none of its parameters"):
        pypto.torch.op(scaled_norm, grid=1, outputs={"z": "x"})
