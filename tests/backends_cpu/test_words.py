"""Dots of narrow numbers, several to a word where the machine multiplies words; elsewhere one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import pypto as pto
from pypto.backends.cpu.runtime.engine import Engine
from pypto.backends.cpu.target import CpuTarget, describe
from tests.backends_cpu.lowering import FEATURES, fixed_target, lowered
from tests.conformance.cases import Launch
from tests.conformance.fences import Fences

WIDE = replace(fixed_target(), vector_bytes=64, registers=32, has_bf16_dot=True, int8_bytes=1)
PLAIN = replace(WIDE, has_bf16_dot=False, int8_bytes=4)
AVX_VNNI = describe("alderlake", "", "alderlake", "x86_64-unknown-linux-gnu", {*FEATURES, "avxvnni"})


@pto.jit
def product(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), c.dtype)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def product_with_transposed(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), c.dtype)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], pto.trans(b[j : j + BN, k : k + BK]), acc)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def stacked(a, b, c):
    c[:, :, :] = pto.dot(a[:, :, :], b[:, :, :])


@pto.jit
def made(a, b, c, BM: pto.constexpr, BK: pto.constexpr):
    """The left side stands in scratch, of numbers that a product reads twice."""
    left = pto.maximum(a[0:BM, 0:BK], -127)
    c[:, :] = pto.dot(left, b[0:BK, :]) + pto.dot(left, b[0:BK, :])


@pto.jit
def regrouped(a, b, c, N: pto.constexpr):
    """Sides that lie in scratch as one row each, under another shape: what is written there is read in words."""
    left = pto.reshape(pto.reshape(a[:] * 1, (N // 2, N * 2)), (N, N))
    c[:, :] = pto.dot(left, pto.reshape(b[:], (N, N))) + pto.dot(left, pto.trans(left))


def numbers(dtype: Any, *shape: int) -> np.ndarray[Any, Any]:
    """Whole numbers whose products every accumulator holds; of int8 the whole range."""
    most = 128 if dtype == np.int8 else 8
    return np.random.default_rng(sum(shape)).integers(-most, most, shape).astype(dtype)


def result_type(dtype: Any) -> Any:
    return np.int32 if dtype == np.int8 else np.float32


@pytest.mark.parametrize("dtype", [bfloat16, np.int8])
@pytest.mark.parametrize("n", [8, 16, 32])
def test_sides_that_are_regrouped(n: int, dtype: Any, level: str) -> None:
    a, b = numbers(dtype, n * n), numbers(dtype, n * n)[::-1].copy()
    c = np.zeros((n, n), result_type(dtype))
    regrouped[(1,)](a, b, c, n)
    x, y = (v.reshape(n, n).astype(c.dtype) for v in (a, b))
    np.testing.assert_array_equal(c, x @ y + x @ x.T)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("dtype", [bfloat16, np.int8])
@pytest.mark.parametrize("blocks", [(32, 32, 32), (64, 128, 64), (40, 24, 49)])
@pytest.mark.parametrize("shape", [(64, 64, 64), (33, 17, 50), (5, 7, 16), (100, 70, 131), (1, 1, 33)])
def test_products_are_exact(shape: tuple[int, int, int], blocks: tuple[int, int, int], dtype: Any, level: str) -> None:
    m, n, k = shape
    a, b = numbers(dtype, m, k), numbers(dtype, k, n)
    grid = -(-m // blocks[0]), -(-n // blocks[1])
    for kernel, right in ((product, b), (product_with_transposed, np.ascontiguousarray(b.T))):
        with Fences() as fences:
            c = fences.around(np.zeros((m, n), result_type(dtype)))
            pto.jit(level=level)(kernel.function)[grid](a, right, c, *blocks)
        np.testing.assert_array_equal(c, a.astype(int) @ b.astype(int))


@pytest.mark.parametrize("dtype", [bfloat16, np.int8])
def test_stacks(dtype: Any, level: str) -> None:
    a, b = numbers(dtype, 3, 20, 37), numbers(dtype, 3, 37, 50)
    c = np.zeros((3, 20, 50), result_type(dtype))
    pto.jit(level=level)(stacked.function)[1](a, b, c)
    np.testing.assert_array_equal(c, a.astype(int) @ b.astype(int))


@pytest.mark.parametrize("dtype", [bfloat16, np.int8])
@pytest.mark.parametrize(("m", "k"), [(20, 20), (40, 36), (17, 64), (3, 132)])
def test_left_sides_in_scratch(m: int, k: int, dtype: Any, level: str) -> None:
    a, b, c = numbers(dtype, m, k), numbers(dtype, k, 50), np.zeros((m, 50), result_type(dtype))
    pto.jit(level=level)(made.function)[1](a, b, c, m, k)
    np.testing.assert_array_equal(c, 2 * (np.maximum(a.astype(int), -127) @ b.astype(int)))


@pytest.mark.parametrize(("dtype", "instruction"), [(bfloat16, "dpbf16ps"), (np.int8, "vpdpbusd")])
@pytest.mark.parametrize(("target", "k", "expected"), [(WIDE, 64, True), (WIDE, 8, False), (PLAIN, 64, False)])
def test_when_words_are_multiplied(dtype: Any, instruction: str, target: CpuTarget, k: int, expected: bool) -> None:
    a, b = numbers(dtype, 32, k), numbers(dtype, k, 32)
    arguments = {"a": a, "b": b, "c": np.zeros((32, 32), result_type(dtype)), "BM": 32, "BN": 32, "BK": k}
    assert (instruction in lowered(Launch(product, (1, 1), arguments, {}), target).text) == expected


@pytest.mark.parametrize(
    ("target", "instruction"), [(fixed_target(), "vpmaddwd"), (AVX_VNNI, "vpdpbusd"), (PLAIN, "vpmulld")]
)
def test_the_instruction_that_multiplies_bytes(target: CpuTarget, instruction: str) -> None:
    a, b, c = numbers(np.int8, 32, 64), numbers(np.int8, 64, 32), np.zeros((32, 32), np.int32)
    text = lowered(Launch(product, (1, 1), {"a": a, "b": b, "c": c, "BM": 32, "BN": 32, "BK": 64}, {}), target).text
    listing = Engine(target).assembly(text)
    found = {name for name in ("vpmaddwd", "vpdpbusd", "vpmulld") if f"{name}\t" in listing}
    assert found == {instruction}


@pytest.mark.parametrize("size", [-128, 127])
def test_no_sum_of_bytes_saturates(size: int, level: str) -> None:
    a, b, c = np.full((17, 96), -128, np.int8), np.full((96, 33), size, np.int8), np.zeros((17, 33), np.int32)
    pto.jit(level=level)(product.function)[1, 2](a, b, c, 32, 32, 64)
    np.testing.assert_array_equal(c, 96 * -128 * size)


def test_numbers_made_in_the_kernel(level: str) -> None:
    """Operands that were rounded to bfloat16 just before: what the words hold is what rounding gave."""

    @pto.jit(level=level)
    def rounded(x, y, out):
        out[:, :] = pto.dot((x[:, :] * 1.01).to(pto.bfloat16), pto.trans(y[:, :].to(pto.bfloat16)))

    x, y = np.random.default_rng(0).standard_normal((2, 48, 64), np.float32)
    out = np.zeros((48, 48), np.float32)
    rounded[1](x, y, out)
    expected = (x * np.float32(1.01)).astype(bfloat16).astype(float) @ y.astype(bfloat16).astype(float).T
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
