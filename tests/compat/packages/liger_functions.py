"""Liger-Kernel's functions and modules beside torch in float64: values, and gradients."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F

from tests.compat.packages.agreement import Check, differentiable, double, later, same
from tests.compat.world import close, rms

PACKAGE = "liger-kernel"
randn, rand = torch.randn, torch.rand
CLASSES = torch.randint(0, 300, (7,), generator=torch.Generator().manual_seed(1))
WIDTH, INNER = 64, 96
CONFIG = SimpleNamespace(
    hidden_size=WIDTH, intermediate_size=INNER, hidden_act="silu", mlp_bias=False, moe_intermediate_size=INNER,
    num_local_experts=4, num_experts=4, mlp_multipliers=(1.0, 1.0),
)  # fmt: skip


def functional(name: str) -> Any:
    import liger_kernel.transformers.functional as functions  # type: ignore[import-not-found]

    return getattr(functions, f"liger_{name}")


def module(name: str, *args: Any, **named: Any) -> Any:
    import liger_kernel.transformers as modules

    return getattr(modules, name)(*args, **named)


def function(name: str, reference: Any, inputs: Callable[[], tuple[Any, ...]], **given: Any) -> Check:
    """A function of `liger_kernel.transformers.functional`; `given` goes to it, but for the tolerance."""
    tolerance = given.pop("tolerance", 1e-4)
    return later(
        lambda: differentiable(lambda *xs: functional(name)(*xs, **given), reference, *inputs(), tolerance=tolerance)
    )


def layer(make: Callable[[], Any], reference: Any, inputs: Callable[[], tuple[Any, ...]], **given: Any) -> Check:
    """A module and a function of its parameters in float64 and the inputs; gradients of both are compared."""

    def check() -> None:
        made = make()
        tensors = dict(made.named_parameters())
        for parameter in tensors.values():
            parameter.data = randn(parameter.shape) * 0.3
        weights = {name: double(p).requires_grad_(True) for name, p in tensors.items()}
        differentiable(
            made, lambda *xs: reference(weights, *xs), *inputs(), tolerance=given.get("tolerance", 1e-4)
        )  # fmt: skip
        for name, weight in weights.items():
            close(tensors[name].grad, weight.grad, given.get("tolerance", 1e-4))

    return later(check)


def rows(*sizes: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: tuple(randn(6, size) if size > 0 else randn(-size) for size in sizes)


def squared(x: Any) -> Any:
    return F.relu(x) ** 2


def gated(act: Any) -> Any:
    return lambda p, x: act(x @ p["gate_proj.weight"].T) * (x @ p["up_proj.weight"].T) @ p["down_proj.weight"].T


def phi(p: Any, x: Any) -> Any:
    gate, up = (x @ p["gate_up_proj.weight"].T).chunk(2, -1)
    return F.silu(gate) * up @ p["down_proj.weight"].T


def mixtral(p: Any, x: Any) -> Any:
    return F.silu(x @ p["w1.weight"].T) * (x @ p["w3.weight"].T) @ p["w2.weight"].T


def gelu(x: Any) -> Any:
    return F.gelu(x, approximate="tanh")


def poly(x: Any, w: Any, b: Any) -> Any:
    return w[0] * rms(x**3, 1) + w[1] * rms(x**2, 1) + w[2] * rms(x, 1) + b


def jsd(x: Any, y: Any) -> Any:
    a, b = y.exp(), x.exp()
    middle = ((a + b) / 2).log()
    return 0.5 * (a * (y - middle) + b * (x - middle)).sum() / x.shape[0]


def logs(*shape: int) -> Any:
    return randn(*shape).log_softmax(-1)


LOGS, SHARES = logs(6, 50), randn(6, 50).softmax(-1)


def rotated(x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    return x * cos[:, None] + torch.cat([-x[..., half:], x[..., :half]], -1) * sin[:, None]


def angles(tokens: int, width: int, *lead: int) -> tuple[Any, Any]:
    angle = randn(*(lead or (1,)), tokens, width // 2)
    return torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)


def rope(call: Any) -> Check:
    """Rotates in place, so that values alone are compared."""
    cos, sin = angles(9, 32)
    return later(
        lambda: same(
            lambda q, k: call()(q, k, cos, sin),
            lambda q, k: (rotated(q, cos, sin), rotated(k, cos, sin)),
            randn(2, 4, 9, 32),
            randn(2, 2, 9, 32),
        )
    )


def mrope(q: Any, k: Any, cos: Any, sin: Any) -> Any:
    """Parts of a head's width take their angles from time, height and width."""
    parts = [4, 6, 6] * 2
    cos, sin = (torch.cat([part[i % 3] for i, part in enumerate(x.split(parts, -1))], -1) for x in (cos, sin))
    return rotated(q, cos, sin), rotated(k, cos, sin)


