"""What a traced function sees instead of containers, modules and `type`: stand-ins, which note what is read."""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import is_dataclass
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from pypto.errors.graph import OutsideWritten
from pypto.graph.ir.location import here

if TYPE_CHECKING:
    from pypto.graph.capture.reads import Reads


def items_of(value: Any) -> list[tuple[Any, Any]]:
    """What is in a container, by name or number."""
    value = vars(value) if type(value) is SimpleNamespace else value
    return list(value.items() if isinstance(value, dict) else enumerate(value))


def copied(value: Any, items: dict[Any, Any]) -> Any:
    """A container like another one with other things in it."""
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
    """What is in a container, in order, names included."""
    if isinstance(value, SimpleNamespace) or is_dataclass(value):
        value = getattr(value, "__dict__", {})
    return [x for pair in value.items() for x in pair] if isinstance(value, dict) else list(value)


class ModuleView:
    """A module, of which all that is read is noted."""

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
    """What `type` is while a function is traced."""
