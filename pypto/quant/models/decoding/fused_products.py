"""Fused products: layers with the same input share a prologue (norm, SwiGLU, rounding); the residual is an epilogue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from pypto.markup.summary import Summary
from pypto.quant.arrays import Array
from pypto.quant.models.decoding.kernels import inputs_kernel
from pypto.quant.models.decoding.weights import RowProduct
from pypto.runtime.launches import LaunchStep


@dataclass(frozen=True, slots=True, repr=False)
class FusedProducts(Summary):
    """Products with the same inputs and adjacent results, with their prologue and epilogue.

    Parameters
    ----------
    products : sequence of RowProduct
    count : int
        The number of inputs.
    norm : ndarray of shape (count,), optional
        The weight of an RMS norm of the inputs.
    eps : float
        The epsilon of the norm.
    """

    products: Sequence[RowProduct]
    count: int
    norm: Array | None = field(default=None, repr=False)
    eps: float = 0.0

    @property
    def outputs(self) -> int:
        """The outputs of all products."""
        return sum(product.outputs for product in self.products)

    def launches(self, x: Array, y: Array, gated: bool = False, add: bool = False) -> Iterator[LaunchStep]:
        """Builds launches for some rows: products of x, or of SwiGLU of its halves; they add to y if it is given.

        Inputs of a single row stay float32 although they are rounded: its time goes into reading the weight.
        """
        for product, part in self.parts(y):
            rows, row_scale, given = self.inputs(product, x, gated)
            if given:
                yield LaunchStep.of(inputs_kernel, *given, grid=(len(x),), COUNT=self.count, GATED=gated)
            yield product.launch(rows, row_scale, part, add)

    def parts(self, y: Array) -> Iterator[tuple[RowProduct, Array]]:
        """Yields each product with its part of the results."""
        first = 0
        for product in self.products:
            yield product, y[:, first : first + product.outputs]
            first += product.outputs

    def inputs(self, product: RowProduct, x: Array, gated: bool) -> tuple[Array, Array | None, tuple[object, ...]]:
        """Returns a product's inputs and scales, and the arguments of the kernel that makes them, if one does."""
        weight, has_scale = product.weight, product.has_scale
        is_plain = weight.order is None and weight.transform is None and product.rows == self.count
        if is_plain and not (gated or self.norm is not None or has_scale):
            return x, None, ()
        rows = np.zeros((len(x), product.rows), np.int8 if has_scale and len(x) > 1 else np.float32)
        row_scale = np.zeros(len(x), np.float32) if has_scale else None
        order, factors, norm = weight.order, weight.transform, self.norm
        if order is not None:
            norm = None if norm is None else norm[order]
            order = order.astype(np.int32)
        factors = None if factors is None else factors.astype(np.float32)
        return rows, row_scale, (x, norm, order, factors, rows, row_scale, self.eps)
