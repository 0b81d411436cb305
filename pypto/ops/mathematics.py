"""Functions of real numbers, by families.

Lanes compute them with polynomials of our own, since LLVM's intrinsics for them become scalar library calls. Error
bounds of rows are in units of the last place, over the whole range, with fused multiply-add and without.

Where an argument has been reduced to an interval, a polynomial interpolates the function at the Chebyshev nodes of that
interval. Each table of coefficients says which function of which variable it stands for, on which interval, and how far
it is off; ``tests/ops/coefficients.py`` derives all of them anew in 80 digits, and a test holds tables and bounds to it.
"""

from __future__ import annotations

from pypto.ops.math import arc as math_arc
from pypto.ops.math import bessel as math_bessel
from pypto.ops.math import bits as math_bits
from pypto.ops.math import erf as math_erf
from pypto.ops.math import exp as math_exp
from pypto.ops.math import gamma as math_gamma
from pypto.ops.math import hyper as math_hyper
from pypto.ops.math import log as math_log
from pypto.ops.math import power as math_power
from pypto.ops.math import round as math_round
from pypto.ops.math import trig as math_trig
from pypto.ops.math.reference import erf

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
