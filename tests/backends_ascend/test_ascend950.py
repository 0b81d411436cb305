"""Products on ascend950, whose L0A holds fractals as L1 does: the same kernels as on other chips, with other loads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.cube.lower import lower_cube
from pypto.backends.ascend.pipeline import lower_kernel, lower_to_text
from pypto.backends.ascend.target import ascend_target
from pypto.runtime.acl import AclError
from tests.backends_ascend.simulated import function_of, run
from tests.backends_ascend.test_cube_kernels import arrays, by_pointers, by_slices, near, turned
from tests.backends_ascend.test_cube_mixed import attention, rows_times_all
from tests.sim.device import needs_compiler

pytestmark = needs_compiler
CHIP = ascend_target("ascend950")
RNG = np.random.default_rng(5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8])
def test_turned_operands(dtype: Any) -> None:
    a, b, c, wanted = arrays(40, 50, 300, dtype, np.int32 if dtype == np.int8 else np.float32)
    run(turned, (2, 2), lower_cube, chip=CHIP, a=np.ascontiguousarray(a.T), b=np.ascontiguousarray(b.T), c=c, B=32)
    near(c, wanted, 300)


def test_an_operand_that_stays_in_l1() -> None:
    a, b, c, wanted = arrays(50, 70, 33, np.float16, np.float32)
    run(rows_times_all, (2,), lower_kernel, kind="cube", chip=CHIP, a=a, b=b, c=c, M=32, N=32, K=48)
    np.testing.assert_allclose(c, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_sums_of_nothing_are_zeros(dtype: Any) -> None:
    """Nothing fills L0 there: zeros are loaded from L1."""
    a, b, c, _ = arrays(40, 40, 16, dtype, np.float32)
    sizes = {"M": 40, "N": 40, "K": 0, "stride_a": 16, "stride_b": 40, "stride_c": 40}
    run(by_pointers, (2, 2), lower_cube, chip=CHIP, a=a, b=b, c=c, **sizes, BM=32, BN=32, BK=16)
    np.testing.assert_array_equal(c, 0)


def test_operands_that_lack_what_is_stored_are_zeros() -> None:
    a, b, c, _ = arrays(40, 40, 64, np.float16, np.float32)
    wanted = np.zeros((40, 40))
    wanted[:20, :30] = a[:20, :50].astype(np.float64) @ b[:50, :30].astype(np.float64)
    few_a, few_b = a[:20].copy(), np.ascontiguousarray(b[:50, :30])
    run(by_slices, (2, 2), lower_cube, chip=CHIP, a=few_a, b=few_b, c=c, BM=32, BN=32, BK=32)
    near(c, wanted, 50)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_attention(dtype: Any) -> None:
    q, k, v = (RNG.standard_normal((1, 100, 32)).astype(dtype) for _ in range(3))
    out = np.full_like(q, 7)
    run(attention, (1, 4), lower_kernel, kind="mix", chip=CHIP, q=q, k=k, v=v, out=out, CAUSAL=True, BM=32, BN=32)
    s = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / math.sqrt(32)
    s = np.where(np.tri(100, dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    close = 4e-3 if dtype == np.float16 else 1e-5
    np.testing.assert_allclose(out, p / p.sum(-1, keepdims=True) @ v.astype(np.float64), rtol=close, atol=close)


@pto.jit
def product(a, b, c):
    c[:, :] = pto.dot(pto.trans(a[:, :]), b[:, :])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8])
def test_one_load_brings_a_whole_operand(dtype: Any) -> None:
    a, b = np.empty((64, 96), dtype), np.empty((64, 128), dtype)
    c = np.empty((96, 128), np.int32 if dtype == np.int8 else np.float32)
    loads = {"ascend910b2": 0, "ascend950": 2}
    for chip, count in loads.items():
        _, text = lower_to_text(function_of(product, {"a": a, "b": b, "c": c}), ascend_target(chip))
        assert text.count("LoadData2DParamsV2 ") == count
        assert ("LoadDataWithTranspose(" in text) == (count == 0 and dtype != np.float16)


def test_small_products_that_add_to_each_other_have_a_barrier() -> None:
    """The rule of the documentation names no chip: without it, the device finds the product that comes too soon."""
    a, b, c, wanted = arrays(32, 32, 2500, np.float16, np.float32)
    arguments, barrier = {"a": a, "b": b, "c": c, "BM": 32, "BN": 32, "BK": 16}, "PipeBarrier<PIPE_M>();"
    run(by_slices, (1, 1), lower_kernel, kind="cube", chip=CHIP, **arguments)
    near(c, wanted, 2500)
    with pytest.raises(AclError, match=r"read after write in L0C.*PipeBarrier<PIPE_M>\(\) is missing"):
        run(by_slices, (1, 1), lower_kernel, chip=CHIP, edit=lambda text: text.replace(barrier, ""), **arguments)
