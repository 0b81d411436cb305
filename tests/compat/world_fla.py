"""flash-linear-attention: linear attention in chunks and step by step, scans, norms; block pointers everywhere."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tests.compat.world import FLA, attention, close, gradients, rms, trial

randn = torch.randn
B, T, H, K, V = 2, 70, 2, 32, 48


def recurrence(q: Any, k: Any, v: Any, g: Any, scale: float, beta: Any = None) -> Any:
    """States decay by exp(g) and take up k v', or with `beta` what they do not know yet of it; (B, T, H, features)."""
    state = q.new_zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3])
    outputs = []
    for t in range(q.shape[1]):
        state = state * g[:, t].exp()
        new = v[:, t]
        if beta is not None:
            new = (new - torch.einsum("bhk,bhkv->bhv", k[:, t], state)) * beta[:, t, :, None]
        state = state + k[:, t, :, :, None] * new[:, :, None, :]
        outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t] * scale, state))
    return torch.stack(outputs, 1)


def qkv() -> tuple[Any, Any, Any]:
    return randn(B, T, H, K) * 0.3, randn(B, T, H, K) * 0.3, randn(B, T, H, V)


def no_decay(q: Any) -> Any:
    return torch.zeros(*q.shape[:3], 1, 1, dtype=q.dtype)


@trial(FLA, "ops/gla/chunk.py")
def chunk_gla(m: Any) -> None:
    def reference(q: Any, k: Any, v: Any, g: Any) -> Any:
        return recurrence(q, k, v, g[..., None], K**-0.5)

    g = F.logsigmoid(randn(B, T, H, K))
    gradients(lambda *xs: m.chunk_gla(*xs)[0], reference, *qkv(), g, tolerance=2e-3)


@trial(FLA, "ops/gla/fused_recurrent.py")
def recurrent_gla(m: Any) -> None:
    def reference(q: Any, k: Any, v: Any, g: Any) -> Any:
        return recurrence(q, k, v, g[..., None], K**-0.5)

    g = F.logsigmoid(randn(B, T, H, K))
    gradients(lambda *xs: m.fused_recurrent_gla(*xs)[0], reference, *qkv(), g, tolerance=2e-3)


@trial(FLA, "ops/retention/chunk.py")
def chunk_retention(m: Any) -> None:
    decay = torch.log1p(-(2.0 ** (-5 - torch.arange(H).double())))

    def reference(q: Any, k: Any, v: Any) -> Any:
        return recurrence(q, k, v, decay[None, None, :, None, None].expand(B, T, H, 1, 1), K**-0.5)

    gradients(lambda *xs: m.chunk_retention(*xs)[0], reference, *qkv(), tolerance=2e-3)


@trial(FLA, "ops/retention/parallel.py")
def parallel_retention(m: Any) -> None:
    decay = torch.log1p(-(2.0 ** (-5 - torch.arange(H).double())))

    def reference(q: Any, k: Any, v: Any) -> Any:
        return recurrence(q, k, v, decay[None, None, :, None, None].expand(B, T, H, 1, 1), K**-0.5)

    gradients(lambda *xs: m.parallel_retention(*xs)[0], reference, *qkv(), tolerance=2e-3)


@trial(FLA, "ops/simple_gla/chunk.py")
def chunk_simple_gla(m: Any) -> None:
    def reference(q: Any, k: Any, v: Any, g: Any) -> Any:
        return recurrence(q, k, v, g[..., None, None], K**-0.5)

    gradients(lambda *xs: m.chunk_simple_gla(*xs)[0], reference, *qkv(), F.logsigmoid(randn(B, T, H)), tolerance=2e-3)


@trial(FLA, "ops/linear_attn/fused_recurrent.py")
def recurrent_linear_attention(m: Any) -> None:
    def reference(q: Any, k: Any, v: Any) -> Any:
        return recurrence(q, k, v, no_decay(q), K**-0.5)

    gradients(lambda *xs: m.fused_recurrent_linear_attn(*xs, normalize=False)[0], reference, *qkv(), tolerance=2e-3)


@trial(FLA, "ops/delta_rule/chunk.py")
def chunk_delta_rule(m: Any) -> None:
    def reference(q: Any, k: Any, v: Any, beta: Any) -> Any:
        return recurrence(q, k, v, no_decay(q), K**-0.5, beta)

    inputs = [x.bfloat16() for x in (*qkv(), randn(B, T, H).sigmoid())]
    gradients(lambda *xs: m.chunk_delta_rule(*xs)[0], reference, *inputs, tolerance=3e-2)


@trial(FLA, "ops/delta_rule/fused_recurrent.py")
def recurrent_delta_rule(m: Any) -> None:
    def reference(q: Any, k: Any, v: Any, beta: Any) -> Any:
        return recurrence(q, k, v, no_decay(q), K**-0.5, beta)

    gradients(
        lambda *xs: m.fused_recurrent_delta_rule(*xs)[0], reference, *qkv(), randn(B, T, H).sigmoid(), tolerance=5e-3
    )


