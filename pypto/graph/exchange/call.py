"""A call on arrays of a library: the numpy views that it computes on, and the arrays that they show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from pypto.graph.exchange.libraries import NUMPY, Library
from pypto.runtime.launches import HOST
from pypto.runtime.places import HostDevice

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Call:
    """The arguments of a call as numpy sees them, and the library that its results belong to.

    Parameters
    ----------
    args, kwargs
        The arguments with numpy views in place of the library's arrays.
    library : Library, optional
        The library; without it, arrays are numpy's.
    originals : mapping from int to array
        The library's arrays, by the `id` of their view.
    views : tuple of ndarray
        The views, which stay alive as long as their `id` is used.
    """

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    library: Library | None = None
    originals: Mapping[int, Any] = field(default_factory=dict)
    views: tuple[Array, ...] = ()

    @property
    def name(self) -> str:
        """The name of the library; empty for numpy."""
        return NUMPY if self.library is None else self.library.name

    @property
    def memory(self) -> HostDevice:
        """The allocator of results."""
        return HOST if self.library is None else self.library.memory

    def originals_of(self, arrays: Iterable[Array]) -> list[Any]:
        """Return arrays of the call with the library's arrays in place of their views."""
        return [self.originals.get(id(x), x) for x in arrays] if self.originals else []

    def leave(self, array: Any) -> Any:
        """Return an array of a result as an array of the library; an argument leaves as itself."""
        if self.library is None or not isinstance(array, np.ndarray):
            return array
        return self.originals[id(array)] if id(array) in self.originals else self.library.leave(array)

    def note_writes(self, arrays: Sequence[Array]) -> None:
        """Tell the library that the call wrote to some arguments."""
        if self.library is not None:
            self.library.note_writes([self.originals[id(x)] for x in arrays if id(x) in self.originals])


OF_NUMPY: Final = Call()
