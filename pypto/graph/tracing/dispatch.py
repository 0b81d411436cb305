"""Dispatch of numpy functions on traced arrays, through numpy's `__array_function__`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

from pypto.errors.graph import NotTraced
from pypto.graph.ir.location import here
from pypto.graph.ir.node import Graph
from pypto.graph.tracing import methods
from pypto.graph.tracing.decompositions import DERIVED
from pypto.graph.tracing.functions import FUNCTIONS
from pypto.graph.tracing.standard import STANDARD
from pypto.graph.tracing.ufuncs import lift

COUNTING: Final = (
    "nonzero", "flatnonzero", "argwhere", "extract", "compress", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "union1d", "intersect1d", "setdiff1d",
)  # fmt: skip


def dispatch(graph: Graph, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `__array_function__` gives."""
    name = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
    found = FUNCTIONS.get(name) or STANDARD.get(name) or DERIVED.get(name)
    if found is not None:
        return called(name, found, args, kwargs)
    if name in methods.METHODS and args:
        return called(name, methods.METHODS[name], (lift(graph, args[0]), *args[1:]), kwargs)
    counts = name in COUNTING
    raise NotTraced(
        here().loc(), what=f"`np.{name}`",
        problem="how many elements it gives depends on their values" if counts else "it is not offered",
        way="compute it outside of the function" + ("" if counts else ", or write it with functions that are"),
    )  # fmt: skip


def called(name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function gives.

    Raises
    ------
    NotTraced
        At the user's line, where numpy's function takes an argument that is not traced.
    """
    try:
        return function(*args, **kwargs)
    except TypeError:
        taken = inspect.signature(function).parameters
        others = [] if any(p.kind is p.VAR_KEYWORD for p in taken.values()) else [k for k in kwargs if k not in taken]
        if not others:
            raise
    raise NotTraced(
        here().loc(), what=f"`{others[0]}=` of `np.{name}`", problem="this argument is not offered",
        way="write it with functions that are: `np.where(mask, x, …)` before a reduction, `np.concatenate`",
    )  # fmt: skip
