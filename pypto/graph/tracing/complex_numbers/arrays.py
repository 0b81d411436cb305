"""Dispatch on complex arrays: finds the formula of a ufunc or function, or makes a step of numpy.

`explain` counts the steps. Views, copies, concatenations and updates of slices are those of other arrays.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.graph.capture.scalars import pinned
from pypto.graph.ir.node import Node, checked, here
from pypto.graph.ir.types import broadcast
from pypto.graph.tracing import boolean_indexing, methods, ordering
from pypto.graph.tracing.complex_numbers.formulas import FORMULAS, LOGICAL, power, truth
from pypto.graph.tracing.complex_numbers.functions import FUNCTIONS, METHODS, PRODUCTS, total
from pypto.graph.tracing.complex_numbers.pairs import Pair, by_parts, joined, parts_of
from pypto.graph.tracing.numpy_steps import by_numpy, update_at
from pypto.graph.tracing.tensor import Tensor, TensorGraph, graph_of
from pypto.graph.tracing.ufunc_decompositions import Maker
from pypto.graph.tracing.ufuncs import lift, resolved, to_out, where

GENERIC: Final = (  # functions that have one meaning for real and complex arrays
    "reshape", "transpose", "swapaxes", "squeeze", "ravel", "expand_dims", "moveaxis", "permute_dims",
    "matrix_transpose", "broadcast_to", "broadcast_arrays", "concatenate", "stack", "vstack", "hstack", "dstack",
    "column_stack", "split", "array_split", "hsplit", "vsplit", "flip", "fliplr", "flipud", "rot90", "full_like",
    "zeros_like", "ones_like", "empty_like", "copy", "copyto", "shape", "ndim", "size", "atleast_1d",
    "atleast_2d", "atleast_3d", "tile", "unstack", "meshgrid", "append", "repeat", "result_type", "diagonal", "diff",
    "select", "isclose", "allclose", "array_equal", "array_equiv", "kron", "pad", "diag", "fill_diagonal",
    "count_nonzero",
)  # fmt: skip
_METHODS: Final = (
    "reshape",
    "transpose",
    "swapaxes",
    "squeeze",
    "ravel",
    "flatten",
    "copy",
    "fill",
    "diagonal",
    "astype",
)


def is_generic(name: str) -> bool:
    """Whether a function has one meaning for real and complex arrays."""
    return name in GENERIC


def function_of(name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a numpy function on complex arrays."""
    if name in ("iscomplexobj", "isrealobj"):
        return (name == "iscomplexobj") == (args[0].dtype.kind == "c")
    traced = OF_ARRAYS.get(name) or FUNCTIONS.get(name)
    if traced is not None and is_offered(traced, args, kwargs):
        return traced(*args, **kwargs)
    out = kwargs.pop("out", None)
    result = by_numpy(function, f"np.{name}")(*args, **kwargs)
    return result if out is None else to_out(result, out)


