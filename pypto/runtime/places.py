"""Places where launches run that need no runtime library: the host itself, and chips that are not there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pypto.errors.device import MixedDevices
from pypto.runtime.arrays import ArrayInfo
from pypto.runtime.launch import Sizes, Values
from pypto.runtime.mode import MODE


def device_of(kernel: str, infos: Mapping[str, Any]) -> Any:
    """The device that all arrays of a launch are on, or its name; empty where there are none, and for the host's.

    Raises
    ------
    MixedDevices
        When they are on several.
    """
    arrays = [(arg, x.device) for arg, x in infos.items() if isinstance(x, ArrayInfo)]
    names = [getattr(place, "name", place) or "cpu" for _, place in arrays]
    for (arg, _), name in zip(arrays, names, strict=True):
        if name != names[0]:
            raise MixedDevices(kernel=kernel, arg=arg, device=name, other=arrays[0][0], elsewhere=names[0])
    return arrays[0][1] if arrays else ""


class Place:
    """Something that launches run on, for the length of a `with` block."""

    tells_time: bool = True  # whether it says anything how long a launch takes

    def __enter__(self) -> Any:
        before = MODE.get()
        MODE.set(replace(before, device=self, outer=before))
        return self

    def __exit__(self, *_: object) -> None:
        MODE.set(MODE.get().outer)


@dataclass(eq=False, repr=False)
class HostDevice(Place):
    """A device that works on the host's memory: its arrays are numpy's.

    `backend` is None for the host itself, where the options of a kernel choose the backend.
    """

    name: str
    backend: Any = None

    def array(self, x: Any) -> Any:
        """A copy of an array."""
        from pypto.runtime.device_arrays import DeviceArray

        return x.numpy() if isinstance(x, DeviceArray) else np.array(x)

    def empty(self, shape: int | tuple[int, ...], dtype: Any = np.float32) -> Any:
        """An array whose elements hold anything."""
        return np.empty(shape, dtype)

    def synchronize(self) -> None:
        """Launches here are done when they return."""

    def launch(self, kernel: Any, sizes: Sizes, values: Values) -> None:
        kernel.execute(sizes, values)

    def __repr__(self) -> str:
        return f"Device({self.name})"


@dataclass(eq=False)
class Chip(Place):
    """A chip that is not there: kernels are compiled for it, and none runs."""

    name: str
    backend: Any
    tells_time: bool = False
