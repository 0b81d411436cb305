"""numpy's ufuncs as rows of the op table, with numpy's own type promotion.

Most ufuncs have a row of equal meaning (`ROWS`); `COMPOSED` ones decompose into a few rows. Numpy's own type resolution
gives the dtypes, so a traced function computes in the dtypes that it has in numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors.graph import NotTraced, WrongShapes
from pypto.graph.capture.guards import is_array, is_scalar, of_class
from pypto.graph.capture.scalars import Scalar, computed, number_of
from pypto.graph.ir.dims import Size
from pypto.graph.ir.node import Node, checked, here
from pypto.graph.ir.types import TensorType, broadcast, in_c_order, is_floating
from pypto.graph.tracing import ufunc_decompositions
from pypto.graph.tracing.complex_numbers.pairs import is_complex
from pypto.graph.tracing.tensor import Tensor, TensorGraph, tensor_type, untraced
from pypto.graph.tracing.values.words import Count
from pypto.ops.table import TABLE

# numpy's name, where the row has another one.
# fmt: off
ROWS: Final[Mapping[str, str]] = MappingProxyType({
    "subtract": "sub", "multiply": "mul", "divide": "div", "negative": "neg", "absolute": "abs", "fabs": "abs",
    "power": "pow", "float_power": "pow", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "equal": "eq", "not_equal": "ne", "bitwise_and": "and_", "bitwise_or": "or_", "bitwise_xor": "xor",
    "logical_and": "and_", "logical_or": "or_", "logical_xor": "xor", "invert": "not_", "logical_not": "not_",
    "left_shift": "shl", "right_shift": "shr", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
    "arctan2": "atan2", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
})
# fmt: on
_ATTRS: Final[Mapping[str, dict[str, Any]]] = MappingProxyType(
    {name: {"propagate_nan": True} for name in ("maximum", "minimum")}
)
_OF_BOOLS: Final = MappingProxyType({"add": "or_", "multiply": "and_"})
_IGNORING_NAN: Final = MappingProxyType({"fmax": "maximum", "fmin": "minimum"})
_LOGICAL: Final = ("logical_and", "logical_or", "logical_xor", "logical_not")
_COMPARISONS: Final = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


def lift(graph: TensorGraph, value: Any, dtype: Any = None) -> Tensor:
    """Convert an operand to a tensor: numbers become constants, arrays from outside become inputs."""
    if isinstance(value, Tensor):
        if value.graph is not graph:
            value = graph.adopted(value)
        return value if dtype is None else cast(value, dtype)
    if is_scalar(value):
        return lifted(graph, value, dtype)
    if isinstance(value, Size):
        number_type = tensor_type((), np.int64 if dtype is None else dtype)
        return Tensor.fresh(graph, graph.add("extent", place=here(), type=number_type, value=value))
    if is_array(value) and value.ndim:
        return lift(graph, captured(graph, value), dtype)
    if is_complex(value) and np.ndim(value) == 0:
        return complex_constant(graph, value, dtype)
    if not isinstance(value, int | float | bool | np.generic | np.ndarray | list | tuple):
        raise NotTraced(
            here().loc(), what=f"a {type(value).__name__}", problem="it is neither array nor number",
            way="pass arrays of numpy",
        )  # fmt: skip
    if type(value) in (list, tuple) and holds_tensor(value):
        return joined(graph, value, dtype)
    number = np.asarray(value)
    if number.ndim:
        return lift(graph, number, dtype)
    wanted = np.dtype(dtype if dtype is not None else number.dtype)
    return Tensor.fresh(graph, graph.constant(number.astype(wanted).item(), tensor_type((), wanted), here()))


def complex_constant(graph: TensorGraph, value: Any, dtype: Any) -> Tensor:
    """Return the array without dimensions of a complex number."""
    number = np.asarray(value) if dtype is None else np.asarray(value).astype(dtype)
    if number.dtype.kind != "c":
        return lift(graph, number)
    type = tensor_type((), number.real.dtype)
    parts = [graph.constant(part.item(), type, here()) for part in (number.real, number.imag)]
    return Tensor.fresh(graph, graph.add("complex", *parts, place=here()))


def holds_tensor(value: Any) -> bool:
    """Whether nested lists have a traced array."""
    return isinstance(value, Tensor) or (type(value) in (list, tuple) and any(map(holds_tensor, value)))


def joined(graph: TensorGraph, values: Any, dtype: Any) -> Tensor:
    """Convert a list of traced arrays and numbers to one array, as `np.array` does."""
    parts = [lift(graph, x) for x in values]
    common = np.dtype(np.result_type(*(x.dtype for x in parts)) if dtype is None else dtype)
    rows = [graph.add("reshape", cast(x, common).node, place=here(), shape=(1, *x.node.shape)) for x in parts]
    return Tensor.fresh(graph, checked("a list of arrays", lambda: graph.add("concat", *rows, place=here(), axis=0)))


def captured(graph: TensorGraph, array: Any) -> Tensor:
    """Return the input for an array from outside of the function, which each call reads again.

    Raises
    ------
    NotTraced
        For a subclass that the function makes, as `np.matrix` is one.
    """
    refused = of_class(array)
    if refused is not None:
        raise NotTraced(here().loc(), what="this array", problem=f"it is {refused[0]}", way=refused[1])
    return graph.argument(f"captured{len(graph.inputs)}", array)


def lifted(graph: TensorGraph, value: Scalar, dtype: Any) -> Tensor:
    """Convert a run-time scalar to an input, or to a constant in the graph of another function."""
    if value.reads.graph is not graph:
        return lift(graph, value.pin(), dtype)
    wanted = np.dtype(dtype if dtype is not None else np.asarray(value.value).dtype)
    tensor: Tensor = value.given(wanted)
    return tensor


def fitting(value: Scalar, dtype: np.dtype[Any]) -> Any:
    """Return a run-time scalar if its number fits a type, otherwise a pinned number."""
    if type(value.value) is not int or dtype.kind not in "iu":
        return value
    return value if computed(partial(holds, dtype), value) else value.pin()


def weak(value: Any) -> Any:
    """Return an operand's dtype, or a weak Python type, for numpy's promotion."""
    if isinstance(value, Size):
        return int
    if is_scalar(value):
        return weak(value.value)
    if type(value) is Count:
        return int
    if type(value) in (int, float, bool, complex):
        return np.dtype(bool) if type(value) is bool else type(value)
    return value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype


def kinds_of(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the dtypes of operands, with a weak Python type for a Python number.

    Beside a bfloat16 of another library than numpy, a number has that dtype: numpy itself computes in float32 then.
    """
    kinds = tuple(map(weak, values))
    if not any(type(x) is Tensor and x.graph.library for x in values):
        return kinds
    dtypes = {kind for kind in kinds if not isinstance(kind, type)}
    narrow = dtypes.pop() if len(dtypes) == 1 else None
    if narrow is None or narrow.isbuiltin == 1 or not is_floating(narrow):
        return kinds
    return tuple(narrow if kind in (int, float) else kind for kind in kinds)


