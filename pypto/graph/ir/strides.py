"""Strides of a traced function's arrays: numpy's own rule for what is a view and what is a copy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from pypto.graph.ir.dims import is_fixed, quotient
from pypto.graph.ir.reference import moved

Strides = tuple[int, ...] | None
Attrs = tuple[tuple[str, Any], ...]


@lru_cache(maxsize=4096)
def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an array in C order, in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n if not is_fixed(n) else max(1, n)
    return tuple(reversed(strides))


def strides_of(op: str, shape: tuple[int, ...], strides: Strides, attrs: Mapping[str, Any]) -> Strides:
    """Strides of a view, in elements; None where there is no view, or nobody knows."""
    if strides is None:
        return None
    if op == "reshape" and strides == contiguous(shape):
        return contiguous(attrs["shape"])
    if not all(map(is_fixed, (*shape, *strides, *attrs.get("shape", ())))):
        return strides_by_name(op, shape, strides, attrs)
    return strides_of_view(op, shape, strides, tuple(attrs.items()))


@lru_cache(maxsize=4096)
def strides_of_view(op: str, shape: tuple[int, ...], strides: tuple[int, ...], attrs: Attrs) -> Strides:
    """`strides_of`, as numpy has it for an array of bytes."""
    memory = as_strided(np.empty(1, np.uint8), shape, strides)  # none of its elements is read
    given = dict(attrs)
    if op == "reshape":
        try:
            view: Any = np.reshape(memory, given["shape"], copy=False)
        except ValueError:
            return None
    else:
        view = moved(op, memory, given)
    of_view: tuple[int, ...] = view.strides
    return of_view


def strides_by_name(op: str, shape: tuple[int, ...], strides: tuple[int, ...], attrs: Mapping[str, Any]) -> Strides:
    """Strides of a view of an array whose sizes are known when a plan runs: a view for all of them."""
    if op == "permute":
        return tuple(strides[d] for d in attrs["dims"])
    if op == "slice":
        return tuple(s * step for s, step in zip(strides, attrs["steps"], strict=True))
    if op == "broadcast_to":
        lead = len(attrs["shape"]) - len(shape)
        moving = (0 if n == 1 and wanted != 1 else s
                  for n, wanted, s in zip(shape, attrs["shape"][lead:], strides, strict=True))  # fmt: skip
        return (*(0,) * lead, *moving)
    return regrouped(shape, strides, attrs["shape"])


def regrouped(shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]) -> Strides:
    """Strides after a reshape: dimensions of equal product are regrouped, where they lie in one piece."""
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    new = [n for n in wanted if n != 1]
    steps: list[int] = []
    while old and new:
        old_sizes, new_sizes = [old.pop(0)], [new.pop(0)]
        have, want = old_sizes[0][0], new_sizes[0]
        while have != want:
            if quotient(want, have) is not None and old:
                old_sizes.append(old.pop(0))
                have = have * old_sizes[-1][0]
            elif quotient(have, want) is not None and new:
                new_sizes.append(new.pop(0))
                want = want * new_sizes[-1]
            else:
                return None
        if any(a[1] != b[0] * b[1] for a, b in pairwise(old_sizes)):
            return None
        steps += (s * old_sizes[-1][1] for s in contiguous(tuple(new_sizes)))
    if old or new:
        return None
    remaining = iter(steps)
    return tuple(0 if n == 1 else next(remaining) for n in wanted)


@lru_cache(maxsize=4096)
def in_c_order(shape: tuple[int, ...], strides: Strides) -> bool:
    """Whether the elements lie in memory in the order of their indices; then so do those of a ufunc's result."""
    if strides is None:
        return False
    if not all(map(is_fixed, (*shape, *strides))):
        return strides == contiguous(shape)
    steps = [abs(s) for n, s in zip(shape, strides, strict=True) if n != 1 and s]
    return steps == sorted(steps, reverse=True)
