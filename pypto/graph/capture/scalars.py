"""Run-time scalars: numbers that differ from call to call become inputs of a plan instead of constants.

A number that had two values so far becomes a run-time scalar. Python repeats its own arithmetic on such numbers before
each launch; an operation with an array has numpy's result type for a Python number. If the function needs the value
itself, the plan is valid for this value only.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto.graph.capture.guards import CapturedInput, equal, is_array, is_scalar, of_type

if TYPE_CHECKING:
    from pypto.graph.capture.reads import Reads

_NUMBERS = (int, float, np.integer, np.floating)


def binary(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An operator and its reflected form."""

    def forward(self: Any, other: Any) -> Any:
        return computed(function, self, other) if is_operand(other) else NotImplemented

    def reflected(self: Any, other: Any) -> Any:
        return computed(function, other, self) if is_operand(other) else NotImplemented

    return forward, reflected


def is_operand(value: Any) -> bool:
    """Whether Python's arithmetic applies to a value and a number."""
    kind = type(value)
    return not is_array(value) and (issubclass(kind, Scalar) or issubclass(kind, _NUMBERS))


def unary(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self: computed(function, self)


class Scalar:
    """A Python or numpy number whose value is an input of the plan."""

    stands_in = is_scalar = True
    __slots__ = ("__weakref__", "reads", "row", "value")

    def __init__(self, reads: Reads, row: int, value: Any) -> None:
        self.reads = reads
        self.row = row
        self.value = value

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.value)

    def pin(self) -> Any:
        """Return the number itself, which pins the plan to this value."""
        reads = self.reads
        path = ("pin", self.row)
        if path not in reads.places:
            reads.pin(self.row)
            row, text = self.row, reads.rows[self.row].text
            reads.add(path, text, lambda values, roots: values[row], equal(self.value), self.value)
        return self.value

    def given(self, dtype: Any) -> Any:
        """Return the graph input that holds this number in an element type."""
        reads = self.reads
        array = reads.scalars.get((self.row, dtype))
        if array is None:
            array = reads.scalars[self.row, dtype] = np.array(self.value, dtype)
            reads.inputs[id(array)] = CapturedInput(self.row, dtype)
        return reads.graph.argument(reads.rows[self.row].text, array)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if all(is_scalar(x) or type(x) in (int, float) or isinstance(x, np.generic) for x in inputs):
            if method == "__call__" and not kwargs and ufunc.nout == 1:
                return computed(ufunc, *inputs)
            return getattr(ufunc, method)(*map(plain, inputs), **kwargs)
        return self.reads.graph.ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Run a numpy function; it gets plain numbers if no argument is an array, since arrays promote differently."""
        if any(not issubclass(t, Scalar | np.ndarray) for t in types):
            return NotImplemented  # a traced array among the operands takes run-time scalars
        return function(*pinned(args), **pinned(kwargs))

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self.value), (self.pin(),)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.pin(), dtype)

    def __float__(self) -> float:
        return float(self.pin())

    def __int__(self) -> int:
        return int(self.pin())

    def __index__(self) -> int:
        return operator.index(self.pin())

    def __bool__(self) -> bool:
        return bool(computed(bool, self))

    def __hash__(self) -> int:
        return hash(self.pin())

    def __repr__(self) -> str:
        return repr(self.pin())

    def __str__(self) -> str:
        return str(self.pin())

    def __format__(self, how: str) -> str:
        return format(self.pin(), how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.pin(), name)

    __add__, __radd__ = binary(operator.add)
    __sub__, __rsub__ = binary(operator.sub)
    __mul__, __rmul__ = binary(operator.mul)
    __truediv__, __rtruediv__ = binary(operator.truediv)
    __floordiv__, __rfloordiv__ = binary(operator.floordiv)
    __mod__, __rmod__ = binary(operator.mod)
    __pow__, __rpow__ = binary(operator.pow)
    __divmod__, __rdivmod__ = binary(divmod)
    __and__, __rand__ = binary(operator.and_)
    __or__, __ror__ = binary(operator.or_)
    __xor__, __rxor__ = binary(operator.xor)
    __lshift__, __rlshift__ = binary(operator.lshift)
    __rshift__, __rrshift__ = binary(operator.rshift)
    __lt__, __le__, __gt__, __ge__ = (binary(f)[0] for f in (operator.lt, operator.le, operator.gt, operator.ge))
    __eq__, __ne__ = (binary(f)[0] for f in (operator.eq, operator.ne))
    __neg__, __pos__, __abs__, __invert__ = (unary(f) for f in (operator.neg, operator.pos, operator.abs, operator.inv))
    __floor__, __ceil__, __trunc__ = (unary(f) for f in (math.floor, math.ceil, math.trunc))

    def __round__(self, digits: Any = None) -> Any:
        return computed(round, self) if digits is None else computed(round, self, digits)


def number_of(value: Any) -> Any:
    """Return the current number of a run-time scalar without pinning it, for facts that depend on its type only."""
    return value.value if is_scalar(value) else value


def plain(value: Any) -> Any:
    """Return the number of a run-time scalar, and pin the plan to it; other values are unchanged."""
    return value.pin() if is_scalar(value) else value


def pinned(value: Any) -> Any:
    """Replace the run-time scalars among arguments by their numbers, and pin the plan to them."""
    if type(value) in (list, tuple):
        return type(value)(map(pinned, value))
    return {k: pinned(x) for k, x in value.items()} if type(value) is dict else plain(value)


def computed(function: Callable[..., Any], *operands: Any) -> Any:
    """Apply a function to run-time scalars: return a scalar that each call computes, or a pinned answer."""
    first = next(x for x in operands if is_scalar(x))
    reads = first.reads
    value = function(*map(number_of, operands))
    parts = tuple((True, x.row) if is_scalar(x) else (False, x) for x in operands)
    path = ("compute", function, tuple((is_row, x if is_row else repr(x), type(x)) for is_row, x in parts))
    if path in reads.places:
        return reads.entered[reads.places[path]]

    def get(values: list[Any], roots: Any) -> Any:
        return function(*(values[x] if is_row else x for is_row, x in parts))

    name = getattr(function, "__name__", "number")
    is_number = isinstance(value, _NUMBERS) and not isinstance(value, bool)
    reads.operands[len(reads.rows)] = [x for is_row, x in parts if is_row]
    place = reads.add(path, name, get, of_type(type(value)) if is_number else equal(value), value)
    if is_number:
        reads.entered[place] = Scalar(reads, place, value)
    return reads.entered[place]
