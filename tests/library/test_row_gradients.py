"""Gradients of the rows: in float64, gradcheck and gradgradcheck of torch on the references."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pypto import library as lib
from pypto.library import Operator
from pypto.library.attention_rows import sparse, v4
from pypto.library.quantized_rows import qat
from pypto.library.row import SMALL, f64

torch = pytest.importorskip("torch")

import pypto.torch  # noqa: E402, F401  (gradients call operators)

WITH = tuple(name for name, row in lib.rows.items() if row.gradient is not None)
# Rows whose gradient is not a derivative, because it passes straight through a rounding.
STRAIGHT = ("fake_quantize", "fake_quantize_groups")
# Cases at a kink, where differences say nothing: equal scores, of which a small step selects others.
KINKS = {("select_experts", "ties"), ("topk", "equal scores"), ("topk", "stretches")}
# Arguments away from the kinks of a row, and steps that do not reach the next one.
AWAY = {
    "kl_divergence": lambda v: {**v, "p": v["p"] + np.float32(1e-3)},
    "topk": lambda v: {**v, "scores": v["scores"].argsort(axis=1).argsort(axis=1) / np.float32(1000)},
}
STEPS = {"fake_quantize_backward": 1e-9}
# Rows whose Jacobian has few elements in the small size.
FEW = (
    "gelu", "gelu_tanh", "silu", "swiglu", "softmax", "rms_norm", "add_rms_norm", "rope_half", "rope_partial",
    "rope_interleaved", "rope_interleaved_inverse", "rope_interleaved_to_half", "dequantize", "hadamard", "conv_int8",
    "depthwise_conv_int8", "select_experts", "permute_tokens", "combine_experts", "block_attention", "sinkhorn",
    "cross_entropy", "kl_divergence", "sepia", "sepia_backward",
)  # fmt: skip
QUICK = ("dequantize", "silu", "cross_entropy")
CASES = [
    (name, case) for name in WITH for case in lib.rows[name].cases if name not in STRAIGHT and (name, case) not in KINKS
]


class Reference(torch.autograd.Function):  # type: ignore[name-defined, misc, unused-ignore]
    """A row whose forward pass is its reference, in float64, and whose backward pass is its gradient."""

    @staticmethod
    def forward(ctx: Any, row: Operator, names: tuple[str, ...], values: dict[str, Any], *tensors: Any) -> Any:
        values = values | dict(zip(names, tensors, strict=True))
        plain = {n: x.detach().numpy() if isinstance(x, torch.Tensor) else x for n, x in values.items()}
        found = [as_tensor(x) for x in row.expected(plain).values()]
        ctx.row, ctx.names, ctx.values = row, names, values
        ctx.mark_non_differentiable(*(x for x in found if not x.is_floating_point()))
        ctx.save_for_backward(*tensors, *found)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        saved, results = ctx.saved_tensors, [spec.name for spec in ctx.row.signature.outputs]
        values = ctx.values | dict(zip((*ctx.names, *results), saved, strict=True))
        incoming = {f"d_{n}": d for n, d in zip(results, gradients, strict=True) if d is not None}
        wanted = frozenset(n for n, needed in zip(ctx.names, ctx.needs_input_grad[3:], strict=True) if needed)
        v = SimpleNamespace(**ctx.row.arguments(values) | incoming, wanted=wanted)
        found = ctx.row.gradient(torch, v)
        assert found.keys() <= wanted
        return None, None, None, *(found.get(n) for n in ctx.names)


def as_tensor(x: Any) -> Any:
    """A result as a tensor; infinities are constant, and differences of them are no numbers."""
    array = np.asarray(x)
    kind = np.float64 if array.dtype.kind == "f" else np.int64
    return torch.from_numpy(np.nan_to_num(array.astype(kind), neginf=0.0))


def operands(name: str, case: str, seed: int = 0) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Arguments with floats in float64, and the names of those arrays."""
    values = AWAY.get(name, dict)(lib.rows[name].sample(np.random.default_rng(seed), case))
    tensors = {n: torch.from_numpy(widened(x)) for n, x in values.items() if isinstance(x, np.ndarray)}
    names = tuple(n for n, x in tensors.items() if x.is_floating_point())
    for n in names:
        tensors[n].requires_grad_()
    return names, values | tensors


def widened(x: Any) -> Any:
    is_float = x.dtype.kind in "fV" or x.dtype.name == "bfloat16"
    return np.nan_to_num(x.astype(np.float64), nan=0.3, neginf=-np.inf, posinf=np.inf) if is_float else x


@pytest.fixture(autouse=True)
def _without_roundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The references round between their steps, which a small step of an argument would not show."""
    for module in (v4, sparse):
        monkeypatch.setattr(module, "bf", f64)
    monkeypatch.setattr(qat, "steps", lambda w, scale: (w / np.maximum(scale, qat.STEP)[:, None], scale[:, None]))


def test_a_row_has_a_gradient_or_says_why_not() -> None:
    for name, row in lib.rows.items():
        assert (row.gradient is None) == bool(row.no_gradient), name
        assert row.gradient is None or not row.effects, name


def gradients_of(name: str, wanted: set[str], **values: Any) -> dict[str, Any]:
    """What a row's gradient gives for tensors."""
    row = lib.rows[name]
    assert row.gradient is not None
    v = SimpleNamespace(**row.arguments(values), wanted=frozenset(wanted))
    return dict(row.gradient(torch, v))


