"""SGLang's kernels beside torch in float64."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F

from tests.compat.packages.agreement import Check, later, same
from tests.compat.packages.fla_ops import decay, gate, unit
from tests.compat.world import attention, close, rms
from tests.compat.world_fla import recurrence

PACKAGE = "sglang"
randn = torch.randn
HEADS, GROUPS, SIZE = 4, 2, 32


def of(module: str, name: str) -> Any:
    """A kernel's launcher. Some of them enter ``torch.cpu.device``, which torch does not have."""
    from pypto.compat.devices import install

    install()
    return getattr(import_module(f"sglang.kernels.ops.{module}"), name)


def op(module: str, name: str, reference: Any, inputs: Any, *more: Any, tolerance: float = 1e-4) -> Check:
    return later(lambda: same(lambda *xs: of(module, name)(*xs, *more), reference, *inputs(), tolerance=tolerance))


def rows(*sizes: int) -> Any:
    return lambda: tuple(randn(6, size) if size > 0 else randn(-size) for size in sizes)


def heads(x: Any) -> Any:
    """(tokens, heads, features) as (heads, tokens, features), with groups repeated."""
    return x.repeat_interleave(HEADS // x.shape[1], 1).transpose(0, 1)


def decode() -> None:
    lengths, splits = [20, 33], 4
    for groups in (HEADS, GROUPS):
        q, k, v = randn(2, HEADS, SIZE), randn(60, groups, SIZE), randn(60, groups, SIZE)
        index, starts = torch.randperm(60)[:53], torch.tensor([0, 20, 53], dtype=torch.int32)
        out, logits = torch.empty(2, HEADS, SIZE), torch.empty(2, HEADS, splits, SIZE)
        lse, count = torch.empty(2, HEADS, splits), torch.full((2,), splits, dtype=torch.int32)
        function = of("attention.decode_attention", "decode_attention_fwd")
        function(q, k, v, out, starts, index, logits, lse, count, splits, 0.2, 1.0, 1.0)
        for i in range(len(lengths)):
            chosen = index[starts[i] : starts[i + 1]]
            wanted = attention(q[i][:, None], heads(k[chosen]), heads(v[chosen]), 0.2, causal=False)
            close(out[i], wanted[:, 0], 1e-3)


def prefill() -> None:
    lengths = [40, 70]
    q, k, v = randn(110, HEADS, SIZE), randn(110, GROUPS, SIZE), randn(110, GROUPS, SIZE)
    out, starts = torch.empty_like(q), torch.tensor([0, 40], dtype=torch.int32)
    sizes = torch.tensor(lengths, dtype=torch.int32)
    of("attention.prefill_attention", "context_attention_fwd")(q, k, v, out, starts, sizes, 70)
    for start, length in zip((0, 40), lengths, strict=True):
        part = slice(start, start + length)
        close(heads(out[part]), attention(heads(q[part]), heads(k[part]), heads(v[part]), SIZE**-0.5, True), 1e-3)


def extend() -> None:
    """New tokens see a prefix in the cache, then one another."""
    prefixes, news = [10, 25], [16, 9]
    q, k, v = randn(25, HEADS, SIZE), randn(25, GROUPS, SIZE), randn(25, GROUPS, SIZE)
    cache_k, cache_v, out = randn(50, GROUPS, SIZE), randn(50, GROUPS, SIZE), torch.empty(25, HEADS, SIZE)
    index, starts = torch.randperm(50)[:35], torch.tensor([0, 10, 35], dtype=torch.int32)
    queries = torch.tensor([0, 16, 25], dtype=torch.int32)
    of("attention.extend_attention", "extend_attention_fwd")(
        q, k, v, out, cache_k, cache_v, queries, starts, index, None, True, None, max(news), 1.0, 1.0
    )
    for i in range(len(prefixes)):
        chosen, part = index[starts[i] : starts[i + 1]], slice(int(queries[i]), int(queries[i + 1]))
        keys, values = torch.cat([cache_k[chosen], k[part]]), torch.cat([cache_v[chosen], v[part]])
        close(heads(out[part]), attention(heads(q[part]), heads(keys), heads(values), SIZE**-0.5, True), 1e-3)


def merge() -> None:
    a, b, la, lb = randn(5, HEADS, SIZE), randn(5, HEADS, SIZE), randn(5, HEADS), randn(5, HEADS)
    out, lse = of("attention.merge_state", "merge_state_triton")(a, la, b, lb)
    both = torch.stack([la, lb]).double()
    share = both.softmax(0)[..., None]
    close(out, a * share[0] + b * share[1])
    close(lse, both.logsumexp(0))


def gated_delta(name: str, module: str, half: bool = False, **given: Any) -> Check:
    def check() -> None:
        q, k, v = randn(1, 70, 2, 32) * 0.5, unit(), randn(1, 70, 2, 32)
        g, beta = decay(), gate()
        state = torch.zeros(1, 2, 32, 32)
        given_state = {"initial_state": state, **given}
        if name == "chunk_gated_delta_rule":
            given_state |= {"initial_state_indices": torch.zeros(1, dtype=torch.int32)}
        if half:
            q, k, v, beta = (x.bfloat16() for x in (q, k, v, beta))
        found = of(module, name)(q, k, v, g, beta, 32**-0.5, **given_state)[0]
        q, k, v, g, beta = (x.double() for x in (q, k, v, g, beta))
        wanted = recurrence(q, k, v, g[..., None, None], 32**-0.5, beta)
        close(found, wanted, 3e-2 if half else 2e-3)

    return later(check)


def convolved(x: Any, w: Any, b: Any) -> Any:
    return F.silu(F.conv1d(F.pad(x, (w.shape[1] - 1, 0))[None], w[:, None], b, groups=w.shape[0])[0])


def convolution() -> None:
    x, w, b = randn(64, 30), randn(64, 4), randn(64)
    states, starts = torch.zeros(2, 64, 3), torch.tensor([0, 12, 30], dtype=torch.int32)
    found = of("mamba.causal_conv1d_triton", "causal_conv1d_fn")(
        x.clone(), w, b, states, starts, [12, 18], torch.arange(2, dtype=torch.int32), torch.zeros(2, dtype=torch.bool)
    )
    parts = [convolved(part, w.double(), b.double()) for part in torch.split(x.double(), [12, 18], 1)]
    close(found, torch.cat(parts, 1))


def convolution_step() -> None:
    x, state, w, b = randn(3, 64), randn(3, 64, 3), randn(64, 4), randn(64)
    window = torch.cat([state, x[:, :, None]], -1).double()
    wanted = F.silu((window * w).sum(-1) + b)
    close(of("mamba.causal_conv1d_triton", "causal_conv1d_update")(x.clone(), state, w, b, "silu"), wanted)
    close(state, window[..., 1:])


def state_update() -> None:
    state, x, dt = randn(2, 3, 16, 24), randn(2, 3, 16), torch.rand(2, 3, 16)
    a, b, c, d = -torch.rand(3, 16, 24), randn(2, 1, 24), randn(2, 1, 24), randn(3, 16)
    bias = torch.rand(3, 16)
    step = (dt.double() + bias)[..., None]
    new = state.double() * (a * step).exp() + step * b[:, :, None] * x[..., None]
    wanted = (new * c[:, :, None]).sum(-1) + d * x
    out = torch.empty(2, 3, 16)
    of("mamba.triton_ops.mamba_ssm", "selective_state_update")(state, x, dt, a, b, c, d, dt_bias=bias, out=out)
    close(out, wanted)
    close(state, new)


def quantised(name: str, module: str, group: int, limit: float, tolerance: float, *more: Any) -> Check:
    def check() -> None:
        x = randn(6, 256)
        packed, scales = of(module, name)(x, *more)
        parts = x.reshape(6, 256 // group, group)
        close(scales.reshape(6, -1), parts.abs().amax(-1) / limit, 1e-3)
        close(packed.double().reshape(parts.shape) * scales.reshape(6, -1, 1), parts, tolerance)

    return later(check)


def awq() -> None:
    """Eight codes of four bits lie in a word in the order 0 4 1 5 2 6 3 7."""
    words, zeros = (torch.randint(-(2**31), 2**31 - 1, shape, dtype=torch.int32) for shape in ((64, 4), (2, 4)))
    scales = torch.rand(2, 32) + 0.5
    found = of("quantization.awq_triton", "awq_dequantize_triton")(words, scales, zeros)
    shifts = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7]) * 4
    codes, origin = (((x.long()[..., None] >> shifts) & 15).reshape(x.shape[0], 32) for x in (words, zeros))
    close(found, (codes - origin.repeat_interleave(32, 0)) * scales.double().repeat_interleave(32, 0))


