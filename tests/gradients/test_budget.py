"""The memory of values that loops save for the backward."""

from __future__ import annotations

import numpy as np
import pytest

import pypto as pto
from pypto.errors.gradients import NoGradient, WrongGradient
from tests.gradients.kernels import CASES


def test_saved_values_keep_to_a_budget() -> None:
    case = CASES["causal attention"]
    rng = np.random.default_rng(2)
    inputs = {n: rng.normal(size=shape).astype(np.float32) for n, shape in case.inputs.items()}
    outputs = {n: np.zeros(shape, np.float32) for n, shape in case.outputs.items()}
    above = {f"d_{n}": rng.normal(size=shape).astype(np.float32) for n, shape in case.outputs.items()}
    arguments = {**inputs, **outputs, **case.others}
    free = pto.adjoint(case.kernel, ["q"])
    schedule = free.schedule(case.grid, **arguments)
    blocks = schedule.steps[0].grid[0]
    least = sum(slot.buffer.nbytes for slot in schedule.arena.slots) // blocks
    tight = pto.adjoint(case.kernel, ["q"], budget=least)
    assert blocks > 1 and tight.schedule(case.grid, **arguments).steps[0].grid[0] == 1
    found = [np.full(case.inputs["q"], np.nan, np.float32) for _ in range(2)]
    for back, d_q in zip((free, tight), found, strict=True):
        back[case.grid](**arguments, **above, d_q=d_q)
    np.testing.assert_array_equal(*found)


def test_what_does_not_fit_is_refused_with_its_line() -> None:
    case = CASES["causal attention"]
    arrays = [np.zeros(shape, np.float32) for shape in (*case.inputs.values(), *case.outputs.values())]
    refused = pto.adjoint(case.kernel, ["q"], budget=1)
    with pytest.raises(NoGradient, match=r"to save `m` for each trip takes [\d,]+ bytes, and the budget is 1") as error:
        refused.derive(case.grid, *arrays, **case.others)
        refused.explain(case.grid, *arrays, **case.others)
    assert "pass `budget=" in str(error.value) and error.value.loc.line > 1


@pytest.mark.parametrize("budget", [-1, 2.5, "much"])
def test_a_budget_is_a_number_of_bytes(budget: object) -> None:
    with pytest.raises(WrongGradient, match="`budget` is"):
        pto.adjoint(CASES["softmax"].kernel, ["x"], budget=budget)  # type: ignore[arg-type]
