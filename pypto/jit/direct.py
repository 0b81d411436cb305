"""Launches by generated code: its compiler knows what it passes, so native code checks little and asks no grid."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pypto.arguments import describe
from pypto.jit.specialize import version_for
from pypto.runtime.launch import Values, check_grid, disjoint, overlaps
from pypto.runtime.mode import MODE, PLAIN
from pypto.runtime.tensors import is_dispatched

if TYPE_CHECKING:
    from pypto.jit.kernel import Kernel

_TAUGHT: Final = 16  # combinations of numbers that native code knows; others go through `kernel[grid]`


class ThreadCount(NamedTuple):
    """Who says on how many threads a kernel runs: as a Python function, and as the address of ``int count(void)``."""

    ask: Callable[[], int]
    address: int

    @property
    def threads(self) -> int:
        """Threads of a launch, of which there are no more than the pool has."""
        import pypto.compile

        return min(self.ask(), pypto.compile.session().most_threads)


class Direct:
    """Launches a kernel from generated code.

    Parameters
    ----------
    kernel : Kernel
    names : sequence of str
        What a launch is given, in this order: parameters without the constants, and numbers for the grid alone.
    place : callable
        Takes what a launch is given; gives the grid, and the values of all parameters. What it gives may depend on the
        numbers among its arguments alone.
    """

    def __init__(self, kernel: Kernel, names: Sequence[str], place: Callable[..., tuple[Any, Values]]) -> None:
        self.kernel, self.names, self.place, self.seen = kernel, tuple(names), place, 0
        launcher = None if any(kernel.modes) else kernel.compiler.session().launcher
        self.table: Any = launcher.direct(kernel, self.names, self.launch, MODE, PLAIN) if launcher else None
        self.run: Callable[..., None] = self.table.launch if self.table else functools.partial(self.launch, None)

    def launch(self, _: None, *arguments: Any) -> None:
        """A launch that native code does not know."""
        grid, values = self.place(*arguments)
        if is_dispatched(values):  # a mode is told of the launches of generated code as little as of torch's own
            self.kernel.launch_here(grid, *values)
        else:
            self.kernel[grid](*values)
        if self.table and self.seen < _TAUGHT:
            self.seen += 1
            self.teach(arguments, grid, values)

    def teach(self, arguments: Values, grid: Any, values: Values) -> None:
        """Have native code make such launches from now on."""
        signature = self.kernel.signature
        infos, specs = describe(signature, values)
        version = version_for(self.kernel, infos, specs)
        program = version.program
        if not program.backend.has_native_launches or program.artifact.prints or infos.keys() != set(signature.names):
            return
        given = {name: (value, infos.get(name, value)) for name, value in zip(self.names, arguments, strict=True)}
        overlapping = not disjoint(*overlaps(program.written, infos))
        self.table.teach_direct(version, given, check_grid(grid, signature, values), overlapping)