@lru_cache(maxsize=1024)
def loop_types(ufunc: Any, requested: tuple[Any, ...], dtype: np.dtype[Any] | None) -> tuple[Any, ...]:
    """Return the dtypes of operands and results by numpy's promotion."""
    how = {} if dtype is None else {"signature": (*(None,) * ufunc.nin, dtype)}
    dtypes: tuple[Any, ...] = ufunc.resolve_dtypes((*requested, *(None,) * ufunc.nout), **how)
    return dtypes


def resolved(ufunc: Any, inputs: tuple[Any, ...], dtype: Any) -> list[Any]:
    """Return the dtypes of operands and result in which numpy computes."""
    requested = kinds_of(inputs)
    try:
        return list(loop_types(ufunc, requested, None if dtype is None else np.dtype(dtype)))
    except TypeError:
        kinds = ", ".join(str(k) for k in requested)
        raise untraced(ufunc.__name__, f"numpy has no loop for {kinds}", "cast the operands") from None


def call(graph: TensorGraph, ufunc: Any, inputs: tuple[Any, ...], dtype: Any = None) -> Tensor:
    """Trace a ufunc on its operands."""
    name = ufunc.__name__
    if is_complex(inputs) or (dtype is not None and np.dtype(dtype).kind == "c"):
        result: Tensor = graph.ufunc(ufunc, "__call__", inputs, {} if dtype is None else {"dtype": np.dtype(dtype)})
        return result
    if ufunc.nout > 1:
        raise untraced(name, "it has two results", "use the functions of one result: `//` and `%`, `floor`")
    *wanted, result = resolved(ufunc, inputs, dtype)
    inputs = tuple(fitting(x, d) if is_scalar(x) else x for x, d in zip(inputs, wanted, strict=True))
    if any(type(x) is int and not holds(d, x) for x, d in zip(inputs, wanted, strict=True)):
        if name in _COMPARISONS:
            return beyond(graph, ufunc, inputs, wanted)
        number = next(x for x, d in zip(inputs, wanted, strict=True) if type(x) is int and not holds(d, x))
        raise untraced(name, f"{number} is no number of {wanted[0]}", "cast the array to a wider type")
    if name in _LOGICAL:
        operands = [truth(graph, x) for x in inputs]
    else:
        operands = [lift(graph, x, d) for x, d in zip(inputs, wanted, strict=True)]
    nodes = [x.node for x in operands]
    shapes = [x.type.shape for x in nodes]
    if shapes[0] != shapes[-1]:
        checked(f"`np.{name}`", lambda: broadcast(*shapes))
    node = emit(graph, name, nodes)
    if node.type.dtype.numpy != result:
        node = graph.add("cast", node, place=here(), dtype=tensor_type((), result).dtype)
    rank = len(node.type.shape)
    alike = [(shape, x.layout) for shape, x in zip(shapes, operands, strict=True) if rank and len(shape) == rank]
    return Tensor.fresh(graph, node, all(in_c_order(*each) for each in alike))


