"""Facts that are asked of a launch, and the guard that they become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pypto.errors.launch import NeedsShape, UnsupportedArgument
from pypto.runtime.arrays import array_info
from pypto.runtime.specialization import FactRecorder, Specialization, changing_entries, observe, why


def infos(**values: Any) -> dict[str, Any]:
    return {name: array_info(x, "k", name) or x for name, x in values.items()}


def recorder(declared: str = "", dynamic: frozenset[Any] = frozenset(), **values: Any) -> FactRecorder:
    return FactRecorder("k", infos(**values), dynamic, {"x": declared} if declared else {})


X = np.zeros((4, 1, 6), np.float32)


def test_what_is_asked_becomes_the_guard() -> None:
    facts = recorder(x=X, n=1, m=2)
    assert (facts.shape("x", 0), facts.require_shape("x", 2)) == (4, 6)
    assert (facts.stride("x", 0), facts.stride("x", 2)) == (None, 1)
    assert (facts.equals_one("n"), facts.equals_one("m")) == (True, False)
    assert facts.guard == {
        ("shape", "x", 0): 4, ("shape", "x", 2): 6, ("stride", "x", 0): None, ("stride", "x", 2): 1,
        ("one", "n", 0): True, ("one", "m", 0): False,
    }  # fmt: skip


def test_a_changing_entry_stays_at_run_time_unless_an_extent_needs_it() -> None:
    facts = recorder(dynamic=frozenset({("x", 0)}), x=X)
    assert facts.shape("x", 0) is None and facts.shape("x", 2) == 6
    assert facts.guard == {("shape", "x", 2): 6}
    assert facts.require_shape("x", 0) == 4
    assert facts.shape("x", 0) == 4  # once it is known, there is no use in reading it


def test_declarations_go_before_history() -> None:
    assert recorder("static", frozenset({("x", 0)}), x=X).shape("x", 0) == 4
    facts = recorder("dynamic", x=X)
    assert facts.shape("x", 0) is None
    with pytest.raises(NeedsShape, match="dimension 2 of `x`"):
        facts.require_shape("x", 2)


@pytest.mark.parametrize(
    ("x", "strides"),
    [
        (X, [None, None, 1]), (X[..., ::2], [None, None, None]), (X[:, :, :1], [None, None, 1]),
        (np.broadcast_to(X[:1], X.shape), [0, 0, 1]), (X.T, [1, None, None]), (X[::-1], [None, None, 1]),
    ],
)  # fmt: skip
def test_strides_of_zero_and_one_are_facts(x: Any, strides: list[Any]) -> None:
    assert [observe(("stride", "x", d), infos(x=x)) for d in range(3)] == strides


def version(guard: dict[Any, Any], noalias: bool = True) -> Specialization:
    return Specialization((), guard, noalias, "", {})


def test_a_version_holds_where_its_facts_do() -> None:
    made = version({("shape", "x", 0): 4, ("one", "n", 0): False})
    assert made.holds(infos(x=X, n=3), noalias=True)
    assert not made.holds(infos(x=X[:2], n=3), noalias=True)
    assert not made.holds(infos(x=X, n=1), noalias=True)
    assert not made.holds(infos(x=X, n=3), noalias=False)
    assert version({}, noalias=False).holds(infos(x=X), noalias=True)


def test_the_third_value_of_an_entry_is_one_too_many() -> None:
    known = [version({("shape", "x", 0): n, ("shape", "x", 2): 6}) for n in (4, 5)]
    assert changing_entries(known, infos(x=X)) == frozenset()
    assert changing_entries(known, infos(x=X[:3])) == {("x", 0)}


def test_reasons() -> None:
    assert why([], infos(x=X), True) == "first call with these types"
    known = [version({("shape", "x", 0): 4, ("one", "n", 0): True})]
    assert why(known, infos(x=X[:2], n=5), True) == "changed: shape(x, 0) = 4 → 2, n == 1 is True → False"
    assert why(known, infos(x=X, n=1), False) == "arrays overlap"
    assert why([version({}, noalias=False)], infos(x=X), True) == "arrays no longer overlap"


class Broken:
    """Claims to be an array and is none."""

    __array_interface__ = "nonsense"


def test_an_object_that_only_claims_to_be_an_array() -> None:
    with pytest.raises(UnsupportedArgument, match="a Broken that gives no array"):
        array_info(Broken(), "k", "x")


@pytest.mark.parametrize("value", [1, 1.5, None, "text", np.float32(1), (1, 2), len])
def test_what_is_no_array(value: Any) -> None:
    assert array_info(value, "k", "x") is None


@pytest.mark.parametrize("x", [X, X.T, X[::-1, :, ::-2], X[:0], X[2:, :, 3:], np.full((), 3.0)])
def test_what_an_array_is(x: Any) -> None:
    info = array_info(x, "k", "x")
    assert info is not None
    assert (info.address, info.shape, info.writable) == (x.ctypes.data, x.shape, x.flags.writeable)
    assert info.strides == tuple(s // x.itemsize for s in x.strides)
    low, high = np.lib.array_utils.byte_bounds(x) if x.size else (info.address, info.address)
    assert info.reach == (low - info.address, high - info.address)
