"""`save` and `load` keep quantised layers in the format of compressed-tensors, which vLLM and others read.

A folder holds one safetensors file with the arrays, and a config.json that says what they mean.
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
NIBBLES: Final = 8  # codes of four bits in an int32
PARTS: Final = (
    "weight", "weight_packed", "weight_shape", SCALE, "weight_zero_point", "weight_g_idx", "bias", "input_scale",
    "input_zero_point", "input_factors",
)  # fmt: skip


class WholeModel(Protocol):
    """A model that says what else of it belongs into files."""

    def beside(self, layers: Collection[str]) -> Mapping[str, Array]:
        """Tensors that are not those of some layers."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What config.json says of the model."""


@BOUNDARY
def save(layers: Mapping[str, QuantizedLayer], folder: str | os.PathLike[str], model: WholeModel | None = None) -> None:
    """Write quantised layers; `load` gives the same layers back, whose results are the same bit for bit.

    Without a model and without factors of inputs, the files have the form of compressed-tensors. That has no place for
    factors, as ``awq`` and ``smoothquant`` give them: each such layer has an array ``input_factors`` more, and
    config.json says ``pypto`` as its method, so that other readers refuse the files.

    Parameters
    ----------
    layers : mapping of str to QuantizedLayer
    folder : path
        Gets ``model.safetensors`` and ``config.json``.
    model : Llama or Bert, optional
        Its other tensors and its settings are written, too: `load_llama` or `load_bert` reads the folder as a model,
        and `load` its layers. The method is ``pypto``.

    Raises
    ------
    WrongCalibration
        For no layers, for what is no mapping of quantised layers, and schemes of floats, for which the form has no
        place.
    NoSuchLayer
        For a layer that the model has not.

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
    own = {KEY: config_of(list({id(group): group for group in groups.values()}.values()), is_own)}
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    save_arrays(path / WEIGHTS_FILE, arrays)
    write(path / CONFIG_FILE, json.dumps(dict(settings) | own, indent=2, sort_keys=True).encode())


def check_layers(layers: Any) -> None:
    """Refuse what is no mapping of layers that the form has a place for."""
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
    """The group of each layer; where there is one for all, it is that of all linear layers."""
    found: dict[tuple[Scheme, Scheme | None], list[str]] = {}
    for name, layer in layers.items():
        found.setdefault((layer.weight.scheme, layer.inputs), []).append(name)
    groups: dict[str, SchemeGroup] = {}
    for (weights, inputs), names in found.items():
        has_order = any(layers[name].weight.order is not None for name in names)
        group = SchemeGroup(weights, inputs, names if len(found) > 1 else [LINEAR], has_order)
        groups |= dict.fromkeys(names, group)
    return groups


def arrays_of(name: str, layer: QuantizedLayer, has_order: bool) -> dict[str, Array]:
    """Arrays of a layer under the names of the format."""
    weight = layer.weight
    codes = weight.codes
    is_whole = weight.scheme.per == TENSOR  # one scale, and zero point, of all numbers
    found: dict[str, Array | None] = {SCALE: weight.scales[0] if is_whole else weight.scales}
    if weight.order is not None:
        codes = np.empty_like(weight.codes)
        codes[:, weight.order] = weight.codes
    if has_order:
        found["weight_g_idx"] = group_index(weight)
    if weight.scheme.bits == 4:
        found |= {"weight_packed": packed(codes), "weight_shape": np.array(codes.shape, np.int64)}
    else:
        found["weight"] = codes
    zeros = weight.zeros
    if zeros is not None and weight.scheme.bits == 4 and not is_whole:
        zeros = packed(zeros.T).T
    found["weight_zero_point"] = zeros[0] if zeros is not None and is_whole else zeros
    found |= {
        "bias": layer.bias, "input_scale": layer.input_scale, "input_zero_point": layer.input_zero,
        "input_factors": weight.transform,
    }  # fmt: skip
    return {f"{name}.{part}": value for part, value in found.items() if value is not None}


def group_index(weight: QuantizedTensor) -> Array:
    """The group of each column of a weight, as the model has its inputs."""
    columns = weight.codes.shape[1]
    index = np.arange(columns, dtype=np.int32) // (weight.scheme.group or columns)
    if weight.order is None:
        return index
    found = np.empty_like(index)
    found[weight.order] = index
    return found


@BOUNDARY
def load(folder: str | os.PathLike[str]) -> dict[str, QuantizedLayer]:
    """Read quantised layers of linear layers; other tensors of the file stay unread.

    Raises
    ------
    WrongCalibration
        If a file is missing or damaged, or has another format or scheme; also if its arrays do not fit together.
    NotRead
        For keys and arrays that may change what the numbers mean.
    """
    path = Path(folder)
    config = settings_of(path)
    groups = groups_of(str(path), config.get(KEY))
    arrays = read(path, WEIGHTS_FILE, load_file)
    names = [key.removesuffix(f".{SCALE}") for key in sorted(arrays) if key.endswith(f".{SCALE}")]
    found = {}
    for name in names:
        group = max(groups, key=lambda group: group.matches(name))
        if not group.matches(name):
            refuse(str(path), f"layer {name} is of no group")
        found[name] = layer_of(str(path), name, parts_of(path, name, arrays), group)
    if not found:
        refuse(str(path), "it has no quantised layers")
    return found


def settings_of(path: Path) -> Mapping[str, Any]:
    """What config.json of a folder says."""
    return mapping(str(path), read(path, CONFIG_FILE, read_json), CONFIG_FILE)


def read(path: Path, name: str, reader: Any) -> Any:
    """What a file of the folder holds."""
    if not (path / name).is_file():
        refuse(str(path), f"it has no {name}")
    try:
        return reader(path / name)
    except WrongCalibration:
        raise
    except Exception as error:  # safetensors raises what it likes
        raise WrongCalibration(what=f"{path / name} cannot be read: {error}", way="write the folder again") from None


def parts_of(path: Path, name: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays of one layer by their names in it."""
    every = {key.removeprefix(f"{name}."): value for key, value in arrays.items() if key.startswith(f"{name}.")}
    found = {part: value for part, value in every.items() if "." not in part}
    for part in found:
        if part not in PARTS:
            way = "it may change what the layer computes"
            raise NotRead(source=str(path / WEIGHTS_FILE), what=f"the tensor {name}.{part}", way=way)
    return found


def layer_of(source: str, name: str, part: Mapping[str, Array], group: SchemeGroup) -> QuantizedLayer:
    """One layer."""
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
    """Refuse codes that are no matrix, and parts that are missing or do not fit them."""
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
    """Refuse packed codes of another size than the file says."""
    expected = (outputs, -(-columns // NIBBLES))
    if not columns or words.shape != expected or words.dtype != np.int32:
        refuse(source, f"layer {name} has codes of the shape {words.shape} and the shape {(outputs, columns)}")


def order_of(source: str, name: str, index: Array, scheme: Scheme) -> Array | None:
    """The order of columns from the group of each; None where it is that of the inputs."""
    columns = len(index)
    order = np.argsort(index, kind="stable").astype(np.int32)
    if not np.array_equal(index[order], np.arange(columns) // (scheme.group or columns)):
        refuse(source, f"layer {name} has a weight_g_idx whose groups have not {scheme.group or columns} columns each")
    return None if np.array_equal(order, np.arange(columns)) else order


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