def function_of(name: str, values: dict[str, Any], names: tuple[str, ...]) -> Any:
    """The results with floats, as a function of the tensors."""

    def function(*tensors: Any) -> Any:
        found = Reference.apply(lib.rows[name], names, values, *tensors)
        return tuple(x for x in found if x.is_floating_point())

    return function


@pytest.mark.parametrize(("name", "case"), CASES)
def test_gradient_is_that_of_the_reference(name: str, case: str) -> None:
    """To the second order: torch's checks, with random vectors on both sides of each Jacobian."""
    torch.manual_seed(0)
    names, values = operands(name, case)
    tensors, step = [values[n] for n in names], STEPS.get(name, 1e-6)
    function = function_of(name, values, names)
    assert torch.autograd.gradcheck(function, tensors, eps=step, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, tensors, eps=step, fast_mode=True)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in FEW])
def test_each_element_of_the_jacobian(name: str) -> None:
    """One by one: the Jacobian of topk has 166 million elements, and its second one four times as many."""
    names, values = operands(name, SMALL)
    tensors = [values[n] for n in names]
    assert torch.autograd.gradcheck(function_of(name, values, names), tensors, eps=STEPS.get(name, 1e-6))


def test_straight_through_a_rounding() -> None:
    """The row of the backward pass, in float64, is what `fake_quantize` gives; the clamp ends it outside."""
    names, values = operands("fake_quantize_backward", SMALL)
    v = {n: x.detach() if n in names else x for n, x in values.items()}
    dw, ds = lib.rows["fake_quantize_backward"].expected({n: x.numpy() for n, x in v.items()}).values()
    found = gradients_of("fake_quantize", {"w", "scale"}, w=v["w"], scale=v["scale"], d_y=v["g"])
    assert torch.allclose(found["w"], torch.from_numpy(dw))
    assert torch.allclose(found["scale"], torch.from_numpy(ds))


def test_straight_through_the_rounding_of_groups() -> None:
    """As torch differentiates the formula when the rounding is the identity backwards."""
    _, values = operands("fake_quantize_groups", SMALL)
    w, scale, offset = (values[n] for n in ("w", "scale", "offset"))
    levels, t = 8.0, w.unflatten(1, (scale.shape[1], -1))
    u = ((t - offset[..., None]) / (scale[..., None] * levels)).clamp(-0.99, 0.99) * levels - 0.5
    y = ((u + (u.round() - u).detach() + 0.5) * scale[..., None] + offset[..., None]).flatten(1)
    expected = lib.rows["fake_quantize_groups"].expected({n: x.detach().numpy() for n, x in values.items()})
    assert np.abs(y.detach().numpy() - expected["y"]).max() < 1e-5
    d = torch.randn_like(y)
    right = torch.autograd.grad(y, (w, scale, offset), d)
    found = gradients_of("fake_quantize_groups", {"w", "scale", "offset"}, **values, bits=4, d_y=d)
    for name, x in zip(("w", "scale", "offset"), right, strict=True):
        assert torch.allclose(found[name], x), name


def test_kinks_are_those_of_torch() -> None:
    ones = torch.ones(1, 4, dtype=torch.float64)
    p = torch.tensor([[0.0, 0.5, 0.5, 0.0]], dtype=torch.float64)
    found = gradients_of("kl_divergence", {"log_q", "p"}, log_q=-ones, p=p, d_loss=ones[:, 0])
    assert found["p"][0, 0] == 0 and found["log_q"][0, 0] == 0 and found["p"].isfinite().all()
    x = torch.zeros(1, 3, 1, 2, dtype=torch.float64)
    x[..., 1] = 9
    found = gradients_of("sepia", {"x"}, x=x, d_y=torch.ones_like(x))
    assert (found["x"][..., 0] > 0).all() and (found["x"][..., 1] == 0).all()
    image, weight = torch.ones(1, 1, 2, 2), torch.zeros(3, 3, 1, 1)
    y = torch.zeros(1, 1, 2, 2)
    given = {"x": image, "weight": weight, "gain": torch.ones(1), "bias": torch.zeros(1), "y": y, "d_y": y + 1}
    assert all((g == 0).all() for g in gradients_of("conv_bn_relu", {"x", "weight", "gain", "bias"}, **given).values())
    zeros = torch.zeros(2, 8, dtype=torch.float64)
    found = gradients_of("rms_norm", {"x"}, x=zeros, g=zeros[0] + 1, eps=1e-6, d_y=zeros + 1)
    assert torch.allclose(found["x"], zeros + 1000)


def test_numbers_beside_what_is_seen_do_not_reach_a_gradient() -> None:
    """NaN in another sequence, and in rows of a page behind the length of a sequence."""
    for name, case, wanted in (("varlen_attention", "neighbours", ("q", "k", "v")), ("paged_attention", "short", "q")):
        values = lib.rows[name].sample(np.random.default_rng(0), case)
        given = {n: torch.from_numpy(x.astype(np.float32) if x.dtype.kind not in "iu" else x)
                 for n, x in values.items() if isinstance(x, np.ndarray)}  # fmt: skip
        found = gradients_of(name, set(wanted), **values | given, d_out=torch.ones_like(given["q"]))
        for n in wanted:
            first, others = found[n][:7], found[n][7:]
            assert first.isfinite().all() and others.isnan().any() == (name == "varlen_attention"), n
