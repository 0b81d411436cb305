"""Errors, grids and sequences of launches are the same in native code as through Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pypto as pto
from pypto.compile import session
from tests.jit.counting import Counted, add, arrays, counted

pytestmark = pytest.mark.skipif(session().launcher is None, reason="launches go through Python here")


@pytest.fixture
def kernel(path: str) -> Counted:
    if path == "python":
        pytest.skip("about native launches")
    return counted(add)


X, OUT = arrays()
BAD: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (2, (), {}), (2, (X,), {}), (2, (X, OUT, 3, 1.0, True, 4, "plus", 9), {}), (2, (X, OUT), {"x": X}),
    (2, (X, OUT), {"unknown": 1}), (2, (X, OUT, 2**64), {}), (2, (X, OUT, "three"), {"MODE": "plus"}),
    (2, (X.astype(">f4"), OUT), {}), (2, (X.astype(complex), OUT), {}), (2, (X, OUT), {"MODE": X}),
    (-1, (X, OUT), {}), ((1, 2, 3, 4), (X, OUT), {}), ((), (X, OUT), {}), (1.5, (X, OUT), {}), ((1.0,), (X, OUT), {}),
    (None, (X, OUT), {}), ("1", (X, OUT), {}), (2**31, (X, OUT), {}), ((2**70,), (X, OUT), {}),
    (lambda meta: 0.5, (X, OUT), {}), (lambda meta: (1, -1), (X, OUT), {}), (lambda meta: meta["y"], (X, OUT), {}),
    (lambda meta: lambda again: 1, (X, OUT), {}), (lambda: 1, (X, OUT), {}), (np.ma.array(X), (X, OUT), {}),
    (2, (np.ma.array(X), OUT), {}), (2, ([1, 2], OUT), {}),
]  # fmt: skip


def outcome(call: Callable[..., Any], *args: Any, **given_: Any) -> Any:
    try:
        return call(*args, **given_)
    except Exception as error:
        return type(error), re.sub("0x[0-9a-f]+", "…", str(error))


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_are_those_of_python(kernel: Counted, number: int) -> None:
    grid, args, given_ = BAD[number]
    kernel[2](X, OUT)
    kernel[2](X, OUT)
    assert kernel.calls == 1
    ours = outcome(kernel.kernel.launch, grid, *args, **given_)
    assert isinstance(ours, tuple)
    assert ours == outcome(kernel.kernel.through_python, grid, *args, **given_)


GRIDS: list[tuple[Any, int]] = [
    (3, 3), ((3,), 3), ((2, 3), 6), ((2, 3, 4), 24), (0, 0), ((3, 0), 0), ([3], 3), (np.int64(5), 5),
    ((np.int32(2), True, 2), 4), (lambda meta: 4, 4), (lambda meta: (2, meta["n"]), 6), (lambda meta: [3, 1], 3),
    (lambda meta: np.int8(2), 2), (True, 1),
]  # fmt: skip


@pytest.mark.parametrize(("grid", "programs"), GRIDS)
def test_grids(path: str, grid: Any, programs: int) -> None:
    def count(out, n):
        pto.atomic_add(out, n)

    kernel, asked = counted(count), []

    def noted(meta: Any) -> Any:
        asked.append(dict(meta))
        return grid(meta)

    for turn in range(1, 4):
        out = np.zeros(1, np.int64)
        kernel[noted if callable(grid) else grid](out, 3)
        assert out[0] == 3 * programs
        assert [row["n"] for row in asked] == [3] * (turn if callable(grid) else 0)


def test_many_grids_are_told_apart(path: str) -> None:
    def count(out):
        pto.atomic_add(out, 1)

    kernel = counted(count)
    kept = {n: kernel[(n,)] for n in range(1, 30)}
    for n, launch in [*kept.items(), *kept.items()]:
        out = np.zeros(1, np.int64)
        launch(out)
        kernel[(n, 2)](out)
        assert out[0] == 3 * n


VALUES = st.sampled_from([0, 1, 2, -7, 2**31, -(2**31), 2**63 - 1, 1.5, -0.0, True, False, np.int8(3), None, "a"])
VIEWS = st.sampled_from(["plain", "other", "every second", "backwards", "repeated", "matrix", "double", "same", "none"])


def view(name: str, memory: Any) -> Any:
    return {
        "plain": memory[:8], "other": memory[8:16], "every second": memory[:16:2], "backwards": memory[7::-1],
        "repeated": np.broadcast_to(memory[:1], (8,)), "matrix": memory[:16].reshape(2, 8),
        "double": memory[:16].view(np.float64), "same": memory[16:24], "none": memory[:0],
    }[name]  # fmt: skip


@pytest.mark.parametrize("path", ["native"], indirect=True)
@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(VIEWS, VIEWS, VALUES, VALUES), min_size=1, max_size=12))
def test_sequences_of_launches_are_as_through_python(sequence: list[tuple[str, str, Any, Any]]) -> None:
    """Two kernels, the same launches one after the other: results, errors and versions are the same."""

    def mixed(x, out, n, K: pto.constexpr):
        i = pto.arange(0, 8)
        v = pto.load(x + i, mask=i < x.shape[0], other=0.0)
        if n is not None:
            v = v + n
        if K is not None:
            v = v + (1 if K == "a" else K)
        pto.store(out + i, v, mask=i < out.shape[0])

    fast, slow = pto.jit(mixed), pto.jit(mixed)
    memories = [np.arange(24, dtype=np.float32) for _ in range(2)]
    for x, out, n, k in [*sequence, *sequence]:
        results = [
            outcome(launch, 1, view(x, memory), view(out, memory), n, K=k)
            for launch, memory in zip((fast.launch, slow.through_python), memories, strict=True)
        ]
        assert str(results[0]) == str(results[1])
        np.testing.assert_array_equal(memories[0], memories[1])
    assert sorted(map(str, fast.specializations)) == sorted(map(str, slow.specializations))
