"""Quantised layers as files in the form of compressed-tensors: one safetensors file, and config.json."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from pypto.errors.quant import WrongCalibration
from pypto.quant.blocks import load_file, read_json, write
from pypto.quant.blocks import save as save_arrays
from pypto.quant.layer import QuantizedLayer
from pypto.quant.schemes import GROUP, TENSOR, Scheme
from pypto.quant.weight import Array, QuantizedWeight

FORMAT: Final = "compressed-tensors"
WEIGHTS_FILE: Final = "model.safetensors"
CONFIG_FILE: Final = "config.json"
NIBBLES: Final = 8  # codes of four bits in an int32


def save(layers: Mapping[str, QuantizedLayer], folder: str | os.PathLike[str]) -> None:
    """Write quantised layers, which all have one scheme.

    Parameters
    ----------
    layers : mapping of str to QuantizedLayer
    folder : path
        Gets ``model.safetensors`` and ``config.json``.

    Raises
    ------
    WrongCalibration
        For no layers, several schemes, or factors of inputs, for which the format has no place.

    Examples
    --------
    >>> import tempfile
    >>> from pypto import quant
    >>> layer = quant.QuantizedLayer("up", quant.quantize(np.eye(2, dtype=np.float32), scheme=quant.int4()))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     quant.save({"up": layer}, folder)
    ...     quant.load(folder)["up"].weight.codes.tolist()
    [[7, 0], [0, 7]]
    """
    schemes = {(layer.weight.scheme, layer.inputs) for layer in layers.values()}
    if len(schemes) != 1:
        refuse(f"{len(schemes)} schemes", "save layers of one scheme")
    for layer in layers.values():
        if layer.weight.transform is not None:
            refuse(f"factors of the inputs of {layer.name}", "use an algorithm without them, as gptq")
    ((weights, inputs),) = schemes
    if weights.format is not None or (inputs is not None and inputs.format is not None):
        refuse(f"`{weights.name}`", "save integers")
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    save_arrays(
        path / WEIGHTS_FILE, {k: v for name, layer in layers.items() for k, v in arrays_of(name, layer).items()}
    )
    config = {"quantization_config": quantization_config(weights, inputs)}
    write(path / CONFIG_FILE, json.dumps(config, indent=2, sort_keys=True).encode())


def refuse(what: str, way: str) -> None:
    raise WrongCalibration(what=f"{FORMAT} cannot hold {what}", way=way)


def quantization_config(weights: Scheme, inputs: Scheme | None) -> dict[str, Any]:
    """The part of config.json."""
    activations = None if inputs is None else described(inputs) | {"dynamic": inputs.per != TENSOR}
    group = {"targets": ["Linear"], "weights": described(weights), "input_activations": activations}
    form = "pack-quantized" if weights.bits == 4 else "int-quantized"
    return {"quant_method": FORMAT, "format": form, "config_groups": {"group_0": group}, "ignore": []}


def described(scheme: Scheme) -> dict[str, Any]:
    """A scheme in the words of the format."""
    return {
        "num_bits": scheme.bits, "type": "int", "symmetric": scheme.symmetric, "strategy": scheme.per,
        "group_size": scheme.group or None, "dynamic": False,
    }  # fmt: skip


def arrays_of(name: str, layer: QuantizedLayer) -> dict[str, Array]:
    """Arrays of a layer under the names of the format."""
    weight = layer.weight
    codes = weight.codes
    found: dict[str, Array] = {f"{name}.weight_scale": weight.scales}
    if weight.order is not None:
        codes = np.empty_like(weight.codes)
        codes[:, weight.order] = weight.codes
        group = np.empty(codes.shape[1], np.int32)
        group[weight.order] = np.arange(codes.shape[1]) // (weight.scheme.group or codes.shape[1])
        found[f"{name}.weight_g_idx"] = group
    if weight.scheme.bits == 4:
        found[f"{name}.weight_packed"] = packed(codes)
        found[f"{name}.weight_shape"] = np.array(codes.shape, np.int64)
    else:
        found[f"{name}.weight"] = codes
    if weight.zeros is not None:
        zeros = packed(weight.zeros.T).T if weight.scheme.bits == 4 else weight.zeros
        found[f"{name}.weight_zero_point"] = zeros
    rest = {"bias": layer.bias, "input_scale": layer.input_scale, "input_zero_point": layer.input_zero}
    return found | {f"{name}.{part}": value for part, value in rest.items() if value is not None}


def packed(codes: Array) -> Array:
    """Codes of four bits, eight neighbours of a row in an int32, the first in its lowest bits; a nibble is code + 8."""
    rows, columns = codes.shape
    nibbles = np.pad((codes + 8).astype(np.uint32), ((0, 0), (0, -columns % NIBBLES))).reshape(rows, -1, NIBBLES)
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    return np.bitwise_or.reduce(nibbles << shifts, axis=2).astype(np.uint32).view(np.int32)


def unpacked(words: Array, columns: int) -> Array:
    """What `packed` packs."""
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    nibbles = np.ascontiguousarray(words).view(np.uint32)[:, :, None] >> shifts & 15
    return nibbles.reshape(len(words), -1)[:, :columns].astype(np.int8) - np.int8(8)


def load(folder: str | os.PathLike[str]) -> dict[str, QuantizedLayer]:
    """Read quantised layers of linear layers.

    Raises
    ------
    WrongCalibration
        If a file is missing, or has another format or scheme; also if its arrays do not fit together.
    """
    path = Path(folder)
    config = (read_json(path / CONFIG_FILE) or {}).get("quantization_config", {})
    groups = list(config.get("config_groups", {}).values())
    if config.get("quant_method") != FORMAT or len(groups) != 1:
        refuse_file(path, f"it has {len(groups)} groups of the method {config.get('quant_method')}")
    weights = scheme_of(path, groups[0]["weights"])
    given = groups[0].get("input_activations")
    inputs = None if given is None else scheme_of(path, given)
    arrays = load_file(path / WEIGHTS_FILE)
    suffix = ".weight_scale"
    names = [key.removesuffix(suffix) for key in sorted(arrays) if key.endswith(suffix)]
    return {name: layer_of(path, name, arrays, weights, inputs) for name in names}


def refuse_file(path: Path, what: str) -> None:
    raise WrongCalibration(what=f"{path} cannot be read: {what}", way="give a folder that `pypto.quant.save` wrote")


def scheme_of(path: Path, given: Mapping[str, Any]) -> Scheme:
    """A scheme from the words of the format."""
    if given.get("type") != "int":
        refuse_file(path, f"numbers of the type {given.get('type')}")
    per = given.get("strategy", "")
    return Scheme(given["num_bits"], given["symmetric"], per, given.get("group_size") or 0 if per == GROUP else 0)


def layer_of(
    path: Path, name: str, arrays: Mapping[str, Array], scheme: Scheme, inputs: Scheme | None
) -> QuantizedLayer:
    """One layer."""
    part = {key.removeprefix(f"{name}."): value for key, value in arrays.items() if key.startswith(f"{name}.")}
    if ("weight_packed" if scheme.bits == 4 else "weight") not in part:
        refuse_file(path, f"layer {name} has no codes")
    zeros = part.get("weight_zero_point")
    if scheme.bits == 4:
        outputs, columns = map(int, part["weight_shape"])
        codes = unpacked(part["weight_packed"], columns)
        zeros = None if zeros is None else np.ascontiguousarray(unpacked(zeros.T, outputs).T)
    else:
        codes = part["weight"]
    group = part.get("weight_g_idx")
    order = None if group is None else np.argsort(group, kind="stable").astype(np.int32)
    if order is not None:
        codes = np.ascontiguousarray(codes[:, order])
    scales = part["weight_scale"].astype(np.float32)
    weight = QuantizedWeight(codes, scales, scheme, zeros, order).check_shape(name, codes.shape)
    return QuantizedLayer(name, weight, part.get("bias"), inputs, part.get("input_scale"), part.get("input_zero_point"))
