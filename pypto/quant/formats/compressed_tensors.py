"""`save` and `load` store quantised layers in the format of compressed-tensors, which vLLM and others read.

A folder contains one safetensors file with the arrays, and a config.json that describes them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol

import numpy as np

from pypto.arguments import BOUNDARY
from pypto.errors.quant import NotRead, WrongCalibration
from pypto.quant.arrays import Array
from pypto.quant.formats.files import load_file, read_json, write
from pypto.quant.formats.files import save as save_arrays
from pypto.quant.formats.quantization_config import FORMAT, LINEAR, SchemeGroup, config_of, groups_of, mapping, refuse
from pypto.quant.layer import QuantizedLayer
from pypto.quant.schemes import TENSOR, Scheme
from pypto.quant.tensor import QuantizedTensor

WEIGHTS_FILE: Final = "model.safetensors"
CONFIG_FILE: Final = "config.json"
KEY: Final = "quantization_config"
SCALE: Final = "weight_scale"
NIBBLES: Final = 8  # int4 codes in an int32
PARTS: Final = (
    "weight", "weight_packed", "weight_shape", SCALE, "weight_zero_point", "weight_g_idx", "bias", "input_scale",
    "input_zero_point", "input_factors",
)  # fmt: skip


class WholeModel(Protocol):
    """A model that knows which of its other tensors and settings belong into files."""

    def beside(self, layers: Collection[str]) -> Mapping[str, Array]:
        """Returns the tensors that do not belong to some layers."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Returns the model's entries of config.json."""


@BOUNDARY
def save(layers: Mapping[str, QuantizedLayer], folder: str | os.PathLike[str], model: WholeModel | None = None) -> None:
    """Writes quantised layers; `load` returns layers whose results are the same bit for bit.

    Without a model and without factors of inputs, the files have the format of compressed-tensors. That format cannot
    store factors, which ``awq`` and ``smoothquant`` produce: each such layer has a further array ``input_factors``, and
    config.json names the method ``pypto``, so that other readers refuse the files.

    Parameters
    ----------
    layers : mapping of str to QuantizedLayer
    folder : path
        The folder for ``model.safetensors`` and ``config.json``.
    model : Llama or Bert, optional
        The model, whose other tensors and settings are also written: `load_llama` or `load_bert` then reads the folder
        as a model, and `load` its layers. The method is ``pypto``.

    Raises
    ------
    WrongCalibration
        If there are no layers, if `layers` is not a mapping of quantised layers, or if a scheme has floats, which the
        format cannot store.
    NoSuchLayer
        If the model has no such layer.

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
    check_layers(layers)
    groups = grouped(layers)
    arrays = {k: v for name, layer in layers.items() for k, v in arrays_of(name, layer, groups[name].has_order).items()}
    settings: Mapping[str, Any] = {}
    if model is not None:
        arrays |= model.beside(layers)
        settings = model.settings
    is_own = model is not None or any(layer.weight.transform is not None for layer in layers.values())
    section = {KEY: config_of(list({id(group): group for group in groups.values()}.values()), is_own)}
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    save_arrays(path / WEIGHTS_FILE, arrays)
    write(path / CONFIG_FILE, json.dumps(dict(settings) | section, indent=2, sort_keys=True).encode())


def check_layers(layers: Any) -> None:
    """Refuses anything but a mapping of layers that the format can store."""
    if not isinstance(layers, Mapping):
        refuse_given(f"a {type(layers).__name__} is no mapping of layers", "give `run.layers` of the calibration")
    if not layers:
        refuse_given("there are no layers", "give those of `Calibration.convert`, or `run.layers` of a module")
    for name, layer in layers.items():
        if not isinstance(layer, QuantizedLayer):
            way = "give the layers of the calibration, as they are before `quant.deploy`"
            refuse_given(f"layer {name} is a {type(layer).__name__}", way)
        for scheme in (layer.weight.scheme, layer.inputs):
            if scheme is not None and scheme.format is not None:
                refuse_given(f"layer {name} has `{scheme.name}`", "save layers of integers")


def refuse_given(what: str, way: str) -> NoReturn:
    raise WrongCalibration(what=f"files in the form of {FORMAT} cannot be written: {what}", way=way)


def grouped(layers: Mapping[str, QuantizedLayer]) -> dict[str, SchemeGroup]:
    """Returns the group of each layer; if all share one, it targets all linear layers."""
    by_scheme: dict[tuple[Scheme, Scheme | None], list[str]] = {}
    for name, layer in layers.items():
        by_scheme.setdefault((layer.weight.scheme, layer.inputs), []).append(name)
    groups: dict[str, SchemeGroup] = {}
    for (weights, inputs), names in by_scheme.items():
        has_order = any(layers[name].weight.order is not None for name in names)
        group = SchemeGroup(weights, inputs, names if len(by_scheme) > 1 else [LINEAR], has_order)
        groups |= dict.fromkeys(names, group)
    return groups


def arrays_of(name: str, layer: QuantizedLayer, has_order: bool) -> dict[str, Array]:
    """Returns the arrays of a layer under the names of the format."""
    weight = layer.weight
    codes = weight.codes
    is_whole = weight.scheme.per == TENSOR  # one scale, and zero point, for all numbers
    arrays: dict[str, Array | None] = {SCALE: weight.scales[0] if is_whole else weight.scales}
    if weight.order is not None:
        codes = np.empty_like(weight.codes)
        codes[:, weight.order] = weight.codes
    if has_order:
        arrays["weight_g_idx"] = group_index(weight)
    if weight.scheme.bits == 4:
        arrays |= {"weight_packed": packed(codes), "weight_shape": np.array(codes.shape, np.int64)}
    else:
        arrays["weight"] = codes
    zeros = weight.zeros
    if zeros is not None and weight.scheme.bits == 4 and not is_whole:
        zeros = packed(zeros.T).T
    arrays["weight_zero_point"] = zeros[0] if zeros is not None and is_whole else zeros
    arrays |= {
        "bias": layer.bias, "input_scale": layer.input_scale, "input_zero_point": layer.input_zero,
        "input_factors": weight.transform,
    }  # fmt: skip
    return {f"{name}.{part}": value for part, value in arrays.items() if value is not None}


def group_index(weight: QuantizedTensor) -> Array:
    """Returns the group of each column of a weight, in the model's order of inputs."""
    columns = weight.codes.shape[1]
    index = np.arange(columns, dtype=np.int32) // (weight.scheme.group or columns)
    if weight.order is None:
        return index
    indices = np.empty_like(index)
    indices[weight.order] = index
    return indices


