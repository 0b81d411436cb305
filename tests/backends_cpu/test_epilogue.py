"""What comes of a product is stored block by block as it is computed: right at every edge, and only where it may be."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.gemm.ir import Gemm
from pypto.backends.cpu.loopir.fusion import fuse_loops
from pypto.backends.cpu.loopir.ir import walk
from tests.backends_cpu.conftest import Becomes
from tests.backends_cpu.loop_texts import kernel as kernel_text
from tests.backends_cpu.lowering import fixed_target, lowered
from tests.conformance.cases import Launch
from tests.conformance.fences import Fences

Array = np.ndarray[Any, Any]
SHAPES = [(64, 64, 64), (70, 100, 130), (33, 257, 1500), (17, 20, 40), (300, 64, 4200)]


@pto.jit
def product(a, b, i, j, BM: pto.constexpr, BN: pto.constexpr):
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], 64):
        acc = pto.dot(a[i : i + BM, k : k + 64], b[k : k + 64, j : j + BN], acc)
    return acc


@pto.jit
def layer(a, b, bias, rest, c, BM: pto.constexpr, BN: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    y = pto.maximum(product(a, b, i, j, BM, BN) + bias[j : j + BN], 0)
    c[i : i + BM, j : j + BN] = y + rest[i : i + BM, j : j + BN]


@pto.jit
def scaled(a, b, bias, rest, c, BM: pto.constexpr, BN: pto.constexpr):
    """A factor for each row, and an element type of its own."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    y = product(a, b, i, j, BM, BN) * rest[i : i + BM, 0:1] + bias[j : j + BN]
    c[i : i + BM, j : j + BN] = pto.cast(y, c.dtype)


@pto.jit
def turned(a, b, bias, rest, c, BM: pto.constexpr, BN: pto.constexpr):
    """With the turned block of an array of the other shape."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    c[i : i + BM, j : j + BN] = product(a, b, i, j, BM, BN) + pto.trans(rest[j : j + BN, i : i + BM]) * bias[j : j + BN]


@pto.jit
def smooth(a, b, bias, rest, c, BM: pto.constexpr, BN: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    y = product(a, b, i, j, BM, BN) * 0.01 + bias[j : j + BN]
    c[i : i + BM, j : j + BN] = y * pto.sigmoid(y)


@pto.jit
def twice(a, b, bias, rest, c, BM: pto.constexpr, BN: pto.constexpr):
    """Stored to two arrays."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = product(a, b, i, j, BM, BN)
    rest[i : i + BM, j : j + BN] = acc - 1
    c[i : i + BM, j : j + BN] = acc + bias[j : j + BN]


