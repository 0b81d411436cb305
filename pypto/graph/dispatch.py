"""What becomes of a function of numpy on arrays that are traced: numpy's `__array_function__`."""

from __future__ import annotations

from typing import Any, Final

from pypto.errors.graph import NotTraced
from pypto.graph import methods
from pypto.graph.functions import FUNCTIONS
from pypto.graph.node import Graph
from pypto.graph.places import here
from pypto.graph.standard import STANDARD
from pypto.graph.ufuncs import lift

COUNTING: Final = (
    "nonzero", "flatnonzero", "argwhere", "extract", "compress", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "union1d", "intersect1d", "setdiff1d",
)  # fmt: skip


def dispatch(graph: Graph, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `__array_function__` gives."""
    name = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
    found = FUNCTIONS.get(name) or STANDARD.get(name)
    if found is not None:
        return found(*args, **kwargs)
    if name in methods.METHODS and args:
        return methods.METHODS[name](lift(graph, args[0]), *args[1:], **kwargs)
    counts = name in COUNTING
    raise NotTraced(
        here().loc(), what=f"`np.{name}`",
        problem="how many elements it gives depends on their values" if counts else "it is not offered",
        way="compute it outside of the function" + ("" if counts else ", or write it with functions that are"),
    )  # fmt: skip
