"""Exponents of integers: none is negative, as in numpy.

A number is checked while a function is traced, an array when its plan runs: a kernel finds whether any element is below
0, and a step behind it raises or gives 0, which is added to the exponents. So the power itself stays in its kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto.errors.graph import NegativePower
from pypto.graph.ir.node import Graph, Node
from pypto.graph.ir.types import TensorType
from pypto.loc import UNKNOWN, Caller

Array = np.ndarray[Any, Any]


class ExponentCheck:
    """Gives 0 of a dtype unless it is told that an exponent is negative."""

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
    """Exponents of integers that are known not to be negative when a power is computed.

    Raises
    ------
    NegativePower
        When they are one number below 0.
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
    """Whether no element of an array of integers can be below 0, by what makes it."""
    if y.is_constant:
        return bool(y.attr("value") >= 0)
    if y.type.dtype.kind in ("uint", "bool") or y.op == "extent" or 0 in y.shape:
        return True
    if y.op == "arange":
        return bool(y.attr("start") >= 0)
    if y.op == "cast":
        source = y.inputs[0].type.dtype
        is_wider = not source.is_float and source.bits < y.type.dtype.bits
        return (is_wider or source == y.type.dtype) and is_never_negative(y.inputs[0])
    if y.is_movement:
        return is_never_negative(y.inputs[0])
    if y.op == "where":
        return all(map(is_never_negative, y.inputs[1:]))
    return y.op == "maximum" and any(map(is_never_negative, y.inputs))