@pto.jit
def added(a, b, bias, rest, c, BM: pto.constexpr, BN: pto.constexpr):
    """What is stored is added up, too, over rows that the arrays do not have."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    y = product(a, b, i, j, BM, BN) + bias[j : j + BN]
    c[i : i + BM, j : j + BN] = y
    rest[pto.program_id(0), j : j + BN] = pto.sum(y, axis=0)


@pto.jit
def integers(a, b, bias, rest, c, BM: pto.constexpr, BN: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.int32)
    for k in range(0, a.shape[1], 64):
        acc = pto.dot(a[i : i + BM, k : k + 64], b[k : k + 64, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = pto.cast(acc, pto.float32) * rest[i : i + BM, 0:1] + bias[j : j + BN]


@pto.jit
def pointers(a, b, bias, rest, c, m, n, k, BM: pto.constexpr, BN: pto.constexpr):  # noqa: PLR0913, PLR0917
    rows, columns = pto.program_id(0) * BM + pto.arange(0, BM), pto.program_id(1) * BN + pto.arange(0, BN)
    acc = pto.zeros((BM, BN), pto.float32)
    for start in range(0, k, 64):
        along = start + pto.arange(0, 64)
        left = pto.load(a + rows[:, None] * k + along[None, :], (rows[:, None] < m) & (along[None, :] < k), 0.0)
        right = pto.load(b + along[:, None] * n + columns[None, :], (along[:, None] < k) & (columns[None, :] < n), 0.0)
        acc += pto.dot(left, right)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    more = pto.load(rest + rows[:, None] * n + columns[None, :], inside, 0.0)
    pto.store(c + rows[:, None] * n + columns[None, :], acc + pto.load(bias + columns, columns < n) + more, inside)


def numbers(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(dtype)


def wanted(kernel: Any, a: Array, b: Array, bias: Array, rest: Array) -> Array:
    y = a.astype(np.float64) @ b.astype(np.float64)
    if kernel is layer:
        return np.maximum(y + bias, 0) + rest
    if kernel in (scaled, integers):
        return y * rest[:, :1] + bias
    if kernel is turned:
        return y + rest.T * bias
    if kernel is smooth:
        return (y * 0.01 + bias) / (1 + np.exp(-y * 0.01 - bias))
    return y + bias + (rest if kernel is pointers else 0)


def run(kernel: Any, shape: tuple[int, int, int], blocks: tuple[int, int], level: str, dtype: Any = np.float32) -> None:
    m, n, k = shape
    kind = np.int8 if kernel is integers else np.float32
    with Fences() as fences:
        a, b, bias = (
            fences.around(numbers(*s, dtype=d)) for s, d in (((m, k), kind), ((k, n), kind), ((n,), np.float32))
        )
        rest = fences.around(numbers(*((n, m) if kernel is turned else (m, n))))
        expected = wanted(kernel, a, b, bias, rest)
        c = fences.around(np.full((m, n), 7, dtype))
        sizes = (m, n, k) if kernel is pointers else ()
        pto.jit(level=level)(kernel.function)[-(-m // blocks[0]), -(-n // blocks[1])](
            a, b, bias, rest, c, *sizes, *blocks
        )
        if kernel is smooth or dtype == np.float16:
            np.testing.assert_allclose(c, expected, rtol=1e-3 if dtype == np.float16 else 1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(c, expected)
        if kernel is twice:
            np.testing.assert_array_equal(rest, a @ b - 1)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("blocks", [(32, 64), (128, 128), (40, 48), (24, 20)], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kernel", [layer, scaled, turned, smooth, twice, integers, pointers])
def test_stored_as_it_is_computed(kernel: Any, shape: Any, blocks: Any, level: str) -> None:
    run(kernel, shape, blocks, level)


@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
def test_what_is_read_once_more(shape: Any, level: str) -> None:
    m, n, k = shape
    a, b, bias, grid = numbers(m, k), numbers(k, n), numbers(n), (-(-m // 64), -(-n // 64))
    found, wanted = ([np.zeros((grid[0], n), np.float32), np.zeros((m, n), np.float32)] for _ in range(2))
    pto.jit(level=level)(added.function)[grid](a, b, bias, *found, 64, 64)
    pto.interpret(added)[grid](a, b, bias, *wanted, 64, 64)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("shape", SHAPES[:2], ids=str)
def test_other_element_types(shape: Any, level: str) -> None:
    run(scaled, shape, (32, 64), level, np.float16)
    run(scaled, shape, (32, 64), level, np.float64)


@pytest.mark.parametrize("blocks", [(32, 64), (64, 64)], ids=str)
def test_results_over_what_is_added(blocks: Any, level: str) -> None:
    """The array that is added is the one that is stored to."""
    a, b, bias, c = numbers(70, 64), numbers(64, 130), numbers(130), numbers(70, 130)
    expected = np.maximum(a @ b + bias, 0) + c
    pto.jit(level=level)(layer.function)[-(-70 // blocks[0]), -(-130 // blocks[1])](a, b, bias, c, c, *blocks)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("block", [32, 64])
def test_results_over_what_is_multiplied(block: int, level: str) -> None:
    """A program stores over the rows that it has multiplied, all of whose columns it needs."""
    a, b, bias, rest = numbers(100, 64), numbers(64, 64), numbers(64), numbers(100, 64)
    expected = np.maximum(a @ b + bias, 0) + rest
    pto.jit(level=level)(layer.function)[-(-100 // block), 1](a, b, bias, rest, a, block, 64)
    np.testing.assert_array_equal(a, expected)


def test_more_rows_than_the_left_side_has(level: str) -> None:
    a, b, bias, rest, c = (
        numbers(40, 64),
        numbers(64, 64),
        numbers(64),
        numbers(128, 64),
        np.zeros((128, 64), np.float32),
    )
    whole = np.concatenate([a, np.zeros((88, 64), np.float32)])
    pto.jit(level=level)(layer.function)[2, 1](a, b, bias, rest, c, 64, 64)
    np.testing.assert_array_equal(c, np.maximum(whole @ b + bias, 0) + rest)


PRODUCT = kernel_text("""
  %k: i64 = constant {value = 64}
  %a: tile<32x64xf32> = tile_load %px, %zero, %zero, %k, %one, %k, %k {masked = false, shape = [32, 64]}
  %b: tile<64x64xf32> = tile_load %py, %zero, %zero, %k, %one, %k, %k {masked = false, shape = [64, 64]}
  %d: tile<32x64xf32> = dot %a, %b
  %e: tile<32x64xf32> = neg %d
  tile_store %pz, %zero, %zero, %k, %one, %k, %k, %VALUE {masked = false, shape = [32, 64]}
