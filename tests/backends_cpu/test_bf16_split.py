"""Products of float32 as sums of bfloat16: what is emitted where tiles are multiplied, and how exact it is there."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.gemm.bf16_split import term_products
from pypto.backends.cpu.target import host_target
from tests.backends_cpu.lowering import lowered
from tests.backends_cpu.test_amx import TILED
from tests.conformance.cases import Launch
from tests.conformance.fences import Fences

here = pytest.mark.skipif(not host_target().has_amx, reason="this machine multiplies no tiles")
Array = np.ndarray[Any, Any]

# What is lost of |a| |b|: two parts leave out 3 times 2^-16, three parts 4 times 2^-24, sums in float32 some more.
LOST = {"tf32": 3 * 2.0**-16, "bf16x3": 3 * 2.0**-16, "tf32x3": 2.0**-20, "bf16x6": 2.0**-20, "ieee": 2.0**-20}


@pto.jit
def product(a, b, c, P: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc, input_precision=P)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def transposed(a, b, c, P: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[j : j + BN, k : k + BK].T, acc, input_precision=P)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def made(a, b, c, P: pto.constexpr, BM: pto.constexpr):
    """Both sides stand in scratch; the second product's left side is the first one's result, in a loop."""
    left, right = a[:, :] * 2, b[:, :] + 1
    total = pto.zeros((BM, 48), pto.float32)
    for i in range(0, 2):
        s = pto.dot(left, pto.trans(right), input_precision=P) * (i + 1)
        total = pto.dot(s, right, total, input_precision=P)
    c[:, :] = total


@pto.jit
def stacked(a, b, c, P: pto.constexpr):
    c[:, :, :] = pto.dot(a[:, :, :], b[:, :, :], input_precision=P)


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def assert_near(c: Array, a: Array, b: Array, precision: str) -> None:
    a, b = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_array_less(np.abs(c - a @ b), LOST[precision] * (np.abs(a) @ np.abs(b)) + 1e-30)


def launch(precision: str, bm: int = 64, k: int = 128) -> Launch:
    arrays = {"a": numbers(bm, k), "b": numbers(k, 64), "c": np.zeros((bm, 64), np.float32)}
    return Launch(product, (1, 1), {**arrays, "P": precision, "BM": bm, "BN": 64, "BK": k}, {})


def test_which_parts_meet() -> None:
    """The smallest first, the greatest last; none whose places add up to as many as there are parts."""
    assert term_products(1) == [(0, [0])]
    assert term_products(2) == [(1, [0]), (0, [1, 0])]
    assert term_products(3) == [(2, [0]), (1, [1, 0]), (0, [2, 1, 0])]


@pytest.mark.parametrize(("precision", "products"), [("bf16x3", 12), ("tf32", 12), ("bf16x6", 24), ("tf32x3", 24)])
def test_products_of_a_step(precision: str, products: int) -> None:
    """Four tiles of the result, three or six products for each."""
    text = lowered(launch(precision), TILED).text
    kernel = re.search(r"define internal void @dot_\S*\(.*?\n}", text, re.DOTALL)
    assert kernel is not None and kernel.group().count("call void @llvm.x86.tdpbf16ps") == products
    assert "cvtne2ps2bf16" in text


@pytest.mark.parametrize(
    ("precision", "bm", "k", "target"),
    [
        ("ieee", 64, 128, TILED),
        ("bf16x3", 16, 128, TILED),  # rows that are read but once
        ("bf16x3", 64, 8, TILED),  # too few numbers along K
        ("bf16x3", 64, 128, replace(TILED, has_amx=False)),
        ("bf16x3", 64, 128, replace(TILED, has_bf16_round=False)),
    ],
)
def test_where_numbers_stay_whole(precision: str, bm: int, k: int, target: Any) -> None:
    text = lowered(launch(precision, bm, k), target).text
    assert "tdpbf16ps" not in text and "cvtne2ps2bf16" not in text


@pytest.mark.parametrize("precision", LOST)
def test_every_machine_is_as_exact_as_asked_for(precision: str, level: str) -> None:
    a, b, c = numbers(70, 90), numbers(90, 50), np.zeros((70, 50), np.float32)
    pto.jit(level=level)(product.function)[2, 1](a, b, c, precision, 40, 64, 32)
    assert_near(c, a, b, precision)
    pto.interpret(product)[2, 1](a, b, c, precision, 40, 64, 32)
    assert_near(c, a, b, "ieee")


@pytest.mark.parametrize("precision", ["bf16x3", "bf16x6"])
def test_random_products(precision: str) -> None:
    """Every size, sides that begin anywhere and rows that lie anyhow, with fenced pages."""
    rng = np.random.default_rng(int(precision[-1]))
    for _ in range(8):
        m, n, k = (int(x) for x in rng.integers(1, (150, 90, 400)))
        blocks = tuple(int(rng.choice(sizes)) for sizes in ((17, 32, 48, 64), (16, 24, 64), (16, 24, 80, 128)))
        with Fences() as fences:
            a, b = fences.around(numbers(m, k + 5))[:, 3 : k + 3], fences.around(numbers(k, n))
            right = fences.around(np.ascontiguousarray(b.T))
            for kernel, side in ((product, b), (transposed, right)):
                c = fences.around(np.zeros((m, n), np.float32))
                pto.jit(kernel.function)[-(-m // blocks[0]), -(-n // blocks[1])](a, side, c, precision, *blocks)
                assert_near(c, a, b, precision)


@pytest.mark.parametrize("precision", ["bf16x3", "bf16x6"])
def test_many_programs_share_a_side(precision: str) -> None:
    """Merged programs, strips, and what is left of them."""
    a, b, c = numbers(700, 320), numbers(320, 900), np.zeros((700, 900), np.float32)
    for threads, (bm, bn) in ((1, (32, 64)), (2, (64, 128)), (2, (128, 96))):
        c[:] = np.nan
        kernel = pto.jit(num_threads=threads)(product.function)
        kernel[-(-700 // bm), -(-900 // bn)](a, b, c, precision, bm, bn, 64)
        assert_near(c, a, b, precision)


@pytest.mark.parametrize("precision", ["bf16x3", "bf16x6"])
def test_sides_in_scratch(precision: str) -> None:
    a, b, c = numbers(40, 48), numbers(70, 48), np.zeros((40, 48), np.float32)
    pto.jit(made.function)[1](a, b, c, precision, 40)
    left, right = 2 * a.astype(np.float64), b.astype(np.float64) + 1
    bound = 2 * LOST[precision] * 3 * (np.abs(left) @ np.abs(right).T @ np.abs(right))
    np.testing.assert_array_less(np.abs(c - 3 * left @ right.T @ right), bound)


def test_stacks() -> None:
    a, b, c = numbers(3, 40, 64), numbers(3, 64, 48), np.zeros((3, 40, 48), np.float32)
    pto.jit(stacked.function)[1](a, b, c, "bf16x3")
    for i in range(3):
        assert_near(c[i], a[i], b[i], "bf16x3")


@here
def test_whole_numbers_of_so_many_bits_are_exact() -> None:
    """Two parts hold 16 bits, three hold 24: products with 1 give the numbers back."""
    eye = np.eye(64, dtype=np.float32)
    rng = np.random.default_rng(0)
    for precision, bits in (("bf16x3", 16), ("bf16x6", 24)):
        a, c = rng.integers(-(2**bits), 2**bits, (64, 64)).astype(np.float32), np.zeros((64, 64), np.float32)
        pto.jit(product.function)[1, 1](a, eye, c, precision, 64, 64, 64)
        np.testing.assert_array_equal(c, a)
        pto.jit(product.function)[1, 1](eye, a, c, precision, 64, 64, 64)
        np.testing.assert_array_equal(c, a)


@pytest.mark.parametrize("precision", ["bf16x3", "bf16x6"])
def test_special_values(precision: str) -> None:
    """NaN stays in its row; the greatest and the smallest numbers count; infinite ones give no finite result."""
    a, b = numbers(64, 64), numbers(64, 64)
    a[3, 5] = np.nan
    a[7], a[9], a[11] = 3.38e38 / 64, 1e-30, 0
    a[13, 2] = np.inf
    b[:, 0] = 1
    c = np.zeros((64, 64), np.float32)
    pto.jit(product.function)[1, 1](a, b, c, precision, 64, 64, 64)
    assert np.isnan(c[3]).all() and not np.isfinite(c[13]).any()
    rest = np.delete(np.arange(64), [3, 13])
    assert np.isfinite(c[rest]).all() and (c[11] == 0).all()
    assert_near(c[rest], a[rest], b, precision)
