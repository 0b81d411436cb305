"""Launches while torch's dispatcher has a mode, as make_fx, FlopCounterMode and torch.export have: they are dispatched.

A mode sees what goes through the dispatcher. A launch that went past it would be missing in what make_fx traces, and a
graph without it returns memory that nobody wrote. So a launch on tensors is the operator then, which the mode sees.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NoReturn

from pypto.errors.launch import RecordedArgument, UndispatchedLaunch
from pypto.ops.public import constexpr
from pypto.runtime.arrays import array_info
from pypto.runtime.launch import check_grid, grid_of
from pypto.runtime.tensors import active_mode, is_recorded, is_tensor
from pypto.torch.graph.operator import LISTS, plan
from pypto.torch.graph.planning import Row

torch: Any = importlib.import_module("torch")


def dispatched_launch(kernel: Any, given: Mapping[str, Any], grid: Any, args: tuple[Any, ...]) -> None:
    """`kernel[grid](…)` as the operator.

    Raises
    ------
    UndispatchedLaunch
        When the operator cannot take the arguments.
    RecordedArgument
        When a tensor is written that requires grad, while autograd records.
    """
    values = kernel._bind(args, given)
    named = dict(zip(kernel.signature.names, values, strict=True))
    sizes = sizes_of(kernel, grid, values)
    rows = {name: row_of(kernel, name, x, fixed)
            for (name, x), fixed in zip(named.items(), kernel.signature.constant, strict=True)}  # fmt: skip
    name, arguments, kinds = plan(kernel, rows)
    lists: dict[str, list[Any]] = {kind: [] for kind in LISTS}
    for parameter, kind in kinds:
        if kind == "written" and is_recorded(named[parameter]):
            raise RecordedArgument(kernel=kernel.signature.kernel, arg=parameter)
        lists[kind].append(named[parameter])
    torch.ops.pypto.launch(name, arguments, sizes, lists["integers"], lists["floats"], lists["written"], lists["read"])


def sizes_of(kernel: Any, grid: Any, values: tuple[Any, ...]) -> list[Any]:
    """The sizes of a grid; those that are symbolic stay so."""
    found = grid_of(grid, kernel.signature, values) if callable(grid) else grid
    sizes = list(found) if isinstance(found, tuple | list) else [found]
    return (
        sizes if any(isinstance(n, torch.SymInt) for n in sizes) else list(check_grid(found, kernel.signature, values))
    )


def row_of(kernel: Any, name: str, x: Any, fixed: bool) -> Row:
    """What the operator is told of an argument: its kind, and of a tensor its dtype and rank, else its value."""
    if fixed or isinstance(x, constexpr):
        return "constant", x, None
    if is_tensor(type(x)):
        return "tensor", x.dtype, x.dim()
    if isinstance(x, torch.SymInt) or type(x) is int:
        return "integers", None, None
    if isinstance(x, torch.SymFloat) or type(x) is float:
        return "floats", None, None
    if isinstance(x, tuple | list) or hasattr(type(x), "as_argument"):
        refuse(kernel, f"`{name}` is a tuple", "pass its items as arguments of their own")
    if array_info(x, kernel.signature.kernel, name) is not None:
        refuse(kernel, f"`{name}` is a {type(x).__name__}, and other arguments are tensors", "pass tensors alone")
    return "constant", x, None


def refuse(kernel: Any, problem: str, way: str) -> NoReturn:
    raise UndispatchedLaunch(kernel=kernel.signature.kernel, mode=active_mode(), problem=problem, way=way)
