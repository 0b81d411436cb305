"""Composes products and convolutions with int8 and int4 operands, for the gradients of their floats."""

from __future__ import annotations

from typing import Any

from pypto.library.gradients.rule import Tensors


def dequantized(v: Any, codes: Any) -> Any:
    """Converts codes to weights: each row of scales belongs to a group of rows."""
    size, t = len(codes) // len(v.scale), codes.to(v.scale.dtype)
    if v.zero is not None:
        t = t - v.zero.repeat_interleave(size, 0)
    return t * v.scale.repeat_interleave(size, 0)


def w4a16_matmul(torch: Any, v: Any) -> Tensors:
    """Computes `w4a16_matmul` in torch."""
    parts = v.packed.unflatten(0, (len(v.scale), 1, -1))
    codes = torch.cat([parts & 15, parts >> 4], 1).flatten(0, 2).to(torch.int8) - 8
    weight = dequantized(v, codes)
    if v.low is not None:
        weight = weight + v.low.repeat_interleave(len(codes) // len(v.low), 0)
    return {"y": shifted(v.x @ weight[: v.x.shape[1]], v.bias)}


def w8a16_matmul(torch: Any, v: Any) -> Tensors:
    """Computes `w8a16_matmul` in torch."""
    return {"y": shifted(v.x @ dequantized(v, v.codes)[: v.x.shape[1]], v.bias)}


def shifted(y: Any, bias: Any) -> Any:
    """Adds the bias if it is given."""
    return y if bias is None else y + bias


def scaled(torch: Any, v: Any, total: Any) -> Any:
    """Multiplies sums by the scales of rows and columns."""
    return total * v.row_scale[:, None] * v.column_scale


def product(v: Any) -> Any:
    """Computes the product of two int8 matrices in the floats of the scales."""
    return v.a.to(v.row_scale.dtype) @ v.b.to(v.row_scale.dtype)


def w8a8_matmul(torch: Any, v: Any) -> Tensors:
    """Computes `w8a8_matmul` in torch."""
    return {"y": scaled(torch, v, shifted(product(v), v.bias))}


def w8a8_linear(torch: Any, v: Any) -> Tensors:
    """Computes `w8a8_linear` in torch."""
    return {"y": shifted(scaled(torch, v, shifted(product(v), v.offset)), v.bias)}


def w8a8_group_linear(torch: Any, v: Any) -> Tensors:
    """Computes `w8a8_group_linear` in torch."""
    groups, dtype = v.row_scale.shape[1], v.row_scale.dtype
    a, b = v.a.unflatten(1, (groups, -1)).to(dtype), v.b.unflatten(0, (groups, -1)).to(dtype)
    total = torch.einsum("tgk,gkn,tg->tn", a, b, v.row_scale)
    return {"y": shifted(total * v.column_scale, v.bias)}


def conv_int8(torch: Any, v: Any) -> Tensors:
    """Computes `conv_int8` and `depthwise_conv_int8` in torch."""
    x, dense = v.x.permute(0, 3, 1, 2).to(v.scale.dtype), v.weight.ndim == 4
    filters = (v.weight.permute(3, 2, 0, 1) if dense else v.weight.permute(2, 0, 1)[:, None]).to(v.scale.dtype)
    groups = 1 if dense else x.shape[1]
    y = torch.nn.functional.conv2d(x, filters, None, (v.stride_h, v.stride_w), groups=groups)
    return {"y": shifted(y * v.scale[:, None, None], None if v.bias is None else v.bias[:, None, None])}
