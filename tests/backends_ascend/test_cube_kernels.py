"""Kernels of products on cube cores: what the lowering makes of them, on the simulated device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.block.race_checker import races
from pypto.backends.ascend.blockir.ir import If, Instr, Item, Loop, Word
from pypto.backends.ascend.cube.accumulators import NotCube
from pypto.backends.ascend.cube.lower import lower_cube
from pypto.backends.ascend.pipeline import lower_kernel, lower_to_text
from pypto.backends.ascend.target import AscendTarget, ascend_target
from pypto.backends.ascend.tile.k_blocking import block_k
from pypto.interp.run import run as interpret
from pypto.ir.core import Value
from pypto.ir.types import ArrayType
from pypto.runtime.arrays import array_info
from tests.backends_ascend.simulated import B2, function_of, run
from tests.conformance.networks import batched_dot, matmul_pointers
from tests.sim.device import needs_compiler

pytestmark = needs_compiler
Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(3)
A5 = ascend_target("ascend950")


@pto.jit
def by_slices(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def by_pointers(  # noqa: PLR0913, PLR0917
    a, b, c, M, N, K, stride_a, stride_b, stride_c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr
):
    rows = pto.program_id(0) * BM + pto.arange(0, BM)
    cols = pto.program_id(1) * BN + pto.arange(0, BN)
    ks = pto.arange(0, BK)
    at_a = a + rows[:, None] * stride_a + ks[None, :]
    at_b = b + ks[:, None] * stride_b + cols[None, :]
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, K, BK):
        x = pto.load(at_a, mask=(rows[:, None] < M) & (ks[None, :] < K - k), other=0.0)
        y = pto.load(at_b, mask=(ks[:, None] < K - k) & (cols[None, :] < N), other=0.0)
        acc = pto.dot(x, y, acc)
        at_a += BK
        at_b += BK * stride_b
    at_c = c + rows[:, None] * stride_c + cols[None, :]
    pto.store(at_c, acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


@pto.jit
def of_integers(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.int32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def turned(a, b, c, B: pto.constexpr):
    """c = aᵀ bᵀ, with all of K at once."""
    x, y = (
        a[:, pto.program_id(0) * B : (pto.program_id(0) + 1) * B],
        b[pto.program_id(1) * B : (pto.program_id(1) + 1) * B, :],
    )
    i, j = pto.program_id(0) * B, pto.program_id(1) * B
    c[i : i + B, j : j + B] = pto.dot(pto.trans(x), pto.trans(y))


def near(found: Array, wanted: Array, k: int) -> None:
    rounding = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}.get(str(found.dtype), 0)
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=rounding, atol=rounding * np.sqrt(k))


def arrays(m: int, n: int, k: int, dtype: Any, out: Any) -> tuple[Array, Array, Array, Array]:
    a, b = (RNG.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
    if np.dtype(dtype) == np.int8:
        a, b = (RNG.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    return a, b, np.full((m, n), 7).astype(out), a.astype(np.float64) @ b.astype(np.float64)


TYPES = [
    (np.float16, np.float16),
    (ml_dtypes.bfloat16, np.float32),
    (np.float32, np.float32),
    (np.float16, ml_dtypes.bfloat16),
]


@pytest.mark.parametrize(("dtype", "out"), TYPES)
def test_slices(dtype: Any, out: Any) -> None:
    a, b, c, wanted = arrays(100, 60, 200, dtype, out)
    run(by_slices, (4, 2), lower_cube, a=a, b=b, c=c, BM=32, BN=48, BK=64)
    near(c, wanted, 200)


def test_pointers() -> None:
    a, b, c, wanted = arrays(70, 50, 90, np.float16, np.float32)
    run(
        by_pointers,
        (3, 2),
        lower_cube,
        a=a,
        b=b,
        c=c,
        M=70,
        N=50,
        K=90,
        stride_a=90,
        stride_b=50,
        stride_c=50,
        BM=32,
        BN=32,
        BK=32,
    )
    near(c, wanted, 90)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_transposed_operands(dtype: Any) -> None:
    a, b, c, wanted = arrays(40, 50, 300, dtype, np.float32)
    run(turned, (2, 2), lower_cube, a=np.ascontiguousarray(a.T), b=np.ascontiguousarray(b.T), c=c, B=32)
    near(c, wanted, 300)


@pytest.mark.parametrize("k", [1, 40, 200])
def test_kernels_as_triton_has_them(k: int) -> None:
    a, b, c, wanted = arrays(70, 50, k, np.float16, np.float16)
    sizes = {"M": 70, "N": 50, "K": k, "sam": k, "sak": 1, "sbk": 50, "sbn": 1, "scm": 50, "scn": 1}
    run(matmul_pointers, (9,), lower_kernel, kind="cube", a=a, b=b, c=c, **sizes, BM=32, BN=24, BK=16, GROUP=2)
    near(c, wanted, k)


@pytest.mark.parametrize(("dtype", "out"), [(np.float16, np.float32), (np.int8, np.int32)])
def test_stacks(dtype: Any, out: Any) -> None:
    draw = RNG.integers(-128, 128, (2, 5, 20, 40)) if dtype == np.int8 else RNG.standard_normal((2, 5, 20, 40))
    a, b = draw.astype(dtype)
    c = np.full((5, 20, 20), 7, out)
    run(batched_dot, (3,), lower_kernel, kind="cube", a=a, b=b, c=c, B=2)
    near(c, a.astype(np.float64) @ b.astype(np.float64).transpose(0, 2, 1), 40)


def test_integers() -> None:
    a, b, c, wanted = arrays(70, 50, 90, np.int8, np.int32)
    run(of_integers, (3, 2), lower_kernel, kind="cube", a=a, b=b, c=c, BM=32, BN=32, BK=64)
    np.testing.assert_array_equal(c, wanted)


def test_no_steps_at_all_are_zeros() -> None:
    a, b, c, _ = arrays(40, 40, 16, np.float16, np.float32)
    run(
        by_pointers,
        (2, 2),
        lower_cube,
        a=a,
        b=b,
        c=c,
        M=40,
        N=40,
        K=0,
        stride_a=16,
        stride_b=40,
        stride_c=40,
        BM=32,
        BN=32,
        BK=16,
    )
    np.testing.assert_array_equal(c, 0)


def test_operands_that_lack_what_is_stored_are_zeros() -> None:
    a, b, c, _ = arrays(40, 40, 64, np.float16, np.float32)
    wanted = np.zeros((40, 40))
    wanted[:20, :30] = a[:20, :50].astype(np.float64) @ b[:50, :30].astype(np.float64)
    few_a = np.full((40, 64), 9, np.float16)[:20]
    few_a[:] = a[:20]
    few_b = np.ascontiguousarray(b[:50, :30])
    run(by_slices, (2, 2), lower_cube, a=few_a, b=few_b, c=c, BM=32, BN=32, BK=32)
    near(c, wanted, 50)


def given(value: Any, arg: Value) -> Any:
    return array_info(value, "k", arg.hint) if isinstance(arg.type, ArrayType) else value


def test_longer_steps_mean_the_same() -> None:
    a, b, c, wanted = arrays(33, 40, 100, np.float16, np.float32)
    launch = {"a": a, "b": b, "c": c, "BM": 32, "BN": 32, "BK": 16}
    pointers = {**launch, "M": 33, "N": 40, "K": 100, "stride_a": 100, "stride_b": 40, "stride_c": 40}
    for kernel, arguments in ((by_slices, launch), (by_pointers, pointers)):
        function = block_k(function_of(kernel, arguments), B2)
        shapes = {op.attrs["shape"] for op in function.walk() if op.name == "tile_load"}
        assert shapes == {(32, 112), (112, 32)} if kernel is by_slices else {(32, 1024), (1024, 32)}
        c[:] = 7
        interpret(function, [given(arguments[arg.hint], arg) for arg in function.args], (2, 2, 1))
        near(c, wanted, 100)


def test_blocks_that_l0_does_not_hold() -> None:
    a, b, c, wanted = arrays(300, 260, 40, np.float16, np.float16)
    run(by_slices, (2, 2), lower_kernel, kind="cube", a=a, b=b, c=c, BM=256, BN=256, BK=32)
    near(c, wanted, 40)


@pto.jit
def with_epilogue(a, b, c, B: pto.constexpr):
    c[:, :] = pto.maximum(pto.dot(a[0:B, 0:B], b[0:B, 0:B]), 0.0)


def test_what_is_no_product_is_said() -> None:
    x = np.zeros((16, 16), np.float16)
    with pytest.raises(NotCube, match="works on tiles element by element"):
        lower_cube(function_of(with_epilogue, {"a": x, "b": x, "c": x, "B": 16}), B2)


def without_barriers(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Items without the barriers of the cube unit, those inside of loops and branches included."""
    kept: list[Item] = []
    for item in items:
        match item:
            case Instr(name="PipeBarrier", args=(Word(text="PIPE_M"),)):
                continue
            case Loop():
                kept.append(replace(item, body=without_barriers(item.body)))
            case If():
                then, orelse = without_barriers(item.body), without_barriers(item.orelse)
                kept.append(replace(item, body=then, orelse=orelse))
            case _:
                kept.append(item)
    return tuple(kept)


