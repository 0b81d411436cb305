"""The array API standard's namespace of lazy arrays: what differs from numpy's, and what is computed at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto.arrays as pt
from pypto.graph.lazy import namespace as xp
from pypto.graph.tracing.tensor import Tensor

X = np.random.default_rng(3).integers(0, 5, (3, 4)).astype(np.float64)
MASK = X > 2
COMPLEX = np.array([1 + 2j, 3 - 1j])


def stored(x: Any, key: Any, value: Any) -> Any:
    x[key] = value
    return x


SAME: dict[str, Callable[[Any, Any], Any]] = {
    "creation": lambda xp, x: (
        xp.asarray([[1, 2], [3, 4]]), xp.zeros((2, 3)), xp.arange(4), xp.linspace(0, 1, 5), xp.eye(3), xp.full(2, 7)
    ),
    "lists of arrays": lambda xp, x: xp.asarray([x[0, 0], x[1, 1]]),
    "masks pick": lambda xp, x: (x[x > 2], x[xp.asarray(MASK)], x[1][x[1] > 0]),
    "masks store": lambda xp, x: stored(x * 1, x > 2, xp.arange(float(MASK.sum()))),
    "a mask without dimensions": lambda xp, x: x[xp.asarray(True)],
    "nonzero": lambda xp, x: xp.nonzero(x),
    "unique": lambda xp, x: (*xp.unique_all(x), *xp.unique_counts(x), *xp.unique_inverse(x)),
    "where": lambda xp, x: xp.where(x > 1, x, -x),
    "arrays of two graphs": lambda xp, x: xp.asarray(COMPLEX) == xp.asarray(COMPLEX),
    "complex scalars": lambda xp, x: xp.asarray(2j) * xp.asarray(COMPLEX),
    "reductions of numbers": lambda xp, x: (xp.any(xp.zeros_like(x, dtype=bool)), xp.sum(xp.ones_like(x), axis=1)),
    "result types": lambda xp, x: xp.zeros(1, dtype=xp.result_type(xp.zeros(1, dtype=xp.float32), 2.5)),
    "frequencies": lambda xp, x: (xp.fft.fftfreq(5), xp.fft.rfftfreq(6), xp.fft.fft(x)),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_lazy_arrays_compute_what_numpy_does(name: str) -> None:
    found, wanted = SAME[name](xp, pt.lazy(X.copy())), SAME[name](np, X.copy())
    several = isinstance(wanted, tuple)
    for a, b in zip(found if several else [found], wanted if several else [wanted], strict=True):
        assert isinstance(a, Tensor) and (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(np.asarray(a), b)


def test_what_the_standard_names_otherwise_than_numpy() -> None:
    x = pt.lazy(X)
    np.testing.assert_array_equal(np.asarray(xp.sort(x, descending=True)), -np.sort(-X))
    order = np.asarray(xp.argsort(x, axis=0, descending=True))
    np.testing.assert_array_equal(np.take_along_axis(X, order, 0), -np.sort(-X, axis=0))
    np.testing.assert_array_equal(np.asarray(xp.clip(x, 1, max=3)), np.clip(X, 1, 3))
    special = np.array([0j, complex(np.inf, 0), complex(-np.inf, np.nan), complex(np.nan, 0), 1 + 2j])
    wanted = [0j, complex(np.inf, 0), -1, complex(np.nan, 0), np.expm1(1 + 2j)]
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(np.asarray(xp.expm1(pt.lazy(special))), wanted, rtol=4e-16)
    with pytest.raises(ValueError, match="versions of the array API standard are"):
        x.__array_namespace__(api_version="1999.1")
    assert type(xp.finfo(xp.float32).eps) is float and xp.iinfo(xp.arange(2)).bits == 64
    assert xp.fft.rfftfreq(6, dtype=xp.float32).dtype == xp.float32
    assert np.asarray(xp.unique_values(x)).tolist() == np.unique(X).tolist()
    assert xp.asarray(x) is x and xp.asarray(x, copy=True) is not x
    np.testing.assert_array_equal(np.asarray(xp.from_dlpack(X)), X)
