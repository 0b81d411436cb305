"""Backward passes by hand: functions under `@kernel.adjoint`, which `pto.adjoint` runs in place of derived kernels."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pypto.arguments import Boundary
from pypto.errors.gradients import WrongGradient
from pypto.loc import Loc

Backward = Callable[..., None]


@dataclass(frozen=True)
class HandwrittenAdjoint:
    """A backward pass by hand: its function, and the parameters of it besides the grid.

    `forward` are arguments of the forward launch that it takes; `gradients` those that are read and written.
    """

    function: Backward
    forward: tuple[str, ...]
    gradients: frozenset[str]

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", self.function))

    @property
    def source(self) -> str:
        """Its text, where that can be read."""
        try:
            return inspect.getsource(inspect.unwrap(self.function))
        except (OSError, TypeError):
            return f"# {self.name}: its source cannot be read\n"

    def run(self, grid: Any, arguments: Mapping[str, Any]) -> None:
        """Write the gradients of a launch."""
        self.function(grid, **{n: arguments[n] for n in (*self.forward, *sorted(self.gradients))})


def checked(kernel: Any, function: Backward) -> HandwrittenAdjoint:
    """What a function under `Kernel.adjoint` takes.

    Raises
    ------
    WrongGradient
        When its first parameter is not the grid, or another one is no argument of the kernel and no gradient of one.
    """
    names = kernel.signature.names
    grid, *others = parameters(function) or ("",)
    unknown = [n for n in others if n not in names and not is_gradient(n, names)]
    gradients = frozenset(n for n in others if is_gradient(n, names))
    if grid != "grid" or unknown or not gradients:
        problem = f"`{unknown[0]}` is no argument and no gradient" if unknown else "it is no backward pass"
        way = f"write it as `def backward(grid, {', '.join(names)}, d_…)`, with `d_NAME` for each gradient"
        with Boundary(lambda _: Loc.of_code(inspect.unwrap(function).__code__)):
            raise WrongGradient(kernel=kernel.signature.kernel, problem=f"{function.__name__}: {problem}", way=way)
    forward = tuple(n for n in others if n in names)
    return HandwrittenAdjoint(function, forward, gradients)


def parameters(function: Backward) -> tuple[str, ...]:
    """The names of a function's parameters."""
    return tuple(inspect.signature(function).parameters)


def is_gradient(name: str, arguments: Iterable[str]) -> bool:
    return name.startswith("d_") and name[2:] in arguments and name not in arguments


def handwritten(kernel: Any, gradients: frozenset[str]) -> HandwrittenAdjoint | None:
    """The last one that was registered for exactly these gradients, read and written."""
    registered = [checked(kernel, function) for function in kernel.backwards]
    return next((h for h in reversed(registered) if h.gradients == gradients), None)
