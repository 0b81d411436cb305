"""Products and searches of float8: native where the cube unit has them, of float16 elsewhere."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.pipeline import lower_kernel, lower_to_text
from pypto.backends.ascend.target import AscendTarget, ascend_target
from pypto.runtime.acl import AclError
from tests.backends_ascend.simulated import function_of, run
from tests.sim.device import compiled, launched, needs_compiler

pytestmark = needs_compiler
RNG = np.random.default_rng(8)
OLD, NEW = ascend_target("ascend910b2"), ascend_target("ascend950")
CHIPS = [OLD, NEW]
OCP = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
ALL = [*OCP, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz]


@pto.jit
def product(a, b, c, BM: pto.constexpr, BK: pto.constexpr):
    i = pto.program_id(0) * BM
    acc = pto.zeros((BM, c.shape[1]), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, :], acc)
    c[i : i + BM, :] = acc


@pto.jit
def turned(a, b, c):
    c[:, :] = pto.dot(pto.trans(a[:, :]), pto.trans(b[:, :]))


@pto.jit
def rounded_to_float8(a, b, c):
    c[:, :] = pto.dot((a[:, :] * 0.5).to(pto.float8_e4m3fn), b[:, :])


@pto.jit
def greatest(x, at, least):
    at[:] = pto.argmax(x[:, :], axis=1)
    least[:] = pto.argmin(x[:, :], axis=1)


def codes(shape: tuple[int, ...], dtype: Any) -> Any:
    """Each number of a dtype, subnormal ones too, and none that is infinite or NaN."""
    numbers = np.arange(256, dtype=np.uint8).view(dtype)
    return RNG.choice(numbers[np.isfinite(numbers.astype(np.float32))], shape)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
@pytest.mark.parametrize("dtype", ALL, ids=lambda dtype: dtype.__name__)
def test_products(dtype: Any, chip: AscendTarget) -> None:
    a, b, c = codes((40, 72), dtype), codes((72, 33), dtype), np.full((40, 33), 7, np.float32)
    is_native = chip is NEW and dtype in OCP
    run(product, (3,), lower_kernel, kind="cube" if is_native else "mix", chip=chip, a=a, b=b, c=c, BM=16, BK=32)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    near = 72 * 2.0**-23 * (np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)))
    assert (np.abs(c - wanted) <= near).all()


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_turned_operands(chip: AscendTarget) -> None:
    a, b, c = codes((48, 40), OCP[0]), codes((33, 48), OCP[0]), np.full((40, 33), 7, np.float32)
    run(turned, (1,), lower_kernel, chip=chip, a=a, b=b, c=c)
    np.testing.assert_allclose(c, a.T.astype(np.float64) @ b.T.astype(np.float64), rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_operands_that_the_vector_cores_round(chip: AscendTarget) -> None:
    a, b, c = RNG.standard_normal((32, 48)).astype(np.float32), codes((48, 32), OCP[0]), np.zeros((32, 32), np.float32)
    run(rounded_to_float8, (1,), lower_kernel, kind="mix", chip=chip, a=a, b=b, c=c)
    half = (a * np.float32(0.5)).astype(OCP[0]).astype(np.float64)
    np.testing.assert_allclose(c, half @ b.astype(np.float64), rtol=1e-5, atol=1e-3)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
@pytest.mark.parametrize("dtype", ALL, ids=lambda dtype: dtype.__name__)
def test_searches_go_by_values(dtype: Any, chip: AscendTarget) -> None:
    """Codes of negative numbers rise while the numbers fall."""
    x, at, least = codes((8, 50), dtype), np.zeros(8, np.int32), np.zeros(8, np.int32)
    run(greatest, (1,), lower_kernel, chip=chip, x=x, at=at, least=least)
    np.testing.assert_array_equal(at, np.argmax(x.astype(np.float32), axis=1))
    np.testing.assert_array_equal(least, np.argmin(x.astype(np.float32), axis=1))


def test_the_text_names_the_type_of_the_product_alone() -> None:
    a = np.zeros((32, 32), OCP[1])
    arguments = {"a": a, "b": a, "c": np.zeros((32, 32), np.float32), "BM": 32, "BK": 32}
    _, text = lower_to_text(function_of(product, arguments), NEW)
    assert "ReinterpretCast<fp8_e5m2_t>()" in text
    assert all("Mmad" in statement for statement in text.split(";") if "fp8" in statement)


MMAD = """
extern "C" __global__ __cube__ __aicore__ void k(GM_ADDR) {
    LocalTensor<uint8_t> a(TPosition::A2, 0, 1024), b(TPosition::B2, 0, 1024);
    LocalTensor<float> c(TPosition::CO1, 0, 1024);
    InitSocState();
    MmadParams p;
    p.m = 16, p.n = 16, p.k = 32;
    Mmad(c, a.ReinterpretCast<fp8_e4m3fn_t>(), b.ReinterpretCast<fp8_e5m2_t>(), p);
    PipeBarrier<PIPE_ALL>();
}
"""


def test_the_simulated_device_multiplies_float8_on_one_chip_alone() -> None:
    with pytest.raises(AclError, match="this chip has no products of fp8_e4m3fn_t"):
        launched(MMAD, [np.zeros(8, np.float32)], binary=compiled(MMAD))
    launched(MMAD, [np.zeros(8, np.float32)], binary=compiled(MMAD, arch="dav-3510"))
