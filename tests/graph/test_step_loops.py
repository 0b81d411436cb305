"""Loops that a function states: `fori_loop`, `while_loop` and `scan` trace their bodies once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt
from pypto.errors.graph import NotTraced, WrongShapes

GRID = np.random.default_rng(0).random((6, 5))


def powered(a: Any, x: Any) -> Any:
    return pt.fori_loop(0, 30, lambda i, s: (s[0], s[0] @ s[1] / np.abs(s[0] @ s[1]).max()), (a, x))[1]


def summed(x: Any) -> Any:
    def body(i: Any, s: Any) -> Any:
        return {"x": s["x"], "total": s["total"] + s["x"][i] * i, "last": s["x"][i]}

    return pt.fori_loop(1, 6, body, {"x": x, "total": 0.0, "last": x[0]})


def divided(x: Any) -> Any:
    return pt.while_loop(lambda s: s[0].sum() > 1, lambda s: (s[0] / 2, s[1] + 1), (x, 0))


def running(x: Any) -> Any:
    return pt.scan(lambda s, row: (s * 0.5 + row, (s.sum(), row * s)), x[0], x)


def as_many_as_said(x: Any, n: Any) -> Any:
    return pt.fori_loop(0, n, lambda i, x: x * 2, x)


FUNCTIONS: dict[Callable[..., Any], tuple[Any, ...]] = {
    powered: (GRID @ GRID.T, GRID[:, 0]),
    summed: (GRID[0, :].repeat(2),),
    divided: (GRID,),
    running: (GRID,),
    as_many_as_said: (GRID, np.array(3)),
}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_loops_give_what_they_give_in_numpy(function: Callable[..., Any]) -> None:
    wanted, found = function(*FUNCTIONS[function]), pto.fuse(function)(*FUNCTIONS[function])
    rows = list(zip(parts(wanted), parts(found), strict=True))
    assert rows
    for a, b in rows:
        assert a.dtype == b.dtype
        np.testing.assert_allclose(b, a, rtol=1e-12)


def parts(tree: Any) -> list[Any]:
    if isinstance(tree, tuple | dict):
        return [x for part in (tree.values() if isinstance(tree, dict) else tree) for x in parts(part)]
    return [np.asarray(tree)]


def test_a_body_is_traced_once_however_often_it_runs() -> None:
    step = pto.fuse(lambda x: pt.fori_loop(0, 1000, lambda i, x: x + 1, x))
    assert step(np.zeros(3)).tolist() == [1000] * 3
    assert str(step.plan(np.zeros(3))).count("stores") == 1


def test_a_body_that_reads_an_array_of_the_function_takes_it_as_state() -> None:
    with pytest.raises(NotTraced, match="another function"):
        pto.fuse(lambda x: pt.fori_loop(0, 9, lambda i, y: y + x, x))(np.ones(4))


@pytest.mark.parametrize(
    "loop",
    [
        lambda x: pt.fori_loop(0, 9, lambda i, x: x[:-1], x),
        lambda x: pt.while_loop(lambda x: x[0] > 0, lambda x: x.astype(np.float32), x),
        lambda x: pt.while_loop(lambda x: x > 0, lambda x: x, x),
        lambda x: pt.scan(lambda s, x: s + x, x[0], x),
        lambda x: pt.fori_loop(0, 9, lambda i, x: (x, x), x),
    ],
)
def test_a_state_that_changes_its_type_is_refused(loop: Any) -> None:
    with pytest.raises(WrongShapes, match=r"fori_loop|while_loop|scan"):
        pto.fuse(loop)(np.ones(4))