def holds(dtype: np.dtype[Any], number: int) -> bool:
    """Whether a type can represent a number."""
    return dtype.kind not in "iu" or int(np.iinfo(dtype).min) <= number <= int(np.iinfo(dtype).max)


def beyond(graph: TensorGraph, ufunc: Any, inputs: tuple[Any, ...], wanted: list[Any]) -> Tensor:
    """Compare an array with a number out of its type's range, which gives one answer for all elements."""
    first = type(inputs[0]) is int and not holds(wanted[0], inputs[0])
    number, array = inputs if first else inputs[::-1]
    shape = lift(graph, array).node.shape
    answer = bool(ufunc(number, 0) if first else ufunc(0, number))
    return Tensor.fresh(graph, graph.constant(answer, tensor_type(shape, np.bool_), here()))


def emit(graph: TensorGraph, name: str, nodes: list[Node]) -> Node:
    """Add the node of a ufunc on operands of its own types."""
    at = here()
    row = ROWS.get(name, name)
    if nodes[0].type.dtype.is_bool:
        row = _OF_BOOLS.get(name, row)
    if (
        name not in ufunc_decompositions.COMPOSED
        and name not in _IGNORING_NAN
        and (row not in TABLE or not TABLE[row].elementwise)
    ):
        raise untraced(name, "no op of the table has this meaning")
    if name == "negative" and nodes[0].type.dtype.is_bool:
        raise untraced(name, "numpy refuses it of bools, too", "use `~`")
    try:
        if name in ufunc_decompositions.COMPOSED:
            return ufunc_decompositions.COMPOSED[name](ufunc_decompositions.Maker(graph, at), *nodes)
        if name in _IGNORING_NAN:
            return graph.add(_IGNORING_NAN[name], *nodes, place=at, propagate_nan=False)
        return graph.add(row, *nodes, place=at, **_ATTRS.get(row, {}))
    except TypeError as error:
        raise untraced(name, str(error), "cast the operands") from None


