"""Products with the same input share a prologue (norm, SwiGLU, rounding), and add the residual as their epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pypto.markup.summary import Summary
from pypto.quant.arrays import Array
from pypto.quant.models.decoding.kernels import inputs_kernel
from pypto.quant.models.decoding.weights import Launch, TiledWeights


@dataclass(frozen=True, slots=True, repr=False)
class FusedProducts(Summary):
    """Products with the same inputs, whose results lie side by side, with their prologue and epilogue.

    Parameters
    ----------
    products : sequence of TiledWeights
    count : int
        Inputs.
    norm : ndarray of shape (count,), optional
        The weight of an RMS norm of the inputs.
    eps : float
        Of the norm.
    gated : bool
        Whether inputs are SwiGLU of two halves.
    add : bool
        Whether results are added to what is there: the residual.
    """

    products: Sequence[TiledWeights]
    count: int
    norm: Array | None = field(default=None, repr=False)
    eps: float = 0.0
    gated: bool = False
    add: bool = False

    def bound(self, x: Array, y: Array) -> list[Launch]:
        """Launches for one row, in their order."""
        launches: list[Launch] = []
        first = 0
        for tiles in self.products:
            rows, row_scale = x, None
            if self.has_inputs(tiles):
                rows = np.zeros((1, tiles.rows), np.float32)
                row_scale = np.zeros(1, np.float32) if tiles.has_scale else None
                given = self.arguments(tiles, x, rows, row_scale)
                launches.append(inputs_kernel.bind(*given, grid=(1,), COUNT=self.count, GATED=self.gated))
            last = first + tiles.outputs
            launches.append(tiles.bound(rows, row_scale, y[:, first:last], self.add))
            first = last
        return launches

    def multiply(self, x: Array, y: Array) -> None:
        """The same for many rows."""
        first = 0
        for tiles in self.products:
            rows, row_scale = x, None
            if self.has_inputs(tiles):
                rows = np.zeros((len(x), tiles.rows), np.int8 if tiles.has_scale else np.float32)
                row_scale = np.zeros(len(x), np.float32) if tiles.has_scale else None
                given = self.arguments(tiles, x, rows, row_scale)
                inputs_kernel[len(x),](*given, COUNT=self.count, GATED=self.gated)
            last = first + tiles.outputs
            tiles.multiply(rows, row_scale, y[:, first:last], self.add)
            first = last

    def has_inputs(self, tiles: TiledWeights) -> bool:
        """Whether a launch makes the inputs of a product, which does not take them as they are."""
        is_plain = tiles.inputs.order is None and tiles.inputs.factors is None and tiles.rows == self.count
        return self.gated or self.norm is not None or tiles.has_scale or not is_plain

    def arguments(self, tiles: TiledWeights, x: Array, rows: Array, row_scale: Array | None) -> tuple[object, ...]:
        """Of `inputs_kernel`."""
        order, factors = tiles.inputs.order, tiles.inputs.factors
        norm = self.norm
        if order is not None:
            norm = None if norm is None else norm[order]
            order = order.astype(np.int32)
        factors = None if factors is None else factors.astype(np.float32)
        return x, norm, order, factors, rows, row_scale, self.eps
