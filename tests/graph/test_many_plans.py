"""What a fused function remembers of its calls: plans, attributes of classes, and no arguments."""

from __future__ import annotations

import functools
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.advice import ManyPlans


class Options:
    SCALE = 2.0

    @classmethod
    def scaled(cls, x: Any) -> Any:
        return x * cls.SCALE


def of_class(kind: Any, x: Any) -> Any:
    return x * kind.SCALE


def test_an_attribute_of_a_class_is_seen_by_its_methods_and_where_the_class_is_an_argument() -> None:
    method, function = pto.fuse(Options.scaled), pto.fuse(of_class)
    for scale in (2.0, 3.0, 4.0):
        Options.SCALE = scale
        np.testing.assert_array_equal(method(np.ones(3)), np.full(3, scale))
        np.testing.assert_array_equal(function(Options, np.ones(3)), np.full(3, scale))


def test_arguments_are_not_kept_alive() -> None:
    fused = pto.fuse(lambda x: x + 1)

    def called() -> weakref.ref[Any]:
        x = np.ones(1000)
        fused(x)
        return weakref.ref(x)

    reference = called()
    gc.collect()
    assert reference() is None


def test_a_partial_function_has_no_name() -> None:
    fused = pto.fuse(functools.partial(of_class, Options))
    np.testing.assert_array_equal(fused(np.ones(2)), np.full(2, Options.SCALE))


@pytest.mark.parametrize(
    ("function", "argument", "reason"),
    [
        (lambda x, n: x[:n] * 2, lambda n: n, "`n` decides shapes or branches"),
        (lambda x, y: y * 2, np.ones, "its arguments differ"),
    ],
)
def test_many_plans_are_told_once_with_what_differs(function: Any, argument: Any, reason: str) -> None:
    fused = pto.fuse(function)
    with pytest.warns(ManyPlans, match=reason) as warned:
        for n in range(1, 68):
            fused(np.ones(100), argument(n))
    assert sum(issubclass(w.category, ManyPlans) for w in warned) == 1
