"""Pytrees: arguments and results that nest arrays in dicts, lists, tuples, named tuples and dataclasses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any


class Slot:
    """The slot of an output in a result; it is a leaf, so it is no dataclass."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"Slot({self.number})"


def children(tree: Any) -> tuple[Any, list[tuple[str, Any]]] | None:
    """Return the constructor and the named children of a container, or None for a leaf."""
    if isinstance(tree, tuple | list):
        kind = type(tree) if hasattr(tree, "_fields") else tuple if isinstance(tree, tuple) else list
        return kind, [(str(n), x) for n, x in enumerate(tree)]
    if isinstance(tree, dict):
        return dict, [(str(name), x) for name, x in tree.items()]
    if is_dataclass(tree) and not isinstance(tree, type) and not hasattr(tree, "as_array_info"):
        return type(tree), [(f.name, getattr(tree, f.name)) for f in fields(tree) if f.init]
    return None


def leaves(tree: Any, path: str = "") -> list[tuple[str, Any]]:
    """Return all leaves with their paths, in order.

    Examples
    --------
    >>> leaves({"a": (1, 2), "b": 3})
    [('a.0', 1), ('a.1', 2), ('b', 3)]
    """
    items = children(tree)
    if items is None:
        return [(path, tree)]
    return [leaf for name, x in items[1] for leaf in leaves(x, f"{path}.{name}" if path else name)]


def mapped(tree: Any, change: Callable[[str, Any], Any], path: str = "") -> Any:
    """Replace the leaves of a tree."""
    parts = children(tree)
    if parts is None:
        return change(path, tree)
    kind, items = parts
    changed = [(name, mapped(x, change, f"{path}.{name}" if path else name)) for name, x in items]
    if kind is dict:
        return dict(zip(tree, (x for _, x in changed), strict=True))
    if is_dataclass(kind):
        return tree.__class__(**dict(changed))
    values = [x for _, x in changed]
    return kind(*values) if hasattr(kind, "_fields") else kind(values)
