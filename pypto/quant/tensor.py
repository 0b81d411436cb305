"""A quantised tensor holds a weight as codes of few bits, with scales and offsets that turn codes into numbers.

Algorithms make it, files store it and kernels read it. They differ only in the layout of the arrays, the `packing`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from pypto.errors.quant import WrongResult
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array
from pypto.quant.rounding import dequantize
from pypto.quant.schemes import GROUP, Scheme

ROWS: Final = "rows"
COLUMNS: Final = "columns"
UNSIGNED: Final = "unsigned columns"
TILES: Final = "tiles"
MX: Final = "mx"
MIDDLE: Final = 8  # offset of int4 codes that share a byte: it makes them nibbles from 0 on
BLOCK: Final = 32  # inputs in a block of GGUF


@dataclass(frozen=True, slots=True, repr=False)
class QuantizedTensor(Summary):
    """A quantised weight (outputs, inputs), whose numbers are ``(codes - zeros) * scales + offset``, group by group.

    Parameters
    ----------
    codes : ndarray of shape (outputs, inputs), int8
        The codes; int4 codes also have one int8 each, within the range of the scheme.
    scales : ndarray of shape (outputs, groups), float32
        The scales; None for a float32 weight, whose codes are its numbers.
    scheme : Scheme
        The scheme, which is unused if there are no scales.
    zeros : ndarray of shape (outputs, groups), int8, optional
        Zero points of an asymmetric scheme.
    order : ndarray of shape (inputs,), int32, optional
        Column j of `codes` belongs to input ``order[j]``.
    transform : ndarray of shape (inputs,), float32, optional
        Factors of the inputs: the layer computes with ``x * transform``. They have the model's order if the packing is
        by rows, and the order of the codes otherwise.
    offset : ndarray of shape (outputs, groups), optional
        Offsets that are added to the numbers of a group.
    packing : str
        ``"rows"``, for algorithms and files, is as above. ``"columns"`` is for kernels: codes (inputs, outputs) and
        scales (groups, outputs), padded to whole groups; bytes (uint8) hold two codes of four bits, group by group, the
        first half of a group in the low nibbles, each as ``code + 8``. ``"unsigned columns"`` is the same but that
        nibbles are the codes. ``"tiles"`` cuts those into tiles of columns: (tiles, inputs, columns of a tile).
        ``"mx"`` is by rows with codes in float8, and scales as exponents of E8M0 in pairs.
    shape : tuple of int, optional
        Outputs and inputs; by default, the shape of the codes.
    """

    codes: Array
    scales: Array
    scheme: Scheme
    zeros: Array | None = None
    order: Array | None = None
    transform: Array | None = None
    offset: Array | None = None
    packing: str = ROWS
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.shape:
            object.__setattr__(self, "shape", tuple(self.codes.shape))

    def headline(self) -> str:
        """The size and scheme as text."""
        outputs, inputs = self.shape
        scheme = "float32" if self.scales is None else self.scheme
        return f"{outputs:,} outputs of {inputs:,} inputs, {scheme}, {self.bytes / 1e6:.3g} MB"

    def like(self, **changed: Any) -> QuantizedTensor:
        """Returns a tensor with other fields."""
        return QuantizedTensor(**{part.name: getattr(self, part.name) for part in fields(QuantizedTensor)} | changed)

    @property
    def bits(self) -> int:
        """The bits of a code."""
        return 32 if self.scales is None else self.scheme.bits

    @property
    def has_nibbles(self) -> bool:
        """Says whether a byte holds two codes."""
        return bool(self.codes.dtype == np.uint8)

    def dequantize(self) -> Array:
        """Returns the float32 weight (outputs, inputs) in the model's order of inputs; order and factors are undone.

        It is an array expression, so that a fused function may dequantise its arguments.
        """
        numbers = self.of_rows() if self.packing in (ROWS, MX) else self.of_columns()
        if self.transform is not None and self.packing != ROWS:
            numbers = numbers * self.transform
        if self.order is not None:
            numbers = np.take(numbers, np.argsort(self.order), axis=1)
        return numbers * self.transform if self.transform is not None and self.packing == ROWS else numbers

    def of_rows(self) -> Array:
        """Dequantises in the order of the codes, for packing by rows."""
        codes, scales = self.codes, self.scales
        if self.packing == MX:
            codes = codes.view(np.int8)
            scales = np.ldexp(np.float32(1), scales.reshape(len(codes), -1).astype(np.int32) - 127)
        numbers = dequantize(codes, scales, self.zeros, self.scheme)
        return numbers if self.offset is None else numbers + np.repeat(self.offset, self.scheme.group, axis=1)

    def of_columns(self) -> Array:
        """Dequantises in the order of the codes, for packing by columns or by tiles of columns."""
        arrays: list[Any] = [self.codes, self.scales, self.zeros, self.offset]
        if self.packing == TILES:
            arrays = [t if t is None else t.transpose(1, 0, 2).reshape(t.shape[1], -1) for t in arrays]
        columns = arrays[0].shape[1]
        arrays = [t if t is None else t.reshape(-1, columns) for t in arrays]
        codes, scales, zeros, offset = arrays
        if self.has_nibbles:
            halves = codes.reshape(len(scales), 1, -1, columns)
            codes = np.concatenate([halves & 15, halves >> 4], axis=1).reshape(-1, columns)
        numbers = codes.astype(np.float32)
        if self.has_nibbles and self.packing == COLUMNS:
            numbers = numbers - np.float32(MIDDLE)
        size = len(codes) if scales is None else len(codes) // len(scales)
        scales, zeros, offset = (t if t is None else np.repeat(t, size, axis=0) for t in (scales, zeros, offset))
        numbers = numbers if zeros is None else numbers - zeros
        numbers = numbers if scales is None else numbers * scales
        numbers = numbers if offset is None else numbers + offset
        outputs, inputs = self.shape
        return numbers[:inputs, :outputs].T

    @property
    def bytes(self) -> int:
        """The bytes of codes, scales, zero points and offsets; by rows, order and factors count too, as in files."""
        parts = [self.scales, self.zeros, self.offset]
        if self.packing != ROWS:
            return int(sum(a.nbytes for a in (self.codes, *parts) if a is not None))
        outputs, inputs = self.codes.shape
        stored = sum(a.nbytes for a in (*parts, self.order, self.transform) if a is not None)
        return int(outputs * -(-inputs * self.bits // 8) + stored)

    def check(self, layer: str, shape: tuple[int, ...]) -> QuantizedTensor:
        """Refuses results that no kernel can compute with, for a layer whose weight has a given shape."""
        outputs, inputs = shape
        groups = self.scheme.groups(inputs)
        shapes = {
            "codes": (outputs, inputs), "scales": (outputs, groups), "zeros": (outputs, groups), "order": (inputs,),
            "transform": (inputs,),
        }  # fmt: skip
        for name, expected in shapes.items():
            value = getattr(self, name)
            if value is not None and np.shape(value) != expected:
                raise WrongResult(layer=layer, what=f"`{name}` has shape {np.shape(value)}, expected {expected}")
        low, high = self.codes.min(initial=0), self.codes.max(initial=0)
        if self.codes.dtype != np.int8 or low < self.scheme.low or high > self.scheme.high:
            what = f"codes are {self.codes.dtype} from {low} to {high}, expected int8"
            raise WrongResult(layer=layer, what=f"{what} from {self.scheme.low} to {self.scheme.high}")
        for name in ("scales", "transform"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value).all() and (value > 0).all()):
                raise WrongResult(layer=layer, what=f"`{name}` has numbers that are not positive and finite")
        return self

    def ordered(self, x: Array) -> Array:
        """Reorders rows of inputs to the order of the codes."""
        return x if self.order is None else np.take(x, self.order, axis=1)

    def to_columns(self, size: int) -> QuantizedTensor:
        """Returns the tensor packed by columns, with inputs padded to whole groups; a channel's scale is repeated."""
        outputs, inputs = self.codes.shape
        groups = -(-inputs // size)
        offset = self.offset
        codes = np.pad(self.codes, ((0, 0), (0, groups * size - inputs))).T
        if self.bits == 4 and offset is not None:  # codes begin at 0
            codes = codes - np.int8(MIDDLE)
            offset = MIDDLE * self.scales + offset
        scales, zeros, offset = (
            None if t is None else np.ascontiguousarray(np.broadcast_to(t, (outputs, groups)).T)
            for t in (self.scales, self.zeros, offset)
        )
        transform = self.transform
        if transform is not None and self.order is not None:
            transform = np.ascontiguousarray(transform[self.order])
        codes = packed(codes, groups) if self.bits == 4 else np.ascontiguousarray(codes)
        return self.like(
            codes=codes, scales=scales, zeros=zeros, offset=offset, transform=transform, packing=COLUMNS,
            shape=(outputs, inputs),
        )  # fmt: skip


QuantizedWeight = QuantizedTensor  # the name that users' algorithms have for it


class GroupedWeight(QuantizedTensor):
    """A weight in GGUF's blocks of 32 inputs: ``codes * scales + minima``.

    Parameters
    ----------
    codes : ndarray of shape (outputs, inputs), int8
        The codes: from 0 to 15 with `minima`, else from -8 to 7 or from -128 to 127.
    scales : ndarray of shape (outputs, inputs / 32), float32
    bits : int
        4 or 8.
    minima : ndarray of shape (outputs, inputs / 32), float32, optional

    Examples
    --------
    >>> w = GroupedWeight(np.full((1, 32), 3, np.int8), np.full((1, 1), 0.5, np.float32), 8)
    >>> w.dequantize()[0, :2].tolist()
    [1.5, 1.5]
    """

    __slots__ = ()

    def __init__(self, codes: Array, scales: Array, bits: int, minima: Array | None = None) -> None:
        super().__init__(codes, scales, Scheme(bits, per=GROUP, group=BLOCK), offset=minima)

    def headline(self) -> str:
        """The size and format as text."""
        outputs, inputs = self.shape
        return f"{outputs:,} outputs of {inputs:,} inputs, {self.bits} bits in groups of {BLOCK}"

    @property
    def minima(self) -> Array | None:
        """The offsets that are added to the numbers of a block."""
        return self.offset


def packed(codes: Array, groups: int) -> Array:
    """Packs int4 codes (inputs, outputs) as bytes (inputs / 2, outputs), group by group.

    The low nibbles hold the first half of a group, the high ones the second; a nibble is ``code + 8``.
    """
    halves = (codes + MIDDLE).astype(np.uint8).reshape(groups, 2, -1, codes.shape[1])
    return np.ascontiguousarray((halves[:, 0] | halves[:, 1] << 4).reshape(-1, codes.shape[1]))


def tiled(tensors: list[QuantizedTensor], width: int) -> QuantizedTensor:
    """Places tensors by unsigned columns side by side in tiles of so many columns; padding columns are 0."""
    first = tensors[0]
    outputs = sum(tensor.codes.shape[1] for tensor in tensors)

    def tiles(name: str) -> Array | None:
        if getattr(first, name) is None:
            return None
        parts = [getattr(tensor, name) for tensor in tensors]
        rows = np.zeros((len(parts[0]), -(-outputs // width) * width), parts[0].dtype)
        np.concatenate(parts, axis=1, out=rows[:, :outputs])
        return np.ascontiguousarray(rows.reshape(len(rows), -1, width).transpose(1, 0, 2))

    arrays = {name: tiles(name) for name in ("codes", "scales", "offset")}
    return first.like(**arrays, packing=TILES, shape=(outputs, first.shape[1]))
