"""Products of matrices in microscaling formats: small floats in groups with one scale (OCP MX specification 1.0)."""

from __future__ import annotations

from typing import Any

from pypto.ir.types import DType, float8_e4m3fn, float8_e5m2, float32, int32, uint8
from pypto.language import creation, ops, shaping

Tile = Any  # a tile or scalar; annotations in here are for readers

__all__ = ["dot_scaled"]


def dot_scaled(  # noqa: PLR0913, PLR0917  # as in Triton
    lhs: Tile,
    lhs_scale: Tile,
    lhs_format: str,
    rhs: Tile,
    rhs_scale: Tile,
    rhs_format: str,
    acc: Tile = None,
    fast_math: bool = False,
    lhs_k_pack: bool = True,
    rhs_k_pack: bool = True,
    out_dtype: DType = float32,
) -> Tile:
    """Matrix product of operands in microscaling formats, computed in float32.

    Parameters
    ----------
    lhs, rhs : tile of shape (M, K) and (K, N)
        Elements as their format says: ``"e2m1"`` two in a uint8, the first in its lower half (along K, or along M and
        N where `lhs_k_pack` and `rhs_k_pack` are False), ``"e4m3"`` and ``"e5m2"`` as floats of 8 bits or their codes
        in uint8, ``"bf16"`` and ``"fp16"`` as such.
    lhs_scale, rhs_scale : tile of shape (M, K / 32) and (N, K / 32), or None
        Scales of groups along K, of 32 elements or what the shape says: exponents in uint8 (e8m0, where 127 is a
        scale of 1 and 255 is NaN), or floats of 8 bits. None is 1.
    lhs_format, rhs_format : str
        See above.
    acc : tile of shape (M, N), optional
        Added to the product.
    fast_math : bool
        Accepted; has no meaning here.
    out_dtype : dtype
        Element type of the result.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> @pto.jit
    ... def kernel(a, scale, b, out):
    ...     out[:, :] = pto.dot_scaled(a[:, :], scale[:, :], "e2m1", b[:, :], None, "fp16")
    >>> a, scale = np.full((2, 16), 0x22, np.uint8), np.full((2, 1), 128, np.uint8)  # 32 ones, times 2
    >>> out = np.zeros((2, 3), np.float32)
    >>> kernel[1](a, scale, np.ones((32, 3), np.float16), out)
    >>> out
    array([[64., 64., 64.],
           [64., 64., 64.]], dtype=float32)
    """
    x = scaled(decoded(lhs, lhs_format, 1 if lhs_k_pack else 0), lhs_scale)
    y = ops.permute(scaled(ops.permute(decoded(rhs, rhs_format, 0 if rhs_k_pack else 1)), rhs_scale))
    return ops.dot(x, y, acc, out_dtype=out_dtype)


def decoded(x: Tile, format: str, axis: int) -> Tile:
    """Elements of a format in float32."""
    assert format in ("e2m1", "e4m3", "e5m2", "bf16", "fp16"), "formats are e2m1, e4m3, e5m2, bf16 and fp16"
    if format == "e2m1":
        return from_e2m1(unpacked(x, axis))
    if x.dtype.is_int and format in ("e4m3", "e5m2"):
        x = ops.bitcast(x, float8_e4m3fn if format == "e4m3" else float8_e5m2)
    return ops.cast(x, float32)


def unpacked(x: Tile, axis: int) -> Tile:
    """Halves of bytes in int32, twice as many along an axis."""
    exponents = shaping.expand_dims(ops.cast(ops.bitcast(x, uint8), int32), axis + 1)
    halves = ops.arange(0, 2) * 4
    pairs = exponents >> (ops.reshape(halves, (1, 1, 2)) if axis == 1 else ops.reshape(halves, (1, 2, 1)))
    return ops.reshape(pairs & 15, (x.shape[0], 2 * x.shape[1]) if axis == 1 else (2 * x.shape[0], x.shape[1]))


def from_e2m1(code: Tile) -> Tile:
    """0, 0.5, 1, 1.5, 2, 3, 4, 6, and their negatives from 8 on: exponent and digit move to where float32 has them."""
    size = code & 7
    large = ops.bitcast((size << 22) + (126 << 23), float32)
    magnitude = ops.where(size < 2, ops.cast(size, float32) * 0.5, large)
    return ops.where(code >= 8, -magnitude, magnitude)


def scaled(x: Tile, scale: Tile) -> Tile:
    """Rows of float32 whose groups are multiplied with scales."""
    if scale is None:
        return x
    rows, groups = scale.shape
    factor = from_e8m0(scale) if scale.dtype.is_int else ops.cast(scale, float32)
    factors = ops.broadcast_to(shaping.expand_dims(factor, 2), (rows, groups, x.shape[1] // groups))
    return x * ops.reshape(factors, (rows, x.shape[1]))


def from_e8m0(code: Tile) -> Tile:
    """2 ** (code - 127) in float32, of which the least is subnormal."""
    exponents = ops.cast(ops.bitcast(code, uint8), int32)
    power = ops.bitcast(ops.where(exponents == 0, 1 << 22, exponents << 23), float32)
    return ops.where(exponents == 255, creation.full_like(power, float("nan")), power)
