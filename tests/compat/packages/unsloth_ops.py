"""unsloth's kernels beside torch in float64: values, and gradients where it has them."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F

from tests.compat.packages.agreement import Check, differentiable, later, same
from tests.compat.world import close, rms

PACKAGE = "unsloth"
randn = torch.randn
LABELS = torch.randint(0, 300, (2, 7), generator=torch.Generator().manual_seed(1))


def of(module: str, name: str) -> Any:
    import_module("unsloth")  # it wants to be first
    return getattr(import_module(f"unsloth.kernels.{module}"), name)


def norm(weight: Any, bias: Any = None) -> Any:
    """What unsloth asks of a layer."""
    return SimpleNamespace(weight=weight, bias=bias, variance_epsilon=1e-6, eps=1e-6, elementwise_affine=True)


def rms_norm() -> None:
    function = of("rms_layernorm", "fast_rms_layernorm")
    differentiable(lambda x: function(norm(weight), x), lambda x: rms(x, weight.double()), randn(2, 5, 96))


weight, bias = randn(96), randn(96)


def gemma_norm() -> None:
    function = of("rms_layernorm", "fast_rms_layernorm")
    differentiable(
        lambda x: function(norm(weight), x, gemma=True), lambda x: rms(x, weight.double() + 1), randn(2, 5, 96)
    )


def layer_norm() -> None:
    function = of("layernorm", "fast_layernorm")
    differentiable(
        lambda x: function(norm(weight, bias), x),
        lambda x: F.layer_norm(x, (96,), weight.double(), bias.double(), 1e-6), randn(2, 5, 96),
    )  # fmt: skip


def add_norm() -> None:
    function = of("fused_add_rms_layernorm", "fast_add_rms_layernorm_inference")
    same(lambda x, r: function(x, r, weight, 1e-6), lambda x, r: rms(x + r, weight.double()),
         randn(1, 5, 96), randn(1, 5, 96))  # fmt: skip


def rotated(x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def rope() -> None:
    function, angle = of("rope_embedding", "fast_rope_embedding"), randn(9, 16)
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
    same(lambda q, k: function(q, k, cos, sin), lambda q, k: (rotated(q, cos, sin), rotated(k, cos, sin)),
         randn(2, 4, 9, 32), randn(2, 2, 9, 32))  # fmt: skip


def norm_and_rope() -> None:
    function, angle = of("qk_norm_rope", "fast_qk_norm_rope"), randn(9, 16)
    cos, sin, w = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1), randn(32)
    same(lambda q, k: function(norm(w), norm(w), q, k, cos, sin),
         lambda q, k: tuple(rotated(rms(x, w.double()).transpose(1, 2), cos, sin) for x in (q, k)),
         randn(2, 9, 4, 32), randn(2, 9, 2, 32))  # fmt: skip


def cross_entropy() -> None:
    function = of("cross_entropy_loss", "fast_cross_entropy_loss")
    differentiable(lambda x: function(x, LABELS), lambda x: F.cross_entropy(x.flatten(0, 1), LABELS.flatten()),
                   randn(2, 7, 300))  # fmt: skip


def capped_cross_entropy() -> None:
    function = of("cross_entropy_loss", "fast_cross_entropy_loss")
    differentiable(
        lambda x: function(x, LABELS, logit_softcapping=5.0),
        lambda x: F.cross_entropy(5 * torch.tanh(x.flatten(0, 1) / 5), LABELS.flatten()), randn(2, 7, 300),
    )  # fmt: skip


def forward(module: str, name: str, act: Any) -> Check:
    return later(lambda: same(of(module, name), lambda e, g: act(e) * g, randn(2, 5, 96), randn(2, 5, 96)))


def backward(module: str, name: str, act: Any) -> Check:
    """The product, and the slopes of both factors, in the three tensors that it is given."""

    def plain(slope: Any, e: Any, g: Any) -> tuple[Any, ...]:
        e, g = e.requires_grad_(True), g.requires_grad_(True)
        product = act(e) * g
        by_e, by_g = torch.autograd.grad(product, (e, g), slope)
        return product.detach(), by_g, by_e

    return later(lambda: same(of(module, name), plain, randn(10, 96), randn(10, 96), randn(10, 96)))


def act_quant() -> None:
    x = randn(6, 256)
    packed, scales = of("fp8", "act_quant")(x)
    close(scales, x.reshape(6, 2, 128).abs().amax(-1) / 448)
    close(packed.float().reshape(6, 2, 128) * scales[..., None], x.reshape(6, 2, 128), 0.05)


def weight_dequant() -> None:
    packed, scale = randn(256, 256).to(torch.float8_e4m3fn), torch.rand(2, 2) + 0.5
    wanted = packed.double().reshape(2, 128, 2, 128) * scale[:, None, :, None].double()
    close(of("fp8", "weight_dequant")(packed, scale, torch.float32), wanted.reshape(256, 256))


def block_product() -> None:
    a, b = randn(16, 256).to(torch.float8_e4m3fn), randn(256, 256).to(torch.float8_e4m3fn)
    by_row, by_block = torch.rand(16, 2) + 0.5, torch.rand(2, 2) + 0.5
    left = (a.double().reshape(16, 2, 128) * by_row[..., None]).reshape(16, 256)
    right = (b.double().reshape(2, 128, 2, 128) * by_block[:, None, :, None]).reshape(256, 256)
    found = of("fp8", "w8a8_block_fp8_matmul_triton")(a, b, by_row, by_block, [128, 128])
    close(found, left @ right.T, 1e-3)


def grouped_gemm() -> None:
    function = of("moe.grouped_gemm.interface", "grouped_gemm")
    config = of("moe.grouped_gemm.kernels.tuning", "KernelConfigForward")
    x, w, sizes = randn(40, 64), randn(4, 96, 64), torch.tensor([8, 0, 20, 12], dtype=torch.int32)
    found = function(x, w, sizes, topk=1, kernel_config_fwd=config(), autotune=False)
    parts = [part @ matrix.T for part, matrix in zip(torch.split(x.double(), sizes.tolist()), w.double(), strict=True)]
    close(found, torch.cat(parts), 1e-3)


def tanh_gelu(x: Any) -> Any:
    return F.gelu(x, approximate="tanh")


OPERATORS: dict[str, Check] = {
    "fast_rms_layernorm": later(rms_norm),
    "fast_rms_layernorm, Gemma's": later(gemma_norm),
    "fast_layernorm": later(layer_norm),
    "fast_add_rms_layernorm_inference": later(add_norm),
    "fast_rope_embedding": later(rope),
    "fast_qk_norm_rope": later(norm_and_rope),
    "fast_cross_entropy_loss": later(cross_entropy),
    "fast_cross_entropy_loss, capped": later(capped_cross_entropy),
    "swiglu_fg_kernel": forward("swiglu", "swiglu_fg_kernel", F.silu),
    "swiglu_DWf_DW_dfg_kernel": backward("swiglu", "swiglu_DWf_DW_dfg_kernel", F.silu),
    "geglu_exact_forward_kernel": forward("geglu", "geglu_exact_forward_kernel", F.gelu),
    "geglu_exact_backward_kernel": backward("geglu", "geglu_exact_backward_kernel", F.gelu),
    "geglu_approx_forward_kernel": forward("geglu", "geglu_approx_forward_kernel", tanh_gelu),
    "geglu_approx_backward_kernel": backward("geglu", "geglu_approx_backward_kernel", tanh_gelu),
    "act_quant": later(act_quant),
    "weight_dequant": later(weight_dequant),
    "w8a8_block_fp8_matmul_triton": later(block_product),
    "grouped_gemm": later(grouped_gemm),
}