@trial(FLA, "ops/gated_delta_rule/chunk.py")
def chunk_gated_delta_rule(m: Any) -> None:
    def reference(q: Any, k: Any, v: Any, g: Any, beta: Any) -> Any:
        return recurrence(q, k, v, g[..., None, None], K**-0.5, beta)

    g, beta = F.logsigmoid(randn(B, T, H)), randn(B, T, H).sigmoid()
    gradients(lambda *xs: m.chunk_gated_delta_rule(*xs)[0], reference, *qkv(), g, beta, tolerance=5e-3)


@trial(FLA, "ops/kda/chunk.py")
def chunk_kda(m: Any) -> None:
    def reference(q: Any, k: Any, v: Any, g: Any, beta: Any) -> Any:
        return recurrence(q, k, v, g[..., None], K**-0.5, beta)

    q, k, v = qkv()
    g, beta = F.logsigmoid(randn(B, T, H, K)), randn(B, T, H).sigmoid()
    gradients(lambda *xs: m.chunk_kda(*xs)[0], reference, q, k, v, g, beta, tolerance=2e-5)


@trial(FLA, "ops/gdn2/chunk.py")
def chunk_gated_delta_net_2(m: Any) -> None:
    def reference(q: Any, k: Any, v: Any, g: Any, erase: Any, write: Any) -> Any:
        state, outputs = q.new_zeros(B, H, K, V), []
        for t in range(T):
            state = state * g[:, t].exp()[..., None]
            new = write[:, t] * v[:, t] - torch.einsum("bhk,bhkv->bhv", erase[:, t] * k[:, t], state)
            state = state + k[:, t, :, :, None] * new[:, :, None, :]
            outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t] * K**-0.5, state))
        return torch.stack(outputs, 1)

    gates = F.logsigmoid(randn(B, T, H, K)), randn(B, T, H, K).sigmoid(), randn(B, T, H, V).sigmoid()
    gradients(lambda *xs: m.chunk_gdn2(*xs)[0], reference, *qkv(), *gates, tolerance=2e-5)


@trial(FLA, "ops/generalized_delta_rule/dplr/chunk.py")
def chunk_dplr(m: Any) -> None:
    def reference(q: Any, k: Any, v: Any, a: Any, b: Any, g: Any) -> Any:
        state, outputs = q.new_zeros(B, H, K, V), []
        for t in range(T):
            new = torch.einsum("bhk,bhkv->bhv", a[:, t], state)
            state = state * g[:, t].exp()[..., None] + b[:, t, :, :, None] * new[:, :, None, :]
            state = state + k[:, t, :, :, None] * v[:, t, :, None, :]
            outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t] * K**-0.5, state))
        return torch.stack(outputs, 1)

    a = F.normalize(randn(B, T, H, K), dim=-1)
    b, g = -a * randn(B, T, H, K).sigmoid(), F.logsigmoid(randn(B, T, H, K))
    gradients(lambda *xs: m.chunk_dplr_delta_rule(*xs)[0], reference, *qkv(), a, b, g, tolerance=2e-5)


@trial(FLA, "ops/precond_kda/chunk.py")
def chunk_preconditioned_kda(m: Any) -> None:
    """Keys are scaled by what a diagonal of their squares says before they are written."""

    def reference(q: Any, k: Any, v: Any, g: Any, forget: Any, take: Any, beta: Any) -> Any:
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        state, diagonal, outputs = q.new_zeros(B, H, K, V), q.new_zeros(B, H, K), []
        for t in range(T):
            diagonal = diagonal * forget[:, t].exp()[..., None] + take[:, t, :, None] * k[:, t] ** 2
            off = torch.log(diagonal + 1e-6) + 0.2
            scaled = k[:, t] * 1.5 ** -(off / (1 + off.abs()))
            state = state * g[:, t].exp()[..., None]
            new = (v[:, t] - torch.einsum("bhk,bhkv->bhv", k[:, t], state)) * beta[:, t, :, None]
            state = state + scaled[..., None] * new[:, :, None, :]
            outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t] * K**-0.5, state))
        return torch.stack(outputs, 1)

    decays = F.logsigmoid(randn(B, T, H, K)), F.logsigmoid(randn(B, T, H))
    betas = randn(B, T, H).sigmoid(), randn(B, T, H).sigmoid()
    gradients(lambda *xs: m.chunk_precond_kda(*xs)[0], reference, *qkv(), *decays, *betas, tolerance=2e-5)


@trial(FLA, "ops/hgrn/chunk.py")
def chunk_hgrn(m: Any) -> None:
    def reference(x: Any, g: Any) -> Any:
        state, outputs = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            state = g[:, t].exp() * state + x[:, t]
            outputs.append(state)
        return torch.stack(outputs, 1)

    gradients(lambda *xs: m.chunk_hgrn(*xs)[0], reference, randn(B, T, 64), F.logsigmoid(randn(B, T, 64)))