def local_sums() -> None:
    g = randn(2, 70, 3)
    wanted = torch.cat([x.cumsum(1) for x in torch.split(g.double(), 32, 1)], 1)
    close(of("attention.fla.cumsum", "chunk_local_cumsum")(g, 32), wanted)


def top_k(p: Any) -> Any:
    least = p.topk(10, -1).values[:, -1:]
    kept = torch.where(p >= least, p, 0.0)
    return kept / kept.sum(-1, keepdim=True)


def mean_of_experts() -> None:
    x, weights = randn(7, 4, 96), torch.rand(7, 4)
    close(of("moe.moe_fused_mul_sum", "moe_fused_mul_sum")(x, weights), (x.double() * weights[..., None]).sum(1))


def interleaved(x: Any) -> Any:
    """Every third angle is of height, and every third of width, up to their sections."""
    out = x[0].clone()
    for axis, end in ((1, 24), (2, 24)):
        out[..., axis:end:3] = x[axis][..., axis:end:3]
    return out


def gated_norm() -> None:
    x, w, z = randn(5, 96), randn(96), randn(5, 96)
    found = of("attention.fla.layernorm_gated", "rms_norm_gated")(x=x, weight=w, bias=None, z=z, is_rms_norm=True)
    close(found, rms(x.double(), w) * F.silu(z.double()))


