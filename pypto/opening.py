"""Devices by name, each opened once by the plugin of its backend."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any

from pypto.backends import registry
from pypto.backends.plugin import Services
from pypto.errors.device import UnknownDevice
from pypto.options import Settings
from pypto.runtime.mode import MODE


class Devices:
    """The devices of a process, by their names."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.known: dict[str, Any] = {}
        self.lock = threading.RLock()

    @functools.cached_property
    def default(self) -> Any:
        """Where launches run if nothing else is said; None is the host's own backend, without a detour."""
        place = self.named(self.settings.device)
        return None if place.backend is None else place

    def named(self, name: str) -> Any:
        """A device."""
        plugin = registry.plugin_of(name)
        name = plugin.canonical(name)
        return self.open_once(name, lambda: plugin.open(name, Services(self.settings, self.named)))

    def chip(self, name: str) -> Any:
        """A chip that is not there, to compile for."""
        return self.open_once(name, lambda: registry.plugin_for_target(name).target(name))

    def device_or_chip(self, name: str) -> Any:
        """A device or chip by its name; without a name, the device in force."""
        if not name:
            return MODE.get().device or self.default
        try:
            return self.named(name)
        except UnknownDevice:
            return self.chip(name)

    def open_once(self, name: str, make: Callable[[], Any]) -> Any:
        with self.lock:
            if name not in self.known:
                self.known[name] = make()
            return self.known[name]

    def backend(self, kernel: str, infos: Mapping[str, Any]) -> Any:
        """The backend of the device that the arrays of a launch are on, or else of where launches run."""
        from pypto.runtime.places import device_of

        place = device_of(kernel, infos) or self.device_or_chip("")
        return getattr(self.named(place) if isinstance(place, str) else place, "backend", None)
