"""The operations of a loop in the kernel language, in the types in which numpy computes them.

A row is a ufunc of numpy with a template of its kernel text. Numpy's own type resolution gives the types of operands
and result. Two numbers of Python follow Python's rules.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.graph.loops.numbers import Kind, NotCompiled, storage_type

_ALLOWED: Final = "biuf"

# fmt: off
TEMPLATES: Final[Mapping[str, str]] = MappingProxyType({
    "add": "({0} + {1})", "subtract": "({0} - {1})", "multiply": "({0} * {1})", "divide": "({0} / {1})",
    "negative": "(-{0})", "positive": "{0}", "absolute": "pto.abs({0})", "fabs": "pto.abs({0})",
    "square": "({0} * {0})", "sqrt": "pto.sqrt({0})", "exp": "pto.exp({0})", "log": "pto.log({0})",
    "exp2": "pto.exp2({0})", "expm1": "pto.expm1({0})", "log1p": "pto.log1p({0})", "log2": "pto.log2({0})",
    "log10": "pto.log10({0})", "sin": "pto.sin({0})", "cos": "pto.cos({0})", "tan": "pto.tan({0})",
    "arcsin": "pto.asin({0})", "arccos": "pto.acos({0})", "arctan": "pto.atan({0})", "sinh": "pto.sinh({0})",
    "cosh": "pto.cosh({0})", "tanh": "pto.tanh({0})", "arctan2": "pto.atan2({0}, {1})",
    "floor": "pto.floor({0})", "ceil": "pto.ceil({0})", "trunc": "pto.trunc({0})", "rint": "pto.rint({0})",
    "power": "pto.pow({0}, {1})", "reciprocal": "(1.0 / {0})", "copysign": "pto.copysign({0}, {1})",
    "maximum": "pto.maximum({0}, {1}, propagate_nan=True)", "minimum": "pto.minimum({0}, {1}, propagate_nan=True)",
    "less": "({0} < {1})", "less_equal": "({0} <= {1})", "greater": "({0} > {1})", "greater_equal": "({0} >= {1})",
    "equal": "({0} == {1})", "not_equal": "({0} != {1})",
    "logical_and": "({0} & {1})", "logical_or": "({0} | {1})", "logical_xor": "({0} ^ {1})",
    "logical_not": "({0} == False)", "bitwise_and": "({0} & {1})", "bitwise_or": "({0} | {1})",
    "bitwise_xor": "({0} ^ {1})", "invert": "(~{0})", "left_shift": "({0} << {1})", "right_shift": "({0} >> {1})",
    "isnan": "({0} != {0})", "isfinite": "pto.isfinite({0})", "isinf": "pto.isinf({0})",
})
_FLOORED: Final[Mapping[str, str]] = MappingProxyType({
    "floor_divide": "pto.where(({0} % {1} != 0) & (({0} < 0) != ({1} < 0)), {0} // {1} - 1, {0} // {1})",
    "remainder": "pto.where(({0} % {1} != 0) & (({0} < 0) != ({1} < 0)), {0} % {1} + {1}, {0} % {1})",
})
_REST: Final = "({0} % {1})"  # with the sign of the dividend
_OTHER_SIGN: Final = f"(({_REST} != 0) & (({_REST} < 0) != ({{1}} < 0)))"
_EXACT: Final = f"(({{0}} - {_REST}) / {{1}})"
_BELOW: Final = f"pto.where({_OTHER_SIGN}, {_EXACT} - 1, {_EXACT})"
_ROUNDED: Final = (
    f"pto.where({_BELOW} == 0, pto.copysign({_BELOW}, {{0}} / {{1}}), pto.floor({_BELOW} + 0.5))"
)
_FLOORED_FLOATS: Final[Mapping[str, str]] = MappingProxyType({
    "floor_divide": f"pto.where({{1}} != 0, {_ROUNDED}, {{0}} / {{1}})",
    "remainder": f"pto.where({_REST} == 0, pto.copysign({_REST}, {{1}}), "
                 f"pto.where({_OTHER_SIGN}, {_REST} + {{1}}, {_REST}))",
})
_PLAIN: Final[Mapping[str, str]] = MappingProxyType({"floor_divide": "({0} // {1})", "remainder": "({0} % {1})"})
PYTHON: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType({
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "power": operator.pow,
    "negative": operator.neg, "positive": operator.pos, "absolute": abs, "invert": operator.invert,
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
    "equal": operator.eq, "not_equal": operator.ne, "bitwise_and": operator.and_, "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor, "left_shift": operator.lshift, "right_shift": operator.rshift,
})
# fmt: on
COMPARISONS: Final = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
LOGICAL: Final = ("logical_and", "logical_or", "logical_xor", "logical_not")


@lru_cache(maxsize=1024)
def resolved(name: str, kinds: tuple[Kind, ...]) -> tuple[tuple[Kind, ...], Kind]:
    """Return the types of an operation's operands and of its result.

    Raises
    ------
    NotCompiled
        When numpy has no such operation, or computes it in a type that kernels lack.

    Examples
    --------
    >>> resolved("multiply", (np.dtype(np.float32), float))
    ((dtype('float32'), dtype('float32')), dtype('float32'))
    >>> resolved("divide", (int, int))
    ((<class 'float'>, <class 'float'>), <class 'float'>)
    """
    if name in LOGICAL:
        return (np.dtype(bool),) * len(kinds), np.dtype(bool)
    if all(isinstance(kind, type) for kind in kinds) and name in PYTHON:
        return of_python(name, kinds)
    wanted = [np.dtype(bool) if kind is bool else kind for kind in kinds]
    if all(isinstance(kind, type) for kind in wanted):
        wanted = [storage_type(kind) for kind in wanted]
    try:
        *operands, result = getattr(np, name).resolve_dtypes((*wanted, None))
    except TypeError as error:
        raise NotCompiled(f"np.{name}: {error}") from None
    if any(t.kind not in _ALLOWED for t in (*operands, result)):
        raise NotCompiled(f"np.{name} of {', '.join(map(str, kinds))}")
    return tuple(operands), result


def of_python(name: str, kinds: Sequence[Kind]) -> tuple[tuple[Kind, ...], Kind]:
    """Return the types of an operation on numbers of Python."""
    if name in COMPARISONS:
        return (float if float in kinds else int,) * len(kinds), bool
    if name in ("bitwise_and", "bitwise_or", "bitwise_xor") and set(kinds) == {bool}:
        return (bool,) * len(kinds), bool
    if float in kinds or name == "divide":
        if name in ("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift"):
            raise NotCompiled(f"`{name}` of floats")
        return (float,) * len(kinds), float
    return (int,) * len(kinds), int


def template(name: str, operands: Sequence[Kind], is_positive: bool) -> str:
    """Return the kernel text of an operation; `is_positive` says that both operands are known not to be negative."""
    dtype = storage_type(operands[0])
    if name in _FLOORED:
        return floored(name, dtype, is_positive or dtype.kind == "u")
    if name == "power" and dtype.kind != "f":
        raise NotCompiled("a power of integers")
    if dtype == np.bool_ and name in ("add", "maximum"):
        return "({0} | {1})"
    if dtype == np.bool_ and name in ("multiply", "minimum"):
        return "({0} & {1})"
    if dtype == np.bool_ and name in ("equal", "not_equal", "invert", "less", "greater", "negative"):
        raise_of = {"equal": "(({0} ^ {1}) == False)", "not_equal": "({0} ^ {1})", "invert": "({0} == False)"}
        if name in raise_of:
            return raise_of[name]
        raise NotCompiled(f"`{name}` of bools")
    if dtype.kind != "f" and name in ("floor", "ceil", "trunc", "rint", "isnan", "isfinite", "isinf", "reciprocal"):
        raise NotCompiled(f"np.{name} of integers")
    text = TEMPLATES.get(name)
    if text is None:
        raise NotCompiled(f"np.{name}")
    return text


def floored(name: str, dtype: np.dtype[Any], is_positive: bool) -> str:
    """Return the kernel text of a quotient rounded down or of its remainder."""
    if dtype.kind != "f":
        return (_PLAIN if is_positive else _FLOORED)[name]
    if dtype == np.float16:
        raise NotCompiled(f"`{name}` of {dtype}")
    return _FLOORED_FLOATS[name]
