"""Kernels of any name: lambdas, names with letters beyond ASCII, and names that were given later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto


def größe(x, o):  # noqa: PLC2401
    o[:] = x[:] * 2


def 大(x, o):  # noqa: PLC2401
    o[:] = x[:] * 2


def plain(x, o):
    o[:] = x[:] * 2


def renamed(name: str) -> Any:
    def kernel(x, o):
        o[:] = x[:] * 2

    kernel.__name__ = name
    return kernel


double = lambda x, o: pto.store(o + pto.arange(0, 4), pto.load(x + pto.arange(0, 4)) * 2)  # noqa: E731
KERNELS = (größe, 大, plain, double, renamed("a kernel.of-2"), renamed(""))
X = np.arange(4, dtype=np.float32)


def works(launch: Any) -> bool:
    o = np.zeros(4, np.float32)
    launch[1](X, o)
    return o.tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("function", KERNELS, ids=lambda f: f.__name__ or "empty")
def test_a_kernel_of_any_name_runs(function: Any) -> None:
    kernel = pto.jit(function)
    assert works(kernel) and works(pto.interpret(kernel)) and works(pto.verify(kernel))
    with pto.checked():
        assert works(kernel)
    with pto.profile() as profile:
        assert works(kernel)
    assert {row.kernel for row in profile.rows} == {function.__name__}


@pytest.mark.parametrize("function", KERNELS, ids=lambda f: f.__name__ or "empty")
def test_a_kernel_of_any_name_is_inspected(function: Any) -> None:
    """On the CPU and for a chip, as text and as a page."""
    kernel = pto.jit(function)
    for target in (None, "ascend910b2"):
        found = kernel.inspect(X, X.copy(), **({"target": target} if target else {}))
        assert all(level.lines for level in found.levels)
        assert found.kernel == function.__name__ and "<lambda>" not in found._repr_html_()


def test_symbols_are_letters_of_ascii() -> None:
    names = [pto.jit(f).compile(X, X.copy()).program.artifact.name for f in KERNELS]
    assert names[:4] == ["gru00f6u00dfe", "u5927", "plain", "lambda"]
    assert all(name.isascii() and name.isidentifier() for name in names)
