"""The error function and its relatives."""

from __future__ import annotations

import math

from pypto.ops import adjoint_math
from pypto.ops import math_reference as reference
from pypto.ops.math_exp import exp, exp2_reduced, exp_parts
from pypto.ops.math_log import log
from pypto.ops.math_pair import Pair, choose, constant, product, two_sum
from pypto.ops.math_rows import function, native, widened
from pypto.ops.math_term import Term, clamp, copysign, muladd, polynomial, where

# erf(x) / x - 1 in x², Chebyshev interpolants: x² ≤ 0.85 to 4.3e-10, x² ≤ 1 to 1.3e-17.
_SMALL = {
    "f32": (
        0.12837916667268318,
        -0.3761263402339505,
        0.1128369935115317,
        -0.026859588116109587,
        0.005201456326433703,
        -0.0008147081117456024,
        8.387074556861946e-05,
    ),
    "f64": (
        0.12837916709551258,
        -0.37612638903183754,
        0.11283791670955126,
        -0.026866170645131218,
        0.005223977625441674,
        -0.0008548327023403001,
        0.00012055332978879483,
        -1.4925650236967501e-05,
        1.6462110782018636e-06,
        -1.636576864883207e-07,
        1.4806027146128752e-08,
        -1.2277734486795524e-09,
        9.323723518153027e-11,
        -6.1967364287877e-12,
        2.8067128195611264e-13,
    ),
}
# log2(erfc(x)) in x from 0.921875 to 4, Chebyshev interpolant to 2.7e-8 (rounding is less where no digits cancel at the left).
_LARGE_SHORT = (
    0.00046250154034679973,
    -1.6305888742742194,
    -0.9115147568917229,
    -0.15883342648138818,
    0.03813217864357649,
    -0.006872455325211579,
    0.0008623707336915837,
    -6.662116989997199e-05,
    2.3711716134670096e-06,
)
# For float64 -log(erfc(x)) - x² in (x - 3.75) / 2.25 from 1.5 to 6, Chebyshev interpolant to 1.5e-16.
_LARGE = (
    1.9269627413500123,
    0.5634091385728316,
    -0.1500204645780544,
    0.05053920761251706,
    -0.018208079549691142,
    0.006651564475038584,
    -0.0024010896979428397,
    0.0008416387140424947,
    -0.0002816859174245102,
    8.799813985378076e-05,
    -2.4623094757640097e-05,
    5.555447851683888e-06,
    -5.847522139922481e-07,
    -3.4341032837981233e-07,
    3.2315455641233023e-07,
    -1.841329939552072e-07,
    8.350068145305193e-08,
    -2.8608050252979092e-08,
    9.691434720499142e-09,
    -5.810448539454107e-09,
    1.7477180867994509e-09,
    8.356037013099997e-10,
    -4.668479735502663e-10,
)
# For float64 erf(x) - 0.888671875 in x - 1.125 between 0.75 and 1.5, Chebyshev interpolant to 1.1e-17.
_MIDDLE = (
    -0.0002836432982922349,
    0.3182739585007693,
    -0.35805820331336635,
    0.1624523329847712,
    0.027973297133990868,
    -0.06132368360619423,
    0.015536835442161603,
    0.009606894255920281,
    -0.0060312606722831875,
    -0.0003601928317666998,
    0.001153264195030903,
    -0.00017694228107031622,
    -0.0001415324216671789,
    4.934756514658036e-05,
    1.0610407952500252e-05,
    -7.253151177797486e-06,
)

