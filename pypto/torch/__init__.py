"""Integration with torch; importing it registers the operators of launches and of `pypto.library`, if torch is there.

`torch.compile(model, backend="pypto")` needs no import of this module. `op` makes a kernel a differentiable function.
`routes` is that of `pypto.routing`; `report` also lists what torch runs in compiled graphs. `nn` has modules of library
rows, and `use`, in `replacement`, puts rows into an eager model. `step_memory` and `largest_batch` are in `memory`.

Read `operators` (what torch is told of an operator), then `row_operators` and `signatures` for rows of the library, and
`autograd`, `kernel_operators` and `function` for kernels. Launches in graphs are in `graph`; the backends of
`torch.compile` are `dynamo`, with `aten`, the rows of its ops, and `inductor`, whose kernels `kernels` lists.
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
    from pypto.routing import routes
    from pypto.torch import nn
    from pypto.torch.autograd import op
    from pypto.torch.dynamo.report import report
    from pypto.torch.inductor.collected import kernels
    from pypto.torch.memory import largest_batch, step_memory
    from pypto.torch.replacement import use

__all__ = ["kernels", "largest_batch", "nn", "op", "report", "routes", "step_memory", "use"]

_MODULES: Final = MappingProxyType({
    "kernels": "pypto.torch.inductor.collected", "largest_batch": "pypto.torch.memory", "op": "pypto.torch.autograd",
    "report": "pypto.torch.dynamo.report", "routes": "pypto.routing", "step_memory": "pypto.torch.memory",
    "use": "pypto.torch.replacement",
})  # fmt: skip


def __getattr__(name: str) -> Any:
    """Loads names on demand: launches in graphs need this package, but nothing of Inductor."""
    if name == "nn":
        return import_module("pypto.torch.nn")
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
