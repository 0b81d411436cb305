"""The plugin that the entry point names: ``pto.device("portable-c")``."""

from __future__ import annotations

from typing import Any, Final

from pypto.backends.plugin import Plugin, Services


class PortableC(Plugin):
    targets = ("portable-c",)

    def open(self, name: str, services: Services) -> Any:
        return self.target(name)

    def target(self, name: str) -> Any:
        from pypto.runtime.places import HostDevice
        from pypto_portable_c.backend import PortableCBackend, Target

        return HostDevice(name, PortableCBackend(Target()))


PLUGIN: Final = PortableC()
