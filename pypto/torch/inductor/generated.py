"""Kernels in the generated Python of a graph, and how they are launched."""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any, Final

from pypto.compat.triton.compiled import N_REGS
from pypto.compat.triton.kernels import JITFunction
from pypto.errors import PyptoError
from pypto.jit.direct import Direct, ThreadCount
from pypto.torch.inductor.origins import Line

_theirs: Any = importlib.import_module("torch._inductor.runtime.triton_heuristics")
Blocks = dict[str, Any]  # from the name of a constant parameter, as XBLOCK, to its value

_THREADS: Final = "_ZN2at15get_num_threadsEv"  # at::get_num_threads()
# Why candidates of the graph that is being compiled cannot be taken.
FAILED: Final[ContextVar[list[str]]] = ContextVar("FAILED")


class Generated:
    """A kernel that Inductor wrote: its `name` and `source`, its `kernel`, and the `lines` of the model in it.

    Parameters
    ----------
    fn : JITFunction
    blocks : dict
        Values of its constant parameters.
    meta : dict
        What Inductor says of it: which grid, which arguments it writes.
    """

    def __init__(self, fn: JITFunction, blocks: Blocks, meta: Mapping[str, Any]) -> None:
        self.fn, self.blocks, self.meta = fn, blocks, meta
        self.name, self.source = fn.__name__, ""
        self.lines: list[Line] = []
        self.kernel = fn.ours
        self.kernel.threads_by = torch_threads()
        self.names = [*self.given(), *meta.get("extra_launcher_args", ())]
        self.place = place(fn, blocks, meta, self.names)
        self.run = Direct(self.kernel, self.names, self.place).run

    def given(self) -> list[str]:
        """Returns the parameters that calls pass: all but the constants."""
        return [p.name for p in self.fn.params if p.name not in self.blocks]

    def set_origins(self, lines: Iterable[tuple[str, int, str]]) -> None:
        """Records which lines of the model the kernel computes."""
        self.lines = [Line(*line) for line in lines]
        self.kernel.origins = tuple(map(str, self.lines))

    def named(self, name: str, source: str) -> Generated:
        self.name, self.source = name, source
        return self


class Candidate(Generated):
    """A kernel that Inductor measures beside others before one of them is chosen."""

    def __init__(self, fn: JITFunction, blocks: Blocks, meta: Mapping[str, Any]) -> None:
        super().__init__(fn, blocks, meta)
        self.launch, self.run = self.run, self.measured
        self.launchers = (SimpleNamespace(n_regs=N_REGS),)

    def precompile(self) -> None:
        """Does nothing, since the first launch compiles a candidate."""

    def measured(self, *arguments: Any, stream: Any = None, benchmark_run: bool = True) -> None:
        """Launches the candidate for a measurement. One that cannot be compiled is never chosen."""
        try:
            self.launch(*arguments)
        except PyptoError as error:
            FAILED.get([]).append(str(error))
            raise NotImplementedError(str(error)) from error

    def named(self, name: str, source: str) -> Generated:
        """Marks the candidate as chosen; its later launches need no handling of errors."""
        self.run = self.launch
        return super().named(name, source)


def place(fn: JITFunction, blocks: Blocks, meta: Mapping[str, Any], names: Iterable[str]) -> Callable[..., Any]:
    """Returns a function from the arguments of a launch, which have these names, to the grid and all parameters."""
    grid = grid_of(meta, blocks)
    values = [name if name not in blocks else f"blocks[{name!r}]" for name in fn.arg_names]
    lines = [
        f"def place({', '.join(names)}):",
        *(f"    {line}" for line in grid.prefix),
        f"    return ({grid.x_grid}, {grid.y_grid}, {grid.z_grid}), ({', '.join(values)},)",
    ]
    known: dict[str, Any] = {"blocks": blocks}
    exec("\n".join(lines), known)
    function: Callable[..., Any] = known["place"]
    return function


def grid_of(meta: Mapping[str, Any], blocks: Blocks, language: str = "python") -> Any:
    """Returns Inductor's expressions for a grid, in Python or C++ ("cpp")."""
    grid = getattr(_theirs, meta["grid_type"])(inductor_meta=meta, mode=language)
    grid.generate(blocks)
    return grid


@functools.cache
def torch_threads() -> ThreadCount | None:
    """Returns torch's number of threads, which generated kernels use; None where native code cannot read it."""
    torch: Any = importlib.import_module("torch")
    try:
        count = ctypes.CDLL(str(torch._C.__file__))[_THREADS]
    except (AttributeError, OSError):
        return None
    address = ctypes.cast(count, ctypes.c_void_p).value
    return ThreadCount(torch.get_num_threads, address) if address and count() == torch.get_num_threads() else None
