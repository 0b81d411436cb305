"""Contractions of integers and bools wrap around in the type of numpy's result, however they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import pypto as pto

DTYPES: Final = (np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)


def squared(a: Any) -> Any:
    return a[:, :4]


WAYS: Final[dict[str, Callable[..., Any]]] = {
    "products": lambda a, b, v, s: (a @ b, v @ v, a @ v, v @ b, s @ b, v[None] @ v[:, None], v[:, None] @ v[None]),
    "dot": lambda a, b, v, s: (np.dot(a, b), np.dot(v, v), np.dot(a, 3), np.dot(a, s.swapaxes(1, 2)), a.dot(v)),
    "inner": lambda a, b, v, s: (np.inner(a, a), np.inner(v, v), np.inner(a, s), np.vdot(a, a), np.outer(v, v)),
    "ufuncs": lambda a, b, v, s: (
        np.vecdot(a, v), np.matvec(a, v), np.vecmat(v, b), np.matmul(s, b),
        np.vecdot(a, a, axis=0), np.matmul(a, b, dtype=np.int64) if a.dtype != bool else a,
    ),
    "tensordot": lambda a, b, v, s: (
        np.tensordot(a, b, 1), np.tensordot(a, a, 2), np.tensordot(a, v, 0), np.tensordot(s, a, ((2, 1), (1, 0))),
        np.linalg.vecdot(a, a), np.linalg.tensordot(a, b, axes=1),
    ),
    "einsum of two": lambda a, b, v, s: tuple(
        np.einsum(spec, x, y)
        for spec, x, y in (
            ("ij,jk->ik", a, b), ("i,i", v, v), ("ij,ij->i", a, a), ("ij,ij->", a, a), ("i,j->", v, v), ("i,j", v, v),
            ("ij,j->i", a, v), ("bij,jk->bik", s, b), ("bij,bij->j", s, s),
        )
    ),
    "einsum": lambda a, b, v, s: (
        np.einsum("ij->i", a), np.einsum("ij->", a), np.einsum("ij,jk,j->ik", a, b, v), np.einsum("ii", squared(a)),
        np.einsum("ii->i", squared(a)), np.einsum("bii->b", s[:, :, :4]), np.einsum("ii,i->i", squared(a), v[:4]),
    ),
    "sums of products": lambda a, b, v, s: (
        (a * a).sum(1), (a * a).sum(dtype=a.dtype), a.trace(), np.trace(s), a.prod(0), a.cumsum(1, dtype=a.dtype) * a,
        np.linalg.matrix_power(squared(a), 3),
    ),
    "mixed types": lambda a, b, v, s: (
        a @ b.astype(np.int64), np.einsum("ij,jk->ik", a, b.astype(np.int32)), np.einsum("ij,j", a, v.astype(np.int8)),
    ),
}  # fmt: skip


QUICK: Final = (np.bool_, np.uint8, np.int64)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [d if d in QUICK else pytest.param(d, marks=pytest.mark.slow) for d in DTYPES])
def test_contractions_of_integers(dtype: Any, way: str) -> None:
    rng = np.random.default_rng(0)
    most = 2 if dtype is np.bool_ else int(np.iinfo(dtype).max)
    shapes = (4, 10), (10, 3), (10,), (2, 4, 10)
    arrays = [rng.integers(0, most, shape, np.uint64, endpoint=dtype is not np.bool_).astype(dtype) for shape in shapes]
    for found, wanted in zip(pto.fuse(WAYS[way])(*arrays), WAYS[way](*arrays), strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, np.shape(wanted))
        if found.dtype.kind == "f":  # sums of large integers of both signs
            np.testing.assert_allclose(found, wanted, rtol=1e-14)
        else:
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.bool_])
def test_long_contractions_of_integers(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 1 << 62, shape).astype(dtype) for shape in ((3, 70_000), (70_000, 5)))
    np.testing.assert_array_equal(pto.fuse(lambda a, b: a @ b)(a, b), a @ b)


def test_norms_of_integers_are_those_of_floats() -> None:
    x = np.int8([[100, -100, 7], [-128, 127, 0]])
    for function in (np.linalg.norm, np.linalg.vector_norm, np.linalg.matrix_norm):
        for array in (x, x != 0):
            np.testing.assert_allclose(pto.fuse(lambda x, f=function: f(x))(array), function(array), rtol=1e-15)


def test_arguments_of_products_that_are_not_traced() -> None:
    x = np.ones((3, 3), np.float32)
    with pytest.raises(TypeError, match=r"`np\.vecdot` cannot be traced.*keepdims"):
        pto.fuse(lambda x: np.vecdot(x, x, keepdims=True))(x)
    with pytest.raises(ValueError, match="'i' has sizes 3 and 2"):
        pto.fuse(lambda x: np.einsum("ii", x[:, :2]))(x)
