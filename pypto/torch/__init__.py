"""Integration with torch; importing it registers the operators of launches and of `pypto.library`, if torch is there.

`torch.compile(model, backend="pypto-inductor")` needs no import of this module; `kernels` lists the generated kernels.
`op` makes a differentiable function of a kernel. `routes` and `report` are those of `pypto.routing`. `nn` has modules
whose operators are rows of the library, and `use`, in `replacement`, puts rows into an eager model. `step_memory` and
`largest_batch`, in `memory`, measure what a step of a model needs.

Read `operators` (what torch is told of an operator), then `row_operators` and `signatures` for rows of the library, and
`autograd`, `kernel_operators` and `function` for kernels. Launches in graphs are in `graph`, and the backend of
`torch.compile` in `inductor`.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

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
    from pypto.torch.memory import largest_batch, step_memory
    from pypto.torch.replacement import use

__all__ = ["kernels", "largest_batch", "nn", "op", "report", "routes", "step_memory", "use"]

_MODULES: Final = MappingProxyType({
    "kernels": "pypto.torch.inductor.collected", "largest_batch": "pypto.torch.memory", "op": "pypto.torch.autograd",
    "report": "pypto.routing", "routes": "pypto.routing", "step_memory": "pypto.torch.memory",
    "use": "pypto.torch.replacement",
})  # fmt: skip


def __getattr__(name: str) -> Any:
    """Loads names on demand: launches in graphs need this package, but nothing of Inductor."""
    if name == "nn":
        return import_module("pypto.torch.nn")
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
