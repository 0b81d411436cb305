"""GGUF files, the format of llama.cpp, hold language models: metadata, and tensors in blocks of 32 numbers.

Each block has its own scale. The package `gguf` reads the file; a tensor stays a memory map until it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from pypto.arguments import BOUNDARY
from pypto.errors.quant import WrongCalibration
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array
from pypto.quant.tensor import BLOCK, MIDDLE, GroupedWeight, QuantizedTensor


@dataclass(frozen=True, slots=True, repr=False)
class GGUF(Summary):
    """A GGUF file.

    Attributes
    ----------
    path : Path
    metadata : mapping of str to value
        As in ``metadata["llama.block_count"]``.
    tensors : mapping of str to value
        Of the package `gguf`: memory maps of the file.
    """

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, Any] = field(repr=False)

    def kind(self, name: str) -> str:
        """Returns the type of a tensor, as in ``"Q4_1"``."""
        return str(self.tensor(name).tensor_type.name)

    def tensor(self, name: str) -> Any:
        """Returns a tensor as the package `gguf` represents it."""
        if name not in self.tensors:
            raise WrongCalibration(what=f"{self.path.name} has no tensor {name}", way="look at `GGUF.tensors`")
        return self.tensors[name]

    def array(self, name: str) -> Array:
        """Returns a tensor in float32, whatever type it has in the file."""
        tensor = self.tensor(name)
        return np.ascontiguousarray(self.dequantized(name, numbers_of(tensor)), np.float32)

    def rows(self, name: str, index: Array) -> Array:
        """Returns some rows of a tensor in float32, without reading the others."""
        flat = self.dequantized(name, numbers_of(self.tensor(name))[index.ravel()])
        return np.ascontiguousarray(flat.reshape(*index.shape, -1), np.float32)

    def dequantized(self, name: str, data: Array) -> Array:
        """Dequantises a tensor, or some of its rows."""
        kind = self.tensor(name).tensor_type
        try:
            return library().quants.dequantize(data, kind)
        except NotImplementedError as error:
            what = f"tensor {name} of {self.path.name} cannot be read: {error}"
            raise WrongCalibration(what=what, way="give a file whose tensors have another type") from None

    def weight(self, name: str) -> GroupedWeight:
        """Returns the codes, scales and minima of a tensor of the type Q4_0, Q4_1 or Q8_0.

        Raises
        ------
        WrongCalibration
            If the type is another one; `array` returns those as float32.
        """
        kind = self.kind(name)
        if kind not in READERS:
            what = f"tensor {name} of {self.path.name} is {kind}"
            raise WrongCalibration(what=what, way=f"codes are read of {', '.join(READERS)}; `array` gives float32")
        return READERS[kind](np.ascontiguousarray(self.tensor(name).data))


def numbers_of(tensor: Any) -> Array:
    """Returns the content of a tensor: bytes of a file, or numbers of a quantised layer from a folder."""
    return tensor.data.dequantize() if isinstance(tensor.data, QuantizedTensor) else tensor.data


def halves(blocks: Array, start: int) -> Array:
    """Returns the float16 number at a byte of each block, as float32."""
    return np.ascontiguousarray(blocks[:, :, start : start + 2]).view(np.float16)[:, :, 0].astype(np.float32)


def nibbles(blocks: Array, start: int) -> Array:
    """Unpacks codes from 0 to 15: the low nibbles of a block are its first half, the high ones its second."""
    packed = blocks[:, :, start : start + BLOCK // 2]
    return np.concatenate([packed & 15, packed >> 4], axis=2).reshape(len(blocks), -1).astype(np.int8)


def q4_0(data: Array) -> GroupedWeight:
    """Reads blocks of 18 bytes: a scale and nibbles with offset 8."""
    blocks = data.reshape(len(data), -1, 18)
    return GroupedWeight(nibbles(blocks, 2) - np.int8(MIDDLE), halves(blocks, 0), 4)


def q4_1(data: Array) -> GroupedWeight:
    """Reads blocks of 20 bytes: a scale, a minimum and nibbles."""
    blocks = data.reshape(len(data), -1, 20)
    return GroupedWeight(nibbles(blocks, 4), halves(blocks, 0), 4, halves(blocks, 2))


def q8_0(data: Array) -> GroupedWeight:
    """Reads blocks of 34 bytes: a scale and int8 codes."""
    blocks = data.reshape(len(data), -1, 34)
    codes = np.ascontiguousarray(blocks[:, :, 2:]).view(np.int8).reshape(len(data), -1)
    return GroupedWeight(codes, halves(blocks, 0), 8)


READERS: Final = {"Q4_0": q4_0, "Q4_1": q4_1, "Q8_0": q8_0}


@BOUNDARY
def read_gguf(path: str | os.PathLike[str]) -> GGUF:
    """Opens a GGUF file.

    Parameters
    ----------
    path : path

    Returns
    -------
    GGUF

    Raises
    ------
    WrongCalibration
        If the package `gguf` is missing, or the file is not a GGUF file.

    Examples
    --------
    >>> from pypto import quant
    >>> file = quant.read_gguf("model.gguf")  # doctest: +SKIP
    >>> file.weight("blk.0.ffn_up.weight").codes.shape  # doctest: +SKIP
    (1536, 576)
    """
    reader = library()
    try:
        file = reader.GGUFReader(os.fspath(path))
    except (OSError, ValueError, IndexError, KeyError) as error:
        raise WrongCalibration(what=f"{path} cannot be read: {error}", way="give a GGUF file") from None
    metadata = {name: value.contents() for name, value in file.fields.items()}
    return GGUF(Path(path), metadata, {tensor.name: tensor for tensor in file.tensors})


def library() -> Any:
    """Imports the package `gguf`, or explains how to install it."""
    try:
        import gguf
        import gguf.quants
    except ImportError:
        raise WrongCalibration(what="gguf is not installed", way="pip install 'pypto-jit[quant]'") from None
    return gguf
