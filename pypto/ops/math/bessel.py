"""Bessel functions of order 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from pypto.ir.core import Attr
from pypto.ir.types import Type, float64
from pypto.ops import adjoint_math
from pypto.ops.adjoint import AdjointRule
from pypto.ops.math import reference
from pypto.ops.math.exp import exp_parts
from pypto.ops.math.log import log
from pypto.ops.math.pair import Pair, product
from pypto.ops.math.rows import Array, function, widened
from pypto.ops.math.term import Term, clamp, polynomial, where
from pypto.ops.math.trig import quadrant, sine_of
from pypto.ops.row import OpRow
from pypto.ops.rules import same_kind, tile

# In t = x²/32 - 1 for x ≤ 8, Chebyshev interpolants to 1.7e-16: J0, J1 / x, Y0 - 2/π log(x) J0, (Y1 - 2/π (log(x) J1 - 1/x)) / x.
_J0 = (
    0.045829664859813754,
    0.9303012472958572,
    -0.6484692830871821,
    -0.8080888076696872,
    1.0383794611436883,
    -0.507468045847101,
    0.14598884856785535,
    -0.028472718610877044,
    0.00405807898810883,
    -0.0004435459224433769,
    3.8473200057927604e-05,
    -2.717749207626176e-06,
    1.595584886623164e-07,
    -7.91533375368561e-09,
    3.3794624520643e-10,
    -1.2430166156640003e-11,
)
_J1 = (
    -0.05814382795599107,
    0.08105866038589796,
    0.15151665143806636,
    -0.2595948652859303,
    0.15858376432721838,
    -0.05474581821284725,
    0.012456814392263375,
    -0.0020290394945704573,
    0.00024949458135972767,
    -2.404574866003479e-05,
    1.8684526037182737e-06,
    -1.196708182234105e-07,
    6.43119017895857e-09,
    -2.943016833829492e-10,
    1.1658971884036515e-11,
    -4.0037632815796753e-13,
)
_R0 = (
    -0.382250654459425,
    -0.8284358903604587,
    1.6470964788745466,
    0.14412632369302475,
    -1.0775477338215995,
    0.6721770783431679,
    -0.2189574709617164,
    0.046367047681375125,
    -0.007025741057270546,
    0.00080615860596164,
    -7.279541882544516e-05,
    5.321318810394401e-06,
    -3.218507833909702e-07,
    1.6390875017619395e-08,
    -7.130468040126112e-10,
    2.6926937109987802e-11,
    -8.838468394309022e-13,
)
_R1 = (
    0.07075985882118005,
    -0.24337743079193114,
    0.023367571720993584,
    0.23507209206669755,
    -0.19639839859930425,
    0.07854786922242532,
    -0.019628756833099427,
    0.0034224907399188495,
    -0.00044381734351148726,
    4.4674330126463756e-05,
    -3.6009998743823114e-06,
    2.3804930420500538e-07,
    -1.3153322522176987e-08,
    6.169688029976363e-10,
    -2.4887527719058385e-11,
    8.760000901470383e-13,
    -2.6946935633741497e-14,
)
# P and Q x of Hankel's √(2/πx) (P cos(x - φ) - Q sin(x - φ)) in 1/x² for x ≥ 8, Chebyshev interpolants to 4.8e-16 (P to 2.3e-16).
_P0 = (
    0.9999999999999999,
    -0.07031249999782471,
    0.11215209392279087,
    -0.5724955142500175,
    6.070820155262837,
    -108.95693701450713,
    2808.90691854148,
    -84070.89467532394,
    2272651.6918142014,
    -43058960.89560831,
    398039613.324095,
)
_Q0 = (
    -0.12499999999999324,
    0.07324218741311132,
    -0.22710781365830865,
    1.727566090738124,
    -24.30806989865217,
    531.8090723449582,
    -14810.031160347964,
    402245.2173353487,
    -7983858.807415954,
    78553803.86834617,
)
_P1 = (
    1.0000000000000002,
    0.11718749999768498,
    -0.14419555058937394,
    0.6765863041122046,
    -6.880487522781328,
    120.47080704596246,
    -3058.816313084999,
    90754.02044829506,
    -2441905.293432104,
    46151076.131118365,
    -426028947.19443643,
)
_Q1 = (
    0.3749999999999928,
    -0.10253906240741398,
    0.27757624617690296,
    -1.9933598005286575,
    27.171674815667334,
    -583.0658780590205,
    16053.528626099824,
    -433364.58534983796,
    8574355.519904127,
    -84219834.59716503,
)
# exp(-x) √x I0 and I1 in t = 16/x - 1 for x ≥ 8, Chebyshev interpolants to 2.7e-17.
_I0 = (
    0.4021765094450081,
    0.0033605519836678913,
    0.00013621607438951463,
    1.114303378845176e-05,
    1.4838476780922646e-06,
    2.9735992084667734e-07,
    8.872014585661555e-08,
    3.932512321137824e-08,
    2.156780676115673e-08,
    7.559364098665437e-09,
    -6.856484545962442e-09,
    -1.3427511481900905e-08,
    -5.0175940345046716e-09,
    7.600254486433509e-09,
    6.522264862032271e-09,
    -3.5862834111582305e-09,
    -4.5305710768621196e-09,
    1.6084886155781772e-09,
    2.163681278413876e-09,
    -6.327909921997027e-10,
    -6.494591114401118e-10,
    1.7698085539456536e-10,
    9.114760157514253e-11,
    -2.4421972688131832e-11,
)
_I1 = (
    0.38939845902587233,
    -0.009749577193235765,
    -0.00021923576383137776,
    -1.5038547198221758e-05,
    -1.8349102493990178e-06,
    -3.4838563464253135e-07,
    -1.0001075046243961e-07,
    -4.3128498031006734e-08,
    -2.3394122958362557e-08,
    -8.432168972932417e-09,
    6.84757829926934e-09,
    1.4051746928735543e-08,
    5.5720183980930355e-09,
    -7.687251308765992e-09,
    -6.9444186339873875e-09,
    3.501765193290176e-09,
    4.763780078020254e-09,
    -1.5218214060680734e-09,
    -2.2624401109204446e-09,
    5.870664618471487e-10,
    6.7727478454462e-10,
    -1.6283264322621244e-10,
    -9.491890392992048e-11,
    2.2421768596847442e-11,
)


def far(x: Term, order: int) -> tuple[Term, Term]:
    """J and Y for x ≥ 8, times √(πx); near their zeros float32 needs all digits of the sines."""
    x = replace(x, short=False)
    k, r = quadrant(x)
    s, c = sine_of(k, r), sine_of(k + 1, r)
    inverse = 1.0 / x
    z = inverse * inverse
    p, q = polynomial(z, (_P0, _P1)[order]), polynomial(z, (_Q0, _Q1)[order]) * inverse
    plus, minus = s + c, s - c
    return (p * plus - q * minus, p * minus + q * plus) if order == 0 else (p * minus + q * plus, q * minus - p * plus)


def series(x: Term, order: int, coefficients: Sequence[float]) -> Term:
    """A polynomial in x², times x for order 1."""
    value = polynomial(x * x * (1 / 32) - 1.0, coefficients)
    return value * x if order else value


def first_kind(order: int) -> Callable[[Term], Term]:
    def rule(x: Term) -> Term:
        size = abs(x)
        small, large = clamp(size, 0.0, 8.0), where(size < 8.0, 8.0, size)
        value = where(
            size < 8.0,
            series(small, order, (_J0, _J1)[order]),
            far(large, order)[0] / (large.sqrt() * math.sqrt(math.pi)),
        )
        value = where(size.same(math.inf), 0.0, value)
        return where(x < 0.0, -value, value) if order else value

    return rule


def second_kind(order: int) -> Callable[[Term], Term]:
    def rule(x: Term) -> Term:
        small, large = clamp(x, 0.0, 8.0), where(x < 8.0, 8.0, x)
        inside = log(small) * series(small, order, (_J0, _J1)[order])
        inside = (inside - 1.0 / small if order else inside) * (2 / math.pi) + series(small, order, (_R0, _R1)[order])
        value = where(x < 8.0, inside, far(large, order)[1] / (large.sqrt() * math.sqrt(math.pi)))
        value = where(x.same(0.0), -math.inf, where(x.same(math.inf), 0.0, value))
        return where(x >= 0.0, value, math.nan)

    return rule


def modified(order: int) -> Callable[[Term], Term]:
    """The power series up to 8, exp(x) / √x times a polynomial beyond."""
    series = [0.25**k / math.factorial(k) / math.factorial(k + order) / 2**order for k in range(23)]

    def rule(x: Term) -> Term:
        size = abs(x)
        small, large = clamp(size, 0.0, 8.0), clamp(size, 8.0, 800.0)
        square = product(small, small)
        inside = polynomial(square.hi, series, 64.0)
        if square.lo:  # the slope of the series' logarithm, nearly
            slope = 0.5 / ((square.hi + (order + 1) ** 2).sqrt() + (order + 1))
            inside = inside + inside * slope * square.lo
        n, q = exp_parts(Pair(large))
        outside = ((q + 1.0).value * (polynomial(16.0 / large - 1.0, (_I0, _I1)[order]) / large.sqrt())).scaled(n)
        value = where(size < 8.0, inside * small if order else inside, outside)
        return where(x < 0.0, -value, value) if order else value

    return rule


def no_float64(types: Sequence[Type], attrs: Mapping[str, Attr]) -> tuple[Type, ...]:
    """Near their zeros the functions below would have wrong digits in float64."""
    (result,) = same_kind(("float",))(types, attrs)
    if tile(result).dtype == float64:
        raise TypeError("takes float32 and 16-bit floats, not f64; cast to pto.float32 first")
    return (result,)


def oscillating(
    name: str, fn: Callable[[Array], Array], rule: Callable[[Term], Term], doc: str, adjoint: AdjointRule
) -> OpRow:
    row = function(
        name,
        fn,
        widened(rule),
        doc,
        (0.6, 0.6),
        (0.0, 20.0),
        infer=no_float64,
        dtypes="int",
        public=False,
        adjoint=adjoint,
    )
    return replace(row, ulp=MappingProxyType({"f32": 0.6}))


ROWS = (
    *(
        oscillating(
            f"j{n}",
            reference.bessel_j(n),
            first_kind(n),
            f"Bessel function of the first kind, order {n}.",
            (adjoint_math.j0, adjoint_math.j1)[n],
        )
        for n in (0, 1)
    ),
    *(
        oscillating(
            f"y{n}",
            reference.bessel_y(n),
            second_kind(n),
            f"Bessel function of the second kind, order {n}: NaN below 0.",
            (adjoint_math.y0, adjoint_math.y1)[n],
        )
        for n in (0, 1)
    ),
    *(
        function(
            f"cyl_bessel_i{n}",
            reference.bessel_i(n),
            widened(modified(n)),
            f"Modified Bessel function of the first kind, order {n}.",
            (0.6, 3.5),
            (-50.0, 50.0),
            public=False,
            adjoint=(adjoint_math.cyl_bessel_i0, adjoint_math.cyl_bessel_i1)[n],
        )
        for n in (0, 1)
    ),
)
