"""A device that counts what is launched on it."""

from __future__ import annotations

from typing import Any

import pypto as pto
from pypto.runtime.places import Place


class Watched(Place):
    """A device under its name."""

    def __init__(self, name: str) -> None:
        self.device = pto.device(name)
        self.launches = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.device, name)

    def launch(self, kernel: Any, sizes: Any, values: Any) -> None:
        self.device.launch(kernel, sizes, values)
        self.launches += 1
