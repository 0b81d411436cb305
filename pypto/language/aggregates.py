"""Classes whose instances are values of the language: tuples with names and methods."""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pypto.ops.public import Intrinsic, constexpr

__all__ = ["aggregate", "aggregate_replace", "constexpr_function"]


def aggregate(cls: type) -> Any:
    """A class of values, out of one with annotated fields.

    An instance is a tuple with names: functions take and return it, kernels take it as an argument, branches and loops
    carry it. It cannot be changed. Methods are functions of the kernel language, with or without `pto.jit`, or
    `pto.constexpr_function`; properties, static methods and class methods work as in Python. Where the class has no
    `__init__`, instances are made of the fields in their order, and fields may have defaults. An `__init__` assigns
    every field: ``self.x = …``.

    Parameters
    ----------
    cls : type
        Its annotations are the fields; those that say `pto.constexpr` are known at compile time.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> @pto.aggregate
    ... class Range:
    ...     low: pto.tensor
    ...     high: pto.tensor
    ...     def width(self):
    ...         return self.high - self.low
    >>> @pto.jit
    ... def kernel(out, r):
    ...     wider = Range(r.low, r.high + 1)
    ...     pto.store(out, wider.width())
    >>> out = np.zeros(1, np.int32)
    >>> kernel[1](out, Range(2, 5))
    >>> out
    array([4], dtype=int32)
    """
    return aggregate_class(cls)


def aggregate_class(cls: type, any_order: bool = False) -> Any:
    """The class of an aggregate; in `any_order`, fields without a default may stand behind those with one."""
    bases = [base for base in reversed(cls.__mro__) if base not in (object, tuple) and "_fields" not in vars(base)]
    annotations = {name: a for base in bases for name, a in inspect.get_annotations(base).items()}
    body: dict[str, Any] = {}
    for base in bases:
        body |= {**getattr(base, "_field_defaults", {}), **{n: x for n, x in vars(base).items() if n not in _OWN}}
    init = body.pop("__init__", None)
    fields = tuple(annotations)
    optional = [name for name in fields if name in body]
    is_ordered = optional == [*fields[len(fields) - len(optional) :]]
    if init is None and not is_ordered and not any_order:
        raise TypeError(f"{cls.__name__}: fields without a default stand before those with one")
    given = {name: body.pop(name) for name in optional}
    defaults = {name: x.value if isinstance(x, constexpr) else x for name, x in given.items() if init is None}
    make: Any = namedtuple
    plain: Any = make(cls.__name__, fields, defaults=defaults.values() if is_ordered else None)
    if not is_ordered:
        body["_field_defaults"] = defaults
    if init is not None:
        body["initializer"] = init
        body["__new__"] = constructor(cls.__name__, fields, getattr(init, "function", init))
    return type(cls.__name__, (plain,), {**body, "__slots__": (), "__annotations__": annotations})


def replaced(instance: Any, /, **changes: Any) -> Any:
    """A copy of an instance of an aggregate with other values in some fields."""
    fields = getattr(instance, "_fields", None)
    if fields is None:
        raise TypeError(f"aggregate_replace expects an aggregate instance, not a {type(instance).__name__}")
    for name in changes:
        if name not in fields:
            raise TypeError(f"{type(instance).__name__} has no field '{name}'; its fields are {', '.join(fields)}")
    return instance._replace(**changes)


class Replace(Intrinsic):
    """`aggregate_replace`, which works outside of kernels too."""

    def __call__(self, *instance: Any, **changes: Any) -> Any:
        return replaced(*instance, **changes)


aggregate_replace = Replace(
    "aggregate_replace",
    """A copy of an aggregate's instance with other values in some fields.

    Parameters
    ----------
    instance : instance of an aggregate
    **changes
        New values by the names of the fields.

    Examples
    --------
    >>> import pypto as pto
    >>> @pto.aggregate
    ... class Point:
    ...     x: pto.tensor
    ...     y: pto.tensor
    >>> pto.aggregate_replace(Point(1, 2), y=5)
    Point(x=1, y=5)
    """,
)

_OWN = (
    *("__dict__", "__weakref__", "__annotations__", "__annotate_func__", "__annotate__", "__slots__"),
    *("initializer", "__new__"),  # of a base that is an aggregate
)


def constructor(name: str, fields: tuple[str, ...], init: Callable[..., None]) -> Callable[..., Any]:
    """How an instance is made outside of kernels, by the class's `__init__`."""

    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        instance = SimpleNamespace()
        init(instance, *args, **kwargs)
        missing = [field for field in fields if not hasattr(instance, field)]
        if missing:
            raise TypeError(f"`__init__` of {name} must assign every field; it left out {', '.join(missing)}")
        return cls._make(getattr(instance, field) for field in fields)

    return __new__


class constexpr_function:
    """A function of the host that kernels call with constants; it is run at compile time. On the host, it is itself.

    Parameters
    ----------
    function : function
        Its result is a constant. It must depend on its arguments alone: a change of what else it reads is not seen.

    Examples
    --------
    >>> import pypto as pto
    >>> @pto.constexpr_function
    ... def digits(n):
    ...     return len(str(n))
    >>> digits(1234)
    4
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        vars(self).update(vars(function))
        self.function = self.host_function = self.__wrapped__ = function
        self.__name__, self.__doc__, self.__module__ = function.__name__, function.__doc__, function.__module__

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else self.function.__get__(instance, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)
