"""Kernels stay right on the simulated device without any one of Ascend's optional passes, and without all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.blockir.printer import listing
from pypto.backends.ascend.pipeline import PASSES, lower_kernel
from pypto.backends.ascend.target import ascend_target
from tests.backends_ascend import vector_kernels
from tests.backends_ascend.simulated import function_of, run
from tests.backends_ascend.test_cube_mixed import attention, with_epilogue
from tests.backends_ascend.test_cube_operands import wrapped
from tests.conformance.running import make_launch
from tests.sim.device import needs_compiler

Array = np.ndarray[Any, Any]
B2 = ascend_target("ascend910b2")
NEEDED: Final = ("reduction_splitting",)  # without which a kernel is refused: test_reduction_splitting.py
OPTIONAL: Final = tuple(dict.fromkeys(row.name for row in PASSES if row.optional and row.name not in NEEDED))


@pto.jit
def row_sums(x, out):
    """Short rows, which programs share copies for; the constant is the same for all of them."""
    i = pto.program_id(0)
    row = x[i, :]
    out[i, :] = row / (pto.sum(row) + pto.sum(pto.full((64,), 0.5, pto.float32)))


@pto.jit
def tiles_of_product(a, b, c, BM: pto.constexpr, BN: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    c[i : i + BM, j : j + BN] = pto.dot(a[i : i + BM, :], b[:, j : j + BN])


@pto.jit
def silu_of_rows(x, y):
    i = pto.program_id(0)
    y[i, :] = pto.silu(x[i, :])


@pto.jit
def pairs_of_rows(x, y, n):
    """Neighbours change places, in the first n of all numbers."""
    row = pto.program_id(0)
    a, b = pto.split(pto.reshape(x[row, :], (32, 2)))
    inside = row.to(pto.int64) * 64 + pto.arange(0, 64) < n
    y[row, :] = pto.where(inside, pto.reshape(pto.join(b, a), (64,)), 0.0)


@dataclass(frozen=True)
class Case:
    """A kernel with its arguments, and what it is to leave in the last of its arrays."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: dict[str, Any]
    expected: Array
    tolerance: float = 1e-5


