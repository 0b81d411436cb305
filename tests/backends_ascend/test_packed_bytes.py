"""Integers of 8 bits as they lie in memory, quotients by powers of two, and memory of products that wait or add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.blockir.printer import listing
from pypto.backends.ascend.pipeline import lower_kernel
from pypto.backends.ascend.target import ascend_target
from pypto.debug.simulate import function_of
from pypto.ir.types import bfloat16
from pypto.library.kernels.attention.gathered import attention_kernel
from tests.sim.device import needs_compiler

B2 = ascend_target("ascend910b2")


@pto.jit
def bits_of_bytes(x, y, out, n: pto.constexpr):
    a, b = x[0:n], y[0:n]
    out[0, 0:n] = a & 15
    out[1, 0:n] = a | b
    out[2, 0:n] = ~a
    out[3, 0:n] = a << 3
    out[4, 0:n] = a >> 4
    out[5, 0:n] = 1 | (b & a)


@pto.jit
def floats_of_bytes(x, half, single, brain, n: pto.constexpr):
    half[0:n] = x[0:n].to(pto.float16)
    single[0:n] = x[0:n].to(pto.float32)
    brain[0:n] = x[0:n].to(pto.bfloat16).to(pto.float32)


@pto.jit
def quotients(x, out, n: pto.constexpr):
    """Truncated, as in C."""
    a = x[0:n]
    out[0, 0:n], out[1, 0:n], out[2, 0:n] = a // 1, a // 8, a // 1073741824
    out[3, 0:n], out[4, 0:n] = a % 8, a // 7


@pto.jit
def of_nibbles(x, packed, scale, y, HALF: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for g in range(scale.shape[0]):
        k = 2 * g * HALF
        codes = packed[g * HALF : (g + 1) * HALF, j : j + BN]
        s = scale[g, j : j + BN][None, :]
        acc = pto.dot(x[i : i + BM, k : k + HALF], ((codes & 15).to(pto.float16) - 8.0) * s, acc)
        acc = pto.dot(x[i : i + BM, k + HALF : k + 2 * HALF], ((codes >> 4).to(pto.float16) - 8.0) * s, acc)
    y[i : i + BM, j : j + BN] = acc


@needs_compiler
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("n", [256, 100])
def test_bits_of_bytes(dtype: Any, n: int) -> None:
    x = np.arange(n).astype(dtype)
    y = x[::-1].copy()
    out = np.zeros((6, n), dtype)
    with pto.device("ascend-sim"):
        bits_of_bytes[1](x, y, out, n=n)
    np.testing.assert_array_equal(out, [x & 15, x | y, ~x, x << 3, x >> 4, 1 | (y & x)])


@needs_compiler
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_floats_of_bytes(dtype: Any) -> None:
    x = np.arange(256).astype(dtype)
    half, single, brain = np.zeros(256, np.float16), np.zeros(256, np.float32), np.zeros(256, np.float32)
    with pto.device("ascend-sim"):
        floats_of_bytes[1](x, half, single, brain, n=256)
    for found in (half, single, brain):
        np.testing.assert_array_equal(found, x.astype(found.dtype))


@needs_compiler
def test_quotients_by_powers_of_two() -> None:
    x = np.array([*range(-40, 40), 2**31 - 1, -(2**31), -(2**31) + 1, 2**30, -(2**30), -(2**30) - 1], np.int32)
    out = np.zeros((5, len(x)), np.int32)
    with pto.device("ascend-sim"):
        quotients[1](x, out, n=len(x))
    wide = x.astype(np.float64)
    truncated = [np.trunc(wide / d).astype(np.int64) for d in (1, 8, 2**30)]
    rest = x - 8 * truncated[1]
    np.testing.assert_array_equal(out, [*truncated, rest, np.trunc(wide / 7)])


def test_nibbles_are_not_widened_to_32_bits() -> None:
    x, packed = np.zeros((128, 256), np.float16), np.zeros((128, 256), np.uint8)
    arguments = (x, packed, np.zeros((2, 256), np.float16), np.zeros((128, 256), np.float32), 64, 128, 256)
    kernel = lower_kernel(function_of(of_nibbles, arguments), B2)
    assert kernel.kind == "mix" and "int32" not in {str(b.dtype) for b in kernel.buffers if b.space == "UB"}
    assert listing(kernel).count("Cast(") == 2


@needs_compiler
def test_product_with_nibbles() -> None:
    rng = np.random.default_rng(3)
    x, packed = rng.standard_normal((40, 128)).astype(np.float16), rng.integers(0, 256, (64, 96)).astype(np.uint8)
    scale, y = (0.5 + rng.random((4, 96))).astype(np.float16), np.zeros((40, 96), np.float32)
    with pto.device("ascend-sim"):
        of_nibbles[2, 3](x, packed, scale, y, HALF=16, BM=32, BN=32)
    groups = packed.reshape(4, 16, 96)
    weights = (np.concatenate([groups & 15, groups >> 4], 1) - 8.0) * scale.astype(float)[:, None]
    np.testing.assert_allclose(y, x.astype(float) @ weights.reshape(128, 96), rtol=2e-3, atol=0.3)


def test_products_of_one_sum_share_its_memory() -> None:
    """Two products that are added take as deep steps as one does."""

    def step(count: int) -> int:
        x, w, y = np.zeros((128, 512), np.float16), np.zeros((512, 256), np.float16), np.zeros((128, 256), np.float32)
        kernel = lower_kernel(function_of(sums, (x, w, y, count)), B2)
        return max(b.elements for b in kernel.buffers if b.space == "L0B")

    assert step(1) == step(2)


@pto.jit
def sums(x, w, y, COUNT: pto.constexpr):
    acc = pto.zeros((128, 256), pto.float32)
    for k in range(0, 512, 128):
        for part in pto.static_range(COUNT):
            first = k + part * (128 // COUNT)
            acc = pto.dot(x[:, first : first + 128 // COUNT], w[first : first + 128 // COUNT, :], acc)
    y[:, :] = acc


@pto.jit
def wide_values(q, kv, out, unit, C: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr):
    """Attention without a maximum: a result of C columns leaves L0C in each step."""
    i = pto.program_id(0) * BM
    queries = q[i : i + BM, :]
    acc = pto.zeros((BM, C), pto.float32)
    total = pto.zeros((BM,), pto.float32)
    for j in range(0, kv.shape[0], BN):
        p = pto.exp(pto.dot(queries, pto.trans(kv[j : j + BN, :])) * unit)
        total = total + pto.sum(p, axis=1)
        acc = acc + pto.dot(p.to(pto.float16), kv[j : j + BN, 0:C])
    out[i : i + BM, :] = acc / total[:, None]


def test_wide_results_do_not_split_rows() -> None:
    """The weights stay in L1 while columns of the result are computed in tiles."""
    q, rows, out = (np.zeros(shape, bfloat16.numpy) for shape in ((2, 64, 576), (2, 1024, 576), (2, 64, 512)))
    arguments = (q, rows, np.zeros(2, np.int32), None, out, 0.04, 512, 576, 64, 256)
    kernel = lower_kernel(function_of(attention_kernel, arguments), B2)
    kept = sorted(b.elements for b in kernel.buffers if b.space == "L1" and b.name.startswith("kept"))
    assert kernel.kind == "mix" and kept == [64 * 256, 64 * 576]


@needs_compiler
def test_wide_results() -> None:
    rng = np.random.default_rng(5)
    q, kv = (rng.standard_normal(shape).astype(np.float16) for shape in ((40, 192), (100, 192)))
    out = np.zeros((40, 160), np.float32)
    with pto.device("ascend-sim"):
        wide_values[2](q, kv[:96], out, 0.05, C=160, BM=32, BN=32)
    p = np.exp(q.astype(float) @ kv[:96].astype(float).T * 0.05)
    np.testing.assert_allclose(out, p / p.sum(1, keepdims=True) @ kv[:96, :160], rtol=1e-2, atol=1e-2)


@pto.jit
def rounded_to_bytes(x, signed, unsigned, cut, n: pto.constexpr):
    signed[0:n] = pto.rint(x[0:n]).to(pto.int8)
    unsigned[0:n] = pto.rint(x[0:n]).to(pto.uint8)
    cut[0:n] = x[0:n].to(pto.int8)


def around_integers() -> Any:
    """Numbers beside integers and halves, too large ones, infinities and NaN."""
    whole = np.arange(-140, 300, 0.5, np.float32)
    beside = [np.nextafter(whole, np.float32(to)) for to in (-1e9, 1e9)]
    special = np.array([np.nan, np.inf, -np.inf, 1e9, -1e9, 65519, 65530, -65530, 1e-9, -1e-9], np.float32)
    return np.resize(np.concatenate([whole, *beside, special]), 4096)


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float16, bfloat16.numpy])
def test_floats_become_bytes_in_two_casts(dtype: Any) -> None:
    """By way of half, each towards zero: as the interpreter has it."""
    with np.errstate(all="ignore"):
        x = around_integers().astype(dtype)
    found = [[np.zeros(len(x), kind) for kind in (np.int8, np.uint8, np.int8)] for _ in range(2)]
    with pto.interpreter():
        rounded_to_bytes[1](x, *found[0], n=len(x))
    with pto.device("ascend-sim"):
        rounded_to_bytes[1](x, *found[1], n=len(x))
    for expected, actual in zip(*found, strict=True):
        np.testing.assert_array_equal(actual, expected)
    text = listing(lower_kernel(function_of(rounded_to_bytes, (x.astype(np.float32), *found[0], len(x))), B2))
    assert text.count("Cast(") <= 8  # two for each result, and the roundings
