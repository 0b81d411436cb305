"""`type` as a traced function sees it: of an array that is traced, it is numpy's."""

from __future__ import annotations

from typing import Any


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
