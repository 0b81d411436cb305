"""Replaces Inductor's `triton_heuristics` in generated text: it chooses blocks that suit a CPU, and launches kernels.

Inductor's own decorators try blocks for a GPU. Here a block is chosen from the sizes that Inductor expects: as large as
suits the caches, because the CPU backend splits it into vectors itself.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

from pypto.compat.triton.compiled import N_REGS
from pypto.compat.triton.kernels import JITFunction
from pypto.errors import PyptoError
from pypto.jit.direct import Direct, ThreadCount
from pypto.torch.inductor.origins import Line
from pypto.torch.inductor.strides import strides

_theirs: Any = importlib.import_module("torch._inductor.runtime.triton_heuristics")
Blocks = dict[str, Any]  # from the name of a constant parameter, as XBLOCK, to its value
Decorator = Callable[[JITFunction], "Generated"]

_THREADS: Final = "_ZN2at15get_num_threadsEv"  # at::get_num_threads()
_POINTWISE: Final = 1024  # elements of a program
_SIDE: Final = 32  # of a square tile
_ROW: Final = 256  # elements of a step along a reduction
_COLUMNS: Final = 512  # outputs side by side, where a reduction runs over rows
_OTHERS: Final = MappingProxyType({"YBLOCK": 1, "ZBLOCK": 1})  # of outputs of a reduction
_SHORT: Final = 512  # elements of short rows in one program
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
        self.names, self.place = place(fn, blocks, meta)
        self.run = Direct(self.kernel, self.names, self.place).run

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


def place(fn: JITFunction, blocks: Blocks, meta: Mapping[str, Any]) -> tuple[list[str], Callable[..., Any]]:
    """Returns the names of a launch's arguments, and a function from them to the grid and all parameters."""
    grid = grid_of(meta, blocks)
    values = [name if name not in blocks else f"blocks[{name!r}]" for name in fn.arg_names]
    arguments = [*(p.name for p in fn.params if p.name not in blocks), *meta.get("extra_launcher_args", ())]
    lines = [
        f"def place({', '.join(arguments)}):",
        *(f"    {line}" for line in grid.prefix),
        f"    return ({grid.x_grid}, {grid.y_grid}, {grid.z_grid}), ({', '.join(values)},)",
    ]
    names: dict[str, Any] = {"blocks": blocks}
    exec("\n".join(lines), names)
    return arguments, names["place"]


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


def decorator(blocks: Callable[[JITFunction], Blocks], inductor_meta: Mapping[str, Any]) -> Decorator:
    """Returns a decorator that builds a kernel with those of the blocks for which it has a parameter."""

    def decorate(fn: JITFunction) -> Generated:
        chosen = {name: x for name, x in blocks(fn).items() if name in fn.arg_names}
        return Generated(fn, chosen, inductor_meta)

    return decorate


def least(most: int, hint: int) -> int:
    """Returns the least power of two that covers a size, and `most` where that is smaller."""
    return max(1, min(most, 1 << max(0, hint - 1).bit_length()))


def pointwise(size_hints: Mapping[str, int], inductor_meta: Mapping[str, Any], **_: Any) -> Decorator:
    """Chooses blocks of elementwise kernels of up to three dimensions: rows of stride 1, or squares for transposes."""

    def blocks(fn: JITFunction) -> Blocks:
        x, y, z = (size_hints.get(name, 1) for name in "xyz")
        if len(size_hints) > 1 and strides(fn.src).crossed:
            return {"XBLOCK": least(_SIDE, x), "YBLOCK": least(_SIDE, y), "ZBLOCK": 1}
        row = least(_POINTWISE, x)
        rows = least(max(1, _POINTWISE // row), y)
        return {"XBLOCK": row, "YBLOCK": rows, "ZBLOCK": least(max(1, _POINTWISE // row // rows), z)}

    return decorator(blocks, inductor_meta)


def reduction(size_hints: Mapping[str, int], inductor_meta: Mapping[str, Any], **_: Any) -> Decorator:
    """Chooses blocks for a loop over the reduced elements: along a row, or over rows with adjacent outputs."""

    def blocks(fn: JITFunction) -> Blocks:
        x, r0, r1 = (size_hints.get(name, 1) for name in ("x", "r0_", "r1_"))
        source_strides = strides(fn.src)
        if source_strides.outer:
            return {"XBLOCK": source_strides.columns(least(_COLUMNS, x)), "R0_BLOCK": 1, "R1_BLOCK": 1, **_OTHERS}
        if r1 > 1:
            row = least(_ROW, r1)
            return {"XBLOCK": 1, "R0_BLOCK": least(max(1, _ROW // row), r0), "R1_BLOCK": row, **_OTHERS}
        return {"XBLOCK": 1, "R0_BLOCK": least(_ROW, r0), **_OTHERS}

    return decorator(blocks, inductor_meta)


def persistent_reduction(size_hints: Mapping[str, int], inductor_meta: Mapping[str, Any], **_: Any) -> Decorator:
    """Chooses one block for all reduced elements."""

    def blocks(fn: JITFunction) -> Blocks:
        x, r = size_hints.get("x", 1), size_hints.get("r0_", 1) * size_hints.get("r1_", 1)
        source_strides = strides(fn.src)
        x = source_strides.columns(least(_COLUMNS, x)) if source_strides.outer else least(max(1, _SHORT // r), x)
        return {"XBLOCK": x, **_OTHERS}

    return decorator(blocks, inductor_meta)


def foreach(inductor_meta: Mapping[str, Any], **_: Any) -> Decorator:
    """Chooses blocks for several kernels in one launch."""
    return decorator(lambda _: {"XBLOCK": _POINTWISE, "YBLOCK": _SIDE}, inductor_meta)


def template(inductor_meta: Mapping[str, Any], **_: Any) -> Callable[[JITFunction], Candidate]:
    """Builds the candidate of a template, whose blocks are constants in its text."""
    return lambda fn: Candidate(fn, {}, inductor_meta)


def fixed_config(config: Mapping[str, Any], inductor_meta: Mapping[str, Any], **_: Any) -> Decorator:
    """Uses the blocks that Inductor chose."""
    return decorator(lambda _: dict(config), inductor_meta)


def user_autotune(
    configs: Any, triton_meta: Mapping[str, Any], inductor_meta: Mapping[str, Any], **_: Any
) -> Decorator:
    """Uses the constants of the launch of a user's kernel, and its first configuration."""
    first = dict(configs[0]) if configs else {}
    return decorator(lambda _: {**triton_meta["constants"], **first}, inductor_meta)
