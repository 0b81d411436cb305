"""Statements of random functions that read windows of arrays, and what they compute in numpy."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import pypto.arrays as pt
from pypto.graph.ir.types import accumulator


def cut(x: Any, size: int, step: int, edge: int, fill: Any) -> Any:
    """The windows of a matrix with `fill` around it, along two more dimensions."""
    wide = np.pad(x, edge, constant_values=fill)
    return np.lib.stride_tricks.sliding_window_view(wide, (size, size))[::step, ::step]


def greatest(x: Any, size: int, step: int, edge: int) -> Any:
    """What `max_pool` computes of a matrix."""
    least = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    wide = x if x.dtype.kind in "iu" else x.astype(np.float64)
    return cut(wide, size, step, edge, least).max(axis=(-2, -1)).astype(x.dtype)


def convolved(x: Any, w: Any, step: int, edge: int) -> Any:
    """What `conv2d` computes of a matrix and a filter of one size."""
    wide = np.int64 if x.dtype.kind in "iu" else np.float64 if x.dtype.itemsize < 4 else np.longdouble
    found = (cut(x.astype(wide), len(w), step, edge, 0) * w.astype(wide)).sum(axis=(-2, -1))
    return found.astype(accumulator(x.dtype) if x.dtype.kind in "iu" else x.dtype)


NAMES: dict[str, Any] = {"pt": pt, "greatest": greatest, "convolved": convolved}


def statement(rng: random.Random, name: str, is_number: bool) -> tuple[str, str, bool]:
    """A statement on a matrix whose sides are at least 3, the same in numpy, and whether it is exact."""
    size, step, edge = rng.choice((2, 3)), rng.choice((1, 2, 3)), rng.choice((0, 1))
    fill, shift = rng.choice((0, 1, 2)), rng.choice((0, 1))
    padded = f"np.pad({name}, {edge + 1}, constant_values={fill})[{shift}::{step}, {1 - shift}::{rng.choice((1, 2))}]"
    image, kind = f"{name}[None, None]", rng.random()
    if kind < 0.4 or not is_number:
        return padded, "", True
    if kind < 0.7:
        how = f"{size}, {step}, {edge}"
        return f"pt.max_pool({image}, {how})[0, 0]", f"greatest({name}, {how})", True
    w = f"{name}[:{size}, :{size}]"
    text = f"pt.conv2d({image}, {w}[None, None], stride={step}, padding={edge})[0, 0]"
    return text, f"convolved({name}, {w}, {step}, {edge})", False
