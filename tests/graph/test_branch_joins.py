"""Branches whose sides only assign: both sides are computed in one trace, and each variable is chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt
from pypto.errors.graph import NeedsValue

Array = np.ndarray[Any, Any]


def assigned(x: Array) -> Any:
    if x.sum() > 0:
        y = x * 2
        y += 1
    else:
        y = -x
    return y


def updated(x: Array) -> Any:
    z = np.ndarray(4, dtype=x.dtype)
    z[:] = 5
    if x[0] > 0:
        x[0] = 7
        z[1] = 2
        x += 1
    else:
        z = z + x
    return x, z


def of_views(x: Array) -> Any:
    y = x[1:] if x.sum() > 0 else x[:-1]
    return y.sum()


def of_updated_views(x: Array) -> Any:
    y = x[1:] if x.sum() > 0 else x[:-1]
    y += 1
    return x


def scaled(x: Array) -> Any:
    scale = np.abs(x).max()
    if scale == 0:
        scale = 1.0
    return x / scale


def unpacked(x: Array) -> Any:
    total = x[0]
    if total > 1:
        (total, other) = (x[1], x[2])
    else:
        other = x[3]
    return x + total + other


def nested(x: Array) -> Any:
    low = x * 0
    if x[0] > 0:
        y = x + 1 if x[1] > 2 else x - 1
        if x[2] > 2:
            y = y - 3
    elif x[3] > 1:
        y, low = x * 3, x
    else:
        y = np.exp(-np.abs(x))
    return y + low


def rotated(x: Array) -> Any:
    z = x * (1 + 2j)
    for i in range(40):
        z = np.concatenate([z[1:], z[:1]])
        if z.real[0] > i - 20:
            z = -z
    return z


def counted(x: Array) -> Any:
    n = 0
    if x.sum() > 0:
        n = 1
    return x.astype(np.float32) * n


VALUES = ([1.0, 2.0, 3.0, 4.0], [-1.0, 2.0, -30.0, 4.0], [-0.0, -1.0, -2.0, -3.0], [0.0] * 4, [9.0, 1.0, 7.0, 0.5])
FUNCTIONS = [assigned, updated, of_views, of_updated_views, scaled, unpacked, nested, rotated, counted]


CASES = [(f, dtype) for f in FUNCTIONS for dtype in (np.float64, np.float32) if (f, dtype) != (scaled, np.float32)]


@pytest.mark.parametrize(("function", "dtype"), CASES, ids=lambda x: x.__name__)
def test_a_branch_gives_what_numpy_gives(function: Callable[..., Any], dtype: Any) -> None:
    fused = pto.fuse(function)
    for values in VALUES:
        x, y = np.array(values, dtype), np.array(values, dtype)
        wanted, found = function(x), fused(y)
        parts = [z if isinstance(z, tuple) else (z,) for z in (found, wanted)]
        for a, b in zip(*parts, strict=True):
            assert (type(a), np.asarray(a).dtype) == (type(b), np.asarray(b).dtype)
            np.testing.assert_allclose(a, b, rtol=1e-6)
        np.testing.assert_array_equal(x, y)


def test_the_explanation_names_branches_that_are_joined_and_those_traced_in_all_ways() -> None:
    line = assigned.__code__.co_firstlineno + 1
    assert f"`if` in line {line}: both sides are computed, and `where` chooses" in pt.explain(assigned, np.ones(4))
    assert "both sides" not in pt.explain(lambda x: x + 1, np.ones(4))

    def early(x: Array) -> Any:
        if x.sum() > 0:
            return x
        return -x

    text = pt.explain(early, np.ones(4))
    assert "conditions on values, first in line" in text and "computed in all 2 ways" in text


def test_the_number_of_branches_is_not_limited() -> None:
    def steps(x: Array) -> Any:
        for _ in range(12):
            if x[0] > 0:
                x = np.concatenate([x[1:] - 1, x[:1]])
            if x[1] > 0:
                x = x * 0.5
            if x[2] > 0:
                x = x + 0.25
        return x

    x = np.arange(6.0) - 2
    np.testing.assert_allclose(pto.fuse(steps)(x), steps(x))


def inverted(x: Array) -> Any:
    y = np.eye(3)
    if x.sum() > 0:
        y = np.linalg.inv(x)
    return y


def test_a_side_that_may_fail_is_refused_at_its_condition() -> None:
    with pytest.raises(NeedsValue, match="a condition needs the value") as caught:
        pto.fuse(inverted)(np.eye(3))
    assert caught.value.loc is not None and caught.value.loc.line == inverted.__code__.co_firstlineno + 2
