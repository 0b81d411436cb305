"""Slices, loads and stores, pointers, and what is asked about arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto.language as pto
from pypto.errors.frontend import SliceExtent
from pypto.ir.types import ArrayType
from tests.frontend.evaluate import Facts, built, run


def example(*shape: int) -> Any:
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


def softmax(x, y):
    row = pto.program_id(0) + 1
    t = x[row, :]
    e = pto.exp(t - pto.max(t))
    y[row, :] = e / pto.sum(e)


def test_softmax() -> None:
    x, y = example(3, 5), np.zeros((3, 5), np.float32)
    run(softmax, x=x, y=y)
    e = np.exp(x[1] - x[1].max())
    np.testing.assert_allclose(y[1], e / e.sum(), rtol=1e-6)
    assert not y[[0, 2]].any()


def matmul(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


def test_matmul_pads_and_clips() -> None:
    a, b, c = example(3, 7), example(7, 5), np.zeros((3, 5), np.float32)
    specs = {name: pto_const(n) for name, n in (("BM", 4), ("BN", 8), ("BK", 4))}
    run(matmul, a=a, b=b, c=c, **specs)
    np.testing.assert_allclose(c, a @ b)


def pto_const(value: Any) -> Any:
    from pypto.frontend import ConstSpec

    return ConstSpec(value)


def add(x, y, out, n, BLOCK: pto.constexpr):
    offs = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    mask = offs < n
    pto.store(out + offs, pto.load(x + offs, mask=mask) + pto.load(y + offs, mask=mask, other=1.0), mask=mask)


def test_pointers_with_masks() -> None:
    x, y, out = example(6), example(6), np.zeros(6, np.float32)
    run(add, x=x, y=y, out=out, n=5, BLOCK=pto_const(8))
    assert out.tolist() == [2, 4, 6, 8, 10, 0]


def slices(x, y, i):
    y[0, 0] = x[i, 2]
    y[1] = x[i, ...] * 2
    y[2:4, 0:2] = x[i - 1 : i + 1, 1:3]
    y[4, :] += x[0, :]
    y[..., 3] = 9
    t = x[i - 2 : i + 1, None, 0:2]
    assert t.shape == (3, 1, 2)
    y[5, 0:2] = pto.sum(t, axis=0)


def test_slices_mean_what_they_mean_in_numpy() -> None:
    x, y = example(4, 4), np.ones((6, 4), np.float32)
    expected = y.copy()
    run(slices, x=x, y=y, i=1)
    expected[0, 0] = x[1, 2]
    expected[1] = x[1] * 2
    expected[2:4, 0:2] = x[0:2, 1:3]
    expected[4] += x[0]
    expected[..., 3] = 9
    expected[5, 0:2] = x[0:2, 0:2].sum(axis=0)  # the row before the first one does not exist and counts as 0
    np.testing.assert_array_equal(y, expected)


def function_forms(x, y, i):
    t = pto.load(x, (i, 1), (2, 4), pad=-1)
    pto.store(y, (i, i - 1), t)
    pto.store(y + 1, pto.load(x) + pto.load(x + 5))


def test_function_forms_take_arrays_and_pointers() -> None:
    x, y = example(3, 4), np.zeros((4, 4), np.float32)
    run(function_forms, x=x, y=y, i=2)
    assert y[2].tolist() == [0, 10, 11, 12]
    assert y[3].tolist() == [0, -1, -1, -1]
    assert y[0].tolist() == [0, 7, 0, 0]


def store_casts(x, y):
    y[:] = x[:] / 2


def test_a_store_casts_to_the_array() -> None:
    x, y = example(5), np.zeros(5, np.int32)
    run(store_casts, x=x, y=y)
    assert y.tolist() == [0, 1, 1, 2, 2]


def attributes(x, y):
    m, n = x.shape
    y[0] = m * 10 + n
    y[1] = x.shape[1] + len(x.shape) + x.ndim
    y[2] = x.strides[0]
    y[3] = 1 if x.dtype == pto.float32 else 0


@pytest.mark.parametrize("facts", [Facts(), Facts({("x", 0): 3, ("x", 1): 4})])
def test_attributes_of_arrays(facts: Facts) -> None:
    from tests.frontend.evaluate import evaluate

    x, y = example(3, 4), np.zeros(4, np.float32)
    evaluate(built(attributes, facts, x=x, y=y).function, [x, y])
    assert y.tolist() == [34, 8, 4, 1]


@pytest.mark.parametrize(
    "bounds",
    ["i:i + 8", "i * 8:(i + 1) * 8", "(i + 1) * 4 - 4:4 * i + 8",
     "pto.program_id(0) * 8:pto.program_id(0) * 8 + 8", "-i:8 - i",
     "i // 3:i // 3 + 8", "i.to(pto.int64):i + 8", "2 * (i + j) + 8 - j:i + j + i + 16"],
)  # fmt: skip
def test_extents_that_simplify(bounds: str, tmp_path: Any) -> None:
    function = define(f"def kernel(x, i, j):\n    t = x[{bounds}]\n    pto.static_assert(t.shape == (8,))\n", tmp_path)
    built(function, x=ArrayType(pto.float32, 1), i=1, j=2)


@pytest.mark.parametrize("bounds", ["i:j", "i * j:j * i * 2", "i:2 * i", "i // 2:(i + 8) // 2", "i:"])
def test_extents_that_do_not(bounds: str, tmp_path: Any) -> None:
    function = define(f"def kernel(x, i, j):\n    t = x[{bounds}]\n", tmp_path)
    with pytest.raises(SliceExtent):
        built(function, Facts({("x", 0): 4}), x=ArrayType(pto.float32, 1), i=1, j=2)


def define(text: str, folder: Any) -> Any:
    file = folder / "kernel.py"
    file.write_text("import pypto.language as pto\n" + text)
    names: dict[str, Any] = {"__name__": "kernel"}
    exec(compile(file.read_text(), str(file), "exec"), names)
    return names["kernel"]


def reads_one_size(x, n):
    t = x[n, :]
    y = x + n * 4 + pto.program_id(0) * n
    pto.store(y, pto.sum(t))


def test_only_what_is_read_is_asked() -> None:
    facts = Facts({("x", 1): 8}, ones=("n",))
    result = built(reads_one_size, facts, x=ArrayType(pto.float32, 2), n=1)
    assert ("shape", "x", 0) not in facts.asked
    assert ("require_shape", "x", 0) not in facts.asked
    assert {("require_shape", "x", 1), ("stride", "x", 0), ("stride", "x", 1), ("equals_one", "n")} == set(facts.asked)
    assert all(op.name != "mul" or op.operands[0].op is not None for op in result.function.walk())


def test_addresses_are_offset_in_64_bits() -> None:
    function = built(add, x=example(4), y=example(4), out=example(4), n=4, BLOCK=pto_const(4)).function
    assert {op.operands[1].dtype.mnemonic for op in function.walk() if op.name == "addptr"} == {"i64"}
