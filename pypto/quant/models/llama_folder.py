"""A folder that `pypto.quant.save` wrote for a Llama model is read as if it were a GGUF file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pypto.errors.quant import WrongCalibration
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array
from pypto.quant.formats.compressed_tensors import WEIGHTS_FILE, load, settings_of
from pypto.quant.formats.files import load_file
from pypto.quant.formats.gguf import GGUF, library
from pypto.quant.layer import QuantizedLayer
from pypto.quant.models.llama_file import tensor_of

METADATA: Final = "gguf"  # the key of config.json with those of the file


@dataclass(frozen=True, slots=True, repr=False)
class FloatTensor(Summary):
    """A tensor in float32, with the names that the package `gguf` gives to those of a file.

    Parameters
    ----------
    numbers : ndarray or QuantizedLayer
        A layer becomes numbers when they are asked for.
    tensor_type : GGMLQuantizationType
    """

    numbers: Array | QuantizedLayer
    tensor_type: Any

    @property
    def data(self) -> Array:
        """The numbers."""
        given = self.numbers
        return given.weight.dequantize() if isinstance(given, QuantizedLayer) else given

    @property
    def shape(self) -> tuple[int, ...]:
        """In the order of GGUF, the reverse of numpy's."""
        given = self.numbers
        codes = given.weight.codes if isinstance(given, QuantizedLayer) else given
        return tuple(codes.shape[::-1])


def read_folder(folder: str | os.PathLike[str]) -> GGUF:
    """The keys and tensors of a model, as a GGUF file has them."""
    path = Path(folder)
    settings = settings_of(path)
    metadata = settings.get(METADATA)
    if not isinstance(metadata, dict):
        what = (
            f"{path} cannot be used: its config.json has no {METADATA}, the keys of the file that the model came from"
        )
        raise WrongCalibration(what=what, way="give a GGUF file, or a folder of quant.save(layers, folder, model)")
    kind = library().GGMLQuantizationType.F32
    layers = load(path)
    own = tuple(f"{name}." for name in layers)
    tensors: dict[str, Any] = {
        name: array for name, array in load_file(path / WEIGHTS_FILE).items() if not name.startswith(own)
    }
    tensors |= {named(path, name): layer for name, layer in layers.items()}
    return GGUF(path, metadata, {name: FloatTensor(numbers, kind) for name, numbers in tensors.items()})


def named(path: Path, layer: str) -> str:
    """The tensor of a layer."""
    try:
        return tensor_of(layer)
    except KeyError:
        what = f"{path} cannot be used: a model of the Llama family has no layer {layer}"
        raise WrongCalibration(what=what, way="give a folder of quant.save(layers, folder, model)") from None
