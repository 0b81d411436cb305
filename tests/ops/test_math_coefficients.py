"""The coefficients of polynomials are those that their derivation gives, and their errors those that are stated."""

from __future__ import annotations

import pytest

pytest.importorskip("mpmath", reason="derives coefficients in many digits")

from tests.ops.coefficients import FITS, Fit


@pytest.mark.slow  # what coefficients are off shows in the accuracy of their functions, too
@pytest.mark.parametrize("fit", FITS, ids=lambda fit: fit.name)
def test_coefficients_are_as_derived_and_as_near_as_stated(fit: Fit) -> None:
    assert list(map(float, fit.derived())) == list(fit.coefficients)
    assert fit.bound / 2 < fit.error() <= fit.bound
