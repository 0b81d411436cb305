"""Compiled against interpreted: what agrees is counted, what does not is told at its program, line and element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.debug.verify import element
from pypto.errors.interp import CompiledDiffers, OutOfBounds, WriteRace
from pypto.errors.launch import NotLaunched, WrongConfiguration


@pto.jit
def scaled(x, y, n, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    v = pto.load(x + i, mask=i < n)
    pto.store(y + i, pto.exp(v) * 3, mask=i < n)


@pto.jit
def counted(x, sums, most):
    row = pto.program_id(0)
    sums[row] = pto.sum(x[row, :], 0)
    most[row] = pto.max(x[row, :], 0)


def test_what_agrees_is_counted() -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 100)).astype(np.float32)
    found = pto.verify(scaled)[7](x, y, 100, BLOCK=16)
    np.testing.assert_allclose(y, 3 * np.exp(x), rtol=1e-6)
    (array,) = found.arrays
    assert (array.array, array.elements, found.programs) == ("y", 100, 7)
    assert array.ulp is not None
    assert array.ulp <= 4
    assert "y: 100 elements, largest difference" in str(found)


BLOCKS = [pto.Config({"BLOCK": 16}, disable=("peeling",)), pto.Config({"BLOCK": 64})]
CHOOSING: dict[str, Any] = {
    "by trial": pto.autotune(BLOCKS, key=["n"])(scaled),
    "one alone": pto.autotune(BLOCKS[:1], key=["n"])(scaled),
    "by a rule": pto.heuristics({"BLOCK": lambda given: 8 if given["n"] < 50 else 32})(scaled),
}


@pytest.mark.parametrize("name", CHOOSING)
def test_kernels_whose_constants_are_chosen(name: str) -> None:
    """What is compared is the launch that the tuner makes, with a grid of its constants."""
    x, y = np.random.default_rng(0).standard_normal((2, 100)).astype(np.float32)
    verifier = pto.verify(CHOOSING[name])
    assert str(verifier).startswith("verify(scaled): launch it as")
    found = verifier[lambda given: -(-100 // given["BLOCK"])](x, y, 100)
    np.testing.assert_allclose(y, 3 * np.exp(x), rtol=1e-6)
    assert (found.kernel, found.arrays[0].elements) == ("scaled", 100)
    assert found.programs in (7, 2, 4)


def test_a_constant_that_is_tuned_and_given() -> None:
    x, y = np.zeros((2, 100), np.float32)
    with pytest.raises(WrongConfiguration, match="BLOCK given in the launch and tuned as well"):
        pto.verify(CHOOSING["by trial"])[7](x, y, 100, BLOCK=16)
    with pytest.raises(NotLaunched, match="scaled"):
        pto.verify(CHOOSING["by trial"])(x, y, 100)


def test_options_of_a_launch() -> None:
    x, y = np.zeros((2, 100), np.float32)
    assert pto.verify(scaled)[7](x, y, 100, BLOCK=16, disable=("peeling",), num_threads=1).programs == 7
    np.testing.assert_array_equal(y, 3)


def test_arrays_are_those_of_one_launch() -> None:
    """Both runs see what the arrays held before."""

    @pto.jit
    def bump(x):
        x[:] = x[:] * 2 + 1

    x = np.arange(5, dtype=np.int32)
    found = pto.verify(bump)[1](x)
    np.testing.assert_array_equal(x, np.arange(5) * 2 + 1)
    assert found.arrays[0].ulp is None


@pytest.mark.parametrize("view", [lambda a: a[::-1], lambda a: a[::2], lambda a: a.T], ids=["back", "second", "turned"])
def test_views_of_every_layout(view: Any) -> None:
    base = np.random.default_rng(1).standard_normal((6, 10)).astype(np.float32)
    x = view(base)
    sums, most = np.zeros(x.shape[0] * 2, np.float32)[::2], np.zeros(x.shape[0], np.float32)
    found = pto.verify(counted)[x.shape[0]](x, sums, most)
    assert [a.elements for a in found.arrays] == [x.shape[0]] * 2


def broken(kernel: Any, monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """A compiler that makes mistakes: what the compiled kernel leaves is changed afterwards."""
    launch = kernel.__class__.execute

    def wrong(self: Any, sizes: Any, values: Any) -> None:
        launch(self, sizes, values)
        change(*values)

    monkeypatch.setattr(kernel.__class__, "execute", wrong)


def test_a_difference_is_told_where_it_was_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = pto.jit(scaled.function)

    def change(x: Any, y: Any, n: Any, block: Any) -> None:
        y[[37, 70]] += 1, 2

    monkeypatch.setenv("PYPTO_LAUNCHER", "python")
    from pypto.compile import session

    session.cache_clear()
    broken(kernel, monkeypatch, change)
    x, y = np.zeros((2, 100), np.float32)
    with pytest.raises(CompiledDiffers) as caught:
        pto.verify(kernel)[7](x, y, 100, BLOCK=16)
    session.cache_clear()
    error = caught.value
    text = str(error)
    assert "y[37] is 4, and 3 when interpreted; 2 of 100 elements differ" in text
    assert "the first one in program (2, 0, 0), element [5] of the tile of shape (16,) that it stores" in text
    assert error.loc is not None
    assert "pto.store(y + i, pto.exp(v) * 3, mask=i < n)" in text


def test_what_the_interpreter_finds_leaves_arrays_as_they_were() -> None:
    @pto.jit
    def outside(x):
        i = pto.arange(0, 8)
        pto.store(x + i, pto.load(x + i) + 1)
        pto.store(x + i + 5, 7.0)

    @pto.jit
    def racing(x):
        pto.store(x, pto.program_id(0).to(pto.float32))

    x = np.arange(8, dtype=np.float32)
    with pytest.raises(OutOfBounds, match=r"x\[8\]"):
        pto.verify(outside)[1](x)
    with pytest.raises(WriteRace):
        pto.verify(racing)[2](x)
    np.testing.assert_array_equal(x, np.arange(8))


def test_tolerances_of_the_user() -> None:
    x = np.random.default_rng(2).standard_normal((1, 5000)).astype(np.float32)
    sums, most = np.zeros((2, 1), np.float32)
    assert pto.verify(counted, atol=1e-3)[1](x, sums, most).arrays[0].largest < 1e-3
    with pytest.raises(CompiledDiffers, match="sums"):
        for seed in range(20):  # some sum is rounded in another way
            x = np.random.default_rng(seed).standard_normal((1, 5001)).astype(np.float32)
            pto.verify(counted, atol=0, rtol=0)[1](x, sums, most)


def test_elements_are_told_by_their_index() -> None:
    assert element((4, 8), 13) == "element [1, 5] of the tile of shape (4, 8) that it stores"
    assert element((), 0) == "the number that it stores"
