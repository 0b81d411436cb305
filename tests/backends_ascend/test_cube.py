"""Products on the cube core: layouts of operands, tails, steps along K, results in every dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pypto.backends.ascend.block.verify import problems
from pypto.backends.ascend.emit.ascendc import emit
from pypto.backends.ascend.target import AscendTarget, ascend_target
from pypto.backends.ascend.tile.fractals import Blocking
from pypto.ir.types import DType, bfloat16, float16, float32, int8, int32
from pypto.runtime.acl import AclError
from tests.backends_ascend.products import B2, Matmul, whole
from tests.sim.device import launched, needs_compiler

pytestmark = needs_compiler
Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(2)


def operand(shape: tuple[int, int], dtype: DType) -> Array:
    if dtype == int8:
        return RNG.integers(-128, 128, shape).astype(np.int8)
    return RNG.standard_normal(shape).astype(dtype.numpy)


def check(matmul: Matmul, blocks: int = 2) -> None:
    a, b = operand((matmul.m, matmul.k), matmul.dtype), operand((matmul.k, matmul.n), matmul.dtype)
    c = np.zeros((matmul.m, matmul.n), matmul.out.numpy)
    stored = [np.ascontiguousarray(x.T if turned else x) for x, turned in ((a, matmul.turned_a), (b, matmul.turned_b))]
    kernel = whole(matmul.kernel(), matmul.target)
    assert problems(kernel, matmul.target) == []
    launched(emit(kernel, matmul.target), [*stored, c], blocks=blocks, arch=matmul.target.flag)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    if matmul.out == int32:
        np.testing.assert_array_equal(c, wanted)
        return
    near = {float32: 1e-5, float16: 2e-3, bfloat16: 1e-2}[matmul.out]
    np.testing.assert_allclose(c.astype(np.float64), wanted, rtol=near, atol=near * np.sqrt(matmul.k))


SMALL = Blocking(m=32, n=48, k=32, depth=64)
A5 = ascend_target("ascend950")


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize(
    ("chip", "turned_a", "turned_b"),
    [*((B2, a, b) for a in (False, True) for b in (False, True)), (A5, False, False), (A5, True, True)],
)
@pytest.mark.parametrize(
    ("dtype", "out"), [(float16, float32), (bfloat16, bfloat16), (float32, float32), (int8, int32)]
)
def test_layouts(dtype: DType, out: DType, turned_a: bool, turned_b: bool, chip: AscendTarget) -> None:
    check(Matmul(50, 70, 150, dtype, out, SMALL, turned_a, turned_b, target=chip))


@pytest.mark.parametrize("unit_flag", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 16, 16), (1, 70, 33), (17, 1, 1), (64, 96, 64), (33, 49, 129)])
def test_sizes(m: int, n: int, k: int, unit_flag: bool) -> None:
    check(Matmul(m, n, k, float16, float16, SMALL, unit_flag=unit_flag and m % 16 == 0))


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("dtype", [float32, int8])
@pytest.mark.parametrize(("chip", "k"), [*((B2, k) for k in (1, 8, 9, 24, 40)), (A5, 9), (A5, 40)])
def test_ends_of_k_where_fractals_turn(k: int, dtype: DType, chip: AscendTarget) -> None:
    check(Matmul(40, 40, k, dtype, float32 if dtype == float32 else int32, SMALL, turned_a=True, target=chip))


@pytest.mark.parametrize(
    ("dtype", "said"),
    [(float16, "turns fractals by LoadData2DParamsV2"), (float32, "goes to L0B only"), (int8, "goes to L0B only")],
)
def test_loads_of_2201_are_none_of_3510(dtype: DType, said: str) -> None:
    out = int32 if dtype == int8 else float32
    a, b, c = (np.ones(shape, x.numpy) for shape, x in (((64, 32), dtype), ((64, 48), dtype), ((32, 48), out)))
    text = emit(whole(Matmul(32, 48, 64, dtype, out, SMALL, turned_a=True).kernel()), B2)
    launched(text, [a, b, c])
    assert (c == 64).all()
    with pytest.raises(AclError, match=said):
        launched(text, [a, b, c], arch=A5.flag)


def test_an_image_is_loaded_in_the_order_that_l0a_has() -> None:
    a, b = operand((32, 64), float16), operand((64, 48), float16)
    text = emit(whole(Matmul(32, 48, 64, float16, float32, SMALL).kernel()), B2)
    assert "LoadData3DParamsV2" in text
    for chip in (B2, A5):
        c = np.zeros((32, 48), np.float32)
        launched(text, [a, b, c], arch=chip.flag)
        np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-4)


def test_production_blocking() -> None:
    check(Matmul(200, 300, 600, float16, bfloat16, Blocking(128, 256, 64, 256), turned_a=True, turned_b=True))
