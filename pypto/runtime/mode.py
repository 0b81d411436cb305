"""How the launches of a context run, where not plainly: in the interpreter, or watched by a profile."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from pypto.runtime.launch import Values

Sizes = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Mode:
    """`watch` gets the kernel, the grid, the arguments, and whether the interpreter is to run it."""

    interpret: bool = False
    watch: Callable[[Any, Sizes, Values, bool], None] | None = None

    def run(self, kernel: Any, sizes: Sizes, values: Values) -> None:
        interpret = self.interpret or kernel.interpreted
        if self.watch is not None:
            self.watch(kernel, sizes, values, interpret)
        elif interpret:
            kernel.interpret(sizes, values)
        else:
            kernel.execute(sizes, values)


PLAIN: Final = Mode()
MODE: Final[contextvars.ContextVar[Mode]] = contextvars.ContextVar("mode", default=PLAIN)


@contextlib.contextmanager
def mode(**changes: Any) -> Iterator[None]:
    """Change how this context's launches run, for the length of a `with` block."""
    token = MODE.set(replace(MODE.get(), **changes))
    try:
        yield
    finally:
        MODE.reset(token)


def only_profiled(*args: Any, **given: Any) -> None:
    """The memory that such a kernel writes its times to is a profile's."""
    raise RuntimeError("a kernel that times itself runs under a profile alone; launch the kernel itself there")
