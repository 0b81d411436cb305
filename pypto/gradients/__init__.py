"""Gradients of kernels: `pto.adjoint` derives the backward kernel of a kernel, as source that one could have written.

A kernel and its arguments give derived kernels and their launches. `kernel` has the object that users hold,
`versions` derives for the arguments of a launch, `launches` runs what was derived. Beside them: `pullback` (`pto.vjp`),
`handwritten`, `checks`, `schedule` (a backward as data), `launch_cache`, `verify`, `explain`, `card`.
"""

from pypto.gradients.kernel import AdjointKernel, adjoint
from pypto.gradients.pullback import vjp

__all__ = ["AdjointKernel", "adjoint", "vjp"]
