"""Files are written atomically: a reader, also after a kill, finds either all of a file or none of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pypto.errors.quant import WrongCalibration
from pypto.quant.arrays import Array


def read_json(path: Path) -> Any:
    """Reads the value of a file; None if there is no file."""
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def write(path: Path, data: bytes) -> None:
    """Writes a file atomically: a reader, also after a kill, finds all of it or none."""
    partial = path.with_name(f"{path.name}.partial")
    with open(partial, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def save(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes arrays by name as a safetensors file."""
    write(path, safetensors().save({name: np.ascontiguousarray(value) for name, value in arrays.items()}))


def load_file(path: Path) -> dict[str, Array]:
    """Reads arrays by name from a safetensors file."""
    tensors: dict[str, Array] = safetensors().load_file(path)
    return tensors


def safetensors() -> Any:
    """Imports the library, or explains how to install it."""
    try:
        import safetensors.numpy
    except ImportError:
        raise WrongCalibration(what="safetensors is not installed", way="pip install 'pypto-jit[quant]'") from None
    return safetensors.numpy
