"""Integration with torch; importing it registers the operators of launches and of `pypto.library`, if torch is there.

`torch.compile(model, backend="pypto-inductor")` needs no import of this module; `kernels` lists the generated kernels.
`op` makes a differentiable function of a kernel. `routes` and `report` are those of `pypto.routing`. `nn` has modules
whose operators are rows of the library, and `use`, in `replacement`, puts rows into an eager model.

Read `operators` (what torch is told of an operator), then `row_operators` and `signatures` for rows of the library, and
`autograd`, `kernel_operators` and `function` for kernels. Launches in graphs are in `graph`, and the backend of
`torch.compile` in `inductor`.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

with suppress(ModuleNotFoundError):  # a loaded graph needs the operator before anything is traced
    from pypto.torch.graph.operator import launches
    from pypto.torch.row_operators import register_rows

    launches()
    register_rows()

if TYPE_CHECKING:
    from pypto.routing import report, routes
    from pypto.torch import nn
    from pypto.torch.autograd import op
    from pypto.torch.inductor.collected import kernels
    from pypto.torch.replacement import use

__all__ = ["kernels", "nn", "op", "report", "routes", "use"]


def __getattr__(name: str) -> Any:
    """Loads names on demand: launches in graphs need this package, but nothing of Inductor."""
    if name == "kernels":
        from pypto.torch.inductor.collected import kernels

        return kernels
    if name == "op":
        from pypto.torch.autograd import op

        return op
    if name == "nn":
        return import_module("pypto.torch.nn")
    if name == "use":
        from pypto.torch.replacement import use

        return use
    if name in ("report", "routes"):
        from pypto import routing

        return getattr(routing, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
