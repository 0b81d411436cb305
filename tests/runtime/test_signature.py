"""Parameters of kernels, and the binding of calls: what Python itself would bind, with hypothesis."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pypto as pto
from pypto import static
from pypto.errors.launch import WrongArguments
from pypto.runtime.signature import IGNORED, Signature


def plain(x, n: "pto.constexpr", y: pto.dynamic = 3, *, k: static = None, BLOCK: pto.constexpr = 16):  # noqa: UP037
    """Only its parameters count."""


SIGNATURE = Signature.of(plain)


def test_what_parameters_say() -> None:
    assert SIGNATURE.kernel == "plain"
    assert SIGNATURE.names == ("x", "n", "y", "k", "BLOCK")
    assert SIGNATURE.constant == (False, True, False, False, True)
    assert SIGNATURE.defaults == {"y": 3, "k": None, "BLOCK": 16}
    assert SIGNATURE.declared == {"y": "dynamic", "k": "static"}


ARGUMENTS = st.lists(st.integers(0, 9), max_size=7).map(tuple)
KEYWORDS = st.dictionaries(st.sampled_from(["x", "n", "y", "k", "BLOCK", "z"]), st.integers(10, 19), max_size=5)


def python(args: tuple[Any, ...], given: dict[str, Any]) -> tuple[Any, ...] | None:
    """What Python binds, when all parameters may be given by position."""

    def function(x, n, y=3, k=None, BLOCK=16):
        return (x, n, y, k, BLOCK)

    try:
        inspect.signature(function).bind(*args, **given)
    except TypeError:
        return None
    result: tuple[Any, ...] = function(*args, **given)
    return result


@given(ARGUMENTS, KEYWORDS)
def test_binds_what_python_binds(args: tuple[Any, ...], given: dict[str, Any]) -> None:
    expected = python(args, given)
    if expected is None:
        with pytest.raises(WrongArguments):
            SIGNATURE.bind(args, given)
    else:
        assert SIGNATURE.bind(args, given) == expected


@pytest.mark.parametrize("name", IGNORED)
def test_parameters_of_gpu_compilers_are_accepted(name: str) -> None:
    assert SIGNATURE.bind((1, 2), {name: 4}) == (1, 2, 3, None, 16)
    assert SIGNATURE.bind((1, 2, 3, 4), {"BLOCK": 5, name: 4}) == (1, 2, 3, 4, 5)
