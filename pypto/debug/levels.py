"""A compiled version of a kernel as text, level by level: what the compiler made of it on its way down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from pypto.arguments import describe
from pypto.backends.cpu.codegen.function import Lowered, lower
from pypto.backends.cpu.loopir.printer import print_schedule
from pypto.compile import key_parts, prepared, session, written_arrays
from pypto.debug.linked import LinkedFunction, assembly_marked, lines_marked
from pypto.ir.printer import print_function
from pypto.passes import optimize
from pypto.runtime.launch import disjoint, overlaps
from pypto.runtime.specialization import Specialization


def tile_ir(version: Specialization, places: bool = False) -> str:
    return print_function(version.program.function, places)


def optimized_ir(version: Specialization, places: bool = False) -> str:
    return print_function(optimize(version.program.function), places)


def lowered(version: Specialization) -> Lowered:
    return lower(optimize(version.program.function), version.program.backend.target)


def loop_ir(version: Specialization, places: bool = False) -> str:
    return print_schedule(lowered(version).schedule, places)


def llvm_ir(version: Specialization, places: bool = False) -> str:
    return lines_marked(linked(version)) if places else lowered(version).text


def assembly(version: Specialization, places: bool = False) -> str:
    engine = version.program.backend.engine
    if places:
        return assembly_marked(engine.assembly(linked(version)))
    text: str = engine.assembly(lowered(version).text)
    return text


def linked(version: Specialization) -> str:
    """LLVM IR that knows the user's lines, in the form of debug information."""
    return lower(optimize(version.program.function), version.program.backend.target, LinkedFunction).text


def block_kernel(version: Specialization) -> Any:
    """Block IR of a version for an Ascend chip."""
    from pypto.backends.ascend.pipeline import lower_to_text

    return lower_to_text(optimize(version.program.function), version.program.backend.target)[0]


def block_ir(version: Specialization, places: bool = False) -> str:
    from pypto.backends.ascend.blockir.printer import listing

    return listing(block_kernel(version))


def ascendc(version: Specialization, places: bool = False) -> str:
    from pypto.backends.ascend.backend import Code

    return Code.from_bytes(version.program.artifact.code).text


Show = Callable[..., str]  # of a version; with `places`, the text tells the user's lines
# From the source down. What is not asked for is not made.
CPU_LEVELS: Final = MappingProxyType[str, Show]({
    "tile-ir": tile_ir, "optimized-ir": optimized_ir, "loop-ir": loop_ir, "llvm-ir": llvm_ir, "assembly": assembly,
})  # fmt: skip

ASCEND_LEVELS: Final = MappingProxyType[str, Show]({
    "tile-ir": tile_ir, "optimized-ir": optimized_ir, "block-ir": block_ir, "ascendc": ascendc,
})  # fmt: skip


def level_text(version: Specialization, level: str) -> str:
    """One level of a version as text.

    Parameters
    ----------
    version : Specialization
        What `Kernel.compile` gives.
    level : str
        ``tile-ir``, ``optimized-ir``; of the CPU ``loop-ir``, ``llvm-ir`` or ``assembly``, of Ascend ``ascendc``.

    Raises
    ------
    KeyError
        When there is no such level.

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
    return levels(version)[level](version)


def levels(version: Specialization) -> Mapping[str, Show]:
    """The levels that a version has, from the source down."""
    return ASCEND_LEVELS if version.program.backend.name == "ascend" else CPU_LEVELS


def levels_of(version: Specialization) -> Iterator[tuple[str, str]]:
    """Every level with its text, which tells the user's lines."""
    for name, show in levels(version).items():
        yield name, show(version, True)


def cache_key(kernel: Any, **given: Any) -> Any:
    """The key in the disk cache of the version that a launch with these arguments would compile first."""
    infos, specs = describe(kernel.signature, kernel.signature.bind((), given))
    built, _ = kernel.build(infos, specs, frozenset(), {})
    function = prepared(built.function, {})
    function.attrs["noalias"] = disjoint(*overlaps(written_arrays(built.function), infos))
    shared = session()
    return shared.key(key_parts(function, kernel.options, shared.backend(kernel.options)))
