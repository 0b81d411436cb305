"""Random kernels of products on both chips; `random_products` tries as many as one likes, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends_ascend.random_products import Case, compare, differing, drawn
from tests.backends_ascend.units import CHIPS
from tests.sim.device import needs_compiler

pytestmark = needs_compiler


@pytest.mark.slow
@pytest.mark.parametrize("chip", CHIPS)
def test_random_products(chip: str) -> None:
    cases = drawn(24, 0)
    failed = differing(cases, chip)
    assert not failed, "\n\n".join(f"{case}\n{words}" for case, words in failed)
    assert not any(case.refused for case in cases)


def test_what_is_drawn() -> None:
    """Chains, transposed results, sums, float8 and numbers that are NaN are among few cases."""
    cases = drawn(24, 0)
    texts = "\n".join(case.text for case in cases)
    assert all(word in texts for word in ("pto.trans(t", "propagate_nan=True", "for k in range", ".to(pto.float16)"))
    assert any(np.isnan(case.number) and "propagate_nan" in case.text for case in cases)
    assert {x.dtype.name for case in cases for x in case.inputs} >= {"float8_e4m3fn", "float8_e5m2", "float32"}


def test_results_that_differ_are_found() -> None:
    class Wrong(Case):
        def launch(self) -> list[np.ndarray]:  # type: ignore[type-arg]
            return [x + 1 for x in self.wanted]

    case = drawn(1, 0)[0]
    wrong = Wrong("wrong", case.dice, case.size, wanted=case.wanted)
    with pytest.raises(AssertionError):
        compare(wrong)
