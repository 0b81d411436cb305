"""Strides of a traced function's arrays: numpy's rule decides which movement is a view and which a copy."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from pypto.graph.ir.dims import is_fixed, quotient

Strides = tuple[int, ...] | None


@lru_cache(maxsize=4096)
def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of an array in C order, in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n if not is_fixed(n) else max(1, n)
    return tuple(reversed(strides))


def regrouped(shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]) -> Strides:
    """Return the strides after a reshape that regroups contiguous dimensions of equal product, or None."""
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
    """Whether an array is in C order, so that the result of a ufunc on it is as well."""
    if strides is None:
        return False
    if not all(map(is_fixed, (*shape, *strides))):
        return strides == contiguous(shape)
    steps = [abs(s) for n, s in zip(shape, strides, strict=True) if n != 1 and s]
    return steps == sorted(steps, reverse=True)
