"""Handwritten backward passes: `pto.adjoint` runs functions under `@kernel.adjoint` instead of derived kernels."""

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
    """A handwritten backward pass: its function, and its parameters besides the grid.

    `forward` names the arguments of the forward launch that it takes, and `gradients` the gradients.
    """

    function: Backward
    forward: tuple[str, ...]
    gradients: frozenset[str]

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", self.function))

    @property
    def source(self) -> str:
        """Its source text, if that can be read."""
        try:
            return inspect.getsource(inspect.unwrap(self.function))
        except (OSError, TypeError):
            return f"# {self.name}: its source cannot be read\n"

    def run(self, grid: Any, arguments: Mapping[str, Any]) -> None:
        """Writes the gradients of a launch."""
        self.function(grid, **{n: arguments[n] for n in (*self.forward, *sorted(self.gradients))})


def checked(kernel: Any, function: Backward) -> HandwrittenAdjoint:
    """Checks the parameters of a function under `Kernel.adjoint`.

    Raises
    ------
    WrongGradient
        If its first parameter is not the grid, or another one is neither an argument of the kernel nor a gradient.
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
    """Returns the names of a function's parameters."""
    return tuple(inspect.signature(function).parameters)


def is_gradient(name: str, arguments: Iterable[str]) -> bool:
    return name.startswith("d_") and name[2:] in arguments and name not in arguments


def handwritten(kernel: Any, gradients: frozenset[str]) -> HandwrittenAdjoint | None:
    """Returns the last one that was registered for exactly these gradients, read and written."""
    registered = [checked(kernel, function) for function in kernel.backwards]
    return next((h for h in reversed(registered) if h.gradients == gradients), None)
