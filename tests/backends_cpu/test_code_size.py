"""What LLVM gets of a kernel: nothing twice that runs no faster for it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.gemm.micro_kernel import MicroTile
from pypto.backends.cpu.loopir.cost import negligible_nests
from pypto.backends.cpu.loopir.ir import Control, Nest
from pypto.backends.llvm.value import VectorValue
from pypto.ir.types import float32, int64
from tests.backends_cpu.lowering import fixed_target, lowered
from tests.conformance.cases import Launch


@pto.jit
def summed(x, y, out, N: pto.constexpr):
    i = pto.program_id(0) * 64
    start = y[i : i + 64]
    total = pto.zeros((64, 64), pto.float32)
    for j in range(0, x.shape[0], 64):
        t = x[j : j + 64, :]
        total += pto.dot(t, t)
        start = start * 2
    out[i : i + 64, :] = total * start[:, None]


@pto.jit
def rare(x, y, out):
    i = pto.program_id(0)
    if i == 0:
        t = x[0:64, :]
        out[0:64, :] = pto.dot(t, t)
    out[64, :] = y[0:64]


@pto.jit
def turned(x, out):
    i = pto.program_id(0) * 64
    out[:, i : i + 64] = pto.trans(x[i : i + 64, :])


@pto.jit
def in_order(x, out):
    out[:] = pto.sort(x[:])


def text(kernel: Any, *arrays: Any, **more: Any) -> Any:
    names = ("x", "y", "out") if len(arrays) == 3 else ("x", "out")
    return lowered(Launch(kernel, (1, 1, 1), dict(zip(names, arrays, strict=True)) | more, {}))


def test_nests_beside_products_are_minor_where_they_take_next_to_no_time() -> None:
    square = np.ones((256, 64), np.float32)
    items = text(summed, square, np.ones(256, np.float32), square.copy(), N=64).schedule.items
    inner = next(item for item in items if isinstance(item, Control)).regions[0]
    found, steps = negligible_nests(items, 8), [item for item in inner if isinstance(item, Nest)]
    sizes = {nest in found: {s.domain for s in nest.stmts} for nest in steps}
    assert sizes == {True: {(64,)}, False: {(64, 64)}}
    assert not negligible_nests([item for item in items if isinstance(item, Nest)], 8), "nothing takes longer"


def test_a_branch_that_may_not_be_taken_makes_nothing_minor() -> None:
    square, out = np.ones((64, 64), np.float32), np.ones((65, 64), np.float32)
    items = text(rare, square, np.ones(64, np.float32), out).schedule.items
    assert any(isinstance(item, Control) for item in items)
    assert not negligible_nests(items, 8).intersection(items)


def test_squares_that_may_go_past_the_caches_are_transposed_once() -> None:
    square = np.ones((4096, 64), np.float32)
    found = text(turned, square, np.ones((64, 4096), np.float32)).text
    stores = re.findall(r"store <8 x float> (%\w+), .*align (\d+)(, !nontemporal)?", found)
    past = {value for value, _, streams in stores if streams}
    assert past and past <= {value for value, _, streams in stores if not streams}


@pytest.mark.parametrize(
    ("rows", "vectors", "parts", "unroll"),
    [(14, 2, 0, 2), (13, 2, 1, 2), (6, 2, 0, 4), (4, 1, 0, 4), (1, 1, 0, 4), (16, 4, 0, 1), (14, 2, 9, 4)],
)
def test_rounds_are_as_long_as_it_pays(rows: int, vectors: int, parts: int, unroll: int) -> None:
    block = MicroTile(rows, vectors, 16, 32, float32, products=parts)
    assert block.unroll == unroll
    depths = [VectorValue(str(n), int64, 1, 0) for n in (64, 128)]
    assert block.with_depths(*depths).k_divisible
    assert not block.with_depths(*depths, VectorValue("50", int64, 1, 0)).k_divisible
    assert not block.with_depths(VectorValue("%depth", int64, 1, 0)).k_divisible


def test_a_sort_makes_maxima_of_minima_where_that_is_one_instruction() -> None:
    row, found = np.ones(512, np.float32), {}
    for size in (32, 64):
        target = replace(fixed_target(), vector_bytes=size, registers=size // 2)
        code = lowered(Launch(in_order, (1, 1, 1), {"x": row, "out": row.copy()}, {}), target).text
        names = ("smin.v", "smax.v", "x86.avx512.pternlog.d")
        found[size] = [code.count(f" = call <{size // 4} x i32> @llvm.{name}") for name in names]
    assert found[32][0] == found[32][1] > 100 > found[32][2]
    lesser, greater, bits = found[64]
    assert bits == lesser - greater > lesser // 2 > 100