@BOUNDARY
def load(folder: str | os.PathLike[str]) -> dict[str, QuantizedLayer]:
    """Reads quantised linear layers; other tensors of the file stay unread.

    Raises
    ------
    WrongCalibration
        If a file is missing or damaged, has another format or scheme, or has arrays that do not fit together.
    NotRead
        If there are unknown keys or arrays, which may change the meaning of the numbers.
    """
    path = Path(folder)
    config = settings_of(path)
    groups = groups_of(str(path), config.get(KEY))
    arrays = read(path, WEIGHTS_FILE, load_file)
    names = [key.removesuffix(f".{SCALE}") for key in sorted(arrays) if key.endswith(f".{SCALE}")]
    layers = {}
    for name in names:
        group = max(groups, key=lambda group: group.matches(name))
        if not group.matches(name):
            refuse(str(path), f"layer {name} is of no group")
        layers[name] = layer_of(str(path), name, parts_of(path, name, arrays), group)
    if not layers:
        refuse(str(path), "it has no quantised layers")
    return layers


def settings_of(path: Path) -> Mapping[str, Any]:
    """Reads config.json of a folder."""
    return mapping(str(path), read(path, CONFIG_FILE, read_json), CONFIG_FILE)


def read(path: Path, name: str, reader: Any) -> Any:
    """Reads a file of the folder."""
    if not (path / name).is_file():
        refuse(str(path), f"it has no {name}")
    try:
        return reader(path / name)
    except WrongCalibration:
        raise
    except Exception as error:  # safetensors raises errors of several kinds
        raise WrongCalibration(what=f"{path / name} cannot be read: {error}", way="write the folder again") from None


