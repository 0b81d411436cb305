"""Composes the rows of residual streams and of the recurrent cell."""

from __future__ import annotations

from typing import Any

from pypto.library.gradients.rule import Tensors


def normed(x: Any, eps: float) -> Any:
    """Divides rows by their root mean square."""
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()


def block_attention(torch: Any, v: Any) -> Tensors:
    """Computes `block_attention` in torch."""
    key = normed(v.v, 1e-6)
    key = key if v.gain is None else key * v.gain
    return {"h": (torch.softmax(key @ v.w * v.scale, 2)[..., None] * v.v).sum(2)}


def balanced(torch: Any, x: Any, rounds: int) -> Any:
    """Normalises rows and columns of matrices to the sum 1 by Sinkhorn's iteration."""
    c = torch.softmax(x, 2) + 1e-6
    c = c / (c.sum(1, keepdim=True) + 1e-6)
    for _ in range(rounds - 1):
        c = c / (c.sum(2, keepdim=True) + 1e-6)
        c = c / (c.sum(1, keepdim=True) + 1e-6)
    return c


def sinkhorn(torch: Any, v: Any) -> Tensors:
    """Computes `sinkhorn` in torch."""
    return {"y": balanced(torch, v.x, v.rounds)}


def hyper_connections(torch: Any, v: Any) -> Tensors:
    """Computes `hyper_connections` in torch."""
    t, n, _ = v.x.shape
    m = normed(v.x.flatten(1), 1e-6) @ v.w.T
    pre = torch.sigmoid(m[:, :n] * v.scale[0] + v.base[:n]) + 1e-6
    post = 2 * torch.sigmoid(m[:, n : 2 * n] * v.scale[1] + v.base[n : 2 * n])
    comb = balanced(torch, (m[:, 2 * n :] * v.scale[2] + v.base[2 * n :]).view(t, n, n), v.rounds)
    return {"y": (pre[..., None] * v.x).sum(1), "post": post, "comb": comb}


def sum_lstm(torch: Any, v: Any) -> Tensors:
    """Computes `sum_lstm` in torch."""

    def activated(x: Any, gain: Any, bias: Any) -> Any:
        t = normed(x, v.eps) * gain + bias
        return t * torch.sigmoid(1.702 * t)

    forget, enter, out, cell = (v.states + v.alpha * v.z).chunk(4, 1)
    c = v.prev * torch.sigmoid(forget) + activated(cell, v.w_c, v.b_c) * torch.sigmoid(enter)
    return {"h": activated(c, v.w_s, v.b_s) * torch.sigmoid(out), "c": c}
