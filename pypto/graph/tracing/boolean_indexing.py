"""Boolean indexing of traced arrays: `x[mask]`, whose size is known only when a plan runs.

`MaskedElements` are the whole array and its mask. Elementwise functions compute all elements; a reduction replaces
those outside of the mask by its neutral element; `y[mask] = x[mask]` with the same mask is `where`. Everything that
needs the number of elements is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from pypto.errors.graph import EmptyMask, NotTraced
from pypto.graph.capture.scalars import number_of
from pypto.graph.ir.node import here
from pypto.graph.ir.types import TensorType, accumulator, is_floating
from pypto.graph.tracing import reductions
from pypto.graph.tracing.movement import broadcast_to
from pypto.graph.tracing.tensor import Tensor
from pypto.graph.tracing.ufuncs import call, cast, lift, where
from pypto.ir.types import int1
from pypto.loc import UNKNOWN, Caller

_WAY: Final = (
    "reduce it (`.sum()`, `.mean()`, `.max()`), store it under the same mask (`y[mask] = x[mask]`), or choose by "
    "`np.where(mask, a, b)`"
)


def refuse(problem: str = "how many elements a mask picks is not known while a function is traced") -> NotTraced:
    return NotTraced(here().loc(), what="this index by a mask", problem=problem, way=_WAY)


class MaskedElements(NDArrayOperatorsMixin):
    """The elements of an array where a mask is true.

    Parameters
    ----------
    source : Tensor
        The whole array, as it is now.
    mask : Tensor
        Booleans over the first dimensions of `source`.
    """

    __array_priority__ = 2000
    stands_in = True

    def __init__(self, source: Tensor, mask: Tensor) -> None:
        self.source = source
        self.mask = mask

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return np.ndarray

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype

    @property
    def ndim(self) -> int:
        return self.source.ndim - self.mask.ndim + 1

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", (None,))[0]
        if method == "reduce" and ufunc.__name__ in _REDUCTIONS:
            return self.reduced(_REDUCTIONS[ufunc.__name__], kwargs)
        if method != "__call__" or set(kwargs) - {"dtype"} or not (out is None or type(out) is MaskedElements):
            raise refuse(f"`np.{ufunc.__name__}` needs its size")
        elements = call(self.source.graph, ufunc, tuple(map(self.operand, inputs)), kwargs.get("dtype"))
        result = MaskedElements(elements, self.mask)
        if out is None:
            return result
        out.source = cast(result.source, out.dtype)
        return out

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = function.__name__
        if args and args[0] is self and name in (*_METHODS, "amax", "amin"):
            return getattr(self, name.removeprefix("a") if name in ("amax", "amin") else name)(*args[1:], **kwargs)
        if name == "count_nonzero" and args[0] is self:
            return (self != 0).sum()
        raise refuse(f"`np.{name}` needs its size")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in _METHODS:
            return lambda axis=None, **how: self.reduced(_METHODS[name], {"axis": axis, **how})
        if name == "astype":
            return lambda dtype, **how: MaskedElements(cast(self.source, np.dtype(dtype)), self.mask)
        if name in ("real", "imag"):
            return MaskedElements(getattr(self.source, name), self.mask)
        if name == "copy":
            return lambda: MaskedElements(self.source, self.mask)
        if name in ("shape", "size"):
            raise refuse("its size is asked for; `np.count_nonzero(mask)` is an array that holds it")
        raise refuse(f"`.{name}` needs its size")

    def __bool__(self) -> bool:
        raise refuse("a condition needs its values")

    def __len__(self) -> int:
        raise refuse("its size is asked for; `np.count_nonzero(mask)` is an array that holds it")

    def __getitem__(self, key: Any) -> Any:
        raise refuse("an index needs its size")

    def __iter__(self) -> Any:
        raise refuse("a loop needs its size")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise refuse()

    def operand(self, value: Any) -> Any:
        """Return an operand of an elementwise function on all elements.

        Raises
        ------
        NotTraced
            When an array has not the elements of the same mask.
        """
        if type(value) is MaskedElements:
            if value.mask.node is not self.mask.node or value.ndim != self.ndim:
                raise refuse("it meets elements that another mask picks")
            return value.source
        rank = getattr(number_of(value), "ndim", 0)
        if rank and rank >= self.ndim:
            raise refuse("it meets an array of another size")
        return value

    def into(self, target: Tensor, mask: Tensor) -> Tensor:
        """Return the elements for `target[mask] = self`, in the shape of the target."""
        if mask.node is not self.mask.node or self.source.node.shape != target.node.shape:
            raise refuse("it is stored under another mask than the one that picked it")
        return self.source

    def reduced(self, reduce: Callable[..., Tensor], how: dict[str, Any]) -> Any:
        axis = how.pop("axis", None)
        keepdims = how.pop("keepdims", False)
        if keepdims or axis not in (None, 0, -self.ndim) or any(x is not None for k, x in how.items() if k != "ddof"):
            raise refuse("a reduction takes `axis=None` or `axis=0` alone")
        axes = tuple(range(self.source.ndim if axis is None else self.mask.ndim))
        shape = (*self.mask.node.shape, *(1,) * (self.source.ndim - self.mask.ndim))
        mask = self.mask.moved("reshape", shape=shape)
        return reduce(self.source, mask, axes, **{k: x for k, x in how.items() if k == "ddof"})


def select(x: Tensor, mask: Any) -> MaskedElements:
    """Trace `x[mask]` for a mask of traced values."""
    return MaskedElements(Tensor.fresh(x.graph, x.node), Tensor.fresh(x.graph, lift(x.graph, mask).node))


# --- reductions ------------------------------------------------------------------------------------------------------


def neutral(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """Replace the elements outside of a mask."""
    return where(mask, x, np.asarray(value, x.dtype))


def total(name: str, value: int) -> Callable[..., Tensor]:
    """Return a sum or product; numpy's function on complex elements finds the tracer that knows their parts."""

    def reduce(x: Tensor, mask: Tensor, axes: tuple[int, ...]) -> Tensor:
        elements = neutral(x, mask, value)
        if x.dtype.kind == "c":
            result: Tensor = x.graph.function(getattr(np, name), (elements,), {"axis": axes})
            return result
        return reductions.reduce(elements, name, axes)

    return reduce


