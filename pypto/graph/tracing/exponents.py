"""Checks of integer exponents, which may not be negative, as in numpy.

Tracing checks a constant exponent, and the plan checks an array: a kernel reduces the test for negative elements, and a
following step raises or returns 0, which is added to the exponents. So the power itself stays fused in its kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors.graph import NegativePower
from pypto.graph.ir.node import Graph, Node
from pypto.graph.ir.types import TensorType
from pypto.loc import UNKNOWN, Caller

Array = np.ndarray[Any, Any]


class ExponentCheck:
    """A step that raises if an exponent is negative, and returns 0 otherwise."""

    def __init__(self, dtype: np.dtype[Any], place: Any) -> None:
        self.dtype = dtype
        self.place = place
        self.__qualname__ = "check of exponents"

    def __call__(self, is_negative: Array) -> Sequence[Array]:
        if is_negative:
            loc = self.place.loc() if isinstance(self.place, Caller) else self.place or UNKNOWN
            raise NegativePower(loc, problem="an exponent in an array is below 0")
        return [np.zeros((), self.dtype)]


def without_negatives(graph: Graph, y: Node, place: Any) -> Node:
    """Return integer exponents with a check that none is negative.

    Raises
    ------
    NegativePower
        When the exponent is a negative constant.
    """
    if y.is_constant and y.attr("value") < 0:
        loc = place.loc() if isinstance(place, Caller) else place or UNKNOWN
        raise NegativePower(loc, problem=f"the exponent is {y.attr('value')}")
    if is_never_negative(y):
        return y
    below = graph.add("lt", y, graph.constant(0, TensorType((), y.type.dtype), place), place=place)
    flag = graph.add("reduce_or", below, place=place, axes=tuple(range(len(y.shape))), keep_dims=False)
    check = ExponentCheck(y.type.dtype.numpy, place)
    zero = graph.add("call", flag, place=place, type=TensorType((), y.type.dtype), function=check, result=0)
    return graph.add("add", y, zero, place=place)


def is_never_negative(y: Node) -> bool:
    """Whether the definition of an integer array proves that no element is negative."""
    if y.type.dtype.kind in ("uint", "bool") or 0 in y.shape:
        return True
    if y.is_number:
        return not y.is_constant or bool(y.attr("value") >= 0)
    if y.is_movement:
        return is_never_negative(y.inputs[0])
    return y.op in _NEVER_NEGATIVE and _NEVER_NEGATIVE[y.op](y)


def is_widened(y: Node) -> bool:
    """Whether a cast keeps every sign, of an array that has no element below 0."""
    source = y.inputs[0].type.dtype
    keeps = source == y.type.dtype or (not source.is_float and source.bits < y.type.dtype.bits)
    return keeps and is_never_negative(y.inputs[0])


_NEVER_NEGATIVE: Final[Mapping[str, Callable[[Node], bool]]] = MappingProxyType(
    {
        "arange": lambda y: bool(y.attr("start") >= 0),
        "cast": is_widened,
        "where": lambda y: all(map(is_never_negative, y.inputs[1:])),
        "maximum": lambda y: any(map(is_never_negative, y.inputs)),
    }
)
