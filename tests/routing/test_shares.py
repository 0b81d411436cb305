"""Shares are exact and repeatable, for all numbers of calls and from all threads."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pypto import library as lib
from pypto.errors.library import NoImplementation, NoSuchOperator
from pypto.errors.routing import AlreadyRegistered, WrongShares
from pypto.routing import Routes
from pypto.routing.shares import Shares

SHARES = [
    {"1.2": 0.9, "2.0-rc": 0.1},
    {"a": 0.0001, "b": 0.9999},
    {"a": 0.5, "b": 0.25, "c": 0.125, "d": 0.125},
    {"a": 0.8, "b": 0.1, "c": 0.06, "d": 0.04},
    {"a": 1.0, "b": 0.0},
]


@pytest.mark.parametrize("shares", SHARES)
def test_counts_are_exact_over_ten_thousand_calls(shares: dict[str, float]) -> None:
    sequence = Shares(shares)
    chosen = [sequence.next() for _ in range(10_000)]
    assert Counter(chosen) == {name: round(10_000 * share) for name, share in shares.items() if share}
    again = Shares(shares)
    assert [again.next() for _ in range(10_000)] == chosen


def test_every_prefix_has_the_right_number() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        weights = rng.integers(1, 60, rng.integers(2, 6))
        shares = {str(n): weight / weights.sum() for n, weight in enumerate(weights)}
        sequence, counts = Shares(shares), Counter[str]()
        for n in range(1, 3 * int(weights.sum())):
            counts[sequence.next()] += 1
            assert max(abs(counts[name] - n * share) for name, share in shares.items()) < 1


def test_ten_thousand_calls_of_a_route_from_eight_threads() -> None:
    routes = Routes()
    f = routes.register("f", "1.2", lambda x: x)
    f.register("2.0-rc", lambda x: x).ab({"1.2": 0.9, "2.0-rc": 0.1}, shadow=0.01)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(f, range(10_000))) == [*range(10_000)]
    rows = {row.version: row for row in routes.report().rows}
    assert (rows["1.2"].calls, rows["2.0-rc"].calls) == (9000, 1000)
    assert 10 <= rows["2.0-rc"].compared <= 18  # those until the first has agreed, and one of a hundred of the others
    assert rows["2.0-rc"].answers + rows["1.2"].answers == 10_000


def test_a_version_is_not_replaced_silently() -> None:
    routes = Routes()
    f = routes.register("f", "1", lambda: 1)
    with pytest.raises(AlreadyRegistered, match=r"there is version '1' of f already"):
        f.register("1", lambda: 2)
    assert routes.register("f", "1", lambda: 2, replace=True)() == 2
    with pytest.raises(AlreadyRegistered):
        routes["rms_norm"].register("rows", lambda: None)
    with pytest.raises(AlreadyRegistered, match="an operator 'rms_norm'"):
        lib.register(lib.rows["rms_norm"])


def test_a_registered_version_of_a_row_is_an_implementation() -> None:
    row, routes = lib.rows["rms_norm"], Routes()
    x, g = np.ones((2, 8), np.float32), np.ones(8, np.float32)
    routes["rms_norm"].register("zeros", lambda y, **_: y.fill(0))
    assert all((row(x, g, version="zeros") == 0).all() for _ in range(3))
    routes["rms_norm"].register("zeros", lambda y, **_: y.fill(2), replace=True)
    assert (row(x, g, version="zeros") == 2).all()
    assert np.allclose(row(x, g), 1)
    routes["rms_norm"].unregister("zeros")
    with pytest.raises(NoImplementation):
        row(x, g, version="zeros")


@pytest.mark.parametrize(
    ("shares", "problem"),
    [({"1": 0.5, "2": 0.4}, "their sum is 0.9"), ({"1": 1.5, "2": -0.5}, "that of '1' is 1.5"), ({}, "their sum is 0")],
)
def test_wrong_shares_are_refused(shares: dict[str, float], problem: str) -> None:
    routes = Routes()
    f = routes.register("f", "1", abs).register("2", abs)
    with pytest.raises(WrongShares, match=problem):
        f.ab(shares)


def test_unknown_names_are_refused() -> None:
    routes = Routes()
    with pytest.raises(NoImplementation, match="of version '3'"):
        routes["rms_norm"].ab({"3": 1.0})
    with pytest.raises(NoSuchOperator, match="did you mean"):
        routes["rms_nrm"]
