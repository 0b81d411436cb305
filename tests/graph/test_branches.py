"""Conditions on values in traced functions: all ways are computed, and the results chosen."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.graph import NeedsValue

Function = Callable[..., Any]


def either(x: Any, y: Any) -> Any:
    if x.sum() > 0:
        return x * 2
    return y - x


def early(x: Any, y: Any) -> Any:
    error = np.mean((x - y) ** 2)
    if error > 2:
        return 100.0
    return 10 * np.log10(error)


def limited(x: Any, y: Any) -> Any:
    return max(min(x.sum(), 1.0), -1.0) * (1.0 if y.mean() > 0 else 0)


def updated(x: Any, y: Any) -> Any:
    if x.mean() > 0 and y.max() > 1:
        x[0] = 5.0
    elif y.min() < 0:
        x += y
    return x.sum(), {"x": x, "y": y}


def stopped(x: Any, y: Any) -> Any:
    for _ in range(6):
        half = x * 0.5
        if np.abs(half - x).max() < 0.2:
            break
        x = half
    return x


def behind_steps(x: Any, y: Any) -> Any:
    inverse = np.linalg.inv(np.outer(x, x) + np.eye(len(x)))
    total, out = 0.0, np.zeros(len(x))
    for i in range(len(x)):
        total = total * 0.5 + x[i]
        out[i] = total
    return inverse @ out if y[-1] > 0 else inverse @ (x * np.hanning(len(x)))


WAYS: tuple[Function, ...] = (either, early, limited, updated, stopped, behind_steps)


@pytest.mark.parametrize("function", WAYS, ids=lambda f: f.__name__)
def test_each_way_gives_what_numpy_does(function: Function) -> None:
    fused = pto.fuse(function)
    rng = np.random.default_rng(4)
    for _ in range(12):
        args = [rng.standard_normal(20) * 1.5 for _ in range(2)]
        given = copy.deepcopy(args)
        wanted, found = function(*args), fused(*given)
        for a, b in zip(leaves(found) + given, leaves(wanted) + args, strict=True):
            assert np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def leaves(x: Any) -> list[Any]:
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, tuple) else None
    return [x] if parts is None else [y for part in parts for y in leaves(part)]


def test_ways_share_what_they_have_in_common() -> None:
    plan = pto.fuse(either).plan(np.ones(20), np.ones(20))
    assert len(plan.steps) == 1
    steps = [step for step in pto.fuse(behind_steps).plan(np.ones(20), np.ones(20)).steps if step.kernel is None]
    assert len(steps) == 2  # the inverse and the loop, once each


REFUSED: dict[str, Function] = {
    "a step that may fail": lambda x: np.linalg.inv(x) if x.sum() > 0 else x,
    "an exception": lambda x: dict[str, int]()["name"] if x.sum() > 0 else x,
    "results of other shapes": lambda x: x[0] if x.sum() > 0 else x,
    "results of other types": lambda x: x.astype(np.float32) if x.sum() > 0 else x,
    "results of other structures": lambda x: (x, x) if x.sum() > 0 else x,
    "too many conditions": lambda x: [1 if value > 0 else 0 for value in x.ravel()],
    "several elements": lambda x: x if x > 0 else -x,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_chosen_is_refused_at_the_condition(name: str) -> None:
    with pytest.raises(NeedsValue, match="a condition needs the value") as caught:
        pto.fuse(REFUSED[name])(np.eye(5))
    assert caught.value.loc is not None and caught.value.loc.file.endswith("test_branches.py")
