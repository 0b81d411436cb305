"""The record of an ATen op: which array function computes it, and how its operands are promoted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import ml_dtypes
import numpy as np

from pypto.graph.exchange.tensors import numpy_types
from pypto.graph.ir.dims import Size
from pypto.graph.ir.node import here
from pypto.graph.ir.types import TensorType, accumulator, is_floating
from pypto.graph.tracing.tensor import Tensor, TensorGraph
from pypto.ir.types import int32

F = TypeVar("F", bound=Callable[..., Any])
NARROW: Final = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


class NotLowered(Exception):
    """A row does not cover this use of its op: torch runs the op as a step of the plan."""


@dataclass(frozen=True, slots=True)
class Result:
    """The type of a result, as torch says it.

    Parameters
    ----------
    dtype : numpy.dtype
    shape : tuple of int
        Sizes may have named dimensions.
    """

    dtype: np.dtype[Any]
    shape: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IndexRange:
    """Indices along an axis, which a call checks as torch does.

    Parameters
    ----------
    index : Tensor
    axis : int
    size : int
        The size of the axis, which may have named dimensions.
    counts_back : bool
        Whether a negative index counts from the end.
    """

    index: Any
    axis: int
    size: Any
    counts_back: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """An ATen op as a function on tensors.

    Parameters
    ----------
    name : str
        The name of the op without its overload, such as ``add``.
    lower : callable
        Takes the arguments of the op, tensors in place of torch's, and what `wants` names, by keyword.
    wants : tuple of str
        ``results``, a tuple of `Result`; ``graph``, the graph that a new array is made in; ``inputs``, torch's fake
        tensors of the arguments.
    is_elementwise : bool
        Whether an element of the result depends on elements at its own place alone.
    indices : callable, optional
        Takes the arguments, and returns the indices that have to be in range: a gather reads zeros elsewhere.
    """

    name: str
    lower: Callable[..., Any]
    wants: tuple[str, ...] = ()
    is_elementwise: bool = False
    indices: Callable[..., list[IndexRange]] | None = None


def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """Return numpy's dtype for one of torch.

    Raises
    ------
    NotLowered
        When numpy arrays have no such elements.
    """
    known: np.dtype[Any] | None = numpy_types().get(dtype)
    if known is None:
        raise NotLowered(f"{dtype} is no dtype of numpy arrays")
    return known


def is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def opmath(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which torch computes elements of a dtype: float32 for narrow floats."""
    return accumulator(dtype) if is_floating(dtype) else dtype


_KINDS: Final = "biufc"


def counted(graph: TensorGraph, size: Any) -> Tensor:
    """Return the numbers from 0 to a size, which may be a named dimension."""
    node = graph.add("arange", type=TensorType((size,), int32), place=here(), start=0, end=size)
    return Tensor.fresh(graph, node)


def kind_of(value: Any) -> int:
    """Return the category of torch's promotion: bool, integer, float or complex."""
    if is_tensor(value):
        return 2 if is_floating(value.dtype) else {"b": 0, "i": 1, "u": 1, "c": 3}[value.dtype.kind]
    if isinstance(value, bool):
        return 0
    return 3 if isinstance(value, complex) else 2 if isinstance(value, float) else 1


def joined(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype to which torch promotes two: the wider float where one is a float."""
    if is_floating(a) != is_floating(b) and "c" not in (a.kind, b.kind):
        return a if is_floating(a) else b
    if a in NARROW and b in NARROW and a != b:
        return np.dtype(np.float32)
    return np.promote_types(a, b)


def promoted(*operands: Any) -> np.dtype[Any]:
    """Return the dtype of torch's promotion: tensors, then tensors without dimensions, then Python numbers."""
    groups = ([x for x in operands if is_tensor(x) and x.ndim], [x for x in operands if is_tensor(x) and not x.ndim])
    numbers = [x for x in operands if not is_tensor(x) and x is not None]
    dtype: np.dtype[Any] | None = None
    for group in groups:
        given = None
        for x in group:
            given = x.dtype if given is None else joined(given, x.dtype)
        if given is not None and (dtype is None or category(given) > category(dtype)):
            dtype = given
    highest = max(map(kind_of, numbers), default=-1)
    if dtype is None or highest > category(dtype):
        defaults = (np.bool_, np.int64, np.float32, np.complex64)
        if highest == 3 and dtype == np.float64:
            return np.dtype(np.complex128)
        return np.dtype(defaults[highest])
    return dtype


def category(dtype: np.dtype[Any]) -> int:
    return 2 if is_floating(dtype) else {"b": 0, "i": 1, "u": 1, "c": 3}[dtype.kind]


def as_type(value: Any, dtype: np.dtype[Any]) -> Any:
    """Cast a tensor; a number becomes one of that dtype, and a size stays one."""
    if is_tensor(value):
        return value if value.dtype == dtype else value.astype(dtype)
    if isinstance(value, Size):
        return value
    if dtype.kind in "iu" and isinstance(value, int) and not isinstance(value, bool):
        info = np.iinfo(dtype)
        span = int(info.max) - int(info.min) + 1
        value = (value - int(info.min)) % span + int(info.min)  # C++ wraps the number, too
    return dtype.type(value)


def computed(dtype: np.dtype[Any], function: Callable[..., Any], *operands: Any) -> Any:
    """Compute with operands of one dtype, as torch does it: narrow floats in float32, rounded once."""
    inner = opmath(dtype)
    operands = tuple(as_type(x, dtype) if is_tensor(x) else x for x in operands)
    result = function(*(as_type(x, inner) for x in operands))
    return result.astype(dtype) if result.dtype == inner != dtype else result
