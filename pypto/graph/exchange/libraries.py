"""Array libraries besides numpy: a fused function computes on numpy views of their memory.

A row of a library says how an array enters and how a result leaves: `tensors` has torch's, and `dlpack` that of all
others. No library is imported here, because the program that has one of its arrays has imported it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final, NoReturn, Protocol

import numpy as np

from pypto.runtime.places import HostDevice
from pypto.runtime.tensors import is_tensor

Array = np.ndarray[Any, Any]
Refuse = Callable[[str, str], NoReturn]  # of what the array is, and what to pass instead
NUMPY: Final = ""


class Library(Protocol):
    """An array library besides numpy.

    Attributes
    ----------
    name : str
        The name of its root module.
    memory : HostDevice
        The allocator of results.
    """

    name: str
    memory: HostDevice

    def enter(self, array: Any, refuse: Refuse) -> Array:
        """Return a numpy view of an array's memory, or refuse the array."""

    def leave(self, array: Array) -> Any:
        """Return a result as an array of the library, over the same memory where the library can."""

    def note_writes(self, arrays: Iterable[Any]) -> None:
        """Tell the library that a call wrote to these arrays."""


def library_name(value: Any) -> str:
    """Return the root module of an array's library; empty for numpy's arrays, traced arrays, and other values.

    Examples
    --------
    >>> library_name(np.ones(3)), library_name(1.5)
    ('', '')
    """
    kind: Any = type(value)
    return name_of_kind(kind)


@lru_cache(maxsize=256)
def name_of_kind(kind: type) -> str:
    """Return the root module of the library of an array type."""
    if is_tensor(kind):
        return "torch"
    exchanges = hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__")
    if not exchanges or issubclass(kind, np.ndarray | np.generic):
        return NUMPY
    if getattr(kind, "stands_in", False) or hasattr(kind, "as_array_info"):
        return NUMPY
    return str(kind.__module__).partition(".")[0]
