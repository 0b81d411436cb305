"""Products with the same input share a prologue (norm, SwiGLU, rounding), and add the residual as their epilogue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pypto.markup.summary import Summary
from pypto.quant.arrays import Array
from pypto.quant.models.decoding.kernels import inputs_kernel
from pypto.quant.models.decoding.weights import Launch, RowProduct


@dataclass(frozen=True, slots=True, repr=False)
class FusedProducts(Summary):
    """Products with the same inputs, whose results lie side by side, with their prologue and epilogue.

    Parameters
    ----------
    products : sequence of RowProduct
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

    products: Sequence[RowProduct]
    count: int
    norm: Array | None = field(default=None, repr=False)
    eps: float = 0.0
    gated: bool = False
    add: bool = False

    def bound(self, x: Array, y: Array) -> list[Launch]:
        """Launches for one row, in their order."""
        launches: list[Launch] = []
        for product, part in self.parts(y):
            rows, row_scale, given = self.inputs(product, x, np.float32)
            if given:
                launches.append(inputs_kernel.bind(*given, grid=(1,), COUNT=self.count, GATED=self.gated))
            launches.append(product.bound(rows, row_scale, part, self.add))
        return launches

    def multiply(self, x: Array, y: Array) -> None:
        """Compute the products of many rows."""
        for product, part in self.parts(y):
            rows, row_scale, given = self.inputs(product, x, np.int8)
            if given:
                inputs_kernel[len(x),](*given, COUNT=self.count, GATED=self.gated)
            product.multiply(rows, row_scale, part, self.add)

    def parts(self, y: Array) -> Iterator[tuple[RowProduct, Array]]:
        """Each product with its part of the results."""
        first = 0
        for product in self.products:
            yield product, y[:, first : first + product.outputs]
            first += product.outputs

    def inputs(self, product: RowProduct, x: Array, codes: Any) -> tuple[Array, Array | None, tuple[object, ...]]:
        """Inputs of a product, their scales, and arguments of the kernel that makes both, if `x` is not as it is."""
        weight, has_scale = product.weight, product.has_scale
        is_plain = weight.order is None and weight.transform is None and product.rows == self.count
        if is_plain and not (self.gated or self.norm is not None or has_scale):
            return x, None, ()
        rows = np.zeros((len(x), product.rows), codes if has_scale else np.float32)
        row_scale = np.zeros(len(x), np.float32) if has_scale else None
        order, factors, norm = weight.order, weight.transform, self.norm
        if order is not None:
            norm = None if norm is None else norm[order]
            order = order.astype(np.int32)
        factors = None if factors is None else factors.astype(np.float32)
        return rows, row_scale, (x, norm, order, factors, rows, row_scale, self.eps)
