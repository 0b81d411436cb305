"""Containers from outside as a traced function sees them: copies, in which arrays are tensors."""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import is_dataclass
from types import SimpleNamespace
from typing import Any


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
    made = copy.copy(value)
    for name, x in items.items():
        kind = next(c for c in (dict, list, deque) if isinstance(value, c))
        kind.__setitem__(made, name, x)
    return made


def contents(value: Any) -> list[Any]:
    """What is in a container, in order, names included."""
    if isinstance(value, SimpleNamespace) or is_dataclass(value):
        value = getattr(value, "__dict__", {})
    return [x for pair in value.items() for x in pair] if isinstance(value, dict) else list(value)
