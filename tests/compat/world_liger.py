"""Liger-Kernel: fused layers and losses for training, forward and backward."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tests.compat.world import LIGER, cdiv, close, gradients, rms, trial

randn = torch.randn


@trial(LIGER, "ops/rms_norm.py")
def rms_norm(m: Any) -> None:
    gradients(
        lambda x, w: m.LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, "llama", False), rms, randn(6, 100), randn(100)
    )


@trial(LIGER, "ops/layer_norm.py")
def layer_norm(m: Any) -> None:
    def reference(x: Any, w: Any, b: Any) -> Any:
        return F.layer_norm(x, (100,), w, b, 1e-6)

    function = m.LigerLayerNormFunction.apply
    gradients(lambda x, w, b: function(x, w, b, 1e-6), reference, randn(6, 100), randn(100), randn(100))


@trial(LIGER, "ops/swiglu.py")
def swiglu(m: Any) -> None:
    gradients(m.LigerSiLUMulFunction.apply, lambda a, b: F.silu(a) * b, randn(5, 130), randn(5, 130))


@trial(LIGER, "ops/geglu.py")
def geglu(m: Any) -> None:
    def reference(a: Any, b: Any) -> Any:
        return F.gelu(a, approximate="tanh") * b

    gradients(m.LigerGELUMulFunction.apply, reference, randn(5, 130), randn(5, 130))


@trial(LIGER, "ops/cross_entropy.py")
def cross_entropy(m: Any) -> None:
    target = torch.randint(0, 300, (7,))
    gradients(
        lambda x: m.LigerCrossEntropyFunction.apply(x, target, None, -100, 0.0, 0.1, "mean", None, False)[0],
        lambda x: F.cross_entropy(x, target, label_smoothing=0.1), randn(7, 300),
    )  # fmt: skip


@trial(LIGER, "ops/fused_linear_cross_entropy.py")
def linear_cross_entropy(m: Any) -> None:
    target = torch.randint(0, 300, (7,))
    gradients(
        lambda x, w: m.LigerFusedLinearCrossEntropyFunction.apply(x, w, target, None)[0],
        lambda x, w: F.cross_entropy(x @ w.T, target), randn(7, 64), randn(300, 64) * 0.1, tolerance=1e-3,
    )  # fmt: skip


@trial(LIGER, "ops/rope.py")
def rope(m: Any) -> None:
    q, k, angle = randn(2, 4, 9, 32), randn(2, 2, 9, 32), randn(1, 9, 16)
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)

    def rotated(x: Any) -> Any:
        return x * cos[:, None] + torch.cat([-x[..., 16:], x[..., :16]], -1) * sin[:, None]

    found = m.LigerRopeFunction.apply(q.clone(), k.clone(), cos, sin)
    close(found[0], rotated(q))
    close(found[1], rotated(k))


@trial(LIGER, "ops/kl_div.py")
def kl_div(m: Any) -> None:
    p = randn(6, 50).softmax(-1)
    gradients(
        lambda x: m.LigerKLDivLossFunction.apply(x, p, "batchmean", False, 1e-10),
        lambda x: F.kl_div(x, p.double(), reduction="batchmean"), randn(6, 50).log_softmax(-1),
    )  # fmt: skip


@trial(LIGER, "ops/jsd.py")
def jsd(m: Any) -> None:
    p = randn(6, 50).log_softmax(-1)

    def reference(x: Any) -> Any:
        a, b = p.double().exp(), x.exp()
        middle = ((a + b) / 2).log()
        return 0.5 * (a * (p.double() - middle) + b * (x - middle)).sum() / 6

    gradients(lambda x: m.LigerJSDFunction.apply(x, p, None, 0.5, -100), reference, randn(6, 50).log_softmax(-1))


@trial(LIGER, "ops/tvd.py")
def tvd(m: Any) -> None:
    p = randn(6, 50).softmax(-1)
    gradients(
        lambda x: m.LigerTVDLossFunction.apply(x, p, None, "batchmean", -100),
        lambda x: 0.5 * (x - p.double()).abs().sum() / 6, randn(6, 50).softmax(-1),
    )  # fmt: skip


@trial(LIGER, "ops/group_norm.py")
def group_norm(m: Any) -> None:
    gradients(
        lambda x, w, b: m.LigerGroupNormFunction.apply(x, w, b, 8, 4, 1e-6),
        lambda x, w, b: F.group_norm(x, 4, w, b, 1e-6), randn(3, 8, 20), randn(8), randn(8),
    )  # fmt: skip


@trial(LIGER, "ops/dyt.py")
def dyt(m: Any) -> None:
    x, gamma, beta = randn(5, 40), randn(40), randn(40)
    alpha, y = torch.tensor([0.7]), torch.empty(5, 40)
    m._dyt_fwd_kernel[lambda meta: (cdiv(40, meta["BLOCK_N"]), 5)](x, y, alpha, gamma, beta, HAVE_BETA=True, N=40)
    close(y, gamma * torch.tanh(alpha * x) + beta)


@trial(LIGER, "ops/softmax.py")
def softmax(m: Any) -> None:
    gradients(m.LigerSoftmaxFunction.apply, lambda x: x.softmax(-1), randn(6, 77))


@trial(LIGER, "ops/sparsemax.py")
def sparsemax(m: Any) -> None:
    def reference(x: Any) -> Any:
        ordered = x.sort(-1, descending=True).values
        sums, k = ordered.cumsum(-1) - 1, torch.arange(1, x.shape[-1] + 1)
        support = (ordered * k > sums).sum(-1, keepdim=True)
        return (x - sums.gather(-1, support - 1) / support).clamp(min=0)

    gradients(lambda x: m.LigerSparsemaxFunction.apply(x, -1), reference, randn(6, 77))


@trial(LIGER, "ops/experimental/embedding.py")
def embedding(m: Any) -> None:
    index = torch.randint(0, 20, (3, 5))
    gradients(lambda w: m.LigerEmbeddingFunction.apply(w, index), lambda w: F.embedding(index, w), randn(20, 40))


@trial(LIGER, "ops/fused_add_rms_norm.py")
def add_rms_norm(m: Any) -> None:
    gradients(
        lambda x, r, w: m.LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-6, 0.0, "llama", False)[0],
        lambda x, r, w: rms(x + r, w), randn(6, 100), randn(6, 100), randn(100),
    )  # fmt: skip


@trial(LIGER, "ops/poly_norm.py")
def poly_norm(m: Any) -> None:
    def reference(x: Any, w: Any, b: Any) -> Any:
        return w[0] * rms(x**3, 1) + w[1] * rms(x**2, 1) + w[2] * rms(x, 1) + b

    gradients(
        lambda x, w, b: m.LigerPolyNormFunction.apply(x, w, b, 1e-6, False), reference,
        randn(6, 100), randn(3), torch.tensor(0.3), tolerance=1e-3,
    )  # fmt: skip
