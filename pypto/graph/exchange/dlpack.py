"""Libraries whose arrays are exchanged by DLPack, and by the functions of their array API namespace, such as jax."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from pypto.graph.exchange.libraries import Library, Refuse, library_name
from pypto.graph.exchange.tensors import Torch
from pypto.runtime.places import HostDevice

Array = np.ndarray[Any, Any]
HOST_KINDS: Final = (1, 3, 11)  # DLPack's kinds of memory that the host reads: its own, and pinned for CUDA or ROCm


def library_of(array: Any) -> Library:
    """Return the row of the library of an array."""
    return Torch() if library_name(array) == "torch" else Exchange(array)


class Exchange:
    """A library whose arrays are exchanged by DLPack, such as jax; it is known by one of its arrays."""

    memory = HostDevice("cpu")

    def __init__(self, array: Any) -> None:
        self.name = library_name(array)
        namespace = getattr(array, "__array_namespace__", None)
        self.module: Any = namespace() if callable(namespace) else sys.modules.get(self.name)

    def enter(self, array: Any, refuse: Refuse) -> Array:
        """Return a numpy view of an array's memory, or refuse the array."""
        kind = type(array).__name__
        try:
            place = int(array.__dlpack_device__()[0])
            if place not in HOST_KINDS:
                refuse(
                    f"a {kind} on the device {tuple(array.__dlpack_device__())} of DLPack", "move it to the CPU first"
                )
            interface = hasattr(type(array), "__array__")
            view: Array = np.asarray(array) if interface else np.from_dlpack(array)
        except (TypeError, ValueError, RuntimeError, BufferError, AttributeError) as error:
            refuse(f"a {kind} that gives no array: {error}", "pass `np.asarray(x)` of it")
        return view

    def leave(self, array: Array) -> Any:
        """Return a result as an array of the library, over the same memory where the library can."""
        for name in ("from_dlpack", "asarray"):  # jax takes a bfloat16 of numpy by the second alone
            function = getattr(self.module, name, None)
            if function is None:
                continue
            try:
                return function(array)
            except (TypeError, ValueError, RuntimeError, BufferError):
                continue
        return array

    def note_writes(self, arrays: Iterable[Any]) -> None:
        """Arrays of such a library keep no account of writes."""
