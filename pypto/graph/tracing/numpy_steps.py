"""numpy functions without a kernel: numpy runs them between kernels, as steps of the plan.

A trial on stand-in arrays gives the types of the results. A result of another shape is an error of the call, so a
function whose shape depends on values works where the shape is the same in every call.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors.graph import OtherShape
from pypto.graph.capture.scalars import pinned
from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import Node, here
from pypto.graph.ir.types import TensorType
from pypto.graph.tracing.tensor import Tensor, TensorGraph, graph_of, tensor_type, untraced
from pypto.loc import UNKNOWN, Caller

DECOMPOSITIONS: Final = (
    "cholesky", "cond", "det", "eigh", "eigvalsh", "inv", "lstsq", "matrix_rank", "multi_dot", "pinv", "qr", "slogdet",
    "solve", "svd", "svdvals", "tensorinv", "tensorsolve",
)  # fmt: skip
FUNCTIONS: Final = (
    "argpartition", "convolve", "corrcoef", "correlate", "cov", "digitize", "i0", "interp", "isin", "lexsort",
    "nanargmax", "nanargmin", "nanmedian", "nanpercentile", "nanquantile", "packbits", "partition", "percentile",
    "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "quantile",
    "ravel_multi_index", "roots", "sort_complex", "unpackbits", "unravel_index", "unwrap",
)  # fmt: skip
TRANSFORMS: Final = (
    "fft", "fft2", "fftn", "hfft", "ifft", "ifft2", "ifftn", "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2",
    "rfftn",
)  # fmt: skip
SAFE: Final = frozenset((*FUNCTIONS, *TRANSFORMS, "where", "copy", "astype", "concatenate", "stack", "sum")) - {
    "digitize", "nanargmax", "nanargmin", "polyfit", "ravel_multi_index", "roots", "unravel_index",
}  # fmt: skip
HISTOGRAMS: Final = ("histogram", "histogram2d", "histogram_bin_edges", "histogramdd")
STACKED: Final = (  # functions of one array that take stacks of matrices; each element is as it is alone
    "cholesky", "cond", "copy", "det", "eigh", "eigvalsh", "fft", "hfft", "ifft", "ihfft", "inv", "irfft",
    "matrix_rank", "pinv", "qr", "rfft", "slogdet", "svd", "svdvals",
)  # fmt: skip
UFUNCS: Final = ("bitwise_count", "frexp", "gcd", "lcm", "spacing")  # without a row in the op table


def results_of(
    graph: TensorGraph, function: Callable[..., Sequence[Any]], inputs: list[Node], types: list[TensorType]
) -> list[Tensor]:
    """Add the nodes for the results of a function that runs between kernels."""
    place = here()

    def make() -> list[Node]:
        return [
            graph.add("call", *inputs, place=place, type=type, function=function, result=number)
            for number, type in enumerate(types)
        ]

    return [Tensor.fresh(graph, node) for node in graph.called(make, inputs, types)]


class Argument:
    """The place of a traced array among the arguments of a step."""

    def __init__(self, number: int) -> None:
        self.number = number


class NumpyStep:
    """A numpy function on arrays that returns a sequence of results.

    Parameters
    ----------
    name : str
    function : callable
    args : tuple
        Its positional and keyword arguments, with an `Argument` for each array.
    several : bool
        Whether it returns several arrays.
    place : Caller or Loc
        The user's line.
    """

    def __init__(
        self, name: str, function: Callable[..., Any], args: tuple[Any, Any], several: bool, place: Any
    ) -> None:
        self.function = function
        self.args = args
        self.several = several
        self.place = place
        self.shapes: list[tuple[int, ...]] = []
        self.may_raise = getattr(function, "__name__", "") not in SAFE and not isinstance(function, np.ufunc)
        self.__qualname__ = name.removeprefix("np.")

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        args, kwargs = filled(self.args, arrays)
        result = self.function(*args, **kwargs)
        results = [np.asarray(x) for x in (result if self.several else [result])]
        for x, shape in zip(results, self.shapes, strict=True):
            if x.shape != shape:
                loc = self.place.loc() if isinstance(self.place, Caller) else self.place or UNKNOWN
                raise OtherShape(loc, function=f"np.{self.__qualname__}", shape=x.shape, planned=shape)
        return results

    def batched(self, types: Sequence[TensorType], stacks: Sequence[bool], size: int) -> Any:
        """Return the step on stacks of all its arrays, and which operands it takes as stacks, or None."""
        (places, options), function, rank = self.args, self.function, len(self.shapes[0])
        if options or not all(type(x) is Argument for x in places):
            return None
        if isinstance(function, np.ufunc):
            function = on_stacks(function, rank)
        elif function is np.linalg.solve:
            function = solve_stacks
        elif len(places) != 1 or function.__name__ not in STACKED:
            return None
        step = NumpyStep(self.__qualname__, function, self.args, self.several, self.place)
        step.shapes = [(size, *shape) for shape in self.shapes]
        step.may_raise = self.may_raise
        return step, [True] * len(places)


def on_stacks(function: Callable[..., Any], rank: int) -> Callable[..., Any]:
    """Return a ufunc on stacks whose elements broadcast to `rank` dimensions."""

    def call(*arrays: Any) -> Any:
        return function(*(x.reshape(len(x), *(1,) * (rank + 1 - x.ndim), *x.shape[1:]) for x in arrays))

    return call


def solve_stacks(a: Any, b: Any) -> Any:
    """Solve a stack of systems, each for a vector or a matrix."""
    return np.linalg.solve(a, b) if b.ndim == a.ndim else np.linalg.solve(a, b[..., None])[..., 0]


def filled(value: Any, arrays: Sequence[Any]) -> Any:
    """Replace the places of arrays by the arrays."""
    kind = type(value)
    if kind is Argument:
        return arrays[value.number]
    if kind in (list, tuple):
        return kind(filled(x, arrays) for x in value)
    return {k: filled(x, arrays) for k, x in value.items()} if kind is dict else value


def by_numpy(function: Callable[..., Any], name: str = "", like: Tensor | None = None) -> Callable[..., Any]:
    """Trace a numpy function that runs between kernels; `like` is an array of the type of its result, if known."""

    def traced(*args: Any, **kwargs: Any) -> Any:
        graph = graph_of(*args, *kwargs.values())
        tensors: list[Tensor] = []

        def placed(value: Any) -> Any:
            kind = type(value)
            if kind in (list, tuple):
                return kind(map(placed, value))
            if not issubclass(kind, Tensor):
                return pinned(value)
            if value.graph is not graph:
                value = graph.adopted(value)
            if value.node.is_constant:
                return np.full(value.node.shape, value.node.attr("value"), value.dtype)
            tensors.append(value)
            return Argument(len(tensors) - 1)

        places = placed(args), {k: placed(x) for k, x in kwargs.items()}
        text = name or f"np.{function.__name__}"
        if not all(is_fixed(n) for x in tensors for n in x.node.shape):
            raise untraced(text.removeprefix("np."), "a dimension has a name", "leave its dimensions without names")
        if not tensors:
            args, kwargs = filled(places, ())
            value = np.asarray(function(*args, **kwargs))
            return graph.argument(f"captured{len(graph.inputs)}", value)
        example = trial(function, places, tensors) if like is None else stand_in(like)
        several = isinstance(example, tuple | list)
        types = [tensor_type(np.shape(x), np.asarray(x).dtype) for x in (example if several else [example])]
        step = NumpyStep(text, function, places, several, here())
        step.shapes = [x.shape for x in types]
        results = results_of(graph, step, [x.node for x in tensors], types)
        if not several:
            return results[0]
        return type(example)(*results) if hasattr(example, "_fields") else type(example)(results)

    return traced


def update_at(ufunc: Any, target: Tensor, *others: Any) -> None:
    """Trace the method `at` of a ufunc as a step of numpy."""

    def updated(array: Any, *others: Any) -> Any:
        result = array.copy()
        ufunc.at(result, *others)
        return result

    target.write(by_numpy(updated, f"np.{ufunc.__name__}.at", like=target)(target, *others).node)


def trial(function: Callable[..., Any], places: tuple[Any, Any], tensors: list[Tensor]) -> Any:
    """Run a function on stand-in arrays, for the types of its results."""
    args, kwargs = filled(places, list(map(stand_in, tensors)))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


def stand_in(x: Tensor) -> Any:
    """Return an array of a shape that every decomposition accepts."""
    shape = x.node.shape
    if len(shape) < 2:
        return np.ones(shape, x.dtype)
    return np.broadcast_to(np.eye(*shape[-2:], dtype=x.dtype), shape)


# --- whose shape depends on values or on an option -------------------------------------------------------------------


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    if not minlength:
        raise untraced("bincount", "how many elements it gives depends on their values", "give `minlength=`")
    return by_numpy(np.bincount)(x, weights, minlength)


def with_bins(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the tracer of a histogram, which has a number of bins or their edges."""

    def histogram(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, str) for x in (*args, *kwargs.values())):
            raise untraced(function.__name__, "how many bins it has depends on values", "give the number of bins")
        return by_numpy(function)(*args, **kwargs)

    return histogram


STEPS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        **{f"linalg.{name}": by_numpy(getattr(np.linalg, name), f"np.linalg.{name}") for name in DECOMPOSITIONS},
        **{name: by_numpy(getattr(np, name)) for name in FUNCTIONS},
        **{f"fft.{name}": by_numpy(getattr(np.fft, name), f"np.fft.{name}") for name in TRANSFORMS},
        **{name: with_bins(getattr(np, name)) for name in HISTOGRAMS},
        "bincount": bincount,
    }
)  # fmt: skip