# (1 + 2 x) exp(x²) erfc(x) in t = (x - 4) / (x + 4), Chebyshev interpolants: 4.8e-17, for float32 2.2e-10.
_SCALED = (
    1.2329951186255526,
    -0.1396211168405625,
    0.015379652102610162,
    0.0680970542546862,
    -0.10103906603585294,
    0.09373283499865172,
    -0.06633036582050367,
    0.0371675155318432,
    -0.01619773397992426,
    0.005031970032548695,
    -0.0007577737141838885,
    -0.00019925700412184815,
    0.0001506231178516207,
    -2.439811794207995e-05,
    -1.1225140354449658e-05,
    5.707239573693257e-06,
    2.980596055322769e-07,
    -8.218020654813044e-07,
    7.111912428010423e-08,
    1.0683442926744586e-07,
    -1.6357383982124768e-08,
    -1.2544825403855518e-08,
    1.5712153638319064e-09,
    9.655408225482863e-10,
)
_SCALED_SHORT = (
    1.2329951186255526,
    -0.13962111376213265,
    0.015379652514656337,
    0.06809693885725905,
    -0.1010390813977985,
    0.09373409380727189,
    -0.06633020048068222,
    0.037161413362401655,
    -0.016198516244698414,
    0.005047344723414027,
    -0.0007558842570188051,
    -0.00022049658164202712,
    0.0001482094691445721,
    -8.59703641317568e-06,
    -9.714709731988143e-06,
)
# First guesses at the y with erfc(y) = c, of w = -log(c (2 - c)), Chebyshev interpolants. w ≤ 5: y / (1 - c) in w to 6e-7;
# w ≤ 38 and w ≤ 746: y / √w in 1 / √w to 4e-8 and 2e-8.
_GUESS_NEAR = (
    0.8862263780403664,
    0.23202778302084298,
    0.011487865993264342,
    -0.002230183103392054,
    -0.00021839925164218805,
    8.981545378348538e-05,
    -9.406510159157402e-06,
    3.561808433218279e-07,
)
_GUESS_MIDDLE = (
    0.9999848909264262,
    -0.02118692556531456,
    -1.254374638451831,
    4.68561273208148,
    -11.433623544619346,
    20.104016723837383,
    -20.807304171127775,
    9.062965758344664,
)
_GUESS_FAR = (
    1.0000778517380142,
    -0.013766128170230473,
    -1.5676168759403615,
    9.657302744618343,
    -54.29743474377238,
    235.42789175804407,
    -617.8080567378942,
    718.2183204705923,
)
_ROOT_HALF = 0.7071067811865476, -4.833646656726457e-17


def erf(x: Term) -> Term:
    """x + x · P(x²) near 0, far out 1 - erfc(|x|) with erfc by its logarithm; float64 has a polynomial between them."""
    size = abs(x)
    small = muladd(size, polynomial(size * size, _SMALL[x.dtype.mnemonic]), size)
    if x.is_double:
        small = where(size < 0.75, small, polynomial(size - 1.125, _MIDDLE) + 0.888671875)
        result = where(size < 1.5, small, 1.0 - large_erfc(where(size > 6.0, 6.0, size)))
    else:
        result = where(size < 0.921875, small, 1.0 - large_erfc_short(where(size > 4.0, 4.0, size)))
    return copysign(result, x)


def large_erfc_short(x: Term) -> Term:
    exponent = polynomial(x, _LARGE_SHORT)
    n, rest = exponent.split_integer()
    return exp2_reduced(rest).scaled(n)


def large_erfc(x: Term) -> Term:
    """exp(-x² - rest), with what rounding takes from the exponent."""
    rest, square = polynomial((x - 3.75) * (1 / 2.25), _LARGE), product(x, x)
    assert square.lo is not None
    total = square.hi + rest
    value = exp(-total)
    return value - value * (rest - (total - square.hi) + square.lo)


def scaled(x: Pair) -> Pair:
    """exp(x²) erfc(x) for x from 0 (Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x²) erfc x", 1981)."""
    t = (x.hi - 4.0) / (x.hi + 4.0)
    top = polynomial(t, _SCALED_SHORT if t.short else _SCALED) * 0.5  # halves, so that no x overflows
    return Pair(top) / two_sum(x.hi, 0.5)


def small_erf(x: Term) -> Term:
    """erf(x) - x for |x| ≤ 1."""
    return x * polynomial(x * x, _SMALL["f64"])


def near_erfc(x: Pair) -> Pair:
    """1 - erf(x) for |x| ≤ ½, where the quotient in `scaled` would cost digits."""
    tail = small_erf(x.hi)
    return two_sum(-x.hi, 1.0) - Pair(tail if x.lo is None else tail + x.lo * (2 / math.sqrt(math.pi)))


def erfc_of(x: Pair) -> Term:
    """exp(-x²) times `scaled`, and 2 minus that below 0."""
    sign = x.hi < 0.0
    size = choose(sign, -x, x)
    size = Pair(clamp(size.hi, 0.0, 28.0), size.lo)
    n, q = exp_parts(-(size * size))
    result = ((q + 1.0) * scaled(size)).value.scaled(n)
    return result_near(size, near_erfc(x).value, where(sign, 2.0 - result, result))