def truth(graph: TensorGraph, value: Any) -> Tensor:
    """Compute whether elements are nonzero."""
    x = lift(graph, value)
    if x.dtype == np.bool_:
        return x
    if x.dtype.kind == "c":
        return call(graph, np.not_equal, (x, 0))
    zero = graph.constant(0, TensorType((), x.type.dtype), here())
    return Tensor.fresh(graph, graph.add("ne", x.node, zero, place=here()))


def cast(x: Tensor, dtype: Any) -> Tensor:
    """Cast an array to another type; an array of that type is unchanged."""
    source = x.node
    if source.type.dtype.numpy == dtype:
        return x
    if "c" in (x.dtype.kind, np.dtype(dtype).kind):
        result: Tensor = x.graph.function(np.astype, (x, np.dtype(dtype)), {})
        return result
    element = tensor_type((), dtype).dtype
    if element.is_bool:
        return truth(x.graph, x)
    node = x.graph.add("cast", source, place=here(), dtype=element)
    return Tensor.fresh(x.graph, node, in_c_order(source.shape, x.layout))


def where(condition: Any, a: Any, b: Any) -> Tensor:
    """Trace ``np.where`` with three operands."""
    graph = next(x.graph for x in (condition, a, b) if isinstance(x, Tensor))
    if is_complex((a, b)):
        result: Tensor = graph.function(np.where, (condition, a, b), {})
        return result
    kinds = kinds_of((a, b))
    pairs = [(0 if isinstance(x, Size) else number_of(x), kind) for x, kind in zip((a, b), kinds, strict=True)]
    values = [x for x, kind in pairs if isinstance(kind, type)]
    dtype = np.result_type(*(x if isinstance(kind, type) else kind for x, kind in pairs))
    if len(values) == 2:
        dtype = np.result_type(*(np.asarray(x).dtype for x in values))
    a, b = (fitting(x, dtype) if is_scalar(x) else x for x in (a, b))
    picked = truth(graph, condition), lift(graph, a, dtype), lift(graph, b, dtype)
    nodes = [x.node for x in picked]
    checked("`np.where`", lambda: broadcast(*(x.shape for x in nodes)))
    return Tensor.fresh(graph, graph.add("where", *nodes, place=here()))


def assign(target: Tensor, value: Any, casting: Any = "unsafe") -> None:
    """Write a value to all elements of a view, as ``target[...] = value`` does."""
    x, wanted = lift(target.graph, value), target.node.type
    if x.dtype != wanted.dtype.numpy and not np.can_cast(x.dtype, wanted.dtype.numpy, casting):
        problem = f"{x.dtype} is not cast to {target.dtype} under the rule {casting!r}"
        raise NotTraced(here().loc(), what="this update in place", problem=problem, way="make a new array of it")
    node = cast(x, wanted.dtype.numpy).node
    target.write(node if node.type.shape == wanted.shape else broadcast_into(target, node))


def to_out(result: Tensor, out: Tensor | None) -> Tensor:
    """Write the result to `out` if given, and return it."""
    if out is None:
        return result
    if not isinstance(out, Tensor):
        raise NotTraced(here().loc(), what="`out`", problem="it is an array from outside", way="return a new array")
    assign(out, result, "same_kind")
    return out


def broadcast_into(target: Tensor, node: Node) -> Node:
    """Broadcast a value to the shape of its target; leading dimensions of size 1 are dropped."""
    shape = target.node.shape
    more = len(node.shape) - len(shape)
    if more > 0 and all(n == 1 for n in node.shape[:more]):
        node = target.graph.add("reshape", node, shape=node.shape[more:])
    try:
        fits = broadcast(node.shape, shape) == shape
    except TypeError:
        fits = False
    if not fits:
        problem = f"an array of shape {node.shape} does not broadcast to {target.shape}"
        raise WrongShapes(here().loc(), what="this update in place", problem=problem)
    return target.graph.add("broadcast_to", node, place=here(), shape=shape)
