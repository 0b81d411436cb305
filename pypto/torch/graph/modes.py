"""Launches under a torch dispatch mode, such as make_fx, FlopCounterMode or torch.export, become operators.

A mode sees only operations of the dispatcher. A launch that bypassed it would be missing in a make_fx graph, which
would then return uninitialised memory. Under a mode, a launch on tensors is therefore the operator.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

import numpy as np

from pypto.errors.launch import ReadOnlyArgument, UndispatchedLaunch
from pypto.ops.public import constexpr
from pypto.runtime.arrays import array_info, refuse_recorded
from pypto.runtime.launch import check_grid, grid_of
from pypto.runtime.tensors import active_mode, is_recorded, is_tensor
from pypto.torch.graph.operator import LISTS, plan
from pypto.torch.graph.planning import ArgumentSpec

torch: Any = importlib.import_module("torch")
TRACING: Final = tuple(getattr(torch._C._TorchDispatchModeKey, name) for name in ("PROXY", "FAKE", "FUNCTIONAL"))


def dispatched_launch(kernel: Any, given: Mapping[str, Any], grid: Any, args: tuple[Any, ...]) -> None:
    """Runs `kernel[grid](…)` as the operator.

    Raises
    ------
    UndispatchedLaunch
        If the operator cannot take the arguments.
    RecordedArgument, ReadOnlyArgument
        If it writes to a tensor that requires grad while autograd records, or to a read-only array.
    """
    values, signature = kernel._bind(args, given), kernel.signature
    sizes = sizes_of(kernel, grid, values)
    if 0 in sizes:
        return
    fixed = [is_fixed or isinstance(x, constexpr) for x, is_fixed in zip(values, signature.constant, strict=True)]
    rows = list(zip(signature.names, values, fixed, strict=True))
    named = {name: x if is_fixed else as_argument(kernel, name, x) for name, x, is_fixed in rows}
    name, arguments, kinds = plan(kernel, {name: row_of(named[name], is_fixed) for name, _, is_fixed in rows})
    check_written(kernel, [parameter for parameter, kind in kinds if kind == "written"], values)
    lists = {kind: [named[parameter] for parameter, of in kinds if of == kind] for kind in LISTS}
    torch.ops.pypto.launch(name, arguments, sizes, lists["integers"], lists["floats"], lists["written"], lists["read"])


def check_written(kernel: Any, written: Sequence[str], values: tuple[Any, ...]) -> None:
    """Refuses writes that the operator does not detect: to tensors that autograd records, and to read-only arrays."""
    given = dict(zip(kernel.signature.names, values, strict=True))
    for name in written:
        if is_tensor(type(given[name])) and is_recorded(given[name]):
            refuse_recorded(kernel.signature.kernel, name, kernel.lenient)
        if isinstance(given[name], np.ndarray) and not given[name].flags.writeable:
            raise ReadOnlyArgument(kernel=kernel.signature.kernel, arg=name)


def sizes_of(kernel: Any, grid: Any, values: tuple[Any, ...]) -> list[Any]:
    """The sizes of a grid; those that are symbolic stay so."""
    grid_sizes = grid_of(grid, kernel.signature, values) if callable(grid) else grid
    sizes = list(grid_sizes) if isinstance(grid_sizes, tuple | list) else [grid_sizes]
    if any(isinstance(n, torch.SymInt) for n in sizes):
        return sizes
    return list(check_grid(grid_sizes, kernel.signature, values))


def as_argument(kernel: Any, name: str, x: Any) -> Any:
    """An argument as the operator takes it: an array as a tensor on its memory, where the mode makes no graph of it."""
    if isinstance(x, tuple | list) or hasattr(type(x), "as_argument"):
        refuse(kernel, f"`{name}` is a tuple", "pass its items as arguments of their own")
    info = None if is_tensor(type(x)) else array_info(x, kernel.signature.kernel, name)
    if info is None:
        return x
    if isinstance(x, np.ndarray) and not any(map(torch._C._get_dispatch_mode, TRACING)):
        with suppress(TypeError, ValueError):  # dtypes and strides that torch has not
            array = x if x.flags.writeable else x.copy()
            words = array if array.dtype.isbuiltin == 1 else array.view(f"u{array.itemsize}")
            return torch.from_numpy(words).view(getattr(torch, info.dtype.public))
    refuse(kernel, f"`{name}` is a {type(x).__name__}, and other arguments are tensors", "pass tensors alone")


def row_of(x: Any, is_fixed: bool) -> ArgumentSpec:
    """Describes an argument to the operator: its kind, a tensor's dtype and shape, or its value."""
    if is_fixed:
        return "constant", x, None
    if is_tensor(type(x)):
        return "tensor", x.dtype, tuple(n if type(n) is int else None for n in x.shape)
    if isinstance(x, torch.SymInt) or type(x) is int:
        return "integers", None, None
    if isinstance(x, torch.SymFloat) or type(x) is float:
        return "floats", None, None
    return "constant", x, None


def refuse(kernel: Any, problem: str, way: str) -> NoReturn:
    raise UndispatchedLaunch(kernel=kernel.signature.kernel, mode=active_mode(), problem=problem, way=way)