@trial(FLA, "ops/attn/parallel.py")
def parallel_attention(m: Any) -> None:
    def reference(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return attention(q, k, v, K**-0.5, causal=True).transpose(1, 2)

    q, k, _ = qkv()
    v = randn(B, T, H, K)
    close(m.parallel_attn(q, k, v), reference(q, k, v), 2e-3)


@trial(FLA, "ops/utils/cumsum.py")
def cumulative_sums(m: Any) -> None:
    g, s = randn(B, T, H), randn(B, T, H, K)
    parts = torch.cat([x.cumsum(1) for x in g.double().split(32, 1)], 1)
    close(m.chunk_local_cumsum(g, 32), parts)
    close(m.chunk_local_cumsum(s, 32), torch.cat([x.cumsum(1) for x in s.double().split(32, 1)], 1))
    close(m.chunk_global_cumsum(g), g.double().cumsum(1))
    close(m.chunk_global_cumsum(s, reverse=True), s.double().flip(1).cumsum(1).flip(1))


@trial(FLA, "ops/utils/softmax.py")
def softmax(m: Any) -> None:
    x = randn(B, T, 33)
    p = m.softmax_fwd(x)
    close(p, x.double().softmax(-1))
    slope = randn(B, T, 33)
    close(m.softmax_bwd(p, slope), (p.double() * (slope - (p * slope).sum(-1, keepdim=True))))


@trial(FLA, "ops/utils/logsumexp.py")
def logsumexp(m: Any) -> None:
    x = randn(6, 100)
    close(m.logsumexp_fwd(x), x.double().logsumexp(-1))


@trial(FLA, "ops/utils/solve_tril.py")
def inverse_of_triangles(m: Any) -> None:
    for size in (16, 32, 64):
        a = torch.zeros(B, 128, H, size)
        for start in range(0, 128, size):
            a[:, start : start + size] = randn(B, H, size, size).tril(-1).transpose(1, 2) * 0.2
        found = m.solve_tril(a, output_dtype=torch.float32)
        for start in range(0, 128, size):
            block = a[:, start : start + size].transpose(1, 2).double()
            close(found[:, start : start + size].transpose(1, 2), torch.linalg.inv(torch.eye(size) + block), 1e-3)


@trial(FLA, "ops/utils/matmul.py")
def matmul(m: Any) -> None:
    a, b = randn(70, 50), randn(50, 90)
    close(m.matmul(a, b), a.double() @ b.double(), 1e-3)
    close(m.matmul(a, b, "relu"), (a.double() @ b.double()).relu(), 1e-3)


@trial(FLA, "ops/utils/pooling.py")
def mean_pooling(m: Any) -> None:
    def reference(x: Any) -> Any:
        return torch.stack([part.mean(1) for part in x.split(32, 1)], 1)

    gradients(lambda x: m.mean_pooling(x, 32), reference, randn(B, T, H, K))


@trial(FLA, "modules/l2norm.py")
def l2norm(m: Any) -> None:
    gradients(m.l2norm, lambda x: x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt(), randn(B, T, 40))


@trial(FLA, "modules/layernorm.py")
def norms(m: Any) -> None:
    gradients(lambda x, w: m.rms_norm(x, w, None), lambda x, w: rms(x, w, 1e-5), randn(B, T, 40), randn(40))
    gradients(
        m.layer_norm, lambda x, w, b: F.layer_norm(x, (40,), w, b, 1e-5),
        randn(B, T, 40), randn(40), randn(40),
    )  # fmt: skip


@trial(FLA, "modules/rotary.py")
def rotary(m: Any) -> None:
    angle = randn(T, 16)

    def reference(x: Any) -> Any:
        first, second, cos, sin = x[..., :16], x[..., 16:], angle.double().cos()[:, None], angle.double().sin()[:, None]
        return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)

    gradients(lambda x: m.rotary_embedding(x, angle.cos(), angle.sin()), reference, randn(B, T, H, 32))


@trial(FLA, "modules/activations.py")
def activations(m: Any) -> None:
    gradients(m.swish, F.silu, randn(7, 50))
    gradients(m.sigmoid, torch.sigmoid, randn(7, 50))
    gradients(m.logsigmoid, F.logsigmoid, randn(7, 50))
    gradients(m.swiglu, lambda x, y: F.silu(x) * y, randn(7, 50), randn(7, 50))


@trial(FLA, "modules/fused_cross_entropy.py")
def cross_entropy(m: Any) -> None:
    target = torch.randint(0, 100, (7,))
    gradients(
        lambda x: m.cross_entropy_loss(x, target)[0], lambda x: F.cross_entropy(x, target, reduction="none"),
        randn(7, 100),
    )  # fmt: skip


@trial(FLA, "modules/fused_norm_gate.py")
def gated_norm(m: Any) -> None:
    gradients(
        lambda x, g, w: m.rms_norm_gated(x, g, w, None), lambda x, g, w: rms(x, w, 1e-5) * F.silu(g),
        randn(B, T, 40), randn(B, T, 40), randn(40),
    )  # fmt: skip


@trial(FLA, "modules/token_shift.py")
def token_shift(m: Any) -> None:
    def reference(x: Any) -> Any:
        return F.pad(x, (0, 0, 1, -1)) - x

    gradients(m.token_shift, reference, randn(B, T, 40))
