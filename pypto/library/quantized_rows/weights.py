"""Rows of products with int4 and int8 weights, which become float32 in registers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from pypto.ir.types import DType
from pypto.library.gradients import products as gradients
from pypto.library.gradients.rule import composed
from pypto.library.kernels.quantized import weights as kernels
from pypto.library.row import Implementation, Operator, f64
from pypto.library.tolerance import Close

SUMS: Final = Close(1e-4, 2e-3)  # tolerance of float32 sums of some hundred products
ASCEND: Final = ("ascend",)
WEIGHTS4: Final = (
    Implementation("pieces", kernels.w4a16_pieces, ASCEND),
    Implementation("groups", kernels.w4a16_matmul),
)
WEIGHTS8: Final = (
    Implementation("pieces", kernels.w8a16_pieces, ASCEND),
    Implementation("groups", kernels.w8a16_matmul),
)

INT8: Final = (Implementation("cube", kernels.w8a8_on_cube, ASCEND), Implementation("tiles", kernels.w8a8_linear))
INT8_GROUPS: Final = (
    Implementation("cube", kernels.w8a8_groups_on_cube, ASCEND),
    Implementation("tiles", kernels.w8a8_group_linear),
)


def dequantized(codes: Any, scale: Any, zero: Any) -> Any:
    """Dequantises codes; each row of scales belongs to one group of code rows."""
    size = len(codes) // len(scale)
    t = f64(codes) - (0 if zero is None else np.repeat(f64(zero), size, axis=0))
    return t * np.repeat(f64(scale), size, axis=0)


def unpacked(packed: Any, groups: int) -> Any:
    """Unpacks codes from -8 to 7: of each group the low nibbles, then the high ones."""
    parts = packed.reshape(groups, 1, -1, packed.shape[1])
    return np.concatenate([parts & 15, parts >> 4], axis=1).reshape(-1, packed.shape[1]).astype(np.int8) - 8


def product(x: Any, weight: Any, bias: Any) -> Any:
    """Computes x @ weight + bias; padding rows of the weight are left out."""
    return f64(x) @ weight[: x.shape[1]] + (0 if bias is None else f64(bias))


def w4a16_matmul(x: Any, packed: Any, scale: Any, zero: Any, bias: Any, low: Any) -> Any:
    """Reference implementation of `w4a16_matmul` in numpy."""
    weight = dequantized(unpacked(packed, len(scale)), scale, zero)
    if low is not None:
        weight += np.repeat(f64(low), len(weight) // len(low), axis=0)
    return product(x, weight, bias)


def w8a16_matmul(x: Any, codes: Any, scale: Any, zero: Any, bias: Any) -> Any:
    """Reference implementation of `w8a16_matmul` in numpy."""
    return product(x, dequantized(codes, scale, zero), bias)


def w8a8_linear(a: Any, b: Any, row_scale: Any, column_scale: Any, offset: Any, bias: Any) -> Any:
    """Reference implementation of `w8a8_linear` in numpy."""
    total = (f64(a) @ f64(b) + (0 if offset is None else f64(offset))) * f64(row_scale)[:, None] * f64(column_scale)
    return total + (0 if bias is None else f64(bias))


def w8a8_group_linear(a: Any, b: Any, row_scale: Any, column_scale: Any, bias: Any) -> Any:
    """Reference implementation of `w8a8_group_linear` in numpy."""
    numbers = f64(a) * np.repeat(f64(row_scale), a.shape[1] // row_scale.shape[1], axis=1)
    return (numbers @ f64(b)) * f64(column_scale) + (0 if bias is None else f64(bias))


def bytes_of_codes(rng: np.random.Generator, n: SimpleNamespace, dtype: DType) -> dict[str, Any]:
    """Samples all nibbles, and small scales."""
    packed = rng.integers(0, 256, (n.h, n.n), np.uint8)
    return {"packed": packed, "scale": rng.random((n.g, n.n), np.float32) / 8}


def scaled_codes(rng: np.random.Generator, n: SimpleNamespace, dtype: DType) -> dict[str, Any]:
    """Samples scales with which the dequantised codes are at most 1."""
    return {
        "row_scale": (0.5 + rng.random((n.t, n.g), np.float32)) / 127,
        "column_scale": (0.5 + rng.random(n.n, np.float32)) / 127,
    }


def with_zeros(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: zero points, a bias, one row, and a partial last group."""
    return {
        "x": rng.standard_normal((1, 41)).astype(np.float32),
        "packed": rng.integers(0, 256, (24, 33), np.uint8),
        "scale": rng.random((3, 33), np.float32),
        "zero": rng.integers(-8, 8, (3, 33)).astype(np.int8),
        "bias": rng.standard_normal(33).astype(np.float32),
    }


def blocks(rng: np.random.Generator, rows: int = 5) -> dict[str, Any]:
    """Edge case: blocks of 32 with a scale and a minimum each; one block is constant."""
    scale = rng.random((3, 33), np.float32)
    scale[1, 4] = 0
    return {
        "x": rng.standard_normal((rows, 96)).astype(np.float32), "packed": rng.integers(0, 256, (48, 33), np.uint8),
        "scale": scale, "low": rng.standard_normal((3, 33)).astype(np.float32),
    }  # fmt: skip


