"""Faults of a version: each is counted, demotes the version, and never reaches the caller."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from pypto import library as lib
from pypto.errors.routing import VersionDemoted, VersionFailed
from pypto.library.row import Implementation
from pypto.routing import Routes
from tests.patience import limit

RNG = np.random.default_rng(0)
X, G = RNG.standard_normal((4, 64)).astype(np.float32), RNG.standard_normal(64).astype(np.float32)
RIGHT = lib.rows["rms_norm"](X, G)
ROWS = lib.rows["rms_norm"].implementations[0].run
RELEASE = threading.Event()  # what hangs waits for it


@pytest.fixture
def routes() -> Iterator[Routes]:
    """Routes of one test; rows of the library are as they were behind it."""
    before = {name: row.implementations for name, row in lib.rows.items()}
    made = Routes()
    RELEASE.clear()
    yield made
    made.clear()
    RELEASE.set()
    for name, row in lib.rows.items():
        object.__setattr__(row, "implementations", before[name])


def raises(**_: Any) -> None:
    raise ValueError("a fault")


def out_of_memory(y: Any, **_: Any) -> None:
    y[:] = np.empty((1 << 60,), np.float32)[: y.size]


def hangs(y: Any, **_: Any) -> None:
    RELEASE.wait(limit(10))
    y[:] = 13


def slow(**values: Any) -> None:
    ROWS(**values)
    time.sleep(0.03)


def late(**values: Any) -> None:
    ROWS(**values)
    time.sleep(0.5)


def wrong(y: Any, **values: Any) -> None:
    ROWS(y=y, **values)
    y += 1e-2


def half(y: Any, **_: Any) -> None:
    y[:2] = 5
    raise ValueError("after a half of the rows")


FAULTS: list[tuple[Callable[..., None], dict[str, Any], str, int]] = [
    (raises, {}, "raised", 3),
    (half, {}, "raised", 3),
    (out_of_memory, {}, "out of memory", 3),
    (hangs, {"limit": 0.05}, "time limit", 1),
    (late, {"limit": 0.005}, "time limit", 1),
    (slow, {"slower": 3.0, "shadow": 1.0}, "slow", 1),
    (wrong, {}, "different", 1),
]


@pytest.mark.parametrize(("fault", "policy", "reason", "times"), FAULTS)
def test_a_fault_is_counted_and_demotes_and_no_caller_sees_it(
    routes: Routes, fault: Callable[..., None], policy: dict[str, Any], reason: str, times: int
) -> None:
    route = routes["rms_norm"].register("faulty", fault).ab({"rows": 0.5, "faulty": 0.5}, **policy)
    with pytest.warns(VersionDemoted, match=f"faulty answers no more calls \\({reason}\\)") as caught:
        results = [lib.rms_norm(X, G) for _ in range(40)]
    assert all(np.array_equal(result, RIGHT) for result in results)
    assert len(caught) == 1
    version = route.versions["faulty"]
    assert (version.calls, version.demoted, version.failures[reason]) == (20, reason, times)
    assert version.failures.total() - version.failures["demoted"] == times
    assert version.answers == 0
    assert route.versions["rows"].answers == 40


def test_a_thread_that_hangs_is_counted_until_it_returns(routes: Routes) -> None:
    route = routes["rms_norm"].register("faulty", hangs).ab({"faulty": 1.0}, limit=0.02)
    with pytest.warns(VersionDemoted):
        result = lib.rms_norm(X, G)
    assert routes.report().stuck == 1
    assert "1 threads have not returned" in str(routes.report())
    RELEASE.set()
    deadline = time.monotonic() + 10
    while routes.report().stuck and time.monotonic() < deadline:
        time.sleep(0.001)
    assert routes.report().stuck == 0
    assert np.array_equal(result, RIGHT)  # what the thread has written since is no result
    assert route.versions["faulty"].demoted == "time limit"


def test_a_failed_version_leaves_no_half_written_argument(routes: Routes) -> None:
    row = lib.rows["adamw"]
    values = row.sample(np.random.default_rng(1))
    expected = row.results(values)

    def half_written(**given: Any) -> None:
        for name in row.effects:
            given[name].ravel()[: given[name].size // 2] = np.nan
        raise RuntimeError("after a half")

    routes["adamw"].register("faulty", half_written).ab({"faulty": 1.0})
    with pytest.warns(VersionDemoted):
        for _ in range(3):
            results = row.results(values)
            assert all(np.array_equal(results[name], expected[name]) for name in expected)


def test_effects_of_a_version_that_works_reach_the_caller(routes: Routes) -> None:
    row = lib.rows["adamw"]
    values = row.sample(np.random.default_rng(1))
    expected = row.results(values)
    route = routes["adamw"].register("2.0", row.implementations[0].run).ab({"2.0": 1.0})
    for _ in range(3):  # the first is compared, the others are not
        results = row.results(values)
        assert all(np.array_equal(results[name], expected[name]) for name in expected)
    assert (route.versions["2.0"].compared, route.versions["2.0"].answers) == (1, 2)


def test_a_version_that_writes_an_input_is_demoted(routes: Routes) -> None:
    def writes(x: Any, y: Any, **given: Any) -> None:
        ROWS(x=x, y=y, **given)
        x[:] = 0

    before = X.copy()
    routes["rms_norm"].register("faulty", writes).ab({"faulty": 1.0})
    with pytest.warns(VersionDemoted, match="writes to argument `x`, which is no effect"):
        assert np.array_equal(lib.rms_norm(X, G), RIGHT)
    assert np.array_equal(X, before)


def test_strict_raises_the_fault(routes: Routes) -> None:
    routes["rms_norm"].register("faulty", raises).ab({"faulty": 1.0}, strict=True)
    with pytest.raises(VersionFailed, match="version faulty failed: ValueError: a fault") as caught:
        lib.rms_norm(X, G)
    assert isinstance(caught.value.__cause__, ValueError)
    routes["rms_norm"].register("wrong", wrong).ab({"wrong": 1.0}, strict=True)
    with pytest.raises(VersionFailed, match="differs from the reference"), warnings.catch_warnings():
        warnings.simplefilter("ignore", VersionDemoted)
        lib.rms_norm(X, G)


def test_a_wrong_call_is_no_fault_of_the_version(routes: Routes) -> None:
    def refuses(x: Any) -> Any:
        if x < 0:
            raise ValueError("negative")
        return x

    root = routes.register("root", "1.0", refuses)
    root.register("2.0", refuses).ab({"2.0": 1.0}, failures=1)
    with pytest.raises(ValueError, match="negative"):
        root(-1)
    assert root(4) == 4
    assert not root.versions["2.0"].failures


def test_a_version_may_call_its_operator(routes: Routes) -> None:
    def nested(x: Any, g: Any, eps: float, y: Any) -> None:
        y[:] = lib.rms_norm(x, g, eps)

    route = routes["rms_norm"].register("nested", nested).ab({"nested": 1.0})
    assert all(np.array_equal(lib.rms_norm(X, G), RIGHT) for _ in range(3))
    assert route.versions["nested"].failures.total() == 0


def test_a_restored_version_is_compared_again(routes: Routes) -> None:
    broken = [True]

    def mended(**given: Any) -> None:
        (wrong if broken[0] else ROWS)(**given)

    route = routes["rms_norm"].register("mended", mended).ab({"mended": 1.0})
    with pytest.warns(VersionDemoted):
        lib.rms_norm(X, G)
    broken[0] = False
    route.restore("mended")
    assert np.array_equal(lib.rms_norm(X, G), RIGHT)
    assert (route.versions["mended"].compared, route.versions["mended"].demoted) == (2, "")


def test_dtypes_that_a_version_does_not_take_go_to_the_reference(routes: Routes) -> None:
    row = lib.rows["rms_norm"]
    route = routes["rms_norm"].register("half", raises, dtypes=("bf16",)).ab({"half": 1.0})
    assert np.array_equal(row(X, G), RIGHT)
    assert dict(route.versions["half"].failures) == {"unsupported": 1}
    assert route.versions["half"].implementation == Implementation("half", raises, (), ("bf16",))


def test_calls_beside_the_first_comparison_are_compared_too(routes: Routes) -> None:
    started = threading.Barrier(4, timeout=limit(5))

    def late(x: int) -> int:
        started.wait()
        return x + 1

    f = routes.register("f", "1.0", lambda x: x).register("2.0", late).ab({"2.0": 1.0})
    with warnings.catch_warnings(), ThreadPoolExecutor(4) as pool:
        warnings.simplefilter("ignore", VersionDemoted)
        assert list(pool.map(f, range(4))) == [0, 1, 2, 3]
    assert (f.versions["2.0"].compared, f.versions["2.0"].answers) == (4, 0)