def is_offered(traced: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a function is traced for these arguments: its arrays are complex, and have no named dimension."""
    try:
        inspect.signature(traced).bind(*args, **kwargs)
    except TypeError:
        return False
    dtype = kwargs.get("dtype")
    return dtype is None or np.dtype(dtype).kind == "c"


def ufunc_of(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a ufunc, or of a method of it, on complex arrays."""
    name = ufunc.__name__
    if method == "at":
        update_at(ufunc, *inputs)
        return None
    (out,) = kwargs.pop("out", (None,))
    result = traced_ufunc(ufunc, method, inputs, kwargs)
    if result is None:
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        text = f"np.{name}" + ("" if method == "__call__" else f".{method}")
        result = by_numpy(function, text)(*inputs, **kwargs)
    if out is None or (isinstance(out, Tensor) and out.is_number):  # `x += 1` gives a new number
        return result
    return to_out(result, out)


def traced_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """Return the result of a ufunc that has a formula, or None."""
    graph, name = graph_of(*inputs), ufunc.__name__
    if method == "__call__" and not set(kwargs) - {"dtype"}:
        if name in PRODUCTS and kwargs.get("dtype") is None:
            return PRODUCTS[name](*inputs)
        return call(graph, ufunc, inputs, kwargs.get("dtype"))
    if method == "reduce" and name == "add" and not set(kwargs) - {"axis", "dtype", "keepdims"}:
        return total(lift(graph, inputs[0]), **{"axis": 0, **kwargs})
    if method == "reduce" and name in ("logical_or", "logical_and") and not set(kwargs) - {"axis", "keepdims"}:
        tested: Tensor = FUNCTIONS["any" if name == "logical_or" else "all"](
            lift(graph, inputs[0]), **{"axis": 0, **kwargs}
        )
        return tested
    return None


def call(graph: TensorGraph, ufunc: Any, inputs: tuple[Any, ...], dtype: Any = None) -> Tensor | None:
    """Trace a ufunc by its formula, or return None where it has none."""
    name = ufunc.__name__
    if name not in FORMULAS and name not in LOGICAL and name not in ("power", "float_power"):
        return None
    inputs = tuple(map(pinned, inputs))
    *wanted, _ = resolved(ufunc, inputs, dtype)
    operands = [lift(graph, x) for x in inputs]
    shape = checked(f"`np.{name}`", lambda: broadcast(*(x.node.shape for x in operands)))
    m = Maker(graph, here())
    if name in LOGICAL:
        return logical(graph, name, [truth_of(m, x) for x in operands])
    pairs = [nodes_of(x, d) for x, d in zip(operands, wanted, strict=True)]
    if name not in ("power", "float_power"):
        return complete(graph, FORMULAS[name](m, *pairs), shape)
    exponent = number(operands[1], pairs[1])
    raised = None if exponent is None else power(m, pairs[0], exponent)
    return None if raised is None else complete(graph, raised, shape)


def nodes_of(x: Tensor, dtype: Any) -> Pair:
    real, imag = parts_of(x, dtype)
    return real.node, imag.node


def number(x: Tensor, pair: Pair) -> complex | None:
    """Return the number that an operand is, or None for an array."""
    if x.node.shape or not all(part.is_constant for part in pair):
        return None
    return complex(*(part.attr("value") for part in pair))


def complete(graph: TensorGraph, result: Node | Pair, shape: tuple[int, ...]) -> Tensor:
    """Return the array of a node, or of the nodes of two parts, in a shape."""
    if isinstance(result, Node):
        node = result if result.shape == shape else graph.add("broadcast_to", result, place=here(), shape=shape)
        return Tensor.fresh(graph, node)
    real, imag = (Tensor.fresh(graph, node) for node in result)
    return joined(real, imag, shape)


def truth_of(m: Maker, x: Tensor) -> Tensor:
    """Compute whether elements are nonzero."""
    if x.dtype.kind != "c":
        return x
    real, imag = parts_of(x)
    return Tensor.fresh(x.graph, truth(m, (real.node, imag.node)))


def logical(graph: TensorGraph, name: str, operands: list[Tensor]) -> Tensor:
    result: Tensor = getattr(np, name)(*operands)
    return result


def cast(x: Tensor, dtype: Any) -> Tensor:
    """Cast to or from a complex dtype; a real array has the real part, as numpy gives it."""
    wanted = np.dtype(dtype)
    if wanted.kind == "c":
        real, imag = parts_of(x, wanted)
        return joined(real, imag, x.node.shape)
    if wanted == np.bool_:
        return truth_of(Maker(x.graph, here()), x)
    number: Tensor = parts_of(x)[0].astype(wanted)
    return number


def choice(condition: Any, a: Any, b: Any) -> Tensor:
    """Trace ``np.where`` of complex choices."""
    graph = graph_of(condition, a, b)
    a, b = pinned(a), pinned(b)
    dtype = np.result_type(*(x.dtype if hasattr(x, "dtype") else x for x in (a, b)))
    pairs = [parts_of(lift(graph, x), dtype) for x in (a, b)]
    real, imag = (where(condition, *parts) for parts in zip(*pairs, strict=True))
    return joined(real, imag)


OF_ARRAYS: Final[Mapping[str, Callable[..., Tensor]]] = MappingProxyType({"where": choice, "astype": cast})


def attribute_of(x: Tensor, name: str) -> Any:
    """Return a method or property of a complex array by name."""
    if name in ("real", "imag"):
        return x.moved(name).marked(not x.is_number)
    if name in methods.PROPERTIES or name in _METHODS or name in ("item", "tolist"):
        return None
    if name not in methods.METHODS and name not in METHODS:
        raise methods.untraced(f"`.{name}` of a complex array")
    if name == "sort":
        return lambda axis=-1: x.write(by_numpy(np.sort)(x, axis=axis).node)

    def method(*args: Any, **kwargs: Any) -> Any:
        if name in METHODS and is_offered(METHODS[name], (x, *args), kwargs):
            return METHODS[name](x, *args, **kwargs)
        out = kwargs.pop("out", None)

        def call(array: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(array, name)(*args, **kwargs)

        result = by_numpy(call, name)(x, *args, **kwargs)
        return result if out is None else to_out(result, out)

    return method


def read(part: Tensor, index: Any) -> Tensor:
    """Return the elements that arrays of indices pick.

    Raises
    ------
    NotTraced
        For a mask, whose number of elements is not known.
    """
    if getattr(index.array, "dtype", None) == np.bool_:
        raise boolean_indexing.refuse()

    def picked(x: Tensor) -> Tensor:
        if index.others:
            return ordering.take_several(x, (index.array, *index.others), index.axis)
        return ordering.take(x, index.array, axis=index.axis)

    return by_parts(picked)(part)


def write_at(x: Tensor, key: Any, value: Any) -> None:
    """Replace the elements that arrays of indices pick."""

    def updated(array: Any, key: Any, value: Any) -> Any:
        result = array.copy()
        result[key] = value
        return result

    x.write(by_numpy(updated, "setitem")(x, key, value).node)
