"""Returns a compiled version of a kernel as text, at each level of the compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from pypto.arguments import describe
from pypto.backends.base import Backend
from pypto.backends.base import Show as BackendShow
from pypto.compile import attributes, key_parts, prepared, session
from pypto.ir.printer import print_function
from pypto.passes import optimize
from pypto.passes.analysis.memory_effects import written_names
from pypto.runtime.launch import disjoint, overlaps
from pypto.runtime.specialization import Specialization


def tile_ir(version: Specialization, places: bool = False) -> str:
    return print_function(version.program.function, places)


def optimized_ir(version: Specialization, places: bool = False) -> str:
    return print_function(optimize(version.program.function), places)


Show = Callable[[Specialization, bool], str]  # returns the text of a version; with True, with the lines of the source
COMMON: Final = MappingProxyType[str, Show]({"tile-ir": tile_ir, "optimized-ir": optimized_ir})


def level_text(version: Specialization, level: str) -> str:
    """Returns one level of a version as text.

    Parameters
    ----------
    version : Specialization
        The result of `Kernel.compile`.
    level : str
        ``tile-ir`` or ``optimized-ir``; on the CPU also ``loop-ir``, ``llvm-ir`` or ``assembly``, on Ascend also
        ``block-ir`` or ``ascendc``.

    Raises
    ------
    KeyError
        If there is no such level.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> @pto.jit
    ... def double(x, y):
    ...     y[:] = x[:] * 2
    >>> version = double.compile(np.ones(4, np.float32), np.ones(4, np.float32))
    >>> print(level_text(version, "tile-ir").splitlines()[0])
    kernel @double(%x: array<f32, 1>, %y: array<f32, 1>) attributes {noalias = true} {
    """
    return levels(version)[level](version, False)


def level_names(backend: Backend) -> tuple[str, ...]:
    """Returns the levels of a backend's kernels, from the source down."""
    return (*COMMON, *backend.levels)


def levels(version: Specialization) -> Mapping[str, Show]:
    """Returns the levels of a version, from the source down; each is made on demand."""
    shows = version.program.backend.levels
    return {**COMMON, **{name: partial(backend_level, show) for name, show in shows.items()}}


def backend_level(show: BackendShow, version: Specialization, places: bool) -> str:
    return show(version.program.function, version.program.artifact, places)


def levels_of(version: Specialization) -> Iterator[tuple[str, str]]:
    """Yields every level with its text, which names the user's lines."""
    for name, show in levels(version).items():
        yield name, show(version, True)


def cache_key(kernel: Any, **given: Any) -> Any:
    """Returns the disk-cache key of the version that a launch with these arguments would compile first."""
    infos, specs = describe(kernel.signature, kernel.signature.bind((), given))
    built, _ = kernel.build(infos, specs, frozenset(), {})
    function = prepared(built.function, {})
    noalias = disjoint(*overlaps(written_names(built.function), infos))
    function.attrs |= attributes(noalias, kernel.options)
    shared = session()
    backend = shared.backend(kernel.options)
    return shared.key(backend, key_parts(function, kernel.options, backend))
