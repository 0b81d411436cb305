"""The gamma function and its logarithm."""

from __future__ import annotations

import math
from dataclasses import replace

from pypto.ops.adjoint import NoAdjoint
from pypto.ops.math import reference
from pypto.ops.math.exp import bounded, exp_parts
from pypto.ops.math.log import log_of
from pypto.ops.math.pair import Pair, choose, constant, product, refined, two_sum
from pypto.ops.math.rows import function, widened
from pypto.ops.math.term import Term, clamp, polynomial, rarely, where
from pypto.ops.math.trig import half_turns, sine_of

_HALF_LOG_2PI = 0.9189385332046728, -3.8782941580672414e-17
_BY_PI = 0.3183098861837907, -1.9678676675182486e-17
# log Γ(2 + t) / (t (1 + t)) for |t| ≤ 1, Chebyshev interpolants: 6.5e-18, for float32 6.4e-11; second parts of the first three.
_SMALL = (
    0.42278433509846713,
    -0.10031730167435392,
    0.03296500062115691,
    -0.012384192193371805,
    0.004998641164627129,
    -0.0021081308339216706,
    0.0009153769240386907,
    -0.0004057073983775151,
    0.0001825526153982638,
    -8.309511477709561e-05,
    3.816907658276081e-05,
    -1.7661767658452517e-05,
    8.221234475942905e-06,
    -3.846858091533014e-06,
    1.8113906873056685e-06,
    -8.54560908975883e-07,
    3.958940459367468e-07,
    -1.878442644643758e-07,
    1.042041826608264e-07,
    -4.9827532071170234e-08,
    5.910565853507869e-09,
    -2.7296358592514825e-09,
    1.6194359237484174e-08,
    -7.842557720538356e-09,
    -4.312495770350818e-09,
    2.0986002157033107e-09,
    1.5746606982777302e-09,
    -7.639292345836201e-10,
)
_SMALL_LOW = (2.1791560748034706e-18, -2.2741900369282615e-18, -3.110936384128749e-18)
_SMALL_SHORT = (
    0.42278433506504504,
    -0.10031730165840978,
    0.032965004891564564,
    -0.012384194230569828,
    0.004998552300004513,
    -0.002108088442672437,
    0.0009160753652910803,
    -0.0004060405522927123,
    0.0001798884008053009,
    -8.182445119199867e-05,
    4.358498803212707e-05,
    -2.0244296438057547e-05,
    2.3377832871042997e-06,
    -1.0423813294330275e-06,
    4.848753396804804e-06,
    -2.301277182486616e-06,
)
# (log Γ(x) - (x - ½) log x + x - log √2π) x in 1/x² for x ≥ 3, Chebyshev interpolants: 6.9e-18 of log Γ, for float32 4.8e-13.
_LARGE = (
    0.0833333333333333,
    -0.0027777777777198706,
    0.0007936507724234067,
    -0.0005952350113118343,
    0.0008415163778136668,
    -0.0019068288114279443,
    0.006092364447572614,
    -0.023023388614372777,
    0.0813307211132798,
    -0.2070933006751568,
    0.26180852870866445,
)
_LARGE_SHORT = (
    0.08333333333139985,
    -0.0027777765182039507,
    0.0007935148822728759,
    -0.0005897124887243115,
    0.0007344743117052241,
    -0.0008228200612568517,
)


def log_gamma(size: Term, first: Term) -> Pair:
    """log Γ of a size from 1 on, or of 1 more where it is below (`first`): a polynomial up to 3, then Stirling's series."""
    less = where(first, size, size - 1.0)
    t = less - 1.0
    small = product(less, t) * refined(t, _SMALL_SHORT if t.short else _SMALL, _SMALL_LOW)
    inverse = 1.0 / where(size < 3.0, 3.0, size)
    log = log_of(Pair(size))
    tail = inverse * polynomial(inverse * inverse, _LARGE_SHORT if t.short else _LARGE)
    large = log * two_sum(size, -0.5) + -size + constant(size, _HALF_LOG_2PI) + tail
    far = size > 2.0**500  # the products above would overflow
    return choose(size < 3.0, small, choose(far, Pair(size * (log.hi - 1.0)), large))


def factor(x: Term, size: Term, first: Term) -> tuple[Term, Pair]:
    """Whether Γ(x) is found through Γ(-x) Γ(x) = -π / (x sin πx), and what to divide by after exp(±log Γ)."""
    mirrored = x < -(2.0**-60)
    sine = Pair(sine_of(*half_turns(size))) * constant(x, _BY_PI) * -where(first, 1.0, clamp(size, 0.0, 2.0**60))
    return mirrored, choose(mirrored, sine, Pair(where(first, x, 1.0)))


def tgamma(x: Term) -> Term:
    size = abs(x)
    first = size < 1.0
    log = log_gamma(size, first)
    mirrored, below = factor(x, size, first)
    n, q = exp_parts(bounded(choose(mirrored, -log, log)))
    result = choose(abs(below.hi) < 1e-300, Pair(1.0 / below.hi), (q + 1.0) / below).value.scaled(n)
    return where((x < 0.0) & x.round().same(x), math.nan, result)


def lgamma(x: Term) -> Term:
    """Near its zeros, which lie below 0, float32 needs all digits of the parts."""
    usual, negative = log_size(x), x < 0.0
    if not x.short:
        return usual
    (result,) = rarely(negative, [usual], lambda: [where(negative, log_size(replace(x, short=False)), usual)])
    return result


def log_size(x: Term) -> Term:
    """log |Γ(x)|."""
    size = abs(x)
    first = size < 1.0
    log = log_gamma(size, first)
    mirrored, below = factor(x, size, first)
    below = choose(below.hi < 0.0, -below, below)
    result = where(size > 2.0**500, log.hi, (choose(mirrored, -log, log) - log_of(below)).value)
    return where(below.hi.same(0.0) | size.same(math.inf), math.inf, result)


ROWS = (
    function(
        "tgamma",
        reference.tgamma,
        widened(tgamma),
        "Gamma function: NaN at negative integers.",
        (0.6, 2.0),
        (-5.0, 40.0),
        public=False,
        adjoint=NoAdjoint("its derivative needs the digamma function, which is no op"),
    ),
    function(
        "lgamma",
        reference.lgamma,
        widened(lgamma),
        "Logarithm of the magnitude of the gamma function.",
        (0.6, 2.0),
        (0.0, 100.0),
        public=False,
        adjoint=NoAdjoint("its derivative needs the digamma function, which is no op"),
    ),
)
