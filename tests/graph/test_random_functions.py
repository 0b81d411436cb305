"""Random functions of many dtypes, constructs and sizes compute what numpy computes, or are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt
from pypto.errors.launch import UnsupportedArgument
from tests.graph.compare_functions import defined, difference, elsewhere, foreign_problem, fused_of, outcomes
from tests.graph.random_functions import DTYPES, KINDS, Function


@pytest.mark.parametrize("seed", range(0, 20, 10))
def test_random_functions(seed: int) -> None:
    found = outcomes(seed, 10, 1)
    assert [o for o in found if o.kind == "differs"] == []
    assert sum(o.kind == "agrees" for o in found) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1500, 50))
def test_many_random_functions(seed: int) -> None:
    assert [o for o in outcomes(seed, 50, 1) if o.kind == "differs"] == []


def test_the_generator_draws_what_it_is_meant_to() -> None:
    functions = [Function(seed).drawn() for seed in range(150)]
    texts = "\n".join(f.text() for f in functions)
    words = ("(-1) **", "// ", "logaddexp", "for k in range", "state.scale", "np.einsum", " @ ", "astype(bfloat16)")
    assert all(word in texts for word in words)
    assert {str(x.dtype) for f in functions for x in f.arrays} == set(DTYPES)
    assert any(f.dims for f in functions)
    assert all(callable(getattr(Function, kind)) for kind in KINDS)


def test_a_share_of_arguments_lies_on_a_device() -> None:
    """Arrays on a device beside those of the host are drawn, and refused by name."""
    drawn = [f for f in (Function(seed).drawn() for seed in range(150)) if f.foreign == "device"]
    assert 1 <= len(drawn) <= 15
    drawn = [f for f in drawn if len(f.arrays) > 1]
    assert drawn
    for function in drawn:
        fused = pto.fuse(defined(function))
        with pytest.raises(UnsupportedArgument, match="`a0` is an array on the device"):
            fused(elsewhere("device", function.arrays[0]), *function.arrays[1:])
        assert foreign_problem(function, fused) == ""
        assert "was taken" in foreign_problem(function, lambda *arrays: arrays)


@pytest.mark.torch
def test_functions_of_tensors() -> None:
    """A share of the functions is called on tensors of torch, too, and computes what numpy does."""
    pytest.importorskip("torch")
    drawn = [f for f in (Function(seed).drawn() for seed in range(60)) if f.foreign == "torch" and f.statements]
    assert len(drawn) >= 5
    for function in drawn:
        fused = fused_of(function)
        for _ in range(2):
            assert foreign_problem(function, fused) == ""


def test_a_difference_is_found() -> None:
    """The comparison fails for a wrong number, a wrong dtype and a wrong shape."""
    function = next(f for f in (Function(seed).drawn() for seed in range(99)) if f.terms[-1].is_integer)
    right = defined(function)(*function.arrays)
    assert difference(function, right) == ""
    for wrong in (right[-1] + 1, right[-1].astype(np.float64), np.stack([right[-1]] * 2)):
        assert difference(function, [*right[:-1], wrong])


# What random functions found, as one would write it.
CASES: dict[str, tuple[Any, Any]] = {
    "triangles of vectors": (lambda x: (np.tril(x), np.triu(x, 1)), np.arange(4.0)),
    "squares of bools": (lambda x: (x**2, x**3, np.square(x), abs(x), np.round(x)), np.array([True, False])),
    "numbers beyond a type": (
        lambda x: (x > -1, x == -2, x <= 300, x != 256, x < 256, x >= -1),
        np.array([0, 7, 255], np.uint8),
    ),
    "signed and unsigned": (
        lambda x: (x.astype(np.int64) < x, x == x.astype(np.int64), x >= -x.astype(np.int64), x != x.astype(np.int64)),
        np.array([0, 1, 2**63, 2**64 - 1], np.uint64),
    ),
    "labels of size 1": (lambda x: (np.einsum("ij,jk->ik", x[:, :1], x), np.einsum("ij,ij->i", x[:1], x)), np.eye(3)),
    "a position in what is picked": (lambda x: np.argmax(np.take(x, [0, -1, 0], axis=1)), np.arange(9).reshape(3, 3)),
    "a window of one element": (lambda x: (np.pad(x, 1)[1:], x.mean(axis=0)), np.ones((1, 1))),
    "sums and products of bools": (
        lambda x: (x.sum(dtype=bool), x.prod(dtype=bool), x.cumsum(dtype=bool), x.cumprod(dtype=bool)),
        np.array([0, 3, 0, 1]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_random_functions_found(name: str) -> None:
    function, x = CASES[name]
    found, wanted = pto.fuse(function)(x), function(x)
    several = isinstance(wanted, tuple)
    for a, b in zip(found if several else [found], wanted if several else [wanted], strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(a, b)


def test_positions_along_a_dimension_by_name() -> None:
    fused = pto.fuse(lambda x: (np.argmax(x), np.argmin(x), x + 1), dims={"x": (None, pt.Dim("n", 1, 4096))})
    for n in (4, 300):
        x = np.random.default_rng(n).standard_normal((17, n)).astype(np.float32)
        assert [int(found) for found in fused(x)[:2]] == [int(x.argmax()), int(x.argmin())]


@pytest.mark.parametrize("function", [lambda x: np.argmin(x, axis=None), lambda x: np.argmax(x, axis=0)])
def test_positions_in_what_is_repeated_along_a_dimension_by_name(function: Any) -> None:
    """The index lies in the dimension and in the copies, of which there is a fixed number."""
    fused = pto.fuse(lambda x: function(np.repeat(x, 2, 0)), dims={"x": (pt.Dim("n", 1, 4096), None)})
    for n in (3, 40):
        x = np.random.default_rng(n).standard_normal((n, 2))
        np.testing.assert_array_equal(fused(x), function(np.repeat(x, 2, 0)))
