"""Random programs on arrays are right, or refused by name."""

from __future__ import annotations

import pytest

from tests.graph.compare_programs import outcome
from tests.graph.random_programs import Program


@pytest.mark.parametrize("first", [30_000, 30_003])
def test_random_programs(first: int) -> None:
    found = [outcome(seed) for seed in range(first, first + 3)]
    assert [x for x in found if x[0] == "differs"] == []
    assert sum(x[0] == "agrees" for x in found) >= 1


def test_programs_have_what_people_write() -> None:
    text = "".join(Program(seed).text() for seed in range(60))
    for part in (
        "while ",
        "break",
        "continue",
        "for ",
        "self.w[",
        "::-1",
        "::2",
        " if ",
        "np.zeros",
        "> 2] =",
        "enumerate",
    ):
        assert part in text, part


@pytest.mark.slow
@pytest.mark.parametrize("first", range(40_000, 40_200, 20))
def test_many_random_programs(first: int) -> None:
    assert [x for x in map(outcome, range(first, first + 20)) if x[0] == "differs"] == []
