"""Masks of a loop: the elements of an array where a mask holds, and stores to them.

Nothing is gathered. A reduction of masked elements takes its neutral element where the mask does not hold, and a store
keeps the old element there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.graph.loops.arrays import Elementwise, Filled, Reduced, View, is_same
from pypto.graph.loops.numbers import NotCompiled, Number, known, type_name
from pypto.graph.loops.store import materialized, store
from pypto.graph.loops.writer import Writer


@dataclass(frozen=True, slots=True)
class Masked:
    """The elements of an array where a mask of the same shape holds.

    Parameters
    ----------
    source : array
    mask : View
    stores : mapping from object to int
        How often the memory that it reads had been stored to.
    """

    source: Any
    mask: View
    stores: Mapping[object, int]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype  # type: ignore[no-any-return]

    def check(self, w: Writer) -> None:
        """Refuse elements that have been stored to since they were picked, as numpy has copied them."""
        if self.stores != stores_of(w, self.source, self.mask):
            raise NotCompiled("elements under a mask change before they are read")


def stores_of(w: Writer, *arrays: Any) -> dict[object, int]:
    memory = {view.base.memory for x in arrays for view, _ in x.leaves()}
    return {each: w.stores.get(each, 0) for each in memory}


def picked(w: Writer, owner: View, mask: Any) -> Masked:
    """Return ``owner[mask]``."""
    check_mask(owner, mask)
    mask = materialized(w, mask)
    return Masked(owner, mask, stores_of(w, owner, mask))


def check_mask(owner: View, mask: Any) -> None:
    if len(mask.extents) != len(owner.extents) or not all(map(is_same, mask.extents, owner.extents)):
        raise NotCompiled("a mask of another shape than its array")


def assigned(w: Writer, target: View, mask: Any, value: Any) -> None:
    """Write ``target[mask] = value``: a number, or elements under the same mask."""
    check_mask(target, mask)
    if isinstance(value, Masked):
        value.check(w)
        if value.mask != mask:
            raise NotCompiled("elements under another mask")
        value = value.source
    elif isinstance(value, Number):
        value = Filled(w.stored(w.fitting(value, target.dtype)), target.extents, target.dtype)
    else:
        raise NotCompiled("an array whose elements follow a mask")
    kinds = (np.dtype(bool), target.dtype, target.dtype)
    store(w, target, Elementwise("where", kinds, (materialized(w, mask), value, target), target.extents, target.dtype))


def apply(e: Any, name: str, operands: tuple[Any, ...]) -> Masked:
    """Return an operation on numbers and elements under one mask."""
    masked = [x for x in operands if isinstance(x, Masked)]
    if any(x.mask != masked[0].mask for x in masked) or any(
        not isinstance(x, Masked | Number) for x in operands
    ):  # fmt: skip
        raise NotCompiled("elements under a mask and other arrays")
    for x in masked:
        x.check(e.w)
    source = e.apply(name, *(x.source if isinstance(x, Masked) else x for x in operands))
    return Masked(source, masked[0].mask, stores_of(e.w, source, masked[0].mask))


# --- reductions -------------------------------------------------------------------------------------------------------


def count(e: Any, x: Masked) -> Number:
    """Return how many elements the mask picks."""
    x.check(e.w)
    full = Elementwise("cast", (np.dtype(bool),), (x.mask,), x.mask.extents, np.dtype(np.int64))
    text = Reduced("sum", full, tuple(range(len(x.mask.extents))), full.dtype).element(e.w, ())
    return e.w.index(text, (0, float("inf")))  # type: ignore[no-any-return]


def total(e: Any, x: Masked, dtype: np.dtype[Any], name: str = "sum") -> Number:
    x.check(e.w)
    neutral = Filled(known(int(name == "prod")), x.source.extents, dtype)
    kinds = (np.dtype(bool), dtype, dtype)
    full = Elementwise("where", kinds, (x.mask, x.source, neutral), x.source.extents, dtype)
    return Number(Reduced(name, full, tuple(range(len(full.extents))), dtype).element(e.w, ()), dtype)


def folded(name: str) -> Callable[..., Number]:
    def fold(e: Any, x: Masked) -> Number:
        kind = x.dtype
        if kind.kind in "biu":
            kind = np.dtype(np.uint64 if kind.kind == "u" else np.int64)
        return total(e, x, kind, name)

    return fold


def mean(e: Any, x: Masked) -> Any:
    kind = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
    size = Number(f"pto.cast({count(e, x).text}, {type_name(kind)})", kind)
    return e.apply("divide", total(e, x, kind), size)


def called(e: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Return the result of a function or method of elements under a mask."""
    handler = METHODS.get(name)
    if handler is None or len(args) != 1 or kwargs:
        raise NotCompiled(f"`{name}` of elements under a mask")
    return handler(e, args[0])


METHODS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {"sum": folded("sum"), "prod": folded("prod"), "mean": mean, "len": count}
)
