"""What can be wrong with the gradient of a kernel. All of it is found before any memory is written."""

from __future__ import annotations

from pypto.errors.base import Diagnostic
from pypto.errors.examples import programs

_HEAD = """
import pypto as pto

@pto.jit
def f(x, y):
    y[:] = {}

back = pto.adjoint(f, wrt=["x"])
x, y, g, d = np.ones((4, 8), np.float32)
"""


class NoGradient(Diagnostic, TypeError):
    code = "E361"
    template = "{kernel} cannot be differentiated here: {problem}"
    hint = "{way}"
    example = programs(
        _HEAD.format("pto.cast(pto.bitcast(x[:], pto.int32), pto.float32)") + "back[1](x, y, d_y=g, d_x=d)",
        _HEAD.format("x[:] * x[:]") + "back[1](x, y, d_y=g, d_x=d)",
    )


class WrongGradient(Diagnostic, TypeError):
    code = "E362"
    template = "the gradient of {kernel}: {problem}"
    hint = "{way}"
    example = programs(
        _HEAD.format("x[:] * x[:]") + "back[1](x, y, d_x=d)",
        _HEAD.format("x[:] * x[:]") + "back[1](x, y, d_y=g, d_x=d)",
    )


_BY_HAND = """
import pypto as pto

@pto.jit
def f(x, y):
    y[:] = x[:] * x[:]

@f.adjoint
def backward(grid, x, d_y, d_x):
    d_x[:] = {} * x * d_y

x, y, g, d = np.ones((4, 8), np.float32)
pto.verify(pto.adjoint(f, ["x"]))[1](x, y, d_y=g, d_x=d)
"""


class AdjointDiffers(Diagnostic, AssertionError):
    code = "E363"
    template = (
        "{adjoint} is not the gradient of {kernel}: {array}[{index}] is {got}, and {expected} {how}; "
        "{count} of {total} elements differ"
    )
    hint = "if sums in another order explain it, allow more: `pto.verify(back, rtol=...)`"
    example = programs(_BY_HAND.format("3"), _BY_HAND.format("2"))
