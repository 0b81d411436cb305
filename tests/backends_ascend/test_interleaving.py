"""Pairs and masks of indices on the vector cores: by whole instructions, without the scalar unit."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.pipeline import lower_to_text
from pypto.backends.ascend.target import ascend_target
from pypto.backends.ascend.tile.interleaving import reduce_interleaving
from pypto.backends.ascend.tile.narrow_comparisons import narrow_comparisons
from pypto.debug.simulate import function_of
from tests.sim.device import needs_compiler

B2 = ascend_target("ascend910b2")
LOOPED = re.compile(r"(GetValue|SetValue)\(static_cast<uint32_t>|SetValue\(i")


@pto.jit
def swapped(x, y, R: pto.constexpr, N: pto.constexpr):
    """Neighbours change places."""
    row = pto.program_id(0) * R
    a, b = pto.split(pto.reshape(x[row : row + R, :], (R, N // 2, 2)))
    y[row : row + R, :] = pto.reshape(pto.join(b, a), (R, N))


@pto.jit
def every_fourth(x, y, R: pto.constexpr, N: pto.constexpr):
    y[:, :] = pto.reshape(x[:, :], (R, N // 4, 4))[..., 3]


@pto.jit
def counted(x, out, n, first, N: pto.constexpr):
    """Elements of the part from `first` on that lie before n, and not at 7."""
    numbers = first + pto.arange(0, N)
    seen = (numbers < n) & (n - 3 >= numbers) & (numbers != 7)
    out[:] = pto.where(seen, x[:], -1.0)


def arguments(dtype: Any, rows: int, size: int) -> tuple[Any, Any]:
    x = np.arange(rows * size).reshape(rows, size).astype(dtype)
    return x, np.zeros_like(x)


def test_pairs_are_taken_and_put_by_vectors() -> None:
    x, y = arguments(np.float32, 16, 64)
    function = function_of(swapped, (x, y, 16, 64))
    reduced = reduce_interleaving(function)
    assert not any(2 in v.shape[-1:] for op in reduced.walk() for v in op.results if hasattr(v.type, "shape"))
    _, text = lower_to_text(function, B2)
    assert text.count("GatherMask") == 2 and text.count("Gather(") == 2 and not LOOPED.search(text)
    assert reduce_interleaving(reduced) is reduced


@needs_compiler
@pytest.mark.parametrize(("dtype", "rows", "size"), [
    (np.float32, 4, 64), (np.float16, 3, 32), (np.int32, 1, 6), (np.float32, 5, 20), (np.int8, 2, 64),
])  # fmt: skip
def test_neighbours_change_places(dtype: Any, rows: int, size: int) -> None:
    x, y = arguments(dtype, 2 * rows, size)
    with pto.device("ascend-sim"):
        swapped[2](x, y, R=rows, N=size)
    np.testing.assert_array_equal(y, x.reshape(2 * rows, -1, 2)[..., ::-1].reshape(x.shape))


@needs_compiler
def test_every_fourth_element() -> None:
    x, _ = arguments(np.float16, 4, 128)
    y = np.zeros((4, 32), np.float16)
    with pto.device("ascend-sim"):
        every_fourth[1](x, y, R=4, N=128)
    np.testing.assert_array_equal(y, x[:, 3::4])


def test_masks_of_wide_indices_are_compared_in_32_bits() -> None:
    x = np.ones(128, np.float32)
    function = function_of(counted, (x, x.copy(), 2**40, 2**40 - 8, 128))
    assert any(op.name == "lt" and op.operands[0].dtype == pto.int64 for op in function.walk())
    narrow = narrow_comparisons(function)
    compared = [op for op in narrow.walk() if op.name in ("lt", "ge", "ne") and op.result.shape]
    assert len(compared) == 3 and all(op.operands[0].dtype == pto.int32 for op in compared)


@needs_compiler
@pytest.mark.parametrize(
    ("n", "first"), [(2**40, 2**40 - 8), (20, 0), (2**40, 0), (-(2**40), 2**40), (2**31 + 20, 2**31)]
)
def test_masks_of_wide_indices(n: int, first: int) -> None:
    x, out = np.ones(128, np.float32), np.zeros(128, np.float32)
    with pto.device("ascend-sim"):
        counted[1](x, out, n, first, N=128)
    numbers = first + np.arange(128)
    np.testing.assert_array_equal(out, np.where((numbers < n) & (n - 3 >= numbers) & (numbers != 7), 1, -1))
