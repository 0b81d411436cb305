"""Array operations: functions that are traced if an argument is traced, and otherwise run as fused functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from pypto.arguments import BOUNDARY
from pypto.errors.graph import WrongKeyword
from pypto.graph.fused import Fused
from pypto.graph.ir.node import here
from pypto.graph.ir.types import accumulator, is_floating
from pypto.graph.tracing import ordering, products
from pypto.graph.tracing.arguments import keyword_meant
from pypto.graph.tracing.tensor import Tensor
from pypto.graph.tracing.ufuncs import cast, lift
from pypto.ops.table import TABLE

F = TypeVar("F", bound=Callable[..., Any])


def operation(function: F) -> F:
    """Make an array function for traced arrays and for numpy arrays.

    Examples
    --------
    >>> import numpy as np
    >>> double = operation(lambda x: x * 2)
    >>> double(np.float32([1, 2]))
    array([2., 4.], dtype=float32)
    """
    fused = Fused(function)
    parameters = tuple(inspect.signature(function).parameters)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if not kwargs.keys() <= set(parameters):
            with BOUNDARY:
                raise wrong_keyword(
                    function.__name__, next(name for name in kwargs if name not in parameters), parameters
                )
        traced = any(isinstance(x, Tensor) for x in (*args, *kwargs.values()))
        return function(*args, **kwargs) if traced else fused(*map(as_array, args), **kwargs)

    return called  # type: ignore[return-value]


def wrong_keyword(function: str, name: str, parameters: tuple[str, ...]) -> WrongKeyword:
    """Return the error for an unknown keyword; for a keyword of another library it names numpy's."""
    meant = keyword_meant(name, parameters)
    way = f"write `{meant}=`" if meant else f"`help(pypto.arrays.{function})` says what each argument means"
    text = ", ".join(f"`{x}`" for x in parameters)
    return WrongKeyword(here().loc(), function=f"pypto.arrays.{function}", name=name, taken=text, way=way)


def rounded_once(function: F) -> F:
    """Make a function that computes narrow floats in float32, and rounds the result to their dtype once.

    numpy gives float32 for bfloat16 and a Python float, and rounds float16 after each step.
    """

    @functools.wraps(function)
    def called(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_floating(x.dtype) or accumulator(x.dtype) == x.dtype:
            return function(x, *args, **kwargs)
        return function(x.astype(accumulator(x.dtype)), *args, **kwargs).astype(x.dtype)

    return called  # type: ignore[return-value]


def product(x: Any, y: Any) -> Any:
    """Multiply stacks of matrices in a traced function; narrow floats give an unrounded float32 result."""
    dtype = np.result_type(x.dtype, y.dtype)
    return products.product(cast(x, dtype), cast(y, dtype))


def as_array(x: Any) -> Any:
    """Convert a list or numpy scalar to an array; Python numbers stay constants."""
    return np.asarray(x) if isinstance(x, list | np.generic) else x


def of_row(name: str) -> Callable[[Any], Any]:
    """Make a function of one array from a row of the op table."""

    def function(x: Any) -> Any:
        tensor = x if isinstance(x, Tensor) else lift(x.graph, x)
        floating = tensor if is_floating(tensor.dtype) else cast(tensor, np.float64)
        return Tensor.fresh(tensor.graph, tensor.graph.add(name, floating.node, place=here()))

    function.__name__ = name
    function.__doc__ = TABLE[name].doc
    return operation(function)


def argtopk(x: Any, k: int, axis: int) -> Any:
    """Return the positions of the greatest elements along an axis, the greatest first, in a traced function."""
    return ordering.argtopk(x, k, axis)


erf = of_row("erf")
erfc = of_row("erfc")
sigmoid = of_row("sigmoid")
rsqrt = of_row("rsqrt")
