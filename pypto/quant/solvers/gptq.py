"""GPTQ (Frantar et al., 2023) rounds column by column, and later columns compensate for the error of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pypto.errors.quant import RoundedToNearest, WrongScheme
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array
from pypto.quant.calibrate.observers import Statistics
from pypto.quant.layer import Layer
from pypto.quant.rounding import dequantize, grid, quantize, ranges
from pypto.quant.schemes import CHANNEL, GROUP, Scheme
from pypto.quant.solvers.algorithm import Algorithm
from pypto.quant.solvers.rtn import minmax
from pypto.quant.tensor import QuantizedTensor
from pypto.quant.warning import warn

BLOCK: Final = 128
TRIES: Final = 4
WEIGHT: Final = "weight"  # the column order (act-order) that keeps the groups


def gptq(
    layer: Layer,
    statistics: Statistics,
    scheme: Scheme,
    damp: float = 0.01,
    act_order: bool | str = False,
    clip_steps: int = 0,
) -> QuantizedTensor:
    """Minimises the output error column by column.

    Let H be the Gram matrix of the inputs and U the upper Cholesky factor of its inverse. The error of column j,
    divided by ``U[j, j]``, is subtracted from the later columns in proportion to ``U[j, j + 1:]``. `damp` times the
    mean of H's diagonal is added to the diagonal. If H cannot be factored, it is tried with ten times the damping,
    three times; then the layer is rounded to nearest, with a warning. Inputs that were always 0 are rounded to nearest.

    With `act_order`, the columns of the largest inputs come first. ``True`` makes groups of columns that are adjacent
    in this order; files then state the group of each column, which new versions of compressed-tensors do not read.
    ``"weight"`` keeps groups of adjacent inputs, with the scales of the original weight.

    With `clip_steps`, it searches so many clipping ranges for each group, from the whole range down to half of it, for
    the least error: clipping a few large weights gives the others finer steps.
    """
    if act_order not in (False, True, WEIGHT):
        raise WrongScheme(what=f"act_order={act_order!r} is not offered", way=f"use False, True or {WEIGHT!r}")
    gram = statistics.gram
    order = np.argsort(-gram.diagonal(), kind="stable").astype(np.int32) if act_order else None
    factor = inverse_factor(gram, damp, order)
    if factor is None:
        warn(RoundedToNearest(layer=layer.name, damp=damp * 10 ** (TRIES - 1)))
        return minmax(layer, statistics, scheme)
    weight = layer.weight.astype(np.float64)
    if order is None:
        return Columns(weight, factor, scheme, clip_steps).run()
    columns = Columns(weight[:, order], factor, scheme, clip_steps)
    if act_order == WEIGHT and scheme.per == GROUP:
        return columns.of_neighbours(order)
    return canonical(columns.run(), order)


def canonical(result: QuantizedTensor, order: Array) -> QuantizedTensor:
    """Sorts the columns of the codes by input within each group; a single group then needs no order.

    Files state only the group of each column.
    """
    size = result.scheme.group or len(order)
    places = np.concatenate([start + np.argsort(order[start : start + size]) for start in range(0, len(order), size)])
    codes = np.ascontiguousarray(result.codes[:, places])
    return replace(result, codes=codes, order=order[places] if result.scheme.per == GROUP else None)


def inverse_factor(gram: Array, damp: float, order: Array | None = None) -> Array | None:
    """Returns the upper Cholesky factor of the inverse of the damped, reordered matrix; None if there is none.

    The matrix with reversed rows and columns has a lower factor, whose inverse is the upper factor of the inverse.
    """
    backwards = (np.arange(len(gram)) if order is None else order)[::-1]
    diagonal = gram.diagonal()[backwards]
    dead = diagonal == 0
    diagonal[dead] = diagonal[~dead].mean() if not dead.all() else 1
    for step in range(TRIES):
        lower = gram[np.ix_(backwards, backwards)]
        np.fill_diagonal(lower, diagonal + damp * 10**step * diagonal.mean())
        try:
            lower = np.linalg.cholesky(lower)
        except np.linalg.LinAlgError:
            continue
        is_stable = (lower.diagonal() > 1e-7 * lower.diagonal().max()).all()
        invert(lower)
        if np.isfinite(lower).all() and is_stable:
            return lower[::-1, ::-1]
    return None


def invert(lower: Array) -> None:
    """Inverts a lower triangular matrix in place, by recursive halving."""
    half = len(lower) // 2
    if half <= BLOCK:
        lower[:] = np.linalg.inv(lower)
        return
    first, second, below = lower[:half, :half], lower[half:, half:], lower[half:, :half]
    invert(first)
    invert(second)
    below[:] = -second @ (below @ first)


@dataclass(slots=True, repr=False)
class Columns(Summary):
    """Finds the codes of a weight column by column; it changes `weight` on the way."""

    weight: Array
    factor: Array
    scheme: Scheme
    clip_steps: int = 0

    def run(self) -> QuantizedTensor:
        """Rounds all columns, in blocks; the columns behind a block get one update for the whole block."""
        outputs, inputs = self.weight.shape
        scheme = self.scheme
        scales, zeros = grid(*ranges(self.weight, scheme), scheme)
        if scheme.per == CHANNEL:
            self.refit(scales, zeros, 0, slice(0, inputs))
        codes = np.empty((outputs, inputs), np.int8)
        block = scheme.group or BLOCK
        for start in range(0, inputs, block):
            stop = min(start + block, inputs)
            group = start // block if scheme.per == GROUP else 0
            if scheme.per == GROUP:
                self.refit(scales, zeros, group, slice(start, stop))
            groups = [group] * (stop - start)
            errors = self.block(codes, start, stop, scales[:, groups], None if zeros is None else zeros[:, groups])
            self.weight[:, stop:] -= errors @ self.factor[start:stop, stop:]
        return QuantizedTensor(codes, scales, scheme, zeros)

    def of_neighbours(self, order: Array) -> QuantizedTensor:
        """Rounds all columns in an order that keeps groups of adjacent inputs."""
        outputs, inputs = self.weight.shape
        place = np.argsort(order)
        ranks = Columns(self.weight[:, place], np.diag(self.factor.diagonal()[place]), self.scheme, self.clip_steps)
        scales, zeros = grid(*ranges(ranks.weight, self.scheme), self.scheme)
        size = self.scheme.group
        for group, start in enumerate(range(0, inputs, size)):
            ranks.refit(scales, zeros, group, slice(start, min(start + size, inputs)))
        codes = np.empty((outputs, inputs), np.int8)
        for start in range(0, inputs, BLOCK):
            stop = min(start + BLOCK, inputs)
            groups = order[start:stop] // size
            errors = self.block(codes, start, stop, scales[:, groups], None if zeros is None else zeros[:, groups])
            self.weight[:, stop:] -= errors @ self.factor[start:stop, stop:]
        return QuantizedTensor(np.ascontiguousarray(codes[:, place]), scales, self.scheme, zeros)

    def refit(self, scales: Array, zeros: Array | None, group: int, columns: slice) -> None:
        """Computes the scales of a group from its weights at the time when the group begins."""
        part = self.weight[:, columns]
        low, high = part.min(axis=1, initial=0), part.max(axis=1, initial=0)
        share = self.share(part, low, high, self.factor.diagonal()[columns])
        refitted, offsets = grid(share * low, share * high, self.scheme)
        scales[:, group] = refitted
        if zeros is not None:
            zeros[:, group] = offsets

    def share(self, part: Array, low: Array, high: Array, factor: Array) -> Array:
        """Returns the fraction of each range with the least error; a column's error has GPTQ's weight."""
        best = np.full(len(part), np.inf)
        share = np.ones(len(part))
        alone = replace(self.scheme, per=CHANNEL, group=0)
        for step in range(self.clip_steps):
            tried = 1 - step / (2 * self.clip_steps)
            scales, zeros = grid(tried * low[:, None], tried * high[:, None], alone)
            number = dequantize(quantize(part, scales, zeros, alone), scales, zeros, alone)
            error = np.square((part - number) / factor).sum(axis=1)
            share = np.where(error < best, tried, share)
            best = np.minimum(error, best)
        return share

    def block(self, codes: Array, start: int, stop: int, scales: Array, zeros: Array | None) -> Array:
        """Rounds the columns of a block with their scales and zero points; returns their errors (outputs, columns)."""
        scheme = self.scheme
        offsets = np.zeros(scales.shape) if zeros is None else zeros.astype(np.float64)
        steps = scales.astype(np.float64)
        errors = np.empty((len(self.weight), stop - start))
        for j in range(start, stop):
            column, step, offset = self.weight[:, j], steps[:, j - start], offsets[:, j - start]
            if scheme.format is None:
                code = np.clip(np.rint(column / step) + offset, scheme.low, scheme.high)
                number = code - offset
            else:
                code = scheme.format.codes(column / step)
                number = scheme.format.numbers(code)
            codes[:, j] = code
            error = (column - number * step) / self.factor[j, j]
            self.weight[:, j + 1 : stop] -= np.multiply.outer(error, self.factor[j, j + 1 : stop])
            errors[:, j - start] = error
        return errors


GPTQ = Algorithm("gptq", gptq)
