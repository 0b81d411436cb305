"""pypto: a kernel language in Python for CPUs and Ascend NPUs."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from pypto._platform import cann_conflict, check_platform

check_platform()  # an unsupported machine should hear of it before anything fails

from pypto import language
from pypto.blocking import Blocking
from pypto.devices import device, target, to_device
from pypto.errors import PyptoWarning
from pypto.jit import Kernel, jit
from pypto.language import *  # noqa: F403
from pypto.process import get_num_threads, interpreter, set_num_threads
from pypto.profiler import profile

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pypto.debug.checked import checked
    from pypto.debug.interpret import interpret
    from pypto.debug.simulate import simulate
    from pypto.debug.verify import verify
    from pypto.gradients import AdjointKernel, adjoint, vjp
    from pypto.graph.fuse import fuse
    from pypto.graph.vmap import vmap
    from pypto.tuning import Config, Space, autotune, heuristics  # type: ignore[no-redef]  # names of modules, too
else:
    _LATER = dict.fromkeys(("Config", "Space", "autotune", "heuristics"), "tuning")
    _LATER |= {name: f"graph.{name}" for name in ("fuse", "vmap")}
    _LATER |= dict.fromkeys(("AdjointKernel", "adjoint", "vjp"), "gradients")
    _LATER |= {name: f"debug.{name}" for name in ("checked", "interpret", "simulate", "verify")}

    _ARRAYS = ": functions on whole arrays are those of numpy and of `pypto.arrays`; a kernel has `pto.dot`"
    _GRADIENTS = ": gradients are those of kernels, by `pto.adjoint` and `pto.vjp`; functions on arrays have none yet"
    _ELSEWHERE = dict.fromkeys(("matmul", "concat", "stack", "einsum"), _ARRAYS)
    _ELSEWHERE |= dict.fromkeys(("grad", "value_and_grad", "jvp"), _GRADIENTS)

    def __getattr__(name: str) -> Any:
        """What most programs do not ask for is loaded when one does."""
        if name not in _LATER:
            from pypto.options import suggestion

            reason = _ELSEWHERE.get(name) or suggestion(name, __all__)
            raise AttributeError(f"module 'pypto' has no attribute {name!r}{reason}")
        from importlib import import_module

        return getattr(import_module(f"pypto.{_LATER[name]}"), name)


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext pypto``: the magics ``%%pto`` and ``%pto``."""
    from pypto.notebook import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext pypto``."""
    from pypto.notebook import unload

    unload(shell)


if (_conflict := cann_conflict()) is not None:
    warnings.warn(_conflict, PyptoWarning, stacklevel=2)

# fmt: off
__all__ = [
    "AdjointKernel", "Blocking", "Config", "Kernel", "Space", "adjoint", "autotune", "checked", "device", "fuse",
    "get_num_threads", "heuristics", "interpret", "interpreter", "jit", "language", "profile", "set_num_threads",
    "simulate", "target", "to_device", "verify", "vjp", "vmap",
]
__all__ += language.__all__