""")
SCRATCH = """\
scratch 0 bytes
  b0: 32x64xf32 @0 live 8 to 14 holds %d
  b1: 64x64xf32 panels of 16 @0 live 12 to 12
  b2: 16x64xf32 in memory format @0 live 12 to 12
"""
GEMM = (
    "library Gemm(op = op %d, a = InPlaceOperand(load = op %a, rows = 0, columns = 1, transposed = false), b = b1, "
    "c = b0, left_block = b2, b_source = InPlaceOperand(load = op %b, rows = 0, columns = 1, transposed = false), "
    "beta_zero = true{})\n"
)
STORED = ", direct_store = InPlaceOperand(load = op tile_store, rows = 0, columns = 1, transposed = false)"


@pytest.mark.parametrize(
    ("value", "attributes", "fused"),
    [
        ("e", "noalias = true", f"{STORED}, epilogue = nest"),
        ("d", "noalias = true", STORED),
        ("e", 'disable = ["epilogue"], noalias = true', ""),
        ("d", 'disable = ["direct_store", "epilogue"], noalias = true', ""),
        ("e", "noalias = false", ""),
        ("e", "checked = true, noalias = true", ""),
    ],
    ids=["epilogue", "direct_store", "no_epilogue", "no_direct_store", "may_alias", "checked"],
)
def test_a_store_becomes_part_of_the_product(becomes: Becomes, value: str, attributes: str, fused: str) -> None:
    """The nest of the store stays, for tiles that are not in bounds as a whole."""
    text = PRODUCT.replace("%VALUE", f"%{value}").replace("noalias = true", attributes)
    text = text if value == "e" else text.replace("  %e: tile<32x64xf32> = neg %d\n", "")
    nest = "nest sharing 2{}\n  - store tile_store [for d0<32 lanes d1<64]\n"
    becomes(
        partial(fuse_loops, target=fixed_target()),
        text,
        SCRATCH + GEMM.format("") + nest.format(""),
        SCRATCH + GEMM.format(fused) + nest.format(" unless done by %d" if fused else ""),
    )


@pytest.mark.parametrize(("kernel", "blocks", "does"), [
    (layer, (32, 64), True), (scaled, (32, 64), True), (layer, (32, 20), False), (layer, (8, 64), False),
    (twice, (32, 64), False),
])  # fmt: skip
def test_when_it_does(kernel: Any, blocks: tuple[int, int], does: bool) -> None:
    """With whole panels, more than a few rows, and one reader."""
    arrays = {"a": numbers(64, 64), "b": numbers(64, 64), "bias": numbers(64), "rest": numbers(64, 64)}
    sizes = dict(zip(("BM", "BN"), blocks, strict=True))
    launch = Launch(kernel, (2, 1), {**arrays, "c": np.zeros((64, 64), np.float32), **sizes}, {})
    items = [item for item in walk(lowered(launch).schedule.items) if isinstance(item, Gemm)]
    assert [item.epilogue is not None for item in items] == [does]
