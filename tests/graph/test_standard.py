"""Functions of the array API standard 2024.12, traced and compiled, beside numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt
from pypto.arrays.names import COUNTING, ELEMENTWISE, LINALG, OTHERS, OUTSIDE, REFUSED
from pypto.errors.graph import NotTraced

RNG = np.random.default_rng(7)
X = RNG.standard_normal((3, 5))
S = RNG.standard_normal((2, 4, 4))
P = S @ S.transpose(0, 2, 1) + 4 * np.eye(4)
LINE = np.sort(np.append(RNG.standard_normal(9), np.nan))
VALUES = np.array([[-9.0, 0.0, LINE[3]], [np.inf, np.nan, -np.inf]])

STANDARD = """
e inf nan newaxis pi
arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu zeros
zeros_like
astype can_cast finfo iinfo isdtype result_type
bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or
bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide greater
greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not
logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow real reciprocal remainder
round sign signbit sin sinh square sqrt subtract tan tanh trunc
take take_along_axis __array_namespace_info__ __array_api_version__
matmul matrix_transpose tensordot vecdot
broadcast_arrays broadcast_to concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack tile
unstack
argmax argmin count_nonzero nonzero searchsorted where
unique_all unique_counts unique_inverse unique_values
argsort sort
cumulative_prod cumulative_sum max mean min prod std sum var
all any diff
linalg fft
"""
LINEAR = """
cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer
pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
"""


def test_every_name_of_the_standard_is_there_or_says_why_not() -> None:
    for name in STANDARD.split():
        if name in REFUSED:
            with pytest.raises(AttributeError, match=REFUSED[name]):
                getattr(pt, name)
        else:
            assert getattr(pt, name) is not None or name == "newaxis"
    known = {*ELEMENTWISE, *OTHERS, *OUTSIDE, *COUNTING, *REFUSED}
    assert known - set(STANDARD.split()) == {"float16"}
    assert set(LINALG) == set(LINEAR.split())
    assert all(getattr(pt.linalg, name) is getattr(np.linalg, name) for name in LINEAR.split())
    with pytest.raises(AttributeError, match="has no 'eig'"):
        _ = pt.linalg.eig


FUNCTIONS: dict[str, Any] = {
    "meshgrid": lambda: (pt.meshgrid, (X[0], X[:, 1])),
    "meshgrid ij": lambda: (lambda x, y: pt.meshgrid(x, y, X[0, :2], indexing="ij"), (X[0], X[:, 1])),
    "meshgrid sparse": lambda: (lambda x, y: np.meshgrid(x, y, sparse=True), (X[0], X[:, 1])),
    "tril": lambda: (lambda x: (pt.tril(x), pt.tril(x, k=1), pt.tril(x, k=-9)), (X,)),
    "triu": lambda: (lambda x: (pt.triu(x), pt.triu(x, k=-1), pt.triu(x, k=9)), (S,)),
    "tril of integers": lambda: (pt.tril, (np.arange(12).reshape(3, 4),)),
    "broadcast_arrays": lambda: (lambda x, y: [a + 1 for a in pt.broadcast_arrays(x, y)], (X, X[0])),
    "repeat": lambda: (lambda x: (pt.repeat(x, 3), pt.repeat(x, 2, axis=1)), (X,)),
    "tile": lambda: (lambda x: (pt.tile(x, 2), pt.tile(x, (2, 3)), pt.tile(x, (2, 1, 2))), (X,)),
    "unstack": lambda: (lambda x: [a * 2 for a in pt.unstack(x, axis=-1)], (X,)),
    "count_nonzero": lambda: (lambda x: (pt.count_nonzero(x), pt.count_nonzero(x > 0, axis=1)), (np.round(X),)),
    "searchsorted": lambda: (lambda x, v: (pt.searchsorted(x, v), np.searchsorted(x, v, "right")), (LINE, VALUES)),
    "searchsorted integers": lambda: (pt.searchsorted, (np.array([1, 3, 3, 7]), np.arange(9))),
    "searchsorted sorter": lambda: (lambda x, v, s: pt.searchsorted(x, v, sorter=s), (X[0], X[1], np.argsort(X[0]))),
    "cumulative_sum": lambda: (lambda x: pt.cumulative_sum(x, axis=0, include_initial=True), (X,)),
    "cumulative_prod": lambda: (lambda x: (pt.cumulative_prod(x, axis=-1), pt.cumulative_prod(x[0])), (X,)),
    "cumulative_prod initial": lambda: (lambda x: pt.cumulative_prod(x, axis=1, include_initial=True), (X,)),
    "trace": lambda: (lambda x: (np.trace(x), np.trace(x, 1), np.diagonal(x, -1)), (X,)),
    "cross": lambda: (lambda x, y: (pt.linalg.cross(x, y), np.cross(x, y)), (X[:, :3], X[:, 2:])),
    "linalg.cross axis": lambda: (lambda x, y: pt.linalg.cross(x, y, axis=0), (X, X[:, ::-1].copy())),
    "linalg.diagonal": lambda: (lambda x: (pt.linalg.diagonal(x), pt.linalg.diagonal(x, offset=-2)), (S,)),
    "linalg.trace": lambda: (lambda x: (pt.linalg.trace(x), pt.linalg.trace(x, offset=1)), (S,)),
    "linalg.products": lambda: (
        lambda x, y: (
            pt.linalg.matmul(x, y), pt.linalg.outer(x[0, 0], y[0, 1]), pt.linalg.matrix_transpose(x),
            pt.linalg.vecdot(x, y), pt.linalg.vecdot(x, y, axis=0), pt.linalg.tensordot(x, y, axes=((1, 2), (2, 1))),
        ),
        (S, P),
    ),
    "linalg.matrix_power": lambda: (lambda x: [pt.linalg.matrix_power(x, n) for n in (0, 1, 2, 5, -2)], (P,)),
    "linalg.vector_norm": lambda: (
        lambda x: [pt.linalg.vector_norm(x, axis=1, ord=p) for p in (0, 1, 2, 3, np.inf, -np.inf)]
        + [pt.linalg.vector_norm(x), pt.linalg.vector_norm(x, keepdims=True)],
        (X,),
    ),
    "linalg.matrix_norm": lambda: (
        lambda x: [pt.linalg.matrix_norm(x, ord=p) for p in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)]
        + [pt.linalg.matrix_norm(x, keepdims=True)],
        (S,),
    ),
    "linalg.inv": lambda: (lambda x: pt.linalg.inv(x * 2) + 1, (P,)),
    "linalg.solve": lambda: (lambda x, y: (pt.linalg.solve(x, y), pt.linalg.solve(x[0], y[0, :, 0])), (P, S)),
    "linalg.det": lambda: (lambda x: (pt.linalg.det(x), *pt.linalg.slogdet(x)), (P,)),
    "linalg.cholesky": lambda: (lambda x: pt.linalg.cholesky(x) @ x, (P,)),
    "linalg.eigh": lambda: (lambda x: (pt.linalg.eigh(x).eigenvalues, pt.linalg.eigvalsh(x)), (P,)),
    "linalg.qr": lambda: (lambda x: [a * 2 for a in pt.linalg.qr(x)], (S,)),
    "linalg.svd": lambda: (
        lambda x: [*pt.linalg.svd(x, full_matrices=False), pt.linalg.svdvals(x), pt.linalg.pinv(x)], (S,),
    ),
    "linalg.matrix_rank": lambda: (pt.linalg.matrix_rank, (P,)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_computes_what_numpy_does(name: str) -> None:
    function, args = FUNCTIONS[name]()
    fused = pto.fuse(function)
    wanted = function(*args)
    several = isinstance(wanted, tuple | list)
    for _ in range(3):
        found = fused(*args)
        for a, b in zip(found if several else [found], wanted if several else [wanted], strict=True):
            assert (np.shape(a), np.asarray(a).dtype) == (np.shape(b), np.asarray(b).dtype)
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_decompositions_are_steps_that_the_plan_shows() -> None:
    text = pt.explain(pto.fuse(lambda x: np.exp(pt.linalg.inv(x + 1))), P)
    assert "linalg.inv, run by numpy" in text
    assert len(pto.fuse(lambda x: pt.tril(x).sum(axis=1)).plan(S).steps) == 1


@pytest.mark.parametrize("name", COUNTING)
def test_what_counts_elements_is_numpys_and_refused_while_traced(name: str) -> None:
    function = getattr(pt, name)
    assert function is getattr(np, name)
    with pytest.raises(NotTraced, match="depends on their values"):
        pto.fuse(function)(X)


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda x: pt.cumulative_sum(x), "running result of several dimensions"),  # noqa: PLW0108
        (lambda x: pt.linalg.cross(x, x), "three elements"),
    ],
)
def test_what_is_not_offered_is_an_error_at_its_line(function: Any, problem: str) -> None:
    with pytest.raises(NotTraced, match=problem) as caught:
        pto.fuse(function)(X)
    assert caught.value.loc.file.endswith("test_standard.py")


def test_inspection() -> None:
    info = pt.__array_namespace_info__()
    assert pt.__array_api_version__ == "2024.12"
    assert info.capabilities() == {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}
    assert (info.default_device(), info.devices()) == ("cpu", ["cpu"])
    assert info.default_dtypes() == {"real floating": np.float64, "integral": np.int64, "indexing": np.int64}
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert not any(name.startswith("complex") for name in info.dtypes())
    assert info.dtypes(kind="complex floating") == {}
    with pytest.raises(ValueError, match="cpu"):
        info.dtypes(device="gpu")
