"""Products of tiles by one instruction: what is emitted for machines that have it, and what comes of it there."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from ml_dtypes import bfloat16

import pypto as pto
from pypto.backends.base import Locality
from pypto.backends.cpu import target as targets
from pypto.backends.cpu.gemm.amx import configure, tile_heights
from pypto.backends.cpu.pipeline import coarsen
from pypto.backends.cpu.runtime.engine import Engine
from pypto.backends.cpu.target import host_target
from pypto.backends.llvm.writer import Writer
from pypto.compile import session
from pypto.ops.table import TABLE
from pypto.ops.verify import verify
from pypto.passes.analysis.dot_facts import amx_k_words
from tests.backends_cpu.lowering import lowered, optimized
from tests.backends_cpu.test_words import WIDE, numbers, product, product_with_transposed, result_type
from tests.conformance.cases import Launch
from tests.conformance.fences import Fences

TILED = replace(WIDE, has_amx=True, has_bf16_dot=False, has_bf16_round=True, triple="x86_64-unknown-linux-gnu")
here = pytest.mark.skipif(not host_target().has_amx, reason="this machine multiplies no tiles")
x86 = pytest.mark.skipif(not host_target().triple.startswith("x86_64"), reason="assembles for x86-64")


def launch(dtype: Any, k: int) -> Launch:
    arguments = {"a": numbers(dtype, 40, k), "b": numbers(dtype, k, 48), "c": np.zeros((40, 48), result_type(dtype))}
    return Launch(product, (1, 1), {**arguments, "BM": 40, "BN": 48, "BK": k}, {})


def test_steps_divide_the_depth() -> None:
    assert [amx_k_words(n) for n in (4, 15, 16, 24, 32, 34, 512, 504)] == [4, 15, 16, 12, 16, 2, 16, 14]


def test_tiles_have_as_many_rows_as_there_are() -> None:
    assert [tile_heights(n) for n in (1, 16, 17, 27, 32)] == [[1], [16], [9, 8], [14, 13], [16, 16]]


def test_shapes_of_registers() -> None:
    """As the manual lays them out: the palette, from byte 16 on the widths, from byte 48 on the heights."""
    w = Writer()
    configure(w, 27, 12)
    table = [int(n) for n in re.findall(r"i8 (\d+)", w.frames[0].lines[0])]
    assert len(table) == 64 and table[0] == 1
    assert table[16:32] == [64, 0] * 4 + [48, 0] * 2 + [64, 0] * 2
    assert table[48:56] == [14, 14, 13, 13, 14, 13, 12, 12]
    assert not any(table[1:16] + table[32:48] + table[56:])


@pytest.mark.parametrize(("dtype", "instruction"), [(bfloat16, "tdpbf16ps"), (np.int8, "tdpbssd")])
@pytest.mark.parametrize(("k", "expected"), [(64, True), (16, True), (8, False), (34, False)])
def test_when_tiles_are_multiplied(dtype: Any, instruction: str, k: int, expected: bool) -> None:
    """Where there are few words along K, or a depth that has no divisor to go by, numbers go one by one."""
    text = lowered(launch(dtype, k), TILED).text
    assert {name in text for name in (instruction, "ldtilecfg", "tilerelease")} == {expected}
    assert "vpdpbusd" not in text and "dpbf16ps.512" not in text


@x86
@pytest.mark.parametrize(("dtype", "instruction"), [(bfloat16, "tdpbf16ps"), (np.int8, "tdpbssd")])
def test_a_step_is_four_loads_and_four_products(dtype: Any, instruction: str) -> None:
    machine = replace(TILED, cpu="sapphirerapids", features="")
    assembly = Engine(machine).assembly(lowered(launch(dtype, 128), machine).text)
    loops = re.findall(rf"^(\.LBB\S+):(?:(?!^\.LBB)[\s\S])*?{instruction}[\s\S]*?\n\tj\w+\t\1$", assembly, re.MULTILINE)
    assert loops and assembly.count(instruction) % 2 == 0
    assert "tileloaddt1" in assembly and "tilestored" in assembly


def test_a_process_that_may_not_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "may_use_tiles", lambda: False)
    assert not targets.detect_target(None).has_amx


def test_machines_with_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "may_use_tiles", lambda: True)
    present = {"avx512f", "avx512bw", "amx-tile", "amx-bf16", "amx-int8"}
    assert targets.describe("any", "", "host", "x86_64-linux", present).has_amx
    assert not targets.describe("any", "", "host", "x86_64-linux", present - {"amx-int8"}).has_amx


@here
@pytest.mark.parametrize("dtype", [bfloat16, np.int8])
def test_random_products(dtype: Any) -> None:
    """Every size of tiles, sides that begin anywhere and rows that lie anyhow, with fenced pages."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        m, n, k = (int(x) for x in rng.integers(1, (90, 90, 400)))
        blocks = tuple(int(rng.choice(sizes)) for sizes in ((8, 16, 32, 48, 64), (16, 32, 48, 64), (16, 32, 64, 128)))
        a, b = numbers(dtype, m, k + 5)[:, 3 : k + 3], numbers(dtype, k, n)
        grid = -(-m // blocks[0]), -(-n // blocks[1])
        for kernel, right in ((product, b), (product_with_transposed, np.ascontiguousarray(b.T))):
            with Fences() as fences:
                c = fences.around(np.zeros((m, n), result_type(dtype)))
                pto.jit(kernel.function)[grid](a, right, c, *blocks)
            np.testing.assert_array_equal(c, a.astype(int) @ b.astype(int))


@pto.jit
def batched(a, b, bias, c, ACC: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr, TURNED: pto.constexpr):
    i, j, h = pto.program_id(0) * BM, pto.program_id(1) * BN, pto.program_id(2)
    if TURNED:
        i, j = pto.program_id(1) * BM, pto.program_id(0) * BN
    acc = pto.zeros((BM, BN), ACC)
    for k in range(0, a.shape[2], 64):
        acc = pto.dot(a[h, i : i + BM, k : k + 64], b[h, k : k + 64, j : j + BN], acc)
    c[h, i : i + BM, j : j + BN] = pto.maximum(acc + bias[None, j : j + BN], 0)


def batch(dtype: Any, shape: tuple[int, int, int, int]) -> dict[str, Any]:
    h, m, n, k = shape
    bias = np.arange(n).astype(result_type(dtype))
    arrays = {"a": numbers(dtype, h, m, k), "b": numbers(dtype, h, k, n), "bias": bias}
    acc = pto.int32 if dtype is np.int8 else pto.float32
    return {**arrays, "c": np.zeros((h, m, n), bias.dtype), "ACC": acc, "TURNED": False}


@pytest.mark.parametrize("dtype", [bfloat16, np.int8])
@pytest.mark.parametrize(("bm", "bn", "strips"), [(64, 64, 8), (128, 100, 5), (64, 512, 0), (16, 64, 0), (256, 64, 0)])
def test_strips(dtype: Any, bm: int, bn: int, strips: int) -> None:
    """Wide blocks, few rows, and results that would fill the cache stay as they are."""
    launch = Launch(batched, (2, 2), {**batch(dtype, (1, 600, 600, 128)), "BM": bm, "BN": bn}, {})
    made = coarsen(optimized(launch), TILED)
    assert [x.programs.second_factor for x in made] == ([strips, 1] if strips else [1])
    for x in made:
        verify(x, TABLE)
    found = lowered(launch, TILED)
    assert found.locality == (Locality("rows", strips) if strips else Locality("row"))
    assert ("kernel.single" in found.text.replace(found.name, "kernel")) == bool(strips)


def test_strips_lie_along_the_second_axis() -> None:
    """They may be of rows, too; what is checked or profiled has none."""
    launch = Launch(batched, (2, 2), {**batch(bfloat16, (1, 600, 600, 128)), "BM": 64, "BN": 64}, {})
    for attrs in ({"checked": True}, {"profile": True}):
        function = optimized(launch)
        assert len(coarsen(replace(function, attrs={**function.attrs, **attrs}), TILED)) == 1
    turned = Launch(batched, (2, 2), {**launch.arguments, "BM": 128, "TURNED": True}, {})
    assert [x.programs.second_factor for x in coarsen(optimized(turned), TILED)] == [4, 1]
    assert [x.programs.second_factor for x in coarsen(optimized(launch), replace(TILED, has_amx=False))] == [1]


@here
@pytest.mark.parametrize("dtype", [bfloat16, np.int8])
@pytest.mark.parametrize("threads", [1, 2])
def test_random_strips(dtype: Any, threads: int) -> None:
    """Whole strips and what is left of them, parts of grids, batches, on one thread and two."""
    rng, kernel = np.random.default_rng(5), pto.jit(num_threads=threads)(batched.function)
    for _ in range(12):
        shape = tuple(int(x) for x in rng.integers(1, (3, 900, 1200, 600)))
        arguments = {**batch(dtype, shape), "BM": int(rng.choice([32, 64])), "BN": int(rng.choice([32, 64, 128]))}
        grid = -(-shape[1] // arguments["BM"]), -(-shape[2] // arguments["BN"])
        arguments["TURNED"] = bool(rng.integers(2))
        kernel[*(grid[::-1] if arguments["TURNED"] else grid), shape[0]](**arguments)
        a, b, bias, c = (arguments[name].astype(np.float32) for name in ("a", "b", "bias", "c"))
        np.testing.assert_array_equal(c, np.maximum(a @ b + bias, 0))


@here
def test_greatest_bytes() -> None:
    """-128 times -128, as often as a tile has room for it: no sign is lost, and nothing saturates."""
    a, b, c = np.full((32, 512), -128, np.int8), np.full((512, 32), -128, np.int8), np.zeros((32, 32), np.int32)
    pto.jit(product.function)[1, 1](a, b, c, 32, 32, 64)
    assert (c == 512 * 128 * 128).all()


@here
def test_tiles_in_threads() -> None:
    """Threads have tile registers of their own; what one is interrupted in is as it was when it goes on."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 8, shape).astype(bfloat16) for shape in ((1024, 512), (512, 768)))
    kernel, expected = pto.jit(product.function), a.astype(np.float32) @ b.astype(np.float32)
    for _ in range(20):
        c = np.zeros((1024, 768), np.float32)
        kernel[8, 6](a, b, c, 128, 128, 64)
        np.testing.assert_array_equal(c, expected)
    assert session().threads >= 1


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_floats_of_8_bits_become_bfloat16(dtype: Any, level: str) -> None:
    """None of their numbers is rounded, subnormal ones, infinities and NaN among them."""
    rng = np.random.default_rng(9)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((40, 70), (70, 48)))
    a[:4, :8] = np.arange(32, dtype=np.uint8).view(dtype).reshape(4, 8)
    c, arguments = np.zeros((40, 48), np.float32), {"BM": 32, "BN": 48, "BK": 32}
    pto.jit(level=level)(product.function)[2, 1](a, b, c, **arguments)
    np.testing.assert_allclose(c, a.astype(float) @ b.astype(float), rtol=1e-5, atol=1e-4)
    a[5, 6] = np.nan
    pto.jit(level=level)(product.function)[2, 1](a, b, c, **arguments)
    assert np.isnan(c[5]).all() and not np.isnan(np.delete(c, 5, axis=0)).any()
    text = lowered(Launch(product, (1, 1), {"a": a, "b": b, "c": c, **arguments}, {}), TILED).text
    assert "tdpbf16ps" in text