OPERATORS: dict[str, Check] = {
    "decode_attention_fwd": later(decode),
    "context_attention_fwd": later(prefill),
    "extend_attention_fwd": later(extend),
    "merge_state_triton": later(merge),
    "chunk_gated_delta_rule": gated_delta("chunk_gated_delta_rule", "attention.fla.chunk", half=True),
    "fused_recurrent_gated_delta_rule": gated_delta(
        "fused_recurrent_gated_delta_rule", "attention.fla.fused_recurrent"
    ),
    "chunk_local_cumsum": later(local_sums),
    "l2norm": op(
        "attention.fla.l2norm", "l2norm_fwd", lambda x: x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt(), rows(64)
    ),
    "rms_norm_gated": later(gated_norm),
    "causal_conv1d_fn": later(convolution),
    "causal_conv1d_update": later(convolution_step),
    "selective_state_update": later(state_update),
    "fused_rmsnorm": op("layernorm.fused_rmsnorm", "fused_rmsnorm", rms, rows(128, -128), 1e-6),
    "fused_dual_residual_rmsnorm": op(
        "layernorm.fused_rmsnorm",
        "fused_dual_residual_rmsnorm",
        lambda x, r, w, v: (rms(rms(x, w) + r, v), rms(x, w) + r),
        rows(128, 128, -128, -128),
        1e-6,
    ),
    "gelu_and_mul_triton": op(
        "activation.gelu_and_mul_triton",
        "gelu_and_mul_triton",
        lambda x: F.gelu(x[:, :96]) * x[:, 96:],
        rows(192),
    ),
    "softcap_inplace_logits": op(
        "activation.softcap", "softcap_inplace_logits", lambda x: 3 * (x / 3).tanh(), rows(300), 3.0
    ),
    "fused_sigmoid_mul": op(
        "elementwise.elementwise", "fused_sigmoid_mul", lambda x, g: x * g.sigmoid(), rows(128, 128)
    ),
    "sigmoid_gate_mul_broadcast": op(
        "elementwise.elementwise", "sigmoid_gate_mul_broadcast", lambda x, g: x * g.sigmoid(), rows(128, 1)
    ),
    "top_k_renorm_probs_triton": op(
        "sampling.renorm_triton", "top_k_renorm_probs_triton", top_k, lambda: (randn(4, 200).softmax(-1),), 10
    ),
    "moe_fused_mul_sum": later(mean_of_experts),
    "apply_interleaved_rope_triton": op(
        "attention.mrope", "apply_interleaved_rope_triton", interleaved, lambda: (randn(3, 20, 32),), [16, 8, 8]
    ),
    "per_token_quant_int8": quantised("per_token_quant_int8", "quantization.int8_kernel", 256, 127, 1e-2),
    "per_token_group_quant_int8": quantised(
        "per_token_group_quant_int8", "quantization.int8_kernel", 128, 127, 1e-2, 128
    ),
    "awq_dequantize_triton": later(awq),
}
