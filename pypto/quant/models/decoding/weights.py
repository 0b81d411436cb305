"""The weights of layers with the same inputs lie side by side in tiles of columns, which one launch multiplies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pypto.errors.quant import WrongScheme
from pypto.library.kernels.gemv import piece_of
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array
from pypto.quant.deploy import Bytes, DeployedLayer, Floats, Inputs
from pypto.quant.formats.gguf import MIDDLE
from pypto.quant.layer import Layer
from pypto.quant.models.decoding.kernels import int4_row_kernel, int4_rows_kernel, row_kernel, rows_kernel

WIDTHS: Final = (128, 64)  # columns of a tile: the first that divides the outputs, or the last
FEW: Final = 64  # rows of inputs up to which blocks have 16
Launch = Callable[[], None]


@dataclass(frozen=True, slots=True, repr=False)
class LayerWeights(Summary):
    """One layer: numbers are ``codes * scales + low``, a column for each output, scales and minima for groups of rows.

    Of four bits, a row of `codes` holds those of two inputs, from 0 to 15; see `pypto.quant.deploy.packed`.
    """

    kind: str
    inputs: Inputs
    codes: Array
    scales: Array | None = None
    low: Array | None = None

    @classmethod
    def of(cls, layer: DeployedLayer | Layer) -> LayerWeights:
        """Of a layer on kernels, or of one in float32.

        Raises
        ------
        WrongScheme
            For a bias, and for inputs with one scale for all or for groups.
        """
        if isinstance(layer, Layer):
            if layer.bias is not None:
                refuse(layer.name, "a bias")
            return cls("float32", Inputs(), np.asarray(layer.weight, np.float32).T)
        run: Any = layer.run
        if not isinstance(run, Floats | Bytes):
            refuse(layer.name, f"{layer.kind} with these inputs")
        if run.bias is not None:
            refuse(layer.name, "a bias")
        if isinstance(run, Bytes):
            return cls("W8A8", run.inputs, run.codes, run.scales[None])
        return cls(layer.kind, run.inputs, run.codes, as_float16(run.scales), minima(run))

    def take(self, order: Array) -> LayerWeights:
        """Some of the outputs, in a given order."""
        scales, low = (None if t is None else t[:, order] for t in (self.scales, self.low))
        return LayerWeights(self.kind, self.inputs, self.codes[:, order], scales, low)

    def fits(self, other: LayerWeights) -> bool:
        """Whether one launch can compute both."""
        alike = all(same_form(getattr(self, name), getattr(other, name)) for name in ("codes", "scales", "low"))
        same = all(
            same_numbers(getattr(self.inputs, name), getattr(other.inputs, name)) for name in ("order", "factors")
        )
        return self.kind == other.kind and alike and same


def same_form(a: Array | None, b: Array | None) -> bool:
    """Whether arrays have as many rows, and the same dtype."""
    if a is None or b is None:
        return a is b
    return len(a) == len(b) and a.dtype == b.dtype


def same_numbers(a: Array | None, b: Array | None) -> bool:
    """Whether both are missing, or equal."""
    return a is b if a is None or b is None else np.array_equal(a, b)


def as_float16(numbers: Array) -> Array:
    """In float16, where that loses nothing."""
    with np.errstate(over="ignore"):
        small = numbers.astype(np.float16)
    return small if np.array_equal(small.astype(np.float32), numbers) else numbers


def minima(run: Floats) -> Array | None:
    """What is added to the numbers of a group, when its codes begin at 0 (four bits) or are as they are (eight)."""
    first = np.float32(MIDDLE if run.bits == 4 else 0)
    if run.zeros is None and run.low is not None:
        least = as_float16((run.low - first * run.scales).astype(np.float16).astype(np.float32))
        if np.array_equal(first * run.scales + least.astype(np.float32), run.low):
            return least
    zeros = first + (0 if run.zeros is None else run.zeros.astype(np.float64))
    if run.low is None and not np.any(zeros):
        return None
    return as_float16(((0 if run.low is None else run.low) - zeros * run.scales).astype(np.float32))


@dataclass(frozen=True, slots=True, repr=False)
class TiledWeights(Summary):
    """Layers side by side: each tile of columns lies in one stretch of memory."""

    kind: str
    inputs: Inputs
    outputs: int
    codes: Array
    scales: Array | None
    low: Array | None

    @classmethod
    def of(cls, layers: Sequence[LayerWeights]) -> TiledWeights:
        """Of layers that fit each other."""
        first = layers[0]
        outputs = sum(layer.codes.shape[1] for layer in layers)
        width = next((w for w in WIDTHS if outputs % w == 0), WIDTHS[-1])
        codes = tiled([layer.codes for layer in layers], width)
        scales = None if first.scales is None else tiled([layer.scales for layer in layers], width)
        low = None if first.low is None else tiled([layer.low for layer in layers], width)
        return cls(first.kind, first.inputs, outputs, codes, scales, low)

    @property
    def rows(self) -> int:
        """Inputs, with those of a last group that do not exist."""
        return int(self.codes.shape[1]) * (2 if self.is_int4 else 1)

    @property
    def is_int4(self) -> bool:
        """Whether a byte holds two codes."""
        return self.kind == "W4A16"

    @property
    def has_scale(self) -> bool:
        """Whether rows of inputs are in int8, with a scale each."""
        return self.kind == "W8A8"

    @property
    def bytes(self) -> int:
        """Of codes, scales and minima."""
        return sum(t.nbytes for t in (self.codes, self.scales, self.low) if t is not None)

    @property
    def group(self) -> int:
        """Rows of `codes` that share a scale."""
        return int(self.codes.shape[1]) // (1 if self.scales is None else self.scales.shape[1])

    def bound(self, x: Array, row_scale: Array | None, y: Array, add: bool) -> Launch:
        """The product of one row, as a launch that is ready to be made."""
        tiles, rows, width = self.codes.shape
        weights = self.codes.reshape(tiles * rows, width), self.scales, self.low
        sizes = {"PIECE": piece_of(self.group), "ADD": add}
        if self.is_int4:
            return int4_row_kernel.bind(x, *weights, y, grid=(tiles,), HALF=self.group, **sizes)
        return row_kernel.bind(x, *weights, row_scale, y, grid=(tiles,), ROWS=rows, GROUP=self.group, **sizes)

    def multiply(self, x: Array, row_scale: Array | None, y: Array, add: bool) -> None:
        """The product of many rows."""
        size = 16 if len(x) <= FEW else FEW
        grid = (-(-len(x) // size), len(self.codes))
        weights = self.codes, self.scales, self.low
        if self.is_int4:
            int4_rows_kernel[grid](x, *weights, y, HALF=self.group, BM=size, ADD=add)
        else:
            rows_kernel[grid](x, *weights, row_scale, y, GROUP=self.group, BM=size, ADD=add)


def tiled(parts: Sequence[Array], width: int) -> Array:
    """LayerWeights side by side as (tiles, rows, columns of a tile); those that do not exist are 0."""
    rows = len(parts[0])
    outputs = sum(part.shape[1] for part in parts)
    found = np.zeros((rows, -(-outputs // width) * width), parts[0].dtype)
    np.concatenate(parts, axis=1, out=found[:, :outputs])
    return np.ascontiguousarray(found.reshape(rows, -1, width).transpose(1, 0, 2))


def fuse(layers: Sequence[LayerWeights]) -> list[TiledWeights]:
    """Neighbours that fit each other become one product."""
    groups: list[list[LayerWeights]] = []
    for layer in layers:
        if groups and groups[-1][0].fits(layer):
            groups[-1].append(layer)
        else:
            groups.append([layer])
    return [TiledWeights.of(group) for group in groups]


def refuse(layer: str, what: str) -> Any:
    raise WrongScheme(what=f"layer {layer}: {what} is not offered in a decoder", way="use inputs=None or int8('token')")
