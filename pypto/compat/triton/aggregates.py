"""`triton.aggregate`: an aggregate of ours, whose constants are `constexpr` outside of kernels, as in Triton."""

from __future__ import annotations

from typing import Any, NoReturn

from pypto.language.aggregates import aggregate_class
from pypto.ops.public import constexpr
from pypto.runtime.signature import annotation_word


def aggregate(cls: type) -> Any:
    """A class of values; see `pypto.aggregate`.

    Fields that are annotated as `tl.constexpr` or `tl.tuple` hold constants as `tl.constexpr`. Fields without a
    default may stand behind those with one.
    """
    for base in cls.__bases__:
        if base is not object and not hasattr(base, "_fields"):
            raise TypeError(f"Aggregates can only inherit from other aggregates, but got non-aggregate base: {base}")
    plain = aggregate_class(cls, any_order=True)
    wraps = [holds_constants(plain.__annotations__[name]) for name in plain._fields]

    def wrapped(kind: Any, values: Any) -> Any:
        return kind._make(constant(x) if wrap else x for x, wrap in zip(values, wraps, strict=True))

    def __new__(kind: Any, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(plain, "initializer"):
            kwargs = {**defaults_after(plain, len(args)), **kwargs}
        return wrapped(kind, plain.__new__(kind, *args, **kwargs))

    def _replace(self: Any, **changes: Any) -> Any:
        return wrapped(type(self), plain._replace(self, **changes))

    def __setattr__(self: Any, name: str, value: Any) -> NoReturn:
        way = "use aggregate_replace() to construct a modified copy"
        raise AttributeError(f"cannot assign to field {name!r} on immutable aggregate {cls.__name__}; {way}")

    body = {"__new__": __new__, "_replace": _replace, "__setattr__": __setattr__, "__slots__": ()}
    return type(
        cls.__name__, (plain,), {**body, "__module__": cls.__module__, "__annotations__": plain.__annotations__}
    )


def holds_constants(annotation: Any) -> bool:
    return annotation is tuple or annotation_word(annotation) in ("constexpr", "tuple")


def defaults_after(plain: Any, given: int) -> dict[str, Any]:
    """Defaults of the fields that arguments by position do not set."""
    return {name: x for name, x in plain._field_defaults.items() if name in plain._fields[given:]}


def constant(x: Any) -> Any:
    """A constant as `constexpr`; the items of a tuple are constants of their own."""
    if isinstance(x, tuple):
        return getattr(x, "_make", tuple)(map(constant, x))
    return x if isinstance(x, constexpr) else constexpr(x)
