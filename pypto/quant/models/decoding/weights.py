"""Column tiles: weights of layers with the same inputs are stored side by side, so that one launch multiplies all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

import numpy as np

from pypto.errors.quant import WrongScheme
from pypto.library.kernels.gemv import piece_of
from pypto.library.kernels.products import w8a8_kernel
from pypto.library.kernels.quantized.weights import row_kernel, rows_kernel
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array
from pypto.quant.deploy import DeployedLayer, Product
from pypto.quant.layer import Layer
from pypto.quant.schemes import Scheme
from pypto.quant.tensor import MIDDLE, UNSIGNED, QuantizedTensor, tiled

WIDTHS: Final = (128, 64)  # widths of a tile: the first that divides the outputs is used, else the last
FEW: Final = 64  # up to so many rows of inputs, a block has 16
DEPTH: Final = 128  # input columns of one step of an int8 product


@dataclass(frozen=True, slots=True, repr=False)
class RowProduct(Summary):
    """A product with one weight, or with several side by side.

    Parameters
    ----------
    weight : QuantizedTensor
        The weight, by unsigned columns, or in tiles of them as the kernels read it.
    has_scale : bool
        Whether the rows of inputs are int8 with one scale each.
    """

    weight: QuantizedTensor
    has_scale: bool = False

    def take(self, order: Array) -> RowProduct:
        """Selects some of the outputs, in a given order."""
        weight = self.weight
        scales, offset = (None if t is None else t[:, order] for t in (weight.scales, weight.offset))
        return replace(self, weight=weight.like(codes=weight.codes[:, order], scales=scales, offset=offset))

    def fits(self, other: RowProduct) -> bool:
        """Says whether one launch can compute both: equal array forms, input orders and factors."""
        a, b = self.weight, other.weight
        pairs = (a.order, b.order), (a.transform, b.transform)
        is_same = all(one is two if one is None or two is None else np.array_equal(one, two) for one, two in pairs)
        return is_same and self.form == other.form

    @property
    def form(self) -> list[Any]:
        """Says whether inputs have scales, and gives the rows and dtypes of the arrays."""
        arrays = self.weight.codes, self.weight.scales, self.weight.offset
        return [self.has_scale, *(None if t is None else (len(t), t.dtype) for t in arrays)]

    @property
    def outputs(self) -> int:
        """The number of outputs, without the padding of the last tile."""
        return self.weight.shape[0]

    @property
    def rows(self) -> int:
        """The number of inputs, with the padding of the last group."""
        return int(self.weight.codes.shape[1]) * (2 if self.weight.has_nibbles else 1)

    @property
    def group(self) -> int:
        """The rows of codes that share a scale."""
        scales = self.weight.scales
        return int(self.weight.codes.shape[1]) // (1 if scales is None else scales.shape[1])

    def launch(self, x: Array, row_scale: Array | None, y: Array) -> None:
        """Computes the product into y; several int8 rows are multiplied in int32."""
        weight = self.weight
        tiles, rows, width = weight.codes.shape
        count = x.shape[0]
        size = 1 if count == 1 else 16 if count <= FEW else FEW
        grid, given = (-(-count // size), tiles), {"TILED": True, "BN": width}
        if x.dtype == np.int8:
            scales = np.reshape(weight.scales, -1)
            operands = x, weight.codes, row_scale, scales, None, None, y
            w8a8_kernel[grid](*operands, **given, BM=size, BK=DEPTH)
            return
        others = weight.scales, None, weight.offset
        given |= {"ROWS": rows, "GROUP": self.group, "BITS": 4 if weight.has_nibbles else 8, "MIDDLE": 0.0}
        if size > 1:
            rows_kernel[grid](x, weight.codes, *others, None, y, **given, BM=size)
            return
        codes = weight.codes.reshape(-1, width)
        row_kernel[grid](x, codes, *others, row_scale, None, y, **given, PIECE=piece_of(self.group))


def product_of(layer: DeployedLayer | Layer) -> RowProduct:
    """Builds the product of a deployed layer, or of a float32 one, by unsigned columns.

    Raises
    ------
    WrongScheme
        If the layer has a bias, or inputs with one static scale or with scales of groups.
    """
    if isinstance(layer, Layer):
        if layer.bias is not None:
            refuse(layer.name, "a bias")
        numbers = np.asarray(layer.weight, np.float32)
        return RowProduct(QuantizedTensor(numbers.T, None, Scheme(), packing=UNSIGNED, shape=numbers.shape))
    run = layer.run
    if not isinstance(run, Product) or run.form not in ("Floats", "Bytes"):
        refuse(layer.name, f"{layer.kind} with these inputs")
    if run.bias is not None:
        refuse(layer.name, "a bias")
    weight = run.weight
    if run.form == "Bytes":
        return RowProduct(weight.like(scales=weight.scales[None], packing=UNSIGNED), has_scale=True)
    changed = {"scales": as_float16(weight.scales), "zeros": None, "offset": minima(weight), "packing": UNSIGNED}
    return RowProduct(weight.like(**changed))


def as_float16(numbers: Array) -> Array:
    """Converts to float16 if that is exact."""
    with np.errstate(over="ignore"):
        small = numbers.astype(np.float16)
    return small if np.array_equal(small.astype(np.float32), numbers) else numbers


def minima(weight: QuantizedTensor) -> Array | None:
    """Returns the offsets of groups for codes that begin at 0 (four bits) or are signed (eight)."""
    first = np.float32(MIDDLE if weight.bits == 4 else 0)
    low, scales = weight.offset, weight.scales
    if weight.zeros is None and low is not None:
        least = as_float16((low - first * scales).astype(np.float16).astype(np.float32))
        if np.array_equal(first * scales + least.astype(np.float32), low):
            return least
    zeros = first + (0 if weight.zeros is None else weight.zeros.astype(np.float64))
    if low is None and not np.any(zeros):
        return None
    return as_float16(((0 if low is None else low) - zeros * scales).astype(np.float32))


def joined(products: Sequence[RowProduct]) -> list[RowProduct]:
    """Fuses adjacent products that fit each other; the fused weight is stored in tiles."""
    groups: list[list[RowProduct]] = []
    for product in products:
        if groups and groups[-1][0].fits(product):
            groups[-1].append(product)
        else:
            groups.append([product])
    return [in_tiles(group) for group in groups]


def in_tiles(products: Sequence[RowProduct]) -> RowProduct:
    """Fuses products that fit each other into one."""
    outputs = sum(product.weight.codes.shape[1] for product in products)
    width = next((w for w in WIDTHS if outputs % w == 0), WIDTHS[-1])
    return replace(products[0], weight=tiled([product.weight for product in products], width))


def refuse(layer: str, what: str) -> NoReturn:
    raise WrongScheme(what=f"layer {layer}: {what} is not offered in a decoder", way="use inputs=None or int8('token')")
