"""Kernels as differentiable functions of tensors."""

from __future__ import annotations

from typing import Any

import pytest

import pypto as pto
from pypto.errors.gradients import NoGradient, WrongGradient
from pypto.errors.launch import UntransformedOperator

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


@pto.jit
def cube(x, y):
    y[:] = x[:] * x[:] * x[:]


def cubed() -> Any:
    return pypto.torch.op(cube, grid=1, outputs={"y": "x"})


def test_a_second_derivative_is_an_error() -> None:
    """A gradient penalty was dropped: [3, 12, 27] for [39, 300, 999]."""
    f, x = cubed(), torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (first,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    assert first.tolist() == [3.0, 12.0, 27.0]
    with pytest.raises(NoGradient, match=r"cube cannot be differentiated here.*second one") as caught:
        ((first**2).sum() + f(x).sum()).backward()
    assert "test_op.py" in str(caught.value) and x.grad is None
    with pytest.raises(NoGradient):
        torch.func.grad(lambda x: torch.func.grad(lambda x: f(x).sum())(x).sum())(torch.ones(3))


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
def test_create_graph_alone_is_none() -> None:
    f, x = cubed(), torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    weight = torch.ones(3, requires_grad=True)
    (f(x).sum() + (weight**3).sum()).backward(create_graph=True)
    assert x.grad is not None and x.grad.tolist() == [3.0, 12.0, 27.0]
    torch.autograd.grad(weight.grad.sum(), weight)  # does not come by the kernel


def test_transforms() -> None:
    f, x = cubed(), torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    torch.testing.assert_close(torch.func.grad(lambda x: f(x).sum())(x[0]), 3 * x[0] ** 2)
    torch.testing.assert_close(torch.vmap(f, in_dims=1, out_dims=1)(x), x**3)
    torch.testing.assert_close(torch.vmap(torch.func.grad(lambda x: f(x).sum()))(x), 3 * x**2)
    torch.testing.assert_close(torch.func.jacrev(f)(x[0]), torch.diag(3 * x[0] ** 2))
    with pytest.raises(UntransformedOperator, match="forward mode"):
        torch.func.jvp(f, (x[0],), (x[0],))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_compiled_it_is_called_outside_of_the_graph() -> None:
    f, x = cubed(), torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    torch.compile(lambda x: (f(x) + 1).sum(), backend="eager")(x).backward()
    assert x.grad is not None and x.grad.tolist() == [3.0, 12.0, 27.0]
    torch._dynamo.reset()
    with pytest.raises(Exception, match="is no operator of torch yet"):
        torch.compile(lambda x: f(x) + 1, backend="eager", fullgraph=True)(x)


class Cubed(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return cubed()(x)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_exported() -> None:
    """The forward is, and a gradient is not lost on the way."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(UntransformedOperator, match="exported with its gradient"):
        torch.export.export(Cubed(), (x,), strict=False)
    with torch.no_grad():
        program = torch.export.export(Cubed(), (x,), strict=False)
    torch.testing.assert_close(program.module()(x.detach()), x.detach() ** 3)
