"""Kernels of Hugging Face's kernels-community, which its `kernels` loads from the hub: products of experts, float8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.compat.world import HUB, Trial, close, gradients, trial

randn = torch.randn


@trial(HUB["fp8_fbgemm"], "quantizer.py")
def fp8_rows(m: Any) -> None:
    """Each row is scaled to the range of float8, and padded."""
    x = randn(5, 7, 130)
    found, scales = m.quantize_fp8_per_row(x, align_rows_to=64)
    close(scales, x.double().abs().amax(-1) / 448, 1e-5)
    near(found[..., :130].double() * scales.double()[..., None], x.double(), scales.double()[..., None] / 100)
    assert found.shape[-1] == 192 and not found[..., 130:].double().any()


def near(found: Any, wanted: Any, least: Any) -> None:
    """Equal within the rounding of float8."""
    assert ((found - wanted).abs() <= wanted.abs() / 16 + least).all()


def experts_of(tokens: int, experts: int, chosen: int) -> Any:
    return torch.stack([torch.randperm(experts)[:chosen] for _ in range(tokens)])


@trial(HUB["scattermoe"], "parallel_experts.py")
def scatter_experts(m: Any) -> None:
    """A product for each chosen expert of a token, weighted and summed, with its gradients."""
    tokens, experts, size, wide, chosen = 40, 5, 32, 48, 2
    picked = experts_of(tokens, experts, chosen)
    order = picked.flatten().sort(stable=True)
    ends = picked.flatten().bincount(minlength=experts).cumsum(0)

    def ours(x: Any, weights: Any, gates: Any) -> Any:
        return m.parallel_linear(x, weights, chosen, order.values, order.indices, ends, None, gates)

    def reference(x: Any, weights: Any, gates: Any) -> Any:
        parts = (torch.einsum("td,tdh->th", x, weights[picked[:, i]]) * gates[:, i, None] for i in range(chosen))
        return torch.stack([*parts]).sum(0)

    gradients(ours, reference, randn(tokens, size), randn(experts, size, wide), torch.rand(tokens, chosen))


@trial(HUB["vllm_moe"], "moe_align_block_size.py")
def aligned_experts(m: Any) -> None:
    """The tokens of each expert fill whole blocks."""
    experts, block = 5, 4
    picked = experts_of(33, experts, 2).int()
    most = picked.numel() + experts * (block - 1)
    rows = torch.full((most,), picked.numel(), dtype=torch.int32)
    owners = torch.zeros(most // block + 1, dtype=torch.int32)
    count = torch.zeros(1, dtype=torch.int32)
    m.moe_align_block_size_triton(picked, experts, block, rows, owners, count)
    at = 0
    for expert in range(experts):
        wanted = (picked.flatten() == expert).nonzero().flatten().tolist()
        end = at + -(-len(wanted) // block) * block
        assert sorted(x for x in rows[at:end].tolist() if x < picked.numel()) == wanted
        assert (owners[at // block : end // block] == expert).all()
        at = end
    assert count.item() == at


@trial(HUB["vllm_moe"], "fp8_utils.py")
def fp8_groups(m: Any) -> None:
    """Groups of a row are scaled to the range of float8, and multiplied with scaled blocks."""
    x = randn(9, 256)
    found, scales = m.per_token_group_quant_fp8(x, 64)
    groups = x.double().view(9, 4, 64)
    close(scales, groups.abs().amax(-1) / 448, 1e-5)
    near(found.double().view(9, 4, 64) * scales.double()[..., None], groups, scales.double()[..., None] / 100)
    a, b = (randn(n, 256).to(torch.float8_e4m3fn) for n in (37, 192))
    rows, blocks = torch.rand(37, 2), torch.rand(2, 2)
    found = m.w8a8_block_fp8_matmul(a, b, rows, blocks, [128, 128], torch.float32)
    left = a.double() * rows.double().repeat_interleave(128, 1)
    right = b.double() * blocks.double().repeat_interleave(128, 0)[:192].repeat_interleave(128, 1)
    close(found, left @ right.T)


@trial(HUB["sage_attention"], "quant_per_thread.py")
def sage_threads(m: Any) -> None:
    """Every eighth row of a block of queries, and every fourth pair of keys, has a scale of its own."""
    q, k = randn(2, 3, 200, 64), randn(2, 3, 130, 64)
    codes, scales, key_codes, key_scales = m.per_thread_int8(q, k)
    thread: Callable[[Any], Any]
    for x, code, scale, block, count, thread in (
        (q, codes, scales, 32, 8, lambda row: row % 8),
        (k, key_codes, key_scales, 64, 4, lambda row: row % 8 // 2),
    ):
        row = torch.arange(x.shape[2])
        place = row // block * count + thread(row)
        sizes = x.abs().amax(-1)
        wanted = torch.zeros_like(scale).scatter_reduce(2, place.expand_as(sizes), sizes, "amax") / 127
        close(scale[:, :, place], wanted[:, :, place], 1e-5)
        step = scale.double()[:, :, place, None]
        assert ((code.double() * step - x.double()).abs() <= 0.501 * step + 1e-6).all()


def trimul(launch: str) -> Callable[[Any], None]:
    """A check of triangle multiplication: an outgoing update of pairs, gated, between two norms."""

    def triangle_multiplication(m: Any) -> None:
        n, size = 64, 128
        names = ("left_proj", "right_proj", "left_gate", "right_gate", "out_gate")
        weights = {f"{name}.weight": randn(size, size) / size**0.5 for name in (*names, "to_out")}
        for norm in ("norm", "to_out_norm"):
            weights |= {f"{norm}.weight": torch.rand(size) + 0.5, f"{norm}.bias": randn(size) / 4}
        x, mask = randn(1, n, n, size), (torch.rand(1, n, n) > 0.2).float()
        halves = {name.replace(".", "_"): weights[name].half() for name in (
            "to_out_norm.weight", "to_out_norm.bias", "to_out.weight")}  # fmt: skip
        found = getattr(m, launch)(
            x=x, mask_mh=mask.unsqueeze(-1).expand(-1, -1, -1, size).reshape(-1, size).half(),
            norm_weight=weights["norm.weight"], norm_bias=weights["norm.bias"], W_4way=m.pack_w_4way_efficient(weights),
            W_og=m.get_w_og(weights), h=size, **halves)  # fmt: skip
        close(found, updated(x.double(), mask.double(), {k: w.double() for k, w in weights.items()}), 2e-2)

    return triangle_multiplication


def updated(x: Any, mask: Any, w: Any) -> Any:
    """Triangle multiplication in float64."""
    size = x.shape[-1]
    x = torch.nn.functional.layer_norm(x, (size,), w["norm.weight"], w["norm.bias"])
    left, right, *gates = (x @ w[f"{name}.weight"].T for name in (
        "left_proj", "right_proj", "left_gate", "right_gate", "out_gate"))  # fmt: skip
    left, right = (y * mask[..., None] * gate.sigmoid() for y, gate in zip((left, right), gates, strict=False))
    pairs = torch.einsum("bikd,bjkd->bijd", left, right)
    pairs = torch.nn.functional.layer_norm(pairs, (size,), w["to_out_norm.weight"], w["to_out_norm.bias"])
    return pairs * gates[2].sigmoid() @ w["to_out.weight"].T


TRIMUL = tuple(
    Trial(HUB["trimul_gpumode"], f"{file}.py", trimul(launch))
    for file, launch in (
        ("trimul_mi300", "compiledtrimul_fused_interleaved"),
        ("triton_a100", "compiledtrimul_fused_interleaved_final"),
        ("triton_b200", "compiledtrimul_fused_interleaved_final"),
    )
)
