"""Torch's words in fused functions: on tensors they compute what torch does, on arrays of numpy they are a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.arrays import Dim, explain
from pypto.errors.graph import NotTraced, WrongShapes

torch = pytest.importorskip("torch")
F = torch.nn.functional


def block(x: Any, w: Any) -> Any:
    """An attention layer as programs for torch write it."""
    rows, length, width = x.size()
    q = (x @ w).view(rows, length, 2, -1).transpose(1, 2)
    scores = q @ q.transpose(-2, -1) / width**0.5
    hidden = torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)
    weights = F.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)
    return (weights @ q).transpose(1, 2).contiguous().view(rows, length, width)


def reduced(x: Any, w: Any) -> Any:
    return {
        "mean": x.mean(dim=-1, keepdim=True), "std": x.std(dim=1), "var": x.var(-1), "all std": x.std(),
        "sum": x.sum(dim=[0, 2]), "best": x.max(dim=-1)[0], "where": x.max(-1).indices, "max": x.max(),
        "any": (x > 2).any(),
        "norm": x.norm(dim=-1), "argmax": x.argmax(dim=-1), "total": torch.sum(x), "cumsum": x.cumsum(-1),
        "logsumexp": torch.logsumexp(x, dim=1), "mean of rows": x.mean(axis=1, keepdims=True),
    }  # fmt: skip


def moved(x: Any, w: Any) -> Any:
    return [
        torch.cat([x, x], dim=-1), torch.stack([x, x]), x.unsqueeze(0).permute(3, 0, 1, 2), x.flatten(1), x.flip(0),
        x.chunk(2, dim=-1)[1], x.split(3, dim=-1)[2], x.expand(3, -1, -1, -1), x.repeat(1, 2, 1), x.roll(1, 0),
        x.tril(), x.unbind(1)[2], F.pad(x, (1, 2)), x[:, None].squeeze(1), w.t(), x.mT, x.narrow(1, 1, 2),
        torch.flatten(x),
        x.gather(2, x.argsort(-1, descending=True)),
        x.index_select(1, torch.arange(2)), x.reshape(-1, 8),
    ]  # fmt: skip


def elementwise(x: Any, w: Any) -> Any:
    return [
        x.to(torch.float64), x.half().float(), x.long(), (x > 0).float(), x.bfloat16() * 2.5, x.clamp(min=0.1),
        x.relu(),
        torch.exp(input=x), torch.clamp(x, -1, 1), torch.rsqrt(x.abs() + 1), x.pow(2), x.add(x, alpha=2), x.eq(x),
        torch.where(x > 0, x, 0.0), torch.sigmoid(x), x.type_as(w), torch.maximum(x, x * 2), x.div(2),
        x.lerp(x * 2, 0.25),
    ]  # fmt: skip


def neural(x: Any, w: Any) -> Any:
    return [
        F.scaled_dot_product_attention(x, x, x, is_causal=True), F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x),
        F.linear(x, w, w[0]), F.layer_norm(x, (8,), w[0], w[1]), F.rms_norm(x, (8,)), F.normalize(x, dim=-1),
        F.cross_entropy(w, torch.arange(8)), F.mse_loss(x, x * 2), F.embedding(torch.arange(3), w), F.softplus(x),
        F.leaky_relu(x), F.hardswish(x), F.glu(x), F.log_softmax(x, dim=-1), F.dropout(x, 0.5, training=False),
        F.one_hot(torch.arange(4), 8), torch.einsum("bsd,de->bse", x, w), torch.addmm(w[0], w, w),
        torch.outer(w[0], w[1]),
    ]  # fmt: skip


def created(x: Any, w: Any) -> Any:
    return [
        torch.arange(4) * 2, torch.zeros(2, 3), torch.tensor([1.0, 2.0]), torch.full((2,), 1.5),
        torch.zeros_like(x) + 1,
        x.new_ones(2, 2), torch.eye(3), torch.linspace(0, 1, 5), torch.tensor([1, 2]), torch.arange(0.0, 1.0, 0.25),
        x + torch.ones(8, device=x.device), x * (2 if x.dtype == torch.float32 else 3), x * x.numel(), x * x.dim(),
    ]  # fmt: skip


def updated(x: Any, w: Any) -> Any:
    y = x.clone()
    y.add_(1).mul_(2)
    y[:, 0] = 0
    y.masked_fill_(y > 3, 0.5).clamp_(min=-1)
    y[:, 1].copy_(x[:, 2])
    return y


@pytest.mark.parametrize("function", (block, reduced, moved, elementwise, neural, created, updated))
def test_words_compute_what_torch_does(function: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(2, 4, 8), torch.randn(8, 8)
    fused, wanted = pto.fuse(function), function(x, w)
    for _ in range(2):
        got = fused(x, w)
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4, check_stride=False)


def test_words_in_low_precision() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(2, 4, 8).bfloat16(), torch.randn(8, 8).bfloat16()
    got = pto.fuse(block)(x, w)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), block(x.float(), w.float()), rtol=0.05, atol=0.1)


def test_words_with_dimensions_by_name() -> None:
    fused = pto.fuse(lambda x: x.view(x.size(0), -1) * x.size(0), dims={"x": (Dim("n", 1, 9), None, None)})
    for n in (2, 5, 9):
        assert torch.equal(fused(torch.ones(n, 2, 3)), torch.full((n, 6), float(n)))
    assert len(fused.versions) == 1


def test_attention_in_torch_words_is_one_kernel() -> None:
    x = torch.randn(2, 64, 32)
    text = explain(lambda x: F.softmax(x @ x.transpose(-2, -1), dim=-1) @ x, x)
    assert "1 kernels" in text


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a function": (torch.cholesky, r"`torch\.cholesky`.* not offered"),
    "a method": (lambda x: x.frobnicate(), r"`\.frobnicate`"),
    "a keyword": (lambda x: x.sum(foo=2), "unexpected keyword argument 'foo'"),
    "a device": (lambda x: x + torch.zeros(2, device="cuda"), "no tensors on cuda"),
    "dropout": (F.dropout, "training"),
    "random numbers": (lambda x: x + torch.randn(8), "a Tensor"),
    "another shape in place": (lambda x: x.unsqueeze_(0), "shape"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    function, match = REFUSED[name]
    with pytest.raises(NotTraced, match=match):
        pto.fuse(function)(torch.randn(2, 8, 8))


ON_NUMPY: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a function": (lambda x: torch.softmax(x, -1), "array is one of numpy"),
    "unsqueeze": (lambda x: x.unsqueeze(0), r"np\.expand_dims"),
    "masked_fill": (lambda x: x.masked_fill(x > 0, 1), r"np\.where"),
    "view": (lambda x: x.view(-1), r"x\.reshape"),
    "dim": (lambda x: x.sum(dim=1), "write `axis=`"),
    "keepdim": (lambda x: x.max(axis=1, keepdim=True), "write `keepdims=`"),
    "size": (lambda x: x.size(0), r"write `x\.shape`"),
    "transpose": (lambda x: x.transpose(-2, -1), r"np\.swapaxes"),
}


@pytest.mark.parametrize("name", ON_NUMPY)
def test_one_sentence_on_arrays_of_numpy(name: str) -> None:
    function, match = ON_NUMPY[name]
    with pytest.raises((NotTraced, WrongShapes), match=match):
        pto.fuse(function)(np.ones((2, 8, 8), np.float32))
