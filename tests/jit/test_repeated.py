"""A kernel writes to no array of which many elements are one in memory, as torch's in-place operations do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import pypto as pto
from pypto.errors.launch import RepeatedArgument


@pto.jit
def rows(x, out):
    out[:, :] = x[:, :]


@pto.jit
def pointers(x, out, n, BLOCK: pto.constexpr):
    i = pto.arange(0, BLOCK)
    pto.store(out + i, pto.load(x + i, mask=i < n), mask=i < n)


def expanded() -> Any:
    """A view that numpy lets one write to."""
    return as_strided(np.zeros(8, np.float32), (4, 8), (0, 4))


def test_refused_before_and_after_good_launches() -> None:
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    for _ in range(3):
        bad, good = expanded(), np.zeros_like(x)
        with pytest.raises(RepeatedArgument, match=r"\[E318\] rows writes to `out`, whose 4 elements along axis 0"):
            rows[1](x, bad)
        rows[1](x, good)
        assert not bad.any() and np.array_equal(good, x)


def test_what_says_nothing_of_strides_is_refused_too() -> None:
    """Pointers make no use of strides, so that one version fits them all."""
    x = np.ones(8, np.float32)
    for _ in range(3):
        pointers[1](x, np.zeros(8, np.float32), 8, 8)
        with pytest.raises(RepeatedArgument):
            pointers[1](x, as_strided(np.zeros(1, np.float32), (8,), (0,)), 8, 8)
    launch = pointers.bind(x, as_strided(np.zeros(1, np.float32), (8,), (0,)), 8, 8, grid=1)
    with pytest.raises(RepeatedArgument):
        launch()


@pytest.mark.parametrize("how", ["interpreter", "checked"])
def test_in_every_mode(how: str) -> None:
    kernel = pto.jit(rows.function, **{"interpreter": {"interpret": True}, "checked": {"checked": True}}[how])
    with pytest.raises(RepeatedArgument):
        kernel[1](np.ones((4, 8), np.float32), expanded())


def test_what_is_fine() -> None:
    """Arrays that are read, an axis of one element, and windows that overlap otherwise, which torch allows as well."""
    x, out = expanded(), np.zeros((4, 8), np.float32)
    for _ in range(2):
        rows[1](x, out)
        rows[1](x[:1], as_strided(np.zeros(8, np.float32), (1, 8), (0, 4)))
        pointers[1](x[0], as_strided(np.zeros((0, 8), np.float32), (0, 8), (0, 4)), 0, 8)
        rows[1](x, as_strided(np.zeros(11, np.float32), (4, 8), (4, 4)))
    assert np.array_equal(out, x)


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(4, 8)
    for _ in range(3):
        bad, good = torch.zeros(8), torch.zeros(4, 8)
        with pytest.raises(RepeatedArgument, match="contiguous"):
            rows[1](x, bad.expand(4, 8))
        rows[1](x, good)
        assert not bad.any() and torch.equal(good, x)
    pointers[1](x.expand(3, 4, 8)[0, 0], torch.zeros(8), 8, 8)
    with pytest.raises(RepeatedArgument):
        pointers[1](x[0], torch.zeros(1).expand(8), 8, 8)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_launches_in_graphs(path: str) -> None:
    torch = pytest.importorskip("torch")
    if path == "python":
        pytest.skip("graphs launch as everybody does")
    torch._dynamo.reset()

    @torch.compile(backend="eager", fullgraph=True)
    def function(x: Any, out: Any) -> None:
        rows[1](x, out)

    function(torch.ones(4, 8), torch.zeros(4, 8))
    bad = torch.zeros(8)
    with pytest.raises(RepeatedArgument):
        function(torch.ones(4, 8), bad.expand(4, 8))
    assert not bad.any()