def parts_of(path: Path, name: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the arrays of one layer by their names in it."""
    every = {key.removeprefix(f"{name}."): value for key, value in arrays.items() if key.startswith(f"{name}.")}
    parts = {part: value for part, value in every.items() if "." not in part}
    for part in parts:
        if part not in PARTS:
            way = "it may change what the layer computes"
            raise NotRead(source=str(path / WEIGHTS_FILE), what=f"the tensor {name}.{part}", way=way)
    return parts


def layer_of(source: str, name: str, part: Mapping[str, Array], group: SchemeGroup) -> QuantizedLayer:
    """Builds one layer."""
    scheme = group.weights
    if ("weight_packed" if scheme.bits == 4 else "weight") not in part:
        refuse(source, f"layer {name} has no codes")
    index = part.get("weight_g_idx")
    if (index is not None) != group.has_order:
        said = "says" if group.has_order else "does not say"
        refuse(
            source,
            f"layer {name} has {'a' if index is not None else 'no'} weight_g_idx, and its scheme {said} actorder",
        )
    zeros: Any = part.get("weight_zero_point")
    if (zeros is None) != scheme.symmetric:
        refuse(source, f"layer {name} has {'no' if zeros is None else 'a'} weight_zero_point")
    codes: Any = part.get("weight")
    if scheme.bits == 4:
        outputs, columns = (int(size) for size in part["weight_shape"]) if "weight_shape" in part else (0, 0)
        check_packed(source, name, part["weight_packed"], outputs, columns)
        codes = unpacked(part["weight_packed"], columns)
        if zeros is not None and scheme.per != TENSOR:
            zeros = np.ascontiguousarray(unpacked(zeros.T, outputs).T)
    check_parts(source, name, part, codes, group.inputs)
    order = None if index is None else order_of(source, name, index, scheme)
    if order is not None:
        codes = np.ascontiguousarray(codes[:, order])
    scales = part[SCALE].astype(np.float32)
    if scheme.per == TENSOR and scales.shape == (1,):
        scales, zeros = (None if t is None else np.repeat(t[None], len(codes), 0) for t in (scales, zeros))
    weight = QuantizedTensor(codes, scales, scheme, zeros, order, part.get("input_factors"))
    weight.check(name, np.shape(codes))
    return QuantizedLayer(
        name, weight, part.get("bias"), group.inputs, part.get("input_scale"), part.get("input_zero_point")
    )


def check_parts(source: str, name: str, part: Mapping[str, Array], codes: Array, inputs: Scheme | None) -> None:
    """Refuses codes that are not a matrix, and missing or unfitting parts."""
    outputs, columns = np.shape(codes) if np.ndim(codes) == 2 else (-1, -1)
    shapes = {"bias": (outputs,), "weight_g_idx": (columns,), "input_scale": (1,), "input_zero_point": (1,)}
    for key, shape in shapes.items():
        if key in part and part[key].shape != shape:
            refuse(source, f"layer {name} has codes of the shape {np.shape(codes)}, and {key} of {part[key].shape}")
    is_static = inputs is not None and inputs.per == TENSOR
    needed = {"input_scale": is_static, "input_zero_point": is_static and not getattr(inputs, "symmetric", True)}
    for key, is_needed in needed.items():
        if is_needed != (key in part):
            refuse(source, f"layer {name} has {'no' if is_needed else 'a'} {key}")


def check_packed(source: str, name: str, words: Array, outputs: int, columns: int) -> None:
    """Refuses packed codes of another size than the file states."""
    expected = (outputs, -(-columns // NIBBLES))
    if not columns or words.shape != expected or words.dtype != np.int32:
        refuse(source, f"layer {name} has codes of the shape {words.shape} and the shape {(outputs, columns)}")


def order_of(source: str, name: str, index: Array, scheme: Scheme) -> Array | None:
    """Returns the order of columns, from the group of each; None if it is the order of the inputs."""
    columns = len(index)
    order = np.argsort(index, kind="stable").astype(np.int32)
    if not np.array_equal(index[order], np.arange(columns) // (scheme.group or columns)):
        refuse(source, f"layer {name} has a weight_g_idx whose groups have not {scheme.group or columns} columns each")
    return None if np.array_equal(order, np.arange(columns)) else order


def packed(codes: Array) -> Array:
    """Packs int4 codes: eight adjacent ones of a row in an int32, the first in the lowest bits, as code + 8."""
    rows, columns = codes.shape
    nibbles = np.pad((codes + 8).astype(np.uint32), ((0, 0), (0, -columns % NIBBLES))).reshape(rows, -1, NIBBLES)
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    return np.bitwise_or.reduce(nibbles << shifts, axis=2).astype(np.uint32).view(np.int32)


def unpacked(words: Array, columns: int) -> Array:
    """Reverses `packed`."""
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    nibbles = np.ascontiguousarray(words).view(np.uint32)[:, :, None] >> shifts & 15
    return nibbles.reshape(len(words), -1)[:, :columns].astype(np.int8) - np.int8(8)