def result_near(size: Pair, near: Term, far: Term) -> Term:
    return far if size.hi.short else where(size.hi < 0.5, near, far)


def erfc(x: Term) -> Term:
    return erfc_of(Pair(x))


def normcdf(x: Term) -> Term:
    return erfc_of(constant(x, _ROOT_HALF) * clamp(-x, -60.0, 60.0)) * 0.5


def erfcx(x: Term) -> Term:
    size = abs(x)
    result = where(size > 2.0**300, 1 / math.sqrt(math.pi) / size, scaled(Pair(clamp(size, 0.0, 2.0**300))).value)
    reach = clamp(size, 0.0, 28.0)
    n, q = exp_parts(product(reach, reach))
    far = where(x < 0.0, (q + 1.0).value.scaled(n + 1.0) - result, result)
    return result_near(Pair(size), ((q + 1.0) * near_erfc(Pair(x))).value, far)


def inverse(x: Term, c: Term) -> Term:
    """The y from 0 with erf(y) = x and erfc(y) = c, where x + c is 1: a guess and one step of Halley's method.

    Multiplied by exp(y²), the step is right for the least c.
    """
    w = -log(c * (2.0 - c))
    root = w.sqrt()
    part = 1.0 / where(w > 5.0, root, 1.0)
    y = where(w > 38.0, polynomial(part, _GUESS_FAR), polynomial(part, _GUESS_MIDDLE)) * root
    y = where(w > 5.0, y, polynomial(w, _GUESS_NEAR) * x)
    n, q = exp_parts(product(y, y))
    growth = (q + 1.0).value
    below = (y - x + small_erf(y)) * growth.scaled(n)
    step = where(x < 0.8, below, c.scaled(n) * growth - scaled(Pair(y)).value) * (math.sqrt(math.pi) / 2)
    return where(c > 0.0, y - step / muladd(y, step, 1.0), where(c.same(0.0), c.number(math.inf), math.nan))


def erfinv(x: Term) -> Term:
    size = abs(x)
    return copysign(inverse(size, 1.0 - size), x)


def erfcinv(x: Term) -> Term:
    small = x < 1.0
    c = where(small, x, 2.0 - x)
    y = inverse(1.0 - c, c)
    return where(small, y, -y)


def normcdfinv(x: Term) -> Term:
    y = erfcinv(x + x)
    return where(abs(y) < math.inf, (constant(x, _ROOT_HALF) * y).value, y) * -2.0


ROWS = (
    function(
        "erf",
        reference.erf,
        native(erf),
        "Error function, 2/√π · ∫₀ˣ exp(-t²) dt.",
        (1.5, 1.0),
        (-5.0, 5.0),
        adjoint=adjoint_math.erf,
    ),
    function(
        "erfc",
        reference.erfc,
        widened(erfc),
        "1 - erf(x), with all its digits where that is small.",
        (0.6, 2.0),
        (-5.0, 28.0),
        adjoint=adjoint_math.erfc,
    ),
    function(
        "erfcx",
        reference.erfcx,
        widened(erfcx),
        "exp(x²) · erfc(x), which neither overflows nor vanishes for large x.",
        (0.6, 2.0),
        (-5.0, 100.0),
        public=False,
        adjoint=adjoint_math.erfcx,
    ),
    function(
        "erfinv",
        reference.erfinv,
        widened(erfinv),
        "Inverse of erf: NaN beyond ±1.",
        (0.6, 2.0),
        (-1.0, 1.0),
        public=False,
        adjoint=adjoint_math.erfinv,
    ),
    function(
        "erfcinv",
        reference.erfcinv,
        widened(erfcinv),
        "Inverse of erfc: NaN outside of 0 to 2.",
        (0.6, 2.0),
        (0.0, 2.0),
        public=False,
        adjoint=adjoint_math.erfcinv,
    ),
    function(
        "normcdf",
        reference.normcdf,
        widened(normcdf),
        "Probability that a standard normal variable is at most x.",
        (0.6, 2.5),
        (-38.0, 10.0),
        public=False,
        adjoint=adjoint_math.normcdf,
    ),
    function(
        "normcdfinv",
        reference.normcdfinv,
        widened(normcdfinv),
        "Inverse of normcdf: NaN outside of 0 to 1.",
        (0.6, 2.5),
        (0.0, 1.0),
        public=False,
        adjoint=adjoint_math.normcdfinv,
    ),
)
