"""What only matters beside torch. It loads torch, where there is one, and gives it the operator of launches in graphs.

`torch.compile(model, backend="pypto-inductor")` needs no import of this module; `kernels` shows what came of it. `op`
makes a differentiable function of a kernel.

Read `autograd` and `function`; launches in graphs are in `graph`, and the backend of `torch.compile` in `inductor`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

with suppress(ModuleNotFoundError):  # graphs that are loaded need the operator before anything is traced
    from pypto.torch.graph.operator import launches

    launches()

if TYPE_CHECKING:
    from pypto.torch.autograd import op
    from pypto.torch.inductor.collected import kernels

__all__ = ["kernels", "op"]


def __getattr__(name: str) -> Any:
    """Loaded when it is asked for: launches in graphs need this package too, and nothing of Inductor."""
    if name == "kernels":
        from pypto.torch.inductor.collected import kernels

        return kernels
    if name == "op":
        from pypto.torch.autograd import op

        return op
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
