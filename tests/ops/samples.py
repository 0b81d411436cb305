"""Operands to try ops on, and how far results may be from what is right."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np

from pypto.ir.types import DType

Array = np.ndarray[Any, Any]


def finfo(dtype: DType) -> Any:
    return ml_dtypes.finfo(dtype.numpy)


def specials(dtype: DType) -> Array:
    """The values at which ops go wrong."""
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_int:
        low, high = dtype.integer_range
        near = [low, low + 1, high - 1, high, 0, 1, 2, 7, dtype.bits - 1, dtype.bits]
        return np.array([*near, *([-1, -2, -7] if low else [])], dtype.numpy)
    info = finfo(dtype)
    sizes = [0.0, float(info.smallest_subnormal), float(info.tiny), 1 - float(info.eps) / 2, 1.0, 1 + float(info.eps),
             0.5, 1.5, 2.5, 128.0, 2.0**31, 2.0**63, float(info.max), np.inf]  # fmt: skip
    with np.errstate(over="ignore"):
        return np.array([*sizes, *(-s for s in sizes), np.nan]).astype(dtype.numpy)


def random_values(rng: np.random.Generator, dtype: DType, count: int, domain: tuple[float, float]) -> Array:
    """Half of them from the domain, half of all sizes."""
    if dtype.is_bool:
        return rng.random(count) < 0.5
    if dtype.is_int:
        low, high = dtype.integer_range
        small = rng.integers(max(low, -9), 10, count).astype(dtype.numpy)
        wide = rng.integers(low, high, count, dtype.numpy, endpoint=True)
        return np.where(rng.random(count) < 0.5, small, wide)
    info = finfo(dtype)
    exponents = rng.uniform(float(info.minexp), float(info.maxexp) - 0.01, count)
    sizes = np.exp2(exponents) * rng.choice([-1.0, 1.0], count)
    values = np.where(rng.random(count) < 0.5, rng.uniform(*domain, count), sizes)
    return values.astype(dtype.numpy)


def enough(name: str, dtype: DType, count: int) -> int:
    """How many numbers are tried: fewer where what is right in float64 is found step by step for each of them."""
    return count // 8 if dtype.mnemonic == "f64" and name in ("erfinv", "erfcinv", "normcdfinv") else count


def operands(seed: int, dtype: DType, arity: int, count: int, domain: tuple[float, float]) -> list[Array]:
    """Every pair of special values first (or a draw of them), then random ones."""
    values, rng = specials(dtype), np.random.default_rng(seed)
    pairs = np.array(list(itertools.product(range(len(values)), repeat=min(arity, 2))))[: count * 9 // 10]
    picks = [pairs[:, min(i, pairs.shape[1] - 1)] for i in range(arity)]
    if arity > 2:
        picks = [rng.permutation(p) for p in picks]
    return [np.concatenate([values[p], random_values(rng, dtype, count - len(p), domain)]) for p in picks]


def wide(a: Array) -> Array:
    """For comparing: floats in float64."""
    with np.errstate(all="ignore"):  # numpy warns of signalling NaNs
        return a if a.dtype.kind in "iub" else a.astype(np.float64)


def spacing(reference: Array, dtype: DType) -> Array:
    """The unit in the last place of a dtype at each number."""
    info = finfo(dtype)
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.maximum(np.abs(reference), float(info.tiny))))
    return np.exp2(np.clip(exponent, info.minexp, info.maxexp - 1)) * float(info.eps)


def ulp_errors(found: Array, reference: Array, dtype: DType) -> Array:
    """Distance from a float64 reference in units of the last place; infinite where one is no number."""
    values, with_max = found.astype(np.float64), float(finfo(dtype).max)
    with np.errstate(all="ignore"):
        errors = np.abs(values - reference) / spacing(reference, dtype)
        # A result that is rounded to infinity is as far away as the next number would be.
        rounded = np.isinf(values) & (np.abs(reference) > with_max) & (np.sign(values) == np.sign(reference))
        same = (values == reference) | (np.isnan(values) & np.isnan(reference)) | rounded
    return np.where(same, 0.0, np.where(np.isnan(errors), np.inf, errors))


def between(dtype: DType, source: DType, count: int) -> list[Array]:
    """Numbers of a wider type: halfway between two of the narrower one, and the least bit beside that."""
    with np.errstate(all="ignore"):
        exact = operands(7, dtype, 1, count, (-10.0, 10.0))[0].astype(np.float64)
        half = (exact + np.where(np.arange(count) % 2, 0.5, -0.5) * spacing(exact, dtype)).astype(source.numpy)
        return [half, np.nextafter(half, source.numpy.type(np.inf)), np.nextafter(half, source.numpy.type(-np.inf))]


def assert_same(found: Array, wanted: Array, what: str, zeros: bool = True) -> None:
    """Equal, NaN with NaN, and (where `zeros`) with the same sign of zero."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), what
    np.testing.assert_array_equal(wide(found), wide(wanted), err_msg=what)
    if zeros and found.dtype.kind not in "iub":
        signs = np.signbit(wide(found)) == np.signbit(wide(wanted))
        assert np.all(signs | np.isnan(wide(found))), f"{what}: the sign of a zero differs"