def complex_rope(q: Any, k: Any, angle: Any) -> Any:
    turn = torch.polar(torch.ones_like(angle), angle)
    return tuple(
        torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * turn[:, :, None]).flatten(3)
        for x in (q, k)
    )


def ours_complex(q: Any, k: Any, angle: Any) -> Any:
    import liger_kernel.transformers as modules

    return modules.liger_llama4_text_rotary_pos_emb(q, k, torch.polar(torch.ones_like(angle), angle))


def sparsemax(x: Any) -> Any:
    ordered = x.sort(-1, descending=True).values
    sums, k = ordered.cumsum(-1) - 1, torch.arange(1, x.shape[-1] + 1)
    support = (ordered * k > sums).sum(-1, keepdim=True)
    return (x - sums.gather(-1, support - 1) / support).clamp(min=0)


def token_attention(scores: Any, weight: Any, bias: Any) -> Any:
    size = scores.shape[-1]
    future = ~torch.ones(size, size, dtype=torch.bool).tril()
    shares = scores.masked_fill(future, -1e9).softmax(-1)
    return F.conv2d(shares, weight, bias, padding=1).masked_fill(future, 0.0)


def linear_loss(x: Any, w: Any) -> Any:
    return F.cross_entropy(x @ w.T, CLASSES)


def linear_jsd(x: Any, w: Any, y: Any, v: Any) -> Any:
    return jsd((x @ w.T).log_softmax(-1), (y @ v.T).log_softmax(-1).detach())


def attention_over_residuals(v: Any, query: Any, norm: Any) -> Any:
    """Every layer's output is weighted by the softmax of a query with its normed values."""
    scores = (rms(v, norm) * query).sum(-1).softmax(0)
    return (scores[..., None] * v).sum(0)


