"""The order in which configurations are tried, and the local search of large spaces."""

from __future__ import annotations

import math

import pytest

from pypto.tuning import Config, Space
from pypto.tuning.order import Neighbours, by_number, points, spread
from pypto.tuning.search import Outcome, Search
from tests.tuning.clocks import FakeClock, FakeTrial

SPACE = Space(BM=[8, 16, 32, 64, 128, 256], BN=[8, 16, 32, 64, 128, 256], BK=[16, 32, 64, 128], U=[1, 2, 4])


def milliseconds(config: Config) -> float:
    """A valley that lies askew: what counts is the product of two sizes, and a little how large each one is."""
    m, n, k, u = (math.log2(config.kwargs[name]) for name in ("BM", "BN", "BK", "U"))
    return 1 + 0.4 * (m + n - 11) ** 2 + 0.05 * (m - n - 1) ** 2 + 0.1 * (k - 6) ** 2 + 0.05 * (u - 1) ** 2


def test_a_local_search_finds_the_best_of_a_large_space() -> None:
    """With a tenth of the trials."""
    configs, clock = list(SPACE), FakeClock()
    found = points([c.kwargs for c in configs])
    order = spread(found)
    outcomes = [Outcome(configs[n]) for n in order]
    search = Search(outcomes, lambda c: FakeTrial(clock, milliseconds(c)), 60, lambda outcome: None, clock,
                    points=[found[n] for n in order])  # fmt: skip
    best = search.run()
    assert best is not None
    assert milliseconds(best.config) == min(map(milliseconds, configs))
    tried = sum(o.status == "ok" for o in outcomes)
    assert len(configs) == 432
    assert tried < 110
    assert {o.reason for o in outcomes if o.status == "untried"} == {"no neighbour of the fastest is faster"}


def test_a_local_search_ends_with_its_time() -> None:
    configs, clock = list(SPACE), FakeClock()
    found = points([c.kwargs for c in configs])
    outcomes = [Outcome(c) for c in configs]
    search = Search(outcomes, lambda c: FakeTrial(clock, 10), 0.5, lambda outcome: None, clock, points=found)
    assert search.run() is not None
    assert sum(o.status == "ok" for o in outcomes) == 26  # of 20 ms each, the last one begun in time
    assert any(o.reason == "the time was over" for o in outcomes)
    assert all(o.reason for o in outcomes if o.status == "untried")


@pytest.mark.parametrize("tried", [4, 9, 27])
def test_the_first_few_lie_all_over_the_space(tried: int) -> None:
    """The largest distance of any point to a tried one is far below that of the order in which they are listed."""
    configs = list(SPACE)
    found = points([c.kwargs for c in configs])
    order = spread(found)
    assert sorted(order) == list(range(len(configs)))

    def gap(chosen: list[int]) -> float:
        return max(min(math.dist(found[n], found[m]) for m in chosen) for n in range(len(found)))

    assert gap(order[:tried]) < 0.8 * gap(list(range(tried)))


def test_values_have_the_order_of_their_size() -> None:
    rows = [{"B": 256, "KIND": "x", "SAME": 1}, {"B": 32, "KIND": "y", "SAME": 1}, {"B": 64, "KIND": "x", "SAME": 1}]
    assert points(rows) == [(2, 0), (0, 1), (1, 0)]
    assert points([{"B": 1}]) == [()]
    assert points([]) == []
    assert spread([()]) == [0]


def test_neighbours_lie_one_step_away_and_behind_gaps() -> None:
    near = Neighbours.of([(0, 0), (2, 0), (2, 1), (1, 1), (0, 2)])
    assert near.adjacent((0, 0)) == [1, 4]
    assert near.adjacent((2, 0)) == [0, 2]
    assert near.across((2, 0)) == [3]
    assert Neighbours.of([()]).adjacent(()) == []


def test_numbers_in_reverse() -> None:
    assert by_number(6) == [0, 4, 2, 1, 5, 3]
    assert by_number(1) == [0]
