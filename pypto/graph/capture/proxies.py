"""Proxies of containers, modules and `type`, which record the reads of a traced function."""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import is_dataclass
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from pypto.errors.graph import OutsideWritten
from pypto.graph.ir.node import here

if TYPE_CHECKING:
    from pypto.graph.capture.reads import Reads


def items_of(value: Any) -> list[tuple[Any, Any]]:
    """Return the items of a container, by key or number."""
    value = vars(value) if type(value) is SimpleNamespace else value
    return list(value.items() if isinstance(value, dict) else enumerate(value))


def copied(value: Any, items: dict[Any, Any]) -> Any:
    """Copy a container with other contents."""
    if isinstance(value, tuple):
        return type(value)(*items.values()) if hasattr(value, "_fields") else tuple(items.values())
    if type(value) in (list, dict):
        return items if isinstance(value, dict) else list(items.values())
    if type(value) is SimpleNamespace:
        return SimpleNamespace(**items)
    copied_value = copy.copy(value)
    for name, x in items.items():
        kind = next(c for c in (dict, list, deque) if isinstance(value, c))
        kind.__setitem__(copied_value, name, x)
    return copied_value


def contents(value: Any) -> list[Any]:
    """Return the contents of a container in order, keys included."""
    if isinstance(value, SimpleNamespace) or is_dataclass(value):
        value = getattr(value, "__dict__", {})
    return [x for pair in value.items() for x in pair] if isinstance(value, dict) else list(value)


class ModuleView:
    """A stand-in for a module that records all reads."""

    def __init__(self, reads: Reads, place: int, module: ModuleType) -> None:
        object.__setattr__(self, "_seen", (reads, place, module))

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return ModuleType

    def __getattr__(self, name: str) -> Any:
        reads, place, module = object.__getattribute__(self, "_seen")
        value = getattr(module, name)
        return value if name.startswith("__") else reads.child(place, "attr", name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        _, _, module = object.__getattribute__(self, "_seen")
        raise OutsideWritten(here().loc(), what=f"`{module.__name__}.{name}`")


class _TypeSeen(type):
    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) != 1 or kwargs:
            return type(*args, **kwargs)
        (value,) = args
        kind = type(value)
        return value.__class__ if getattr(kind, "stands_in", False) else kind

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, type)

    def __subclasscheck__(cls, subclass: Any) -> bool:
        return issubclass(subclass, type)

    def __eq__(cls, other: object) -> bool:
        return other is type or other is cls

    def __hash__(cls) -> int:
        return hash(type)


class TypeSeen(metaclass=_TypeSeen):
    """The stand-in for `type` during a trace."""
