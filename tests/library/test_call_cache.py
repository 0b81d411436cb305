"""Calls like an earlier one are quick, and are checked as that one was."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from pypto import library
from pypto.errors.launch import ReadOnlyArgument
from pypto.errors.library import OperandDtype, OperandShape, OperandValue, UnrelatedSizes, WrongOperands
from pypto.library.call_cache import MOST, WAIT
from pypto.library.row import Operator
from pypto.runtime.mode import mode

RNG = np.random.default_rng(3)
MOST_PYTHON_CALLS = 16  # of a repeated call, with those of its kernel's launch; the first call has about 200
X, G = RNG.standard_normal((3, 40), np.float32), RNG.standard_normal(40, np.float32)


def fresh(name: str) -> Operator:
    """Returns a row that no call has met."""
    from dataclasses import replace

    return replace(library.rows[name])


def python_calls(function: Any) -> int:
    """Counts the Python functions that a call enters."""
    count = 0

    def seen(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(seen)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def test_a_repeated_call_is_found() -> None:
    row = fresh("rms_norm")
    first, again = row(X, G), row(X + 1, g=G)
    assert len(row.call_cache.calls) == 2 and not np.array_equal(first, again)
    for given in ((X + 1, G), (X + 2, G)):
        expected = library.rows["rms_norm"].expected({"x": given[0], "g": G})["y"]
        np.testing.assert_allclose(row(*given), expected, rtol=1e-5)
    assert len(row.call_cache.calls) == 2
    for _ in range(WAIT):
        row(X, G)
    assert python_calls(lambda: row(X, G)) <= MOST_PYTHON_CALLS


def test_what_differs_is_checked() -> None:
    row = fresh("rms_norm")
    row(X, G)
    for given, error in (
        ((X, G[:-1]), OperandShape),
        ((X, G.astype(np.float64)), OperandDtype),
        ((X, G, "a"), WrongOperands),
        ((X, G, 1e-6, 2), WrongOperands),
    ):
        with pytest.raises(error):
            row(*given)
    assert len(row.call_cache.calls) == 1
    strided = np.repeat(X, 2, axis=1)[:, ::2]
    assert np.array_equal(row(strided, G), row(X, G)) and len(row.call_cache.calls) == 2


def test_integers_are_checked_in_every_call() -> None:
    row = fresh("cross_entropy")
    logits, labels = RNG.standard_normal((3, 7), np.float32), np.array([0, 6, 3])
    row(logits, labels)
    assert row(logits, labels[::-1].copy()).shape == (3,)
    with pytest.raises(OperandValue, match=r"labels\[1\]"):
        row(logits, np.array([0, 7, 3]))


def test_numbers_that_conditions_use_are_part_of_the_key() -> None:
    row = fresh("quantize_per_group")
    for groups in (1, 5, 8, np.int64(8)):
        assert row(X, groups=groups)[1].shape == (3, groups)
    with pytest.raises(UnrelatedSizes):
        row(X, groups=3)
    assert row(X, groups=True)[1].shape == (3, 1)


def test_numbers_of_kernels_alone_are_not() -> None:
    row = fresh("rms_norm")
    found = [row(X, G, eps=eps) for eps in (1.0, 0.5, 0.25, 1)]
    assert len(row.call_cache.calls) == 2  # floats, and an integer
    assert np.array_equal(found[0], found[3]) and not np.array_equal(found[0], found[1])


def test_truth_values_become_numbers() -> None:
    row = fresh("attention")
    q = RNG.standard_normal((1, 2, 3, 8), np.float32)
    expected = row(q, q, q, causal=1)
    assert all(np.array_equal(row(q, q, q, causal=True), expected) for _ in range(2))
    assert not np.array_equal(row(q, q, q, causal=False), expected)


def test_what_is_written_must_be_writable_in_every_call() -> None:
    row = fresh("scatter_update")
    cache, index = np.zeros((4, 2), np.float32), np.array([1, 2], np.int32)
    row(cache, index, np.ones((2, 2), np.float32))
    cache.flags.writeable = False
    with pytest.raises(ReadOnlyArgument):
        row(cache, index, np.full((2, 2), 2, np.float32))
    assert cache.sum() == 4


def test_a_row_keeps_few_calls() -> None:
    row = fresh("silu")
    for t in range(MOST + 5):
        row(np.zeros((t, 1), np.float32))
    assert len(row.call_cache.calls) == MOST


def test_another_backend_takes_the_checked_way() -> None:
    row = fresh("rms_norm")
    expected = row(X, G)
    with mode(interpret=True):
        assert row.call_cache.key((X, G), {}, "") is None
        np.testing.assert_allclose(row(X, G), expected, rtol=1e-6)


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    row, x, g = fresh("rms_norm"), torch.from_numpy(X), torch.from_numpy(G)
    found = [row(x, g) for _ in range(2)]
    assert torch.equal(*found) and type(found[1]) is torch.Tensor and len(row.call_cache.calls) == 1
    assert python_calls(lambda: row(x, g)) <= MOST_PYTHON_CALLS
    assert type(row(torch.nn.Parameter(x, False), g)) is torch.Tensor
    assert torch.equal(row(x.T.contiguous().T, g), found[0])


def test_what_autograd_records_is_part_of_the_key() -> None:
    torch = pytest.importorskip("torch")
    row, x, g = fresh("rms_norm"), torch.from_numpy(X.copy()), torch.from_numpy(G)
    keys = [row.call_cache.key((x, g), {}, "")]
    x.requires_grad_()
    keys.append(row.call_cache.key((x, g), {}, ""))
    with torch.no_grad():
        keys.append(row.call_cache.key((x, g), {}, ""))
    assert len(set(keys)) == 3


def test_tensors_that_are_not_plain_memory_have_other_keys() -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    row, x, g = fresh("rms_norm"), torch.from_numpy(X), torch.from_numpy(G)
    row(x, g)
    seen: list[Any] = []

    def inside(x: Any) -> Any:
        seen.append(row.call_cache.find(row.call_cache.key((x, g), {}, "")))
        return x

    torch.vmap(inside)(x[None])
    torch.func.grad(lambda x: inside(x).sum())(x)
    inside(torch._neg_view(x))
    with torch.autograd.forward_ad.dual_level():
        inside(x)
    with FlopCounterMode(display=False):
        inside(x)
    assert seen == [None] * 5
    inside(x)
    assert seen[5] is not None