def count(x: Tensor, mask: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Count the elements of masked elements, along the axes of a reduction."""
    spread = where(mask, np.ones((), np.int64), np.zeros((), np.int64))
    return reductions.reduce(broadcast_to(spread, x.node.shape), "sum", axes)


def mean(x: Tensor, mask: Tensor, axes: tuple[int, ...]) -> Tensor:
    if x.dtype.kind == "c":
        return wide_mean(x, mask, axes)
    result = reductions.average_dtype(x, None)
    return cast(wide_mean(cast(x, accumulator(result)), mask, axes), result)


def wide_mean(x: Tensor, mask: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Compute the mean in the type of the array."""
    number = cast(count(x, mask, axes), x.dtype)
    return call(x.graph, np.true_divide, (total("sum", 0)(x, mask, axes), number))


def var(x: Tensor, mask: Tensor, axes: tuple[int, ...], ddof: float = 0) -> Tensor:
    return cast(wide_var(x, mask, axes, ddof), reductions.average_dtype(x, None))


def wide_var(x: Tensor, mask: Tensor, axes: tuple[int, ...], ddof: float) -> Tensor:
    """Compute the variance without rounding to the result's dtype."""
    if x.dtype.kind == "c":
        raise refuse()
    widened = cast(x, accumulator(reductions.average_dtype(x, None)))
    middle = wide_mean(widened, mask, axes)
    middle = middle.moved("reshape", shape=(*(1,) * len(axes), *middle.node.shape))
    squares = call(x.graph, np.square, (call(x.graph, np.subtract, (widened, middle)),))
    number = call(
        x.graph, np.maximum, (call(x.graph, np.subtract, (cast(count(x, mask, axes), widened.dtype), ddof)), 0)
    )
    return call(x.graph, np.true_divide, (total("sum", 0)(squares, mask, axes), number))


def std(x: Tensor, mask: Tensor, axes: tuple[int, ...], ddof: float = 0) -> Tensor:
    root = call(x.graph, np.sqrt, (wide_var(x, mask, axes, ddof),))
    return cast(root, reductions.average_dtype(x, None))


def truth(name: str, value: bool) -> Callable[..., Tensor]:
    def reduce(x: Tensor, mask: Tensor, axes: tuple[int, ...]) -> Tensor:
        holds = call(x.graph, np.not_equal, (x, 0)) if x.dtype != np.bool_ else x
        return reductions.reduce(neutral(holds, mask, value), name, axes)

    return reduce


def extreme(name: str) -> Callable[..., Tensor]:
    """Return `max` or `min` of masked elements, which raises if the mask picks nothing, as numpy does."""

    def reduce(x: Tensor, mask: Tensor, axes: tuple[int, ...]) -> Tensor:
        if x.dtype.kind == "c":
            raise refuse()
        place = here()
        is_any = reductions.reduce(mask, "any", None)
        check = EmptyCheck(name, place)
        node = x.graph.add("call", is_any.node, place=place, type=TensorType((), int1), function=check, result=0)
        checked = call(x.graph, np.logical_and, (mask, Tensor.fresh(x.graph, node)))
        return reductions.reduce(neutral(x, checked, least(x.dtype, name)), name, axes)

    return reduce


def least(dtype: np.dtype[Any], name: str) -> Any:
    """Return the neutral element of a maximum or minimum."""
    if is_floating(dtype):
        return -np.inf if name == "max" else np.inf
    if dtype == np.bool_:
        return name == "min"
    limits = np.iinfo(dtype)
    return limits.min if name == "max" else limits.max


class EmptyCheck:
    """A step that raises if a mask picks no element, and returns true otherwise."""

    may_raise = True

    def __init__(self, name: str, place: Any) -> None:
        self.name = name
        self.place = place
        self.__qualname__ = "check of a mask"

    def __call__(self, is_any: Any) -> Sequence[Any]:
        if not is_any:
            loc = self.place.loc() if isinstance(self.place, Caller) else self.place or UNKNOWN
            raise EmptyMask(loc, what=f"`.{self.name}()`")
        return [np.ones((), np.bool_)]


_METHODS: Final[Mapping[str, Callable[..., Tensor]]] = MappingProxyType(
    {
        "sum": total("sum", 0), "prod": total("prod", 1), "mean": mean, "var": var, "std": std,
        "any": truth("any", False), "all": truth("all", True), "max": extreme("max"), "min": extreme("min"),
    }
)  # fmt: skip
_REDUCTIONS: Final[Mapping[str, Callable[..., Tensor]]] = MappingProxyType(
    {
        "add": _METHODS["sum"], "multiply": _METHODS["prod"], "maximum": _METHODS["max"],
        "minimum": _METHODS["min"], "logical_or": _METHODS["any"], "logical_and": _METHODS["all"],
    }
)  # fmt: skip
