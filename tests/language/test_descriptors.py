"""Tensor descriptors, made in kernels and outside, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from tests.language.test_blocks import BOTH, block_of

RNG = np.random.default_rng(0)


@pto.jit
def copy(x, y, M, N, sx, i, j, BM: pto.constexpr, BN: pto.constexpr, PAD: pto.constexpr):  # noqa: PLR0913, PLR0917
    a = pto.make_tensor_descriptor(x, shape=[M, N], strides=[sx, 1], block_shape=[BM, BN], padding_option=PAD)
    b = pto.make_tensor_descriptor(y, [BM, BN], [BN, 1], [BM, BN])
    pto.static_assert(a.dtype == pto.float32 and a.block_shape == (BM, BN))
    pto.store_tensor_descriptor(b, [0, 0], pto.load_tensor_descriptor(a, [i, j]))


@BOTH
@pytest.mark.parametrize("place", [(0, 0), (3, 5), (9, 12), (-2, -3), (0, 400)])
@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_blocks_are_checked_at_all_edges(run: Any, place: tuple[int, int], padding: str) -> None:
    x, y = RNG.standard_normal((11, 13)).astype(np.float32), np.full((5, 8), 7, np.float32)
    run(copy)[1](x, y, 11, 13, 13, *place, 5, 8, padding)
    np.testing.assert_array_equal(y, block_of(x, place, (5, 8), np.nan if padding == "nan" else 0))


@pto.jit
def scaled(x, y, factor, BM: pto.constexpr, BN: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    y.store([i, j], x.load([i, j]) * factor)


@BOTH
@pytest.mark.parametrize("step", [1, 2])
def test_descriptors_as_arguments(run: Any, step: int) -> None:
    x = RNG.standard_normal((10, 14)).astype(np.float32)[:, ::step]
    y = np.zeros(x.shape, np.float32)
    source = pto.TensorDescriptor.from_tensor(x, [4, 8])
    target = pto.TensorDescriptor(y, y.shape, [y.shape[1], 1], [4, 8])
    for factor in (2, 3):
        run(scaled)[3, 2](source, target, factor, 4, 8)
        np.testing.assert_array_equal(y, x * factor)


def test_a_descriptor_can_be_changed_before_a_launch() -> None:
    x, y = np.ones((6, 6), np.float32), np.zeros((6, 6), np.float32)
    a, b = (pto.TensorDescriptor.from_tensor(t, [2, 2]) for t in (x, y))
    scaled[1, 1](a, b, 2, 2, 2)
    assert y.sum() == 8
    a.block_shape = b.block_shape = [3, 3]
    scaled[2, 2](a, b, 5, 3, 3)
    assert y.sum() == 180


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    y = torch.zeros(4, 6)
    a, b = (pto.TensorDescriptor.from_tensor(t, [4, 8]) for t in (x, y))
    scaled[1, 1](a, b, 2, 4, 8)
    assert torch.equal(y, x * 2)


@pto.jit
def pick(x, rows, y, column, N: pto.constexpr, ROWS: pto.constexpr):
    r = pto.load(rows + pto.arange(0, ROWS))
    t = x.gather(r, column)
    y.scatter(t + 1, r, column)


@BOTH
def test_gather_and_scatter_of_rows(run: Any) -> None:
    x, y = np.arange(40, dtype=np.int32).reshape(8, 5), np.zeros((8, 5), np.int32)
    a, b = (pto.TensorDescriptor.from_tensor(t, [1, 4]) for t in (x, y))
    run(pick)[1](a, np.asarray([6, 2, 9, 0, 1], np.int32), b, 2, 4, 5)
    expected = np.zeros_like(x)
    expected[[0, 1, 2, 6], 2:] = x[[0, 1, 2, 6], 2:] + 1
    np.testing.assert_array_equal(y, expected)


@pto.jit
def atomics(x, KIND: pto.constexpr):
    value = pto.full((2, 4), 3, pto.int32)
    if KIND == "add":
        x.atomic_add([-1, 2], value)
    elif KIND == "min":
        x.atomic_min([-1, 2], value)
    elif KIND == "max":
        x.atomic_max([-1, 2], value)
    elif KIND == "and":
        x.atomic_and([-1, 2], value)
    elif KIND == "or":
        x.atomic_or([-1, 2], value)
    else:
        x.atomic_xor([-1, 2], value)


OPERATIONS = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


@BOTH
@pytest.mark.parametrize("kind", OPERATIONS)
def test_atomics_stay_within_the_array(run: Any, kind: str) -> None:
    x = np.arange(15, dtype=np.int32).reshape(3, 5)
    expected = x.copy()
    expected[:1, 2:] = OPERATIONS[kind](x[:1, 2:], 3)
    run(atomics)[3](pto.TensorDescriptor.from_tensor(x, [2, 4]), kind)
    expected[:1, 2:] += 6 if kind == "add" else 0  # done three times; of the others, thrice is once
    np.testing.assert_array_equal(x, expected)


@pto.jit
def one_dimension(x, y, n, B: pto.constexpr):
    a, b = pto.make_tensor_descriptor(x, [n], [1], [B]), pto.make_tensor_descriptor(y, [n], [1], [B])
    for i in range(0, n, B):
        t = a.load([i])
        if i == 0:
            b.store([i], t)
        else:
            b.store([i], t * 10)


@BOTH
def test_one_dimension_in_loops_and_branches(run: Any) -> None:
    x, y = np.arange(7, dtype=np.float32), np.zeros(7, np.float32)
    run(one_dimension)[1](x, y, 7, 3)
    assert y.tolist() == [0, 1, 2, 30, 40, 50, 60]


def test_sequences_of_unlike_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="not 2, 1 and 2 entries"):
        pto.TensorDescriptor(np.zeros((2, 2)), (2, 2), (2,), (2, 2))
