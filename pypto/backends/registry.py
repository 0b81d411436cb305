"""The registry of backends: those that come with pypto, and those of the entry point group `pypto.backends`.

The built-in ones are found through a table, so that they work without any metadata of the installation, and no other
package can take their names. Metadata is read only when a device or target has a name that none of them knows.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pypto.backends.plugin import HostPlugin, Plugin
from pypto.errors import OptionError
from pypto.errors.device import UnknownDevice

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "pypto.backends"
HOST: Final = "cpu"  # runs the launches for which no device is named
BUILT_IN: Final = MappingProxyType({
    "cpu": "pypto.backends.cpu.plugin:PLUGIN",
    "ascend": "pypto.backends.ascend.plugin:PLUGIN",
    "ascend-sim": "pypto.backends.ascend.plugin:PLUGIN",
})  # fmt: skip


def plugin_of(device: str) -> Plugin:
    """The plugin that opens a device, by the part of its name before a colon.

    Raises
    ------
    UnknownDevice
        When no backend has such devices.
    """
    kind = device.partition(":")[0] if isinstance(device, str) else ""
    if kind in BUILT_IN:
        return built_in(kind)
    entry = next((entry for entry in installed() if entry.name == kind), None)
    if entry is None:
        raise UnknownDevice(name=device)
    return loaded(entry)


def host() -> HostPlugin:
    """The plugin of the host's backend."""
    plugin = built_in(HOST)
    assert isinstance(plugin, HostPlugin)
    return plugin


def plugin_for_target(target: str) -> Plugin:
    """The plugin that compiles for a target.

    Raises
    ------
    OptionError
        When no backend knows it.
    Diagnostic
        When a backend knows the machine, and says why it does not compile for it.
    """
    targets: list[str] = []
    for plugin in plugins():
        if target in plugin.targets:
            return plugin
        plugin.refuse(target)
        targets += plugin.targets
    raise OptionError(f"unknown target {target!r}; known are {', '.join(targets)}")


def plugins() -> Iterator[Plugin]:
    """All plugins, each once: first the built-in ones."""
    yield from dict.fromkeys((*map(built_in, BUILT_IN), *map(loaded, installed())))


def built_in(kind: str) -> Plugin:
    """A plugin that comes with pypto."""
    module, _, name = BUILT_IN[kind].partition(":")
    plugin: Plugin = getattr(importlib.import_module(module), name)
    return plugin


def installed() -> list[EntryPoint]:
    """Entry points of other packages, in the order of their names."""
    from importlib.metadata import entry_points

    return sorted((e for e in entry_points(group=GROUP) if e.name not in BUILT_IN), key=lambda e: e.name)


def loaded(entry: EntryPoint) -> Plugin:
    """The plugin that an entry point names."""
    try:
        plugin: Plugin = entry.load()
    except Exception as error:
        error.add_note(f"this is the backend {entry.name!r} of the entry point group {GROUP}: {entry.value}")
        raise
    return plugin
