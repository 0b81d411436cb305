"""`getattr` and `hasattr` in kernels: what they read is noted like any name; what cannot be noted is an error."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import pypto as pto
from pypto.errors import Diagnostic

module, space = ModuleType("module"), SimpleNamespace(factor=2.0)


@pto.jit
def read(x):
    x[:] = getattr(module, "factor")  # noqa: B009


@pto.jit
def by_default(x):
    x[:] = getattr(module, "factor", 1.0)


@pto.jit
def asked(x):
    x[:] = 5.0 if hasattr(module, "factor") else 1.0


@pto.jit
def of_a_namespace(x):
    x[:] = 5.0 if hasattr(space, "factor") else 1.0


@pto.jit
def of_the_language(x):
    if hasattr(pto, "exp") and not hasattr(x, "factor") and not hasattr(x.dtype, "factor"):
        x[:] = getattr(pto, "no_such_name", 3.0)


@pto.jit
def of_what_is_computed(x):
    x[:] = getattr((1, 2), "count")  # noqa: B009


def result(kernel: pto.Kernel) -> float:
    x = np.zeros(4, np.float32)
    kernel[1](x)
    return float(x[0])


def test_a_change_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    for factor in (2.0, 3.0):
        monkeypatch.setattr(module, "factor", factor, raising=False)
        assert [result(read), result(by_default), result(asked)] == [factor, factor, 5.0]


@pytest.mark.parametrize("kernel", [read, by_default, asked, of_a_namespace, of_what_is_computed])
def test_what_could_not_be_seen_is_an_error(kernel: pto.Kernel) -> None:
    with pytest.raises(Diagnostic, match=r"has no attribute `factor`|must be a name"):
        result(kernel)


def test_what_does_not_change() -> None:
    assert result(of_the_language) == 3.0
