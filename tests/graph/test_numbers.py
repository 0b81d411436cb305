"""Results without dimensions are numbers or arrays as in numpy: a number has a memory of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt

V, Z = np.array([True, False, True]), np.array(True)
NUMBERS: dict[str, Any] = {
    "reduction": lambda v, z: v.all(),
    "reduction of no axis": lambda v, z: z.max(),
    "element": lambda v, z: v[0],
    "element of none": lambda v, z: z[()],
    "ufunc": lambda v, z: z | z,
    "copy of a number": lambda v, z: v[0].copy(),
    "cast of a number": lambda v, z: v.sum().astype(bool),
    "transpose of a number": lambda v, z: v[0].T,
    "number squeezed": lambda v, z: np.squeeze(v[0]),
    "take": lambda v, z: np.take(v, 0, axis=0),
    "clip": lambda v, z: z.clip(False, True),
    "products": lambda v, z: v @ v,
    "dot": lambda v, z: np.dot(v, v),
    "einsum": lambda v, z: np.einsum("i,i->", v, v),
    "iteration": lambda v, z: list(v)[1],
    "an element of a view": lambda v, z: z.ravel()[0],
    "median": lambda v, z: np.median(v) > 0,
}
ARRAYS: dict[str, Any] = {
    "argument": lambda v, z: z,
    "ellipsis": lambda v, z: v[0, ...],
    "where": lambda v, z: np.where(v[0], v[1], v[2]),
    "select": lambda v, z: np.select([z], [z], False),
    "reshape": lambda v, z: v[:1].reshape(()),
    "zeros_like": lambda v, z: np.zeros_like(z),
    "ones_like of a number": lambda v, z: np.ones_like(v[0]),
    "copy": lambda v, z: z.copy(),
    "np.copy of a number": lambda v, z: np.copy(v[0]),
    "cast": lambda v, z: z.astype(np.int8).astype(bool),
    "transpose": lambda v, z: np.transpose(z),
    "squeeze": lambda v, z: v[:1].squeeze(),
    "broadcast_to": lambda v, z: np.broadcast_to(v[0], ()),
    "tensordot": lambda v, z: np.tensordot(v, v, 1),
    "real": lambda v, z: z.real,
    "out": lambda v, z: np.logical_and(z, z, out=z.copy()),
}


@pytest.mark.parametrize("name", [*NUMBERS, *ARRAYS])
def test_numbers_and_arrays(name: str) -> None:
    """The square of `np.bool_` is int64, that of an array of bools int8."""
    made = {**NUMBERS, **ARRAYS}[name]

    def function(v: Any, z: Any) -> Any:
        x = made(v, z)
        return x**2, x**3, isinstance(x, np.generic) * np.ones_like(v)

    found, wanted = pto.fuse(function)(V, Z), function(V, Z)
    assert [x.dtype for x in found] == [x.dtype for x in wanted]
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    assert wanted[0].dtype == (np.int64 if name in NUMBERS else np.int8)


def total(x: Any) -> Any:
    t = x.sum()
    s = t
    s += 1
    return t, s, x * 1


def element(x: Any) -> Any:
    y = x[0]
    y += 1
    return x * 1, y


def elements(x: Any) -> Any:
    made = []
    for each in x:
        each *= 3  # noqa: PLW2901
        made.append(each)
    return x * 1, *made


def seen(x: Any) -> Any:
    y = x[0, ...]
    y += 1
    return x * 1, y * 1


def wider(x: Any) -> Any:
    y = x.max()
    y += 0.5
    return y, x * 1


def written(x: Any) -> Any:
    x[1] += 5
    y = x[:1].reshape(())
    y -= 2
    return x * 1, y * 1


@pytest.mark.parametrize("function", [total, element, elements, seen, wider, written])
def test_updates_of_numbers(function: Any) -> None:
    """`y = x[0]; y += 1` makes a new number, and changes no array."""
    x = np.arange(1, 4)
    given, other = x.copy(), x.copy()
    for a, b in zip(pto.fuse(function)(given), function(other), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(given, other)


def test_a_running_sum_of_pieces_keeps_the_sign_of_zero() -> None:
    """Where a piece has another number than -0.0, and where it has none."""
    x = np.full((40000, 2), -0.0, np.float32)
    x[30000, 1] = 0.0
    found, wanted = pto.fuse(lambda x: np.cumsum(x, 0))(x), np.cumsum(x, 0)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


WITHOUT_DIMENSIONS: dict[str, Any] = {
    "numbers": lambda x, z: (x.sum(), x[0, 0], z[()], z + 1, x[0] @ x[0], np.max(x), x.sum().copy(), z.sum()),
    "arrays": lambda x, z: (x[0, 0, ...], z, z.copy(), np.where(z > 0, z, 0), z.reshape(()), z.astype(float), z.T),
    "made of numbers": lambda x, z: (x.sum().reshape(()), np.zeros_like(x.sum()), np.tensordot(x, x, 2), np.array(3.0)),
    "branches": lambda x, z: (pt.cond(z > 0, np.sum, np.max, x), pt.cond(z > 0, np.copy, np.copy, z)),
}


@pytest.mark.parametrize("name", WITHOUT_DIMENSIONS)
def test_results_without_dimensions_are_arrays_or_scalars_as_in_numpy(name: str) -> None:
    function = WITHOUT_DIMENSIONS[name]
    x, z = np.arange(6, dtype=np.float32).reshape(2, 3), np.array(2.0, np.float32)
    wanted = (x.sum(), z) if name == "branches" else function(x, z)
    fused = pto.fuse(function)
    for _ in range(3):
        found = fused(x, z)
        assert [type(a) for a in found] == [type(b) for b in wanted]
        np.testing.assert_allclose(found, wanted)


ZEROS: dict[str, Any] = {
    "cumsum": lambda x: (np.cumsum(x, 0), np.cumsum(x), np.add.accumulate(x, axis=-1)),
    "sum": lambda x: (x.sum(0), x.sum(-1), x.sum(), x.sum(()), np.nansum(x, 0), np.trace(x)),
    "mean": lambda x: (x.mean(0), x.mean(1), np.mean(x, ())),
    "median": lambda x: (np.median(x), np.median(x, 0)),
    "dot": lambda x: (
        np.dot(x[:1, :1], x[:1, :1]),
        np.inner(x[0, :1], x[0, :1]),
        np.tensordot(x[:1, :1], x[:1], 1),
        np.dot(x[0, :1], -x[:1, :1]),
        np.vdot(x[:1, :1], x[:1, :1]),
        np.dot(x[:1, :1], x[:1]),
    ),
    "products": lambda x: (x @ x.T[:, :1], x[:, :1] @ x[:1], np.outer(x[0], x[0]), np.vecdot(x, np.ones_like(x))),
    "einsum": lambda x: (np.einsum("i,j->ij", x[0], -x[0]), np.einsum("ij->ji", x), np.einsum("ij,ij->ij", x, -x)),
}


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (3, 4), pytest.param((2, 9000), marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ZEROS)
def test_sums_of_negative_zeros(name: str, shape: tuple[int, int]) -> None:
    """A sum begins with 0, which makes 0 of -0.0; a running sum and a product do not."""
    x = np.full(shape, -0.0, np.float32)
    for a, b in zip(pto.fuse(ZEROS[name])(x), ZEROS[name](x), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a), np.signbit(b))
