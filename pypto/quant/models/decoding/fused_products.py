"""Fused products: layers with the same inputs share the rounding of these inputs, and the memory of their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pypto import fuse
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array
from pypto.quant.deploy import rounded_groups
from pypto.quant.models.decoding.weights import RowProduct
from pypto.quant.models.llama_layer import ROWS


@dataclass(frozen=True, slots=True, repr=False)
class FusedProducts(Summary):
    """Products with the same inputs, whose results lie side by side.

    Parameters
    ----------
    products : sequence of RowProduct
    """

    products: Sequence[RowProduct]

    @property
    def outputs(self) -> int:
        """The outputs of all products."""
        return sum(product.outputs for product in self.products)

    def __call__(self, x: Array) -> Array:
        """Computes the products of rows.

        Inputs of a single row stay float32 although they are rounded: its time goes into reading the weight.
        """
        y = np.empty_like(x, np.float32, "C", False, (x.shape[0], self.outputs))
        first = 0
        for product in self.products:
            rows, row_scale = inputs_of(product, x)
            product.launch(rows, row_scale, y[:, first : first + product.outputs])
            first += product.outputs
        return y


def inputs_of(product: RowProduct, x: Array) -> tuple[Array, Array | None]:
    """Returns the rows that a product reads, and their scales if they are rounded to int8."""
    order, factors = product.weight.order, product.weight.transform
    missing = product.rows - x.shape[1]
    if order is not None or factors is not None or missing:
        x = arranged(x, order, factors, missing)
    if not product.has_scale:
        return x, None
    rows, scale = rounded_groups(x, None, 1, "float32" if x.shape[0] == 1 else "int8")
    return rows, scale[:, 0]


@fuse(dims={"x": (ROWS, None)})
def arranged(x: Array, order: Array | None, factors: Array | None, missing: int) -> Array:
    """Brings inputs into the order of a product's codes, times smoothing factors, with zeros for missing ones."""
    x = x if order is None else x[:, order]
    x = x if factors is None else x * factors
    return np.pad(x, ((0, 0), (0, missing))) if missing else x