def normal(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(7).standard_normal(shape).astype(dtype)


def short_rows() -> Case:
    x = np.abs(normal(50, 40))
    arguments = {"x": x, "out": np.full_like(x, 7)}
    return Case(row_sums, (50,), arguments, x / (x.sum(1, keepdims=True) + 32))


def softmax() -> Case:
    x = normal(300, 130)
    e = np.exp(x - x.max(1, keepdims=True))
    arguments = {"x": x, "out": np.full_like(x, 7), "BM": 128}
    return Case(vector_kernels.softmax, (3,), arguments, e / e.sum(1, keepdims=True))


def product() -> Case:
    a, b = normal(70, 48, dtype=np.float16), normal(48, 96, dtype=np.float16)
    arguments = {"a": a, "b": b, "c": np.full((70, 96), 7, np.float32), "BM": 32, "BN": 32}
    return Case(tiles_of_product, (3, 3), arguments, a.astype(float) @ b, 1e-3)


def epilogue() -> Case:
    a, b, bias = normal(70, 100), normal(100, 50), normal(50)
    arguments = {"a": a, "b": b, "bias": bias, "c": np.full((70, 50), 7, np.float32), "BM": 32, "BN": 32, "BK": 32}
    return Case(with_epilogue, (3, 2), arguments, np.maximum(a.astype(float) @ b + bias, 0), 1e-4)


def of_attention(n: int, d: int, BM: int, BN: int, causal: bool) -> Case:
    q, k, v = (normal(1, n, d, dtype=np.float16) for _ in range(3))
    s = q.astype(float) @ k.astype(float).transpose(0, 2, 1) / math.sqrt(d)
    s = np.where(np.tri(n, dtype=bool), s, -np.inf) if causal else s
    p = np.exp(s - s.max(-1, keepdims=True))
    arguments = {"q": q, "k": k, "v": v, "out": np.full_like(q, 7), "CAUSAL": causal, "BM": BM, "BN": BN}
    return Case(attention, (1, -(-n // BM)), arguments, p / p.sum(-1, keepdims=True) @ v, 4e-3)


def with_modulo() -> Case:
    a, b = normal(50, 40, dtype=np.float16), normal(40, 48, dtype=np.float16)
    sizes = {"M": 50, "N": 48, "K": 40, "BM": 32, "BN": 32, "BK": 32}
    arguments = {"a": a, "b": b, "c": np.full((50, 48), 7, np.float16), **sizes}
    return Case(wrapped, (2, 2), arguments, a.astype(float) @ b.astype(float), 2e-2)


def large_product() -> Case:
    """Blocks whose sums fill L0C."""
    a, b = normal(256, 70, dtype=np.float16), normal(70, 300, dtype=np.float16)
    arguments = {"a": a, "b": b, "c": np.full((256, 300), 7, np.float32), "BM": 128, "BN": 256}
    return Case(tiles_of_product, (2, 2), arguments, a.astype(float) @ b, 1e-3)


def silu() -> Case:
    x = normal(20, 100, dtype=np.float16)
    wide = x.astype(float)
    return Case(silu_of_rows, (20,), {"x": x, "y": np.full_like(x, 7)}, wide / (1 + np.exp(-wide)), 1e-3)


def pairs() -> Case:
    x = normal(6, 64)
    swapped = x.reshape(6, 32, 2)[:, :, ::-1].reshape(-1)
    swapped[200:] = 0
    return Case(pairs_of_rows, (6,), {"x": x, "y": np.full_like(x, 7), "n": 200}, swapped.reshape(6, 64))


def online() -> Case:
    """Rows in blocks of columns, in a loop whose body has something that does not change."""
    launch = make_launch("softmax_online")
    return Case(launch.kernel, (launch.grid,), launch.arguments, launch.expected["y"])


CASES: dict[str, Callable[[], Case]] = {
    "short_rows": short_rows,
    "softmax": softmax,
    "product": product,
    "large_product": large_product,
    "epilogue": epilogue,
    "causal": lambda: of_attention(70, 32, 32, 32, True),
    "whole": lambda: of_attention(128, 64, 64, 64, False),
    "modulo": with_modulo,
    "online": online,
    "silu": silu,
    "pairs": pairs,
    "wide": lambda: of_attention(1100, 128, 128, 512, False),
}
# By pass, a kernel whose Block IR is another one without it.
CHANGED: dict[str, str] = {
    "unswitch_modulo": "modulo",
    "normalize_loops": "modulo",
    "range_analysis": "whole",
    "coarsening": "short_rows",
    "k_blocking": "epilogue",
    "software_pipeline": "causal",
    "column_tiling": "wide",
    "grid_invariants": "short_rows",
    "swizzle": "product",
    "row_split": "epilogue",
    "stage_interleaving": "wide",
    "copy_coalescing": "causal",
    "block_licm": "online",
    "in_place": "epilogue",
    "list_scheduling": "causal",
    "double_buffering": "softmax",
    "l2_bypass": "softmax",
    "unit_functions": "softmax",
    "activation_idioms": "silu",
    "unit_flags": "large_product",
    "interleaving": "pairs",
    "narrow_comparisons": "pairs",
}


def block_ir(case: Case, *disabled: str) -> str:
    kernel = pto.jit(case.kernel.function, disable=disabled)
    return listing(lower_kernel(function_of(kernel, case.arguments), B2))


def check(case: Case, disabled: tuple[str, ...]) -> None:
    """Run a kernel without some passes, and compare."""
    kernel = pto.jit(case.kernel.function, disable=disabled)
    arguments = {n: x.copy() if isinstance(x, np.ndarray) else x for n, x in case.arguments.items()}
    run(kernel, case.grid, lower_kernel, **arguments)
    found = [x for x in arguments.values() if isinstance(x, np.ndarray)][-1].astype(float)
    np.testing.assert_allclose(found, case.expected, rtol=case.tolerance, atol=case.tolerance)


@needs_compiler
@pytest.mark.parametrize("name", ["short_rows", "product", pytest.param("causal", marks=pytest.mark.slow)])
def test_kernels_are_right_without_all_optional_passes(name: str) -> None:
    check(CASES[name](), OPTIONAL)


def test_every_optional_pass_has_a_kernel() -> None:
    assert CHANGED.keys() == set(OPTIONAL)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONAL)
def test_kernels_are_right_without_a_pass(name: str) -> None:
    case = CASES[CHANGED[name]]()
    assert block_ir(case, name) != block_ir(case), "the pass does nothing for its kernel: name another one"
    check(case, (name,))