@pytest.mark.parametrize(
    ("m", "n", "chip", "needed"),
    [
        (16, 128, B2, True),
        (48, 48, B2, True),
        pytest.param(32, 80, B2, False, marks=pytest.mark.slow),
        (64, 64, B2, False),
        pytest.param(16, 128, A5, True, marks=pytest.mark.slow),
        (64, 64, A5, False),
    ],
)
def test_a_small_product_waits_for_the_one_that_it_adds_to(m: int, n: int, chip: AscendTarget, needed: bool) -> None:
    """The cube unit begins a product before the one before it has ended; ten fractals are written in time."""
    a, b, c, wanted = arrays(m, n, 200, np.float16, np.float32)
    blocks: dict[str, Any] = {"a": a, "b": b, "c": c, "BM": m, "BN": n, "BK": 64}
    kernel, _ = lower_to_text(function_of(by_slices, blocks), chip)
    bare = replace(kernel, body=without_barriers(kernel.body), cube_body=without_barriers(kernel.cube_body))
    assert (bare != kernel) == needed
    assert races(kernel, chip) == []
    assert bool([text for text in races(bare, chip) if "PipeBarrier<PIPE_M>" in text]) == needed
    run(by_slices, (1, 1), lower_kernel, chip=chip, **blocks)
    near(c, wanted, 200)
