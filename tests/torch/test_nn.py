"""Modules whose operators are rows of the library: weights load both ways, and results and gradients are torch's."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pypto.torch import nn  # noqa: E402


def both(ours: Any, theirs: Any) -> None:
    """Loads the weights of one module into the other, and back."""
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter)
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    assert list(ours.state_dict()) == list(theirs.state_dict())


def agree(ours: Any, theirs: Any, x: Any, tolerance: float = 1e-4) -> None:
    """Compares results, and gradients of the argument and of all weights."""
    results = []
    for module in (ours, theirs):
        given = x.clone().requires_grad_()
        y = module(given)
        gradients = torch.autograd.grad(y.float().square().sum(), (given, *module.parameters()))
        results.append((y, *gradients))
    torch.testing.assert_close(results[0], results[1], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("name", "args", "given"),
    [
        ("RMSNorm", (37,), {}),
        ("RMSNorm", (37,), {"eps": 1e-3, "elementwise_affine": False}),
        ("RMSNorm", ([3, 37],), {}),
        ("LayerNorm", (37,), {}),
        ("LayerNorm", (37,), {"bias": False}),
        ("LayerNorm", ([3, 37],), {"elementwise_affine": False}),
    ],
)
def test_norms(name: str, args: Any, given: Any, dtype: str) -> None:
    kind = getattr(torch, dtype)
    ours, theirs = (getattr(module, name)(*args, **given, dtype=kind) for module in (nn, torch.nn))
    both(ours, theirs)
    agree(ours, theirs, torch.randn(2, 3, 37).to(kind), 1e-4 if dtype == "float32" else 0.1)
    assert ours(torch.randn(0, 3, 37, dtype=kind)).shape == (0, 3, 37)


def test_float32_weights_of_bfloat16_activations() -> None:
    norm, x = nn.RMSNorm(40), torch.randn(2, 3, 40).bfloat16()
    y = norm(x)
    y.sum().backward()
    assert y.dtype == torch.bfloat16 and norm.weight.grad.dtype == torch.float32
    torch.testing.assert_close(y, torch.nn.functional.rms_norm(x, (40,)), rtol=2e-2, atol=2e-2)


class Gated(torch.nn.Module):  # type: ignore[name-defined, misc]
    """The gated linear unit as model libraries write it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (torch.nn.Linear(12, 20, bias=False) for _ in range(2))
        self.down_proj = torch.nn.Linear(20, 12, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down_proj(torch.nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


def test_gated_linear_unit() -> None:
    ours, theirs = nn.SwiGLU(12, 20), Gated()
    both(ours, theirs)
    agree(ours, theirs, torch.randn(2, 5, 12) / 4, 1e-3)


def turned(x: Any, positions: Any, base: float) -> Any:
    """Rotary embedding of (batch, tokens, heads, width) as model libraries write it."""
    angles = positions[..., None] / base ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angles = torch.cat([angles, angles], -1)[..., None, :]
    a, b = x.chunk(2, -1)
    return x * angles.cos() + torch.cat([-b, a], -1) * angles.sin()


def test_rotary_embedding() -> None:
    rotary, x = nn.RotaryEmbedding(16, 1e4), torch.randn(2, 5, 3, 16)
    torch.testing.assert_close(rotary(x), turned(x, torch.arange(5), 1e4))
    positions = torch.tensor([[0, 0, 1, 2, 3], [4, 5, 6, 7, 8]])
    torch.testing.assert_close(rotary(x, positions), turned(x, positions, 1e4))
    assert not rotary.state_dict()


@pytest.mark.parametrize("base", [0.0, 1e4])
def test_attention(base: float) -> None:
    module, x = nn.Attention(32, 4, 2, base=base, bias=True), torch.randn(2, 7, 32)
    assert sorted(module.state_dict())[:2] == ["k_proj.bias", "k_proj.weight"] and len(module.state_dict()) == 7

    def by_torch(x: Any, mask: Any) -> Any:
        parts = (module.q_proj, module.k_proj, module.v_proj)
        q, k, v = (part(x).unflatten(-1, (-1, 8)) for part in parts)
        if base:
            q, k = turned(q, torch.arange(7), base), turned(k, torch.arange(7), base)
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return module.o_proj(y.transpose(1, 2).flatten(2))

    causal = torch.ones(7, 7, dtype=torch.bool).tril()
    padding = torch.arange(7) >= torch.tensor([0, 3])[:, None, None, None]
    expected = by_torch(x, causal)
    torch.testing.assert_close(module(x), expected)
    torch.testing.assert_close(module(x, first=torch.tensor([0, 3], dtype=torch.int32))[:, 3:],
                               by_torch(x, causal & padding)[:, 3:])  # fmt: skip
    gradients = torch.autograd.grad(module(x).square().sum(), list(module.parameters()))
    wanted = torch.autograd.grad(expected.square().sum(), list(module.parameters()))
    torch.testing.assert_close(gradients, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "given",
    [
        {"size": 3, "padding": 1},
        {"size": 3, "padding": 1, "bias": True},
        {"size": (5, 1), "stride": 2, "padding": 2, "groups": 2, "bias": True},
        {"size": (3, 2), "stride": (2, 1), "padding": (1, 3), "dilation": (1, 4)},
    ],
)
def test_convolution(given: Any) -> None:
    ours, (size, *_) = nn.ConvBnRelu(4, 8, **given), given.values()
    options = {"bias": False} | {name: x for name, x in given.items() if name != "size"}
    theirs = torch.nn.Sequential(torch.nn.Conv2d(4, 8, size, **options), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
    both(ours, theirs)
    x = torch.rand(2, 4, 6, 9)
    agree(ours, theirs, x, 1e-3)
    agree(ours.eval(), theirs.eval(), x, 1e-3)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())
    last = x.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(ours(last), ours(x))


def test_sepia() -> None:
    tones = torch.tensor([[0.393, 0.769, 0.189], [0.349, 0.686, 0.168], [0.272, 0.534, 0.131]])
    x = torch.rand(2, 3, 4, 5)
    torch.testing.assert_close(nn.Sepia()(x), torch.einsum("ck,nkhw->nchw", tones, x).clamp(0, 1))


def test_mixture_of_experts() -> None:
    module, x = nn.MoE(12, 10, 5, 2), torch.randn(2, 3, 12)

    def by_torch(x: Any) -> Any:
        weights, ids = torch.softmax(x @ module.gate.T, -1).topk(2)
        weights = weights / weights.sum(-1, keepdim=True)
        gate, up = torch.einsum("btd,btkdf->btkf", x, module.gate_up_proj[ids]).chunk(2, -1)
        y = torch.einsum("btkf,btkfd->btkd", torch.nn.functional.silu(gate) * up, module.down_proj[ids])
        return (y * weights[..., None]).sum(2)

    torch.testing.assert_close(module(x), by_torch(x))
    gradients = torch.autograd.grad(module(x).square().sum(), list(module.parameters()))
    wanted = torch.autograd.grad(by_torch(x).square().sum(), list(module.parameters()))
    torch.testing.assert_close(gradients, wanted, rtol=1e-3, atol=1e-4)