FUNCTIONS: dict[str, Check] = {
    "liger_cross_entropy": function(
        "cross_entropy",
        lambda x: F.cross_entropy(x, CLASSES[:6], label_smoothing=0.1),
        rows(300),
        target=CLASSES[:6],
        label_smoothing=0.1,
    ),
    "liger_fused_linear_cross_entropy": later(
        lambda: differentiable(
            lambda x, w: functional("fused_linear_cross_entropy")(x, w, CLASSES),
            linear_loss,
            randn(7, 64),
            randn(300, 64) * 0.1,
        )
    ),
    "liger_fused_linear_jsd": function(
        "fused_linear_jsd",
        linear_jsd,
        lambda: (randn(7, 64), randn(300, 64) * 0.1, randn(7, 64), randn(300, 64) * 0.1),
    ),
    "liger_geglu": function("geglu", lambda a, b: gelu(a) * b, rows(130, 130)),
    "liger_swiglu": function("swiglu", lambda a, b: F.silu(a) * b, rows(130, 130)),
    "liger_relu_squared": function("relu_squared", squared, rows(130)),
    "liger_softmax": function("softmax", lambda x: x.softmax(-1), rows(77)),
    "liger_sparsemax": function("sparsemax", sparsemax, rows(77)),
    "liger_rms_norm": function("rms_norm", rms, rows(100, -100), eps=1e-6),
    "liger_layer_norm": function(
        "layer_norm", lambda x, w, b: F.layer_norm(x, (100,), w, b, 1e-6), rows(100, -100, -100), eps=1e-6
    ),
    "liger_group_norm": function(
        "group_norm",
        lambda x, w, b: F.group_norm(x, 4, w, b, 1e-6),
        lambda: (randn(3, 8, 20), randn(8), randn(8)),
        num_channels=8,
        num_groups=4,
        eps=1e-6,
    ),
    "liger_fused_add_rms_norm": function(
        "fused_add_rms_norm", lambda x, r, w: rms(x + r, w), rows(100, 100, -100), eps=1e-6
    ),
    "liger_modulated_rms_norm": function(
        "modulated_rms_norm",
        lambda x, w, s, t: rms(x, w) * (1 + s[:, None]) + t[:, None],
        lambda: (randn(2, 5, 100), randn(100), randn(2, 100), randn(2, 100)),
        tolerance=1e-3,
    ),
    "liger_poly_norm": function(
        "poly_norm", poly, lambda: (randn(6, 100), randn(3), torch.tensor(0.3)), tolerance=1e-3
    ),
    "liger_dyt": later(  # backward, it asks for the number of a GPU's processors
        lambda: same(
            functional("dyt"),
            lambda x, a, g, b: g * torch.tanh(a * x) + b,
            randn(6, 128),
            torch.tensor([0.7]),
            randn(128),
            randn(128),
        )
    ),
    "liger_kl_div": function(
        "kl_div",
        lambda x: F.kl_div(x, SHARES.double(), reduction="batchmean"),
        lambda: (logs(6, 50),),
        target=SHARES,
        reduction="batchmean",
    ),
    "liger_jsd": function("jsd", lambda x: jsd(x, LOGS.double()), lambda: (logs(6, 50),), target=LOGS),
    "liger_tvd": function(
        "tvd",
        lambda x: 0.5 * (x - SHARES.double()).abs().sum() / 6,
        lambda: (randn(6, 50).softmax(-1),),
        target=SHARES,
        reduction="batchmean",
    ),
    "liger_multi_token_attention": function(
        "multi_token_attention", token_attention, lambda: (randn(2, 4, 20, 20), randn(4, 4, 3, 3), randn(4)), padding=1
    ),
    "liger_rope": rope(lambda: functional("rope")),
    "liger_rotary_pos_emb": rope(lambda: __import__("liger_kernel.transformers", fromlist=["x"]).liger_rotary_pos_emb),
    "liger_qwen2vl_mrope": later(
        lambda: same(
            lambda q, k, c, s: functional("qwen2vl_mrope")(q, k, c, s, [4, 6, 6]),
            mrope,
            randn(2, 4, 9, 32),
            randn(2, 2, 9, 32),
            *angles(9, 32, 3, 2),
        )
    ),
    "liger_llama4_text_rotary_pos_emb": later(
        lambda: same(ours_complex, complex_rope, randn(2, 9, 4, 32), randn(2, 9, 2, 32), randn(1, 9, 16))
    ),
    "liger_attn_res": function(
        "attn_res", attention_over_residuals, lambda: (randn(4, 2, 5, 64), randn(64), randn(64)), tolerance=1e-3
    ),
}

