"""Functions of real numbers, by families.

Lanes compute them with polynomials of our own, since LLVM's intrinsics for them become scalar library calls. Error
bounds are in units of the last place against float64, over the whole range.
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

ROWS = (*math_exp.ROWS, *math_log.ROWS, *math_hyper.ROWS, *math_power.ROWS, *math_trig.ROWS, *math_arc.ROWS, *math_erf.ROWS, *math_gamma.ROWS,
        *math_bessel.ROWS, *math_round.ROWS, *math_bits.ROWS)
__all__ = ["ROWS", "erf"]
