"""Serving: lightllm, sglang, DeepSeek's float8, SageAttention's int8, gemlite's packed weights, FlagGems' operators."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tests.compat.world import (
    DEEPSEEK,
    GEMLITE,
    GEMS,
    LIGHTLLM,
    SAGE,
    SGLANG,
    attention,
    close,
    rms,
    trial,
)

randn = torch.randn

# --- lightllm ---------------------------------------------------------------------------------------------------------


@trial(LIGHTLLM, "models/llama/triton_kernel/rmsnorm.py")
def lightllm_rms(m: Any) -> None:
    x, w = randn(6, 256), randn(256)
    close(m.rmsnorm_forward(x, w, 1e-6), rms(x.double(), w))


@trial(LIGHTLLM, "models/llama/triton_kernel/silu_and_mul.py")
def lightllm_silu(m: Any) -> None:
    x, y = randn(6, 256), torch.empty(6, 128)
    m.silu_and_mul_fwd(x, y)
    close(y, F.silu(x[:, :128].double()) * x[:, 128:])


@trial(LIGHTLLM, "models/llama/triton_kernel/rotary_emb.py")
def lightllm_rotary(m: Any) -> None:
    q, k, angle = randn(9, 4, 32), randn(9, 2, 32), randn(9, 16)

    def rotated(x: Any) -> Any:
        first, second, cos, sin = x[..., :16].double(), x[..., 16:].double(), angle.cos()[:, None], angle.sin()[:, None]
        return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)

    wanted = rotated(q), rotated(k)
    m.rotary_emb_fwd(q, k, angle.cos(), angle.sin())
    close(q, wanted[0])
    close(k, wanted[1])


@trial(LIGHTLLM, "models/llama/triton_kernel/context_flashattention_nopad.py")
def lightllm_context_attention(m: Any) -> None:
    lengths = [40, 70]
    q, k, v = (randn(sum(lengths), 2, 32) for _ in range(3))
    o, starts = torch.empty_like(q), torch.tensor([0, 40], dtype=torch.int32)
    m.is_tesla = lambda: False
    m.context_attention_fwd_no_prompt_cache(q, k, v, o, starts, torch.tensor(lengths, dtype=torch.int32), max(lengths))
    for start, length in zip(starts.tolist(), lengths, strict=True):
        part = slice(start, start + length)
        wanted = attention(*(x[part].transpose(0, 1) for x in (q, k, v)), 32**-0.5, causal=True)
        close(o[part].transpose(0, 1), wanted, 1e-3)


@trial(LIGHTLLM, "models/llama/triton_kernel/token_attention_nopad_att1.py")
def lightllm_token_scores(m: Any) -> None:
    lengths, q, k = [5, 9], randn(2, 2, 32), randn(20, 2, 32)
    table, scores = torch.randperm(20)[:18].reshape(2, 9).int(), torch.zeros(2, 14)
    index = torch.arange(2, dtype=torch.int32)
    m.token_att_fwd(q, k, scores, table, index, torch.tensor([0, 5]), torch.tensor(lengths), 9)
    for i, (start, length) in enumerate(zip((0, 5), lengths, strict=True)):
        keys = k[table[i, :length].long()]
        close(scores[:, start : start + length], torch.einsum("hd,nhd->hn", q[i].double(), keys.double()) * 32**-0.5)


@trial(LIGHTLLM, "common/basemodel/triton_kernel/destindex_copy_kv.py")
def lightllm_copy(m: Any) -> None:
    k, where = randn(5, 3, 16), torch.randperm(9)[:5].int()
    out = torch.zeros(9, 3, 16)
    m.destindex_copy_kv(k, where, out)
    wanted = torch.zeros(9, 3, 16)
    wanted[where.long()] = k
    close(out, wanted)


@trial(LIGHTLLM, "models/vit/triton_kernel/gelu_vit.py")
def lightllm_gelu(m: Any) -> None:
    x = randn(6, 100)
    close(m.gelu_fwd(x), F.gelu(x.double()), 2e-3)


@trial(LIGHTLLM, "common/fused_moe/moe_sum_reduce.py")
def lightllm_moe_sum(m: Any) -> None:
    x, out = randn(7, 4, 96), torch.empty(7, 96)
    m._moe_sum_reduce_kernel[(7, 3)](x, 4 * 96, 96, 1, out, 96, 1, 7, 4, 96, BLOCK_M=1, BLOCK_DIM=32, NUM_STAGE=1)
    close(out, x.double().sum(1))


@trial(LIGHTLLM, "common/fused_moe/softmax_topk.py")
def lightllm_softmax_topk(m: Any) -> None:
    x = randn(7, 60)
    weights, index = m.softmax_topk(x, 4)
    wanted = x.double().softmax(-1).topk(4)
    close(weights, wanted.values)
    close(index, wanted.indices)


# --- sglang -----------------------------------------------------------------------------------------------------------


@trial(SGLANG, "srt/layers/attention/triton_ops/decode_attention.py")
def sglang_decode(m: Any) -> None:
    lengths, heads, size, splits = [20, 33], 4, 32, 4
    for groups in (heads, 2):
        q, k, v = randn(2, heads, size), randn(60, groups, size), randn(60, groups, size)
        index, starts = torch.randperm(60)[:53], torch.tensor([0, 20, 53], dtype=torch.int32)
        o, logits, lse = torch.empty(2, heads, size), torch.empty(2, heads, splits, size), torch.empty(2, heads, splits)
        count = torch.full((2,), splits, dtype=torch.int32)
        m.decode_attention_fwd(q, k, v, o, starts, index, logits, lse, count, splits, 0.2)
        for i, length in enumerate(lengths):
            chosen = index[starts[i] : starts[i] + length]
            keys, values = (x[chosen].repeat_interleave(heads // groups, 1).transpose(0, 1) for x in (k, v))
            close(o[i], attention(q[i][:, None], keys, values, 0.2, causal=False)[:, 0], 1e-3)


@trial(SGLANG, "srt/layers/quantization/int8_kernel.py")
def sglang_int8(m: Any) -> None:
    x = randn(6, 128)
    found, scales = m.per_token_quant_int8(x)
    wanted = x.abs().amax(-1, keepdim=True) / 127
    close(scales, wanted, 1e-3)
    close(found.double() * scales, x, 1e-2)


@trial(SGLANG, "srt/layers/quantization/fp8_kernel.py")
def sglang_float8(m: Any) -> None:
    x, y, s = randn(6, 256), torch.empty(6, 256, dtype=torch.float8_e4m3fn), torch.empty(6, 2)
    m._per_token_group_quant_fp8[(12,)](x, y, s, 128, 128, 1e-10, fp8_min=-448.0, fp8_max=448.0, BLOCK=128, num_warps=1)
    close(s, x.reshape(6, 2, 128).abs().amax(-1) / 448)
    close(y.float().reshape(6, 2, 128) * s[..., None], x.reshape(6, 2, 128), 0.05)


@trial(SGLANG, "srt/layers/elementwise.py")
def sglang_elementwise(m: Any) -> None:
    x, r, w = randn(6, 128), randn(6, 128), randn(128)
    close(m.fused_softcap(x.clone(), 3.0), 3 * (x.double() / 3).tanh(), 1e-3)
    close(m.fused_rmsnorm(x, w, 1e-6), rms(x.double(), w), 1e-3)
    found = m.fused_dual_residual_rmsnorm(x, r, w, w, 1e-6)
    middle = rms(x.double(), w) + r
    close(found[1], middle, 1e-3)
    close(found[0], rms(middle, w), 1e-3)


# --- DeepSeek ---------------------------------------------------------------------------------------------------------


@trial(DEEPSEEK, "kernel.py")
def deepseek_float8(m: Any) -> None:
    x, w = randn(16, 256), randn(256, 256)
    y, s = m.act_quant(x)
    close(y.float().reshape(16, 2, 128) * s[..., None], x.reshape(16, 2, 128), 0.05)
    packed, scale = w.to(torch.float8_e4m3fn), torch.rand(2, 2) + 0.5
    restored = packed.double().reshape(2, 128, 2, 128) * scale[:, None, :, None]
    torch.set_default_dtype(torch.float32)
    close(m.weight_dequant(packed, scale), restored.reshape(256, 256), 1e-3)
    wanted = (y.double().reshape(16, 2, 128) * s[..., None]).reshape(16, 256) @ restored.reshape(256, 256).T
    close(m.fp8_gemm(y, s, packed, scale), wanted, 2e-3)


# --- SageAttention ----------------------------------------------------------------------------------------------------


@trial(SAGE, "triton/quant_per_block.py")
def sage_quantise(m: Any) -> None:
    q, k = randn(1, 2, 200, 64), randn(1, 2, 200, 64)
    whole_q, scale_q, whole_k, scale_k = m.per_block_int8(q, k)
    blocks = k[:, :, :192].reshape(1, 2, 3, 64, 64)
    close(scale_k[:, :, :3], blocks.abs().amax((-1, -2)) / 127, 1e-3)
    close(whole_k[:, :, :192].double().reshape(1, 2, 3, 64, 64) * scale_k[:, :, :3, None, None], blocks, 0.02)
    assert whole_q.dtype == torch.int8
    assert scale_q.shape == (1, 2, 2)


@trial(SAGE, "triton/attn_qk_int8_per_block.py")
def sage_attention(m: Any) -> None:
    from sageattention.triton.quant_per_block import per_block_int8  # type: ignore[import-not-found]

    q, k, v = (randn(1, 2, 200, 64).half() for _ in range(3))
    whole_q, scale_q, whole_k, scale_k = per_block_int8(q, k)
    found, _ = m.forward(whole_q, whole_k, v, scale_q, scale_k)
    close(found, attention(q, k, v, 64**-0.5, causal=False), 0.05)


@trial(SAGE, "triton/attn_qk_int8_per_block_causal.py")
def sage_causal_attention(m: Any) -> None:
    from sageattention.triton.quant_per_block import per_block_int8

    q, k, v = (randn(1, 2, 256, 64).half() for _ in range(3))
    whole_q, scale_q, whole_k, scale_k = per_block_int8(q, k)
    found, _ = m.forward(whole_q, whole_k, v, scale_q, scale_k)
    close(found, attention(q, k, v, 64**-0.5, causal=True), 0.05)


# --- gemlite ----------------------------------------------------------------------------------------------------------


@trial(GEMLITE, "bitpack.py")
def gemlite_pack(m: Any) -> None:
    codes = torch.randint(0, 16, (64, 64), dtype=torch.uint8)
    found, per_word = m.pack_weights_over_cols_triton(codes, 4, 32, transpose=False)
    words = codes.reshape(64, 64 // per_word, per_word).long()
    wanted = (words << (4 * torch.arange(per_word))).sum(-1)
    close(found.long() & 0xFFFFFFFF, wanted)


# --- FlagGems ---------------------------------------------------------------------------------------------------------


@trial(GEMS, "ops/softmax.py")
def gems_softmax(m: Any) -> None:
    x, y = randn(6, 100), torch.empty(6, 100)
    m.softmax_kernel_inner[(6,)](y, x, 6, 100, TILE_N=128, ONE_TILE_PER_CTA=True)
    close(y, x.double().softmax(-1))


@trial(GEMS, "ops/mean.py")
def gems_mean(m: Any) -> None:
    x, middle, out = randn(300), torch.empty(3), torch.empty(())
    m.mean_kernel_1[(3,)](x, middle, 300, 128)
    m.mean_kernel_2[(1,)](middle, out, 300, 3, 4)
    close(out, x.double().mean())


@trial(GEMS, "ops/mm.py")
def gems_matmul(m: Any) -> None:
    a, b, c = randn(64, 96), randn(96, 80), torch.empty(64, 80)
    kernel = m.mm_kernel_general
    names = kernel.arg_names
    given = {
        "A": a, "B": b, "C": c, "M": 64, "N": 80, "K": 96, "stride_am": 96, "stride_ak": 1, "stride_bk": 80,
        "stride_bn": 1, "stride_cm": 80, "stride_cn": 1, "BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 8,
        "SPLIT_K": 1, "EVEN_K": True, "dot_out_dtype": m.tl.float32, "IS_FP64": False,
    }  # fmt: skip
    kernel[(6, 1)](**{name: x for name, x in given.items() if name in names})
    close(c, a.double() @ b.double(), 1e-3)


@trial(GEMS, "ops/dropout.py")
def gems_dropout(m: Any) -> None:
    x, y, mask = randn(1000), torch.empty(1000), torch.empty(1000, dtype=torch.bool)
    m.dropout_forward_kernel[(2,)](x, y, mask, 1000, 0.3, 7, 0, BLOCK=128)
    kept = (y != 0).double().mean().item()
    assert 0.6 < kept < 0.8
    close(y, torch.where(y != 0, x.double() / 0.7, 0.0))