MODULES: dict[str, Check] = {
    "LigerRMSNorm": layer(lambda: module("LigerRMSNorm", 100), lambda p, x: rms(x, p["weight"]), rows(100)),
    "LigerLayerNorm": layer(
        lambda: module("LigerLayerNorm", 100, bias=True),
        lambda p, x: F.layer_norm(x, (100,), p["weight"], p["bias"], 1e-6),
        rows(100),
    ),
    "LigerFusedAddRMSNorm": layer(
        lambda: module("LigerFusedAddRMSNorm", 100), lambda p, x, r: rms(x + r, p["weight"]), rows(100, 100)
    ),
    "LigerModulatedRMSNorm": layer(
        lambda: module("LigerModulatedRMSNorm", 100),
        lambda p, x, s: rms(x, p["weight"]) * (1 + s[:, None]),
        lambda: (randn(2, 5, 100), randn(2, 100)),
        tolerance=1e-3,
    ),
    "LigerPolyNorm": layer(
        lambda: module("LigerPolyNorm"), lambda p, x: poly(x, p["weight"], p["bias"]), rows(100), tolerance=1e-3
    ),
    "LigerSwiGLUMLP": layer(lambda: module("LigerSwiGLUMLP", CONFIG), gated(F.silu), rows(WIDTH)),
    "LigerGEGLUMLP": layer(
        lambda: module("LigerGEGLUMLP", SimpleNamespace(**{**vars(CONFIG), "hidden_act": "gelu_pytorch_tanh"})),
        gated(gelu),
        rows(WIDTH),
    ),
    "LigerQwen3MoeSwiGLUMLP": layer(lambda: module("LigerQwen3MoeSwiGLUMLP", CONFIG), gated(F.silu), rows(WIDTH)),
    "LigerPhi3SwiGLUMLP": layer(lambda: module("LigerPhi3SwiGLUMLP", CONFIG), phi, rows(WIDTH)),
    "LigerBlockSparseTop2MLP": layer(lambda: module("LigerBlockSparseTop2MLP", CONFIG), mixtral, rows(WIDTH)),
    "LigerTiledSwiGLUMLP": layer(
        lambda: module("LigerTiledSwiGLUMLP", CONFIG, num_shards=2), gated(F.silu), rows(WIDTH)
    ),
    "LigerTiledGEGLUMLP": layer(
        lambda: module(
            "LigerTiledGEGLUMLP", SimpleNamespace(**{**vars(CONFIG), "hidden_act": "gelu_pytorch_tanh"}), num_shards=2
        ),
        gated(gelu),
        rows(WIDTH),
    ),
    "LigerReLUSquared": layer(lambda: module("LigerReLUSquared"), lambda p, x: squared(x), rows(130)),
    "LigerSoftmax": layer(lambda: module("LigerSoftmax"), lambda p, x: x.softmax(-1), rows(77)),
    "LigerSparsemax": layer(lambda: module("LigerSparsemax"), lambda p, x: sparsemax(x), rows(77)),
    "LigerMultiTokenAttention": layer(
        lambda: module("LigerMultiTokenAttention", 4, 4, 3, padding=1),
        lambda p, x: token_attention(x, p["weight"], p["bias"]),
        lambda: (randn(2, 4, 20, 20),),
    ),
    "LigerCrossEntropyLoss": layer(
        lambda: module("LigerCrossEntropyLoss"), lambda p, x, y: F.cross_entropy(x, y), lambda: (randn(7, 300), CLASSES)
    ),
    "LigerFusedLinearCrossEntropyLoss": layer(
        lambda: module("LigerFusedLinearCrossEntropyLoss"),
        lambda p, w, x, y: F.cross_entropy(x @ w.T, y),
        lambda: (randn(300, 64) * 0.1, randn(7, 64), CLASSES),
    ),
    "LigerFusedLinearJSD": layer(
        lambda: module("LigerFusedLinearJSD"),
        lambda p, x, w, y, v, _: linear_jsd(x, w, y, v),
        lambda: (randn(7, 64), randn(300, 64) * 0.1, randn(7, 64), randn(300, 64) * 0.1, None),
    ),
    "LigerJSD": layer(
        lambda: module("LigerJSD"), lambda p, x, y: jsd(x, y.detach()), lambda: (logs(6, 50), LOGS.detach())
    ),
    "LigerKLDIVLoss": layer(
        lambda: module("LigerKLDIVLoss", reduction="batchmean"),
        lambda p, x, y: F.kl_div(x, y.detach(), reduction="batchmean"),
        lambda: (logs(6, 50), SHARES),
    ),
    "LigerTVDLoss": layer(
        lambda: module("LigerTVDLoss"),
        lambda p, x, y: 0.5 * (x - y.detach()).abs().sum() / 6,
        lambda: (randn(6, 50).softmax(-1), SHARES),
    ),
}