def row_of_blocks(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: `blocks` with a single row, which has its own kernel."""
    return blocks(rng, 1)


def bytes_with_zeros(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: int8 weights with zero points."""
    inputs = with_zeros(rng)
    del inputs["packed"]
    return inputs | {"codes": rng.integers(-128, 128, (48, 33)).astype(np.int8)}


def odd_rows(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: two rows, which run as GEMVs, with an odd group size, several programs, and all operands."""
    return {
        "x": rng.standard_normal((2, 141)).astype(np.float32), "packed": rng.integers(0, 256, (75, 133), np.uint8),
        "scale": rng.random((3, 133), np.float32), "zero": rng.integers(-8, 8, (3, 133)).astype(np.int8),
        "bias": rng.standard_normal(133).astype(np.float32), "low": rng.standard_normal((3, 133)).astype(np.float32),
    }  # fmt: skip


def odd_rows_of_bytes(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: `odd_rows` with int8 weights."""
    inputs = odd_rows(rng)
    del inputs["packed"], inputs["low"]
    return inputs | {"codes": rng.integers(-128, 128, (147, 133)).astype(np.int8)}


def corrected(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: the largest products, a zero-point correction of the rows, and a bias."""
    a, b = np.full((3, 70), -127, np.int8), np.full((70, 9), 127, np.int8)
    return {
        "a": a, "b": b, "row_scale": np.full(3, 0.5, np.float32), "column_scale": np.full(9, 0.25, np.float32),
        "offset": 5 * b.sum(axis=0, dtype=np.int32), "bias": np.arange(9, dtype=np.float32),
    }  # fmt: skip


def largest_groups(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: the largest products in three groups of odd size, and a bias."""
    a, b = np.full((3, 63), -127, np.int8), np.full((63, 9), 127, np.int8)
    return {
        "a": a, "b": b, "row_scale": rng.random((3, 3), np.float32), "column_scale": np.full(9, 0.25, np.float32),
        "bias": np.arange(9, dtype=np.float32),
    }  # fmt: skip


FORMULA: Final = "`y = x @ w + bias` with `w = (codes - zero) * scale`, scales and zero points of groups of rows. {0}"


def weight_by_torch(torch: Any, v: Any, codes: Any) -> Any:
    """Dequantises the weights to float32."""
    scale, zero, low = (
        0 if x is None else x.float().repeat_interleave(len(codes) // len(x), 0)
        for x in (v.scale, v.zero, getattr(v, "low", None))
    )
    return (codes.float() - zero) * scale + low


def packed4_by_torch(torch: Any, v: Any) -> dict[str, Any]:
    """Prepares the weights in the layout of torch's int4 product, for multiples of 16 columns; else in float32."""
    parts = v.packed.view(len(v.scale), 1, -1, v.packed.shape[1])
    codes = torch.cat([parts & 15, parts >> 4], 1).view(-1, v.packed.shape[1])
    if codes.shape[1] % 16 or len(codes) != v.x.shape[1]:
        return {"weight": weight_by_torch(torch, v, codes.int() - 8)[: v.x.shape[1]], "scales": None}
    lowest = (0 if v.low is None else v.low) - (0 if v.zero is None else v.zero.float()) * v.scale
    scales = torch.stack([v.scale, lowest + torch.zeros_like(v.scale)], 2).bfloat16()
    return {"weight": torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes.T.int(), 1), "scales": scales}


def w4a16_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch: its int4 product with the same groups."""
    if v.scales is None:
        return v.x.float() @ v.weight + v.bias
    group = v.x.shape[1] // len(v.scale)
    return torch.ops.aten._weight_int4pack_mm_for_cpu(v.x.bfloat16(), v.weight, group, v.scales).float() + v.bias


def widened8_by_torch(torch: Any, v: Any) -> dict[str, Any]:
    """Dequantises the weights, because the int8-weight product of torch 2.13 sometimes reads out of bounds."""
    return {"weight": weight_by_torch(torch, v, v.codes)[: v.x.shape[1]].to(v.x.dtype)}


def w8a16_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch: a product with weights in the dtype of x."""
    return (v.x @ v.weight).float() + v.bias


def linear_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, whose int8 product gives int32."""
    total = torch._int_mm(v.a, v.b) + (0 if v.offset is None else v.offset)
    return total.float() * v.row_scale[:, None] * v.column_scale + v.bias


def group_linear_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, with one product for each group."""
    size, total = v.a.shape[1] // v.row_scale.shape[1], 0
    for g, scale in enumerate(v.row_scale.unbind(1)):
        part = slice(g * size, (g + 1) * size)
        total = total + torch._int_mm(v.a[:, part].contiguous(), v.b[part]).float() * scale[:, None]
    return total * v.column_scale + v.bias


ROWS: Final = (
    Operator(
        "w4a16_matmul", "Product with weights of four bits, unpacked in registers",
        "x[t..., k] bf16|f32, packed[h, n] u8, scale[g, n] f32, zero[g, n]? i8, bias[n]? f32, low[g, n]? f32 "
        "-> y[t..., n] f32 where h % g == 0, k <= 2*h, any(packed, zero)",
        FORMULA.format(
            "A group has `h // g` rows of bytes: the low nibbles are its first half, the high ones its second; a "
            "nibble is `code + 8`. Codes of rows from k on do not count. With `low`, it is added to the weights of a "
            "group: a block of GGUF's Q4_1 with the scale d and the minimum m has `scale = d`, `low = 8 d + m`."
        ),
        "Frantar et al., MARLIN, 2024", w4a16_matmul, WEIGHTS4,
        {"small": {"t": 5, "k": 200, "h": 128, "n": 70, "g": 2},
         "model": {"t": 1, "k": 4096, "h": 2048, "n": 4096, "g": 32}},
        sampler=bytes_of_codes,
        edges={"zeros": with_zeros, "blocks": blocks, "a row of blocks": row_of_blocks, "odd": odd_rows},
        tolerance={"y": SUMS}, flops=lambda n: 2.0 * n.t * n.k * n.n, items="n",
        peer=w4a16_by_torch, prepared=packed4_by_torch,
        limited="torch gets its weights packed once, into tiles that are one stretch of memory; ours come row by row, "
        "as `packed` has them, and a program reads 512 columns of each. With 1024 it takes 0.9 of the time, but only "
        "four cores can work.",
        gradient=composed(gradients.w4a16_matmul, "with weights in float32"),
    ),
    Operator(
        "w8a16_matmul", "Product with weights of eight bits, converted in registers",
        "x[t..., k] bf16|f32, codes[h, n] i8, scale[g, n] f32, zero[g, n]? i8, bias[n]? f32 -> y[t..., n] f32 "
        "where h % g == 0, k <= h, any(codes, zero)",
        FORMULA.format("A group has `h // g` rows. Codes of rows from k on do not count."),
        "Frantar et al., MARLIN, 2024", w8a16_matmul, WEIGHTS8,
        {"small": {"t": 5, "k": 96, "h": 96, "n": 70, "g": 2},
         "model": {"t": 1, "k": 4096, "h": 4096, "n": 4096, "g": 1}},
        edges={"zeros": bytes_with_zeros, "odd": odd_rows_of_bytes}, tolerance={"y": Close(1e-4, 2e-2)},
        flops=lambda n: 2.0 * n.t * n.k * n.n, items="n", peer=w8a16_by_torch, prepared=widened8_by_torch,
        gradient=composed(gradients.w8a16_matmul, "with weights in float32"),
    ),
    Operator(
        "w8a8_linear", "Linear layer of int8 inputs and weights, with scales of rows and columns and a float32 bias",
        "a[t..., k] i8, b[k, n] i8, row_scale[t...] f32, column_scale[n] f32, offset[n]? i32, bias[n]? f32 "
        "-> y[t..., n] f32 where 128*128*k < 2**31, 128*128*k - 2**31 <= offset < 2**31 - 128*128*k, any(a, b)",
        "`y = (a @ b + offset) * row_scale[:, None] * column_scale + bias`, the sum in int32. Inputs with the zero "
        "point z have `offset = -z * b.sum(0)`.",
        "Xiao et al., SmoothQuant, 2023", w8a8_linear, INT8,
        {"small": {"t": 5, "k": 96, "n": 70}, "model": {"t": 1024, "k": 4096, "n": 4096}},
        edges={"corrected": corrected}, tolerance={"y": SUMS}, flops=lambda n: 2.0 * n.t * n.k * n.n, items="t",
        peer=linear_by_torch,
        limited="products of int8, in which torch's take as long where there are no tiles of int8 (AMX).",
        gradient=composed(gradients.w8a8_linear, "for the scales and the bias"),
    ),
    Operator(
        "w8a8_group_linear", "Linear layer of int8 weights, and int8 inputs with a scale for each group of a row",
        "a[t..., k] i8, b[k, n] i8, row_scale[t..., g] f32, column_scale[n] f32, bias[n]? f32 -> y[t..., n] f32 "
        "where 1 <= k, k % g == 0, 128*128*(k // g) < 2**31, any(a, b)",
        "`y = sum over groups (a @ b) * row_scale[:, g, None]`, times `column_scale`, plus `bias`. Groups have `k / g` "
        "columns; the sum of a group is in int32, that of the groups in float32.",
        "DeepSeek-V3, 2024", w8a8_group_linear, INT8_GROUPS,
        {"small": {"t": 5, "k": 96, "n": 70, "g": 3}, "model": {"t": 1024, "k": 4096, "n": 4096, "g": 32}},
        sampler=scaled_codes, edges={"largest": largest_groups},
        tolerance={"y": SUMS}, flops=lambda n: 2.0 * n.t * n.k * n.n, items="t", peer=group_linear_by_torch,
        gradient=composed(gradients.w8a8_group_linear, "for the scales and the bias"),
    ),
)  # fmt: skip
