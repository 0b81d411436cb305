"""The combinations of parameters that run: every value, or every pair of values, in few of them."""

from __future__ import annotations

import itertools
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from tests.covering import Row, covering, mark

VALUES = {"kernel": range(7), "shape": range(5), "blocks": range(4), "level": range(2)}
ROWS: list[Row] = [dict(zip(VALUES, chosen, strict=True)) for chosen in itertools.product(*VALUES.values())]


def groups(numbers: list[int], strength: int) -> set[object]:
    return {group for n in numbers for group in itertools.combinations(sorted(ROWS[n].items()), strength)}


@pytest.mark.parametrize(("strength", "most"), [(1, 7), (2, 40), (4, len(ROWS))])
def test_all_combinations_of_few_values_occur_in_few_rows(strength: int, most: int) -> None:
    chosen = covering(ROWS, strength)
    assert groups(chosen, strength) == groups(list(range(len(ROWS))), strength)
    assert len(chosen) == len(set(chosen)) <= most
    assert covering(ROWS, strength) == chosen


def test_what_runs_anyway_counts() -> None:
    quick = covering(ROWS, 1)
    slow = covering(ROWS, 2, quick)
    assert not {*quick} & {*slow}
    assert groups([*quick, *slow], 2) == groups(list(range(len(ROWS))), 2)


def test_a_test_with_fewer_parameters_than_the_strength() -> None:
    assert covering([{"n": 1}, {"n": 2}], 2) == [0, 1]
    assert covering([{}], 2) == [0]


class Item:
    """As much of a collected test as the marks need."""

    def __init__(self, params: Row, *marks: str) -> None:
        self.callspec = SimpleNamespace(params=params)
        self.marks = {*marks}

    def get_closest_marker(self, name: str) -> Any:
        return pytest.mark.covering(quick=1, slow=2).mark if name == "covering" else name in self.marks or None

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        self.marks.add(marker.name)


def test_marks() -> None:
    items: Any = [Item(row) for row in ROWS]
    mark(items)
    kinds = Counter(frozenset(item.marks) for item in items)
    assert kinds.keys() == {frozenset(), frozenset({"slow"}), frozenset({"slow", "exhaustive"})}
    assert kinds[frozenset()] == 7 and kinds[frozenset({"slow"})] < 40


def test_what_is_slow_by_hand_is_not_quick() -> None:
    items: Any = [Item({"n": n}, *(["slow"] if n < 3 else [])) for n in range(5)]
    mark(items)
    assert [item.marks for item in items] == [{"slow"}] * 3 + [set()] * 2
