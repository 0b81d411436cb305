"""Kernels as differentiable functions of tensors."""

from __future__ import annotations

from typing import Any

import pytest

import pypto as pto
from pypto.errors.gradients import NoGradient, WrongGradient
from pypto.errors.launch import OperatorName, UntransformedOperator

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
    torch.testing.assert_close(torch.func.jacrev(lambda y: f(y).sum())(x[0]), 3 * x[0] ** 2)
    with pytest.raises(UntransformedOperator, match="forward mode"):
        torch.func.jvp(f, (x[0],), (x[0],))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_one_graph(backend: str) -> None:
    f, x = function(), torch.randn(5, 7, requires_grad=True)
    weight = torch.randn(7, requires_grad=True)

    def loss(f: Any, x: Any, weight: Any) -> Any:
        y, rstd = f(x, weight, eps=1e-3)
        return (y * rstd[:, None]).sum()

    compiled = torch.compile(lambda x, weight: loss(f, x, weight), fullgraph=True, backend=backend)
    wanted = torch.autograd.grad(loss(composed, x, weight), (x, weight))
    torch.testing.assert_close(torch.autograd.grad(compiled(x, weight), (x, weight)), wanted, rtol=1e-4, atol=1e-5)


class Cubed(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return cubed()(x)


def test_exported() -> None:
    """With its gradient."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    module = torch.export.export(Cubed(), (x,)).module()
    module(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3.0, 12.0, 27.0]


@pto.jit
def gelu_custom(x, out, BLOCK: pto.constexpr = 64):
    i = pto.program_id(0) * BLOCK
    t = x[i : i + BLOCK]
    out[i : i + BLOCK] = t * 0.5 * (1 + pto.erf(t * 0.7071067811865476))


def blocks(values: Any) -> int:
    return pto.cdiv(values["x"].numel(), values["BLOCK"])


gelu = pypto.torch.op(gelu_custom, grid=blocks, outputs={"out": "x"}, name="op_api::gelu_custom")
norm = pypto.torch.op(
    scaled_norm,
    grid=lambda values: values["x"].shape[0],
    outputs={"y": "x", "rstd": lambda values: values["x"].new_empty(values["x"].shape[0])},
    name="op_api::scaled_norm",
)
power = pypto.torch.op(cube, grid=1, outputs={"y": "x"}, name="op_api::power")


def test_an_operator_with_a_name() -> None:
    x = torch.randn(100, requires_grad=True)
    y = torch.ops.op_api.gelu_custom(x)
    torch.testing.assert_close(y, torch.nn.functional.gelu(x))
    assert torch.equal(gelu(x), y) and torch.equal(gelu(x, BLOCK=32), y)
    (grad,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(grad, torch.autograd.grad(torch.nn.functional.gelu(x).sum(), x)[0])
    assert str(torch.ops.op_api.gelu_custom.default._schema) == "op_api::gelu_custom(Tensor x, int BLOCK=64) -> Tensor"
    schema = "op_api::scaled_norm(Tensor x, Tensor weight, Scalar eps) -> (Tensor, Tensor)"
    assert str(torch.ops.op_api.scaled_norm.default._schema) == schema


@pytest.mark.parametrize(("name", "shapes", "numbers"), [
    ("gelu_custom", [(100,)], ()), ("scaled_norm", [(4, 8), (8,)], (1e-3,)), ("power", [(16,)], ()),
])  # fmt: skip
def test_opcheck_of_operators_of_the_user(name: str, shapes: list[Any], numbers: tuple[float, ...]) -> None:
    tensors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    operator = getattr(torch.ops.op_api, name).default
    assert set(torch.library.opcheck(operator, (*tensors, *numbers)).values()) == {"SUCCESS"}
    assert torch.autograd.gradcheck(lambda *given: operator(*given, *numbers), tensors)
    with pytest.raises(NoGradient, match="second one"):
        torch.autograd.gradgradcheck(lambda *given: operator(*given, *numbers), tensors)


def test_a_name_means_one_operator() -> None:
    pypto.torch.op(cube, grid=1, outputs={"y": "x"}, name="op_api::power")  # the cell of a notebook runs once more
    with pytest.raises(OperatorName, match=r"`op_api::power`.*there is another operator of that name"):
        pypto.torch.op(gelu_custom, grid=blocks, outputs={"out": "x"}, name="op_api::power")
    for name in ("aten::relu", "power", "pypto::power", "op api::power"):
        with pytest.raises(OperatorName):
            pypto.torch.op(cube, grid=1, outputs={"y": "x"}, name=name)


def times(factor: float) -> Any:
    @pto.jit
    def scaled(x, y):
        y[:] = x[:] * factor

    return pypto.torch.op(scaled, grid=1, outputs={"y": "x"})


def test_kernels_of_one_text_and_other_closures_are_two_operators() -> None:
    x = torch.ones(3)
    both = torch.compile(lambda x: times_two(x) + 10 * times_three(x), fullgraph=True, backend="eager")
    assert both(x).tolist() == [32.0] * 3
    assert torch.vmap(times(5.0))(x[None]).tolist() == [[5.0] * 3]


times_two, times_three = times(2.0), times(3.0)


@pto.jit
def converted(x, y, TO: pto.constexpr):
    y[:] = x[:].to(TO)


def test_an_argument_that_torch_has_no_type_for() -> None:
    f = pypto.torch.op(converted, grid=1, outputs={"y": "x"})
    x = torch.ones(3, requires_grad=True)
    f(x, pto.float32).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1.0] * 3
    with pytest.raises(UntransformedOperator, match="no tensor, number or text"):
        torch.func.grad(lambda x: f(x, pto.float32).sum())(x.detach())


def test_tangents_are_not_lost() -> None:
    """Without a transform of torch.func, too."""
    from torch.autograd import forward_ad

    with forward_ad.dual_level(), pytest.raises(UntransformedOperator, match="forward mode"):
        cubed()(forward_ad.make_dual(torch.ones(3), torch.ones(3)))
