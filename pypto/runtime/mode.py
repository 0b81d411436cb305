"""How the launches of a context run, where not plainly: interpreted, checked, watched by a profile, on a device."""

from __future__ import annotations

import contextlib
import contextvars
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from pypto.runtime.launch import Sizes, Values
from pypto.runtime.tensors import span


@dataclass(frozen=True, slots=True)
class Mode:
    """`watch` gets the kernel, the grid, the arguments, and whether the interpreter is to run it.

    `races` says whether checks look for programs that store to one element. `device` is where launches run, instead of
    the process's own; `outer` is what was in force before it.
    """

    interpret: bool = False
    checked: bool = False
    races: bool = True
    watch: Callable[[Any, Sizes, Values, bool], None] | None = None
    device: Any = None
    outer: Any = None

    def run(self, kernel: Any, sizes: Sizes, values: Values) -> None:
        interpret, checked = map(operator.or_, (self.interpret, self.checked), kernel.modes)
        kernel = kernel.checked if checked and not interpret else kernel
        if self.watch is not None:
            self.watch(kernel, sizes, values, interpret)
        elif interpret:
            kernel.interpret(sizes, values)
        else:
            with span(kernel.signature.kernel):
                self.launch(kernel, sizes, values)

    def launch(self, kernel: Any, sizes: Sizes, values: Values) -> None:
        """Run it where this context's launches run; without a word about that, on the CPU or where its arrays are."""
        device = self.device or kernel.compiler.session().devices.default
        if device is None:
            kernel.execute(sizes, values)
        else:
            device.launch(kernel, sizes, values)


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
