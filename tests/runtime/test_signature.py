"""Parameters of kernels, and the binding of calls: what Python itself would bind, with hypothesis."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pypto as pto
from pypto import static
from pypto.errors.launch import WrongArguments
from pypto.runtime.signature import IGNORED, Signature, flatten


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


def starred(x, y=2, *rest, k: pto.constexpr = 1):
    """Any number of arguments."""


def test_binds_what_is_left_to_a_star() -> None:
    signature = Signature.of(starred)
    assert signature.names == ("x", "y", "k", "rest") and signature.positional == 2
    assert signature.bind_star((1,), {}) == (1, 2, 1, ())
    assert signature.bind_star((1, 5, 6, 7), {"k": 9}) == (1, 5, 9, (6, 7))
    with pytest.raises(WrongArguments, match="missing `x`"):
        signature.bind_star((), {"k": 9})


class Row(NamedTuple):
    x: Any
    n: pto.constexpr


class Stands:
    """An object that makes a tuple of itself."""

    def as_argument(self) -> Any:
        return Row(7, (8, 9))


def test_leaves_of_nested_arguments() -> None:
    values = (1, (2, (3, None)), Row(4, 5), (6, 6), Stands())
    nesting, leaves, constant = flatten(values, (False, False, False, True, False))
    assert leaves == (1, 2, 3, None, 4, 5, (6, 6), 7, (8, 9))
    assert constant == (False, False, False, False, False, True, True, False, True)
    assert nesting == (None, (tuple, None, (tuple, None, None)), (Row, None, None), (tuple,), (Row, None, (tuple,)))


def test_unlike_nesting_is_told_apart() -> None:
    forms = [((1, 2),), ((1, (2,)),), (((1,), 2),), (Row(1, 2),), (1,), ((1, 2, 3),), ((),)]
    assert len({flatten(form, (False,))[0] for form in forms}) == len(forms)
