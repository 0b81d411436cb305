"""Launches in functions that torch.compile traces become one operator in the graph, `torch.ops.pypto.launch`.

Dynamo traces `traced_launch` symbolically, and executes `planned`, whose result is a constant of the graph.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any, Final

from pypto.errors import Diagnostic
from pypto.errors.launch import TracedLaunch
from pypto.runtime.launch import Grid
from pypto.runtime.signature import IGNORED
from pypto.torch.graph.operator import Planned, plan

torch: Any = importlib.import_module("torch")


def traced_subscript(kernel: Any, grid: Grid) -> Callable[..., None]:
    """Replaces `kernel[grid]` in a function that Dynamo traces."""
    return functools.partial(traced_launch, kernel, grid)


def outside_subscript(launchable: Any, grid: Any) -> Callable[..., None]:
    """Replaces `launchable[grid]`, of a launchable that no graph can contain, in a function that Dynamo traces."""
    return functools.partial(outside_launch, launchable, grid)


def outside_launch(launchable: Any, grid: Any, *args: Any, **given: Any) -> None:
    outside(launchable, grid, args, given)


def traced_launch(kernel: Any, grid: Any, *args: Any, **given: Any) -> None:
    """Replaces `kernel[grid](…)` in a function that Dynamo traces; it uses only Python that Dynamo follows."""
    names, constants, is_open = parameters(kernel)
    if is_open or len(args) > len(names) or any(n not in names and n not in IGNORED for n in given):
        outside(kernel, grid, args, given)
        return
    values = {**dict(zip(names, args)), **{n: x for n, x in given.items() if n in names}}  # noqa: B905
    if callable(grid):
        grid = grid(values)
    sizes = list(grid) if isinstance(grid, (tuple, list)) else [grid]
    described: list[Any] = []
    for name, x in values.items():
        if isinstance(x, torch.Tensor):
            described += [name, "tensor", x.dtype, x.dim()]
        elif isinstance(x, (tuple, list)) and name not in constants:
            outside(kernel, sizes, args, given)
            return
        elif type(x) is float and name not in constants:
            described += [name, "floats", None, None]
        elif type(x) is not bool and isinstance(x, int) and name not in constants:
            described += [name, "integers", None, None]
        else:
            described += [name, "constant", int(x) if type(x) is int else x, None]
    name, arguments, kinds = planned(kernel, *described)
    lists: dict[str, list[Any]] = {"written": [], "read": [], "integers": [], "floats": []}
    for parameter, kind in kinds:
        if kind == "written" and torch.is_grad_enabled() and values[parameter].requires_grad:
            outside(kernel, sizes, args, given)
            return
        lists[kind].append(values[parameter])
    torch.ops.pypto.launch(name, arguments, sizes, lists["integers"], lists["floats"], lists["written"], lists["read"])


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def parameters(kernel: Any) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Names of a kernel's parameters, those of the constant ones, and whether there may be more of them."""
    names, signature = kernel.signature.names, kernel.signature
    constant = tuple(n for n, fixed in zip(names, signature.constant, strict=True) if fixed)
    return names, constant, signature.positional >= 0


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def planned(kernel: Any, *described: Any) -> Planned:
    """What the graph says of a launch.

    `described` has four entries for each argument: its name, its kind, and the dtype and rank of a tensor, or the value
    of something else.
    """
    rows = {}
    for n in range(0, len(described), 4):
        name, kind, value, rank = described[n : n + 4]
        rows[name] = kind, value, None if rank is None else (None,) * rank
    try:
        return plan(kernel, rows)
    except Diagnostic as error:
        problem = f"it cannot be compiled for arrays of these types: {error}"
        raise TracedLaunch(kernel=kernel.signature.kernel, problem=problem) from None


_CALLED: Final = (
    "a fused function, and one of pypto.torch.op that is no operator of torch yet, is called outside of the graph"
)
_OUTSIDE: Final = (
    "a launch with tuples or options, of a tuner or of a kernel with *args, or that writes to what requires grad, is "
    "made outside of the graph"
)

_HAS_REASON: Final = "reason" in inspect.signature(torch.compiler.disable).parameters


def undisturbed(reason: str) -> Any:
    """The decorator of functions that Dynamo calls outside of its graphs, with the reason where torch takes one."""
    return torch.compiler.disable(**({"reason": reason} if _HAS_REASON else {}))


@undisturbed(_CALLED)  # type: ignore[untyped-decorator]
def outside_call(function: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """A call that no graph can hold."""
    return function(*args, **given)


@undisturbed(_OUTSIDE)  # type: ignore[untyped-decorator]
def outside(kernel: Any, grid: Any, args: Any, given: Any) -> None:
    """Runs a launch that no graph can contain: Dynamo breaks its graph before it and begins another one behind it."""
    kernel.launch(tuple(grid) if isinstance(grid, list) else grid, *args, **given)
