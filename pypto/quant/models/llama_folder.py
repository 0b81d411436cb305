"""Reads a folder that `pypto.quant.save` wrote for a Llama model as if it were a GGUF file."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, Final

from pypto.errors.quant import WrongCalibration
from pypto.quant.formats.compressed_tensors import WEIGHTS_FILE, load, settings_of
from pypto.quant.formats.files import load_file
from pypto.quant.formats.gguf import GGUF, library
from pypto.quant.models.llama_file import tensor_of

METADATA: Final = "gguf"  # the key of config.json that holds the keys of the file


def read_folder(folder: str | os.PathLike[str]) -> GGUF:
    """Reads the keys and tensors of a model in the form of a GGUF file."""
    path = Path(folder)
    settings = settings_of(path)
    metadata = settings.get(METADATA)
    if not isinstance(metadata, dict):
        what = (
            f"{path} cannot be used: its config.json has no {METADATA}, the keys of the file that the model came from"
        )
        raise WrongCalibration(what=what, way="give a GGUF file, or a folder of quant.save(layers, folder, model)")
    layers = load(path)
    prefixes = tuple(f"{name}." for name in layers)
    tensors: dict[str, Any] = {
        name: array for name, array in load_file(path / WEIGHTS_FILE).items() if not name.startswith(prefixes)
    }
    tensors |= {named(path, name): layer.weight for name, layer in layers.items()}
    return GGUF(path, metadata, {name: tensor_named(name, numbers) for name, numbers in tensors.items()})


def tensor_named(name: str, numbers: Any) -> Any:
    """Returns a float32 tensor in the form of the package `gguf`; a quantised one is dequantised when it is read."""
    package = library()
    shape = numbers.shape[::-1]  # GGUF stores dimensions in reverse order
    count = math.prod(shape)
    return package.ReaderTensor(name, package.GGMLQuantizationType.F32, shape, count, 4 * count, 0, numbers, None)


def named(path: Path, layer: str) -> str:
    """Returns the tensor name of a layer."""
    try:
        return tensor_of(layer)
    except KeyError:
        what = f"{path} cannot be used: a model of the Llama family has no layer {layer}"
        raise WrongCalibration(what=what, way="give a folder of quant.save(layers, folder, model)") from None
