"""Functions of real numbers, by families.

Lanes compute them with polynomials of our own, since LLVM's intrinsics for them become scalar library calls. Error
bounds of rows are in units of the last place, over the whole range, with fused multiply-add and without.

Where an argument has been reduced to an interval, a polynomial interpolates the function at the Chebyshev nodes of that
interval. Each table of coefficients says which function of which variable it stands for, on which interval, and how far
it is off; ``tests/ops/coefficients.py`` derives all of them anew in 80 digits, and a test holds tables and bounds to it.
"""

from __future__ import annotations

from pypto.ops import (
    math_arc,
    math_bessel,
    math_bits,
    math_erf,
    math_exp,
    math_gamma,
    math_hyper,
    math_log,
    math_power,
    math_round,
    math_trig,
)
from pypto.ops.math_reference import erf

ROWS = (
    *math_exp.ROWS,
    *math_log.ROWS,
    *math_hyper.ROWS,
    *math_power.ROWS,
    *math_trig.ROWS,
    *math_arc.ROWS,
    *math_erf.ROWS,
    *math_gamma.ROWS,
    *math_bessel.ROWS,
    *math_round.ROWS,
    *math_bits.ROWS,
)
__all__ = ["ROWS", "erf"]
