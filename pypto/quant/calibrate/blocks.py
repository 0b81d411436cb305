"""Block-wise calibration bounds memory: it holds the weights of one block, and keeps inputs of blocks on disk.

A killed calibration resumes from its files, and its result is bit for bit the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np

from pypto.errors.quant import WrongCalibration
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array, check_columns
from pypto.quant.calibrate.observers import Products, Statistics
from pypto.quant.calibrate.quantize import few_samples, quantize_layer
from pypto.quant.checks import check_patterns
from pypto.quant.config import Config
from pypto.quant.deploy import DeployedLayer, is_array_expression
from pypto.quant.formats import files
from pypto.quant.layer import FloatProduct, Layer, QuantizedLayer
from pypto.quant.solvers.algorithm import find
from pypto.quant.tensor import QuantizedTensor
from pypto.quant.warning import warn

Values = Mapping[str, Array]
Progress = Callable[[int, int], None]
MANIFEST: Final = "calibration.json"
WEIGHTS: Final = ("codes", "scales", "zeros", "order", "transform")
INPUTS: Final = ("input_scale", "input_zero")
FLOATS: Final = "float_inputs"  # marks a layer whose inputs stay in floats although the configuration quantises them


@dataclass(frozen=True, slots=True, repr=False)
class Block(Summary):
    """A part of a model that is calibrated at once.

    Parameters
    ----------
    name : str
    layers : sequence of Layer
        The linear layers of the block; their names are unique in the model.
    forward : callable
        Computes the block. It gets the block's inputs by name and a function ``linear(name, x)`` that computes a
        layer, and returns the inputs of the next block by name.

    Examples
    --------
    >>> layer = Layer("up", np.eye(2, dtype=np.float32))
    >>> block = Block("0", [layer], lambda values, linear: {"x": np.maximum(linear("up", values["x"]), 0)})
    >>> block.run({"x": np.array([[1.0, -1.0]], np.float32)})["x"].tolist()
    [[1.0, 0.0]]
    """

    name: str
    layers: Sequence[Layer]
    forward: Callable[[Values, LinearLayers], Values]

    def run(self, values: Values, replaced: Mapping[str, Callable[[Array], Array]] | None = None) -> Values:
        """Computes the block, with other functions for some of its layers."""
        functions = {layer.name: float_layer(layer) for layer in self.layers} | dict(replaced or {})
        return self.forward(values, LinearLayers(functions))


@dataclass(frozen=True, slots=True, repr=False)
class FloatLayer(Summary):
    """A linear layer in floats, as a function of its inputs, which may be added to statistics."""

    name: str
    product: FloatProduct
    statistics: Statistics | None = None
    products: Products | None = None

    def __call__(self, x: Array) -> Array:
        """Computes the layer: x of shape (…, inputs) to (…, outputs)."""
        outputs, inputs = self.product.weight.shape
        check_columns(self.name, x, inputs)
        self.observe(x)
        return self.product(x.reshape(-1, inputs)).reshape(*x.shape[:-1], outputs)

    def observe(self, x: Array) -> None:
        """Adds inputs to the statistics."""
        if self.statistics is not None:
            self.statistics.add(x, self.products)


def float_layer(layer: Layer) -> FloatLayer:
    """Returns the layer in floats."""
    return FloatLayer(layer.name, FloatProduct(layer.weight, layer.bias))


@dataclass(frozen=True, slots=True, repr=False)
class LinearLayers(Summary):
    """The linear layers of a block as functions by name; ``linear(name, x)`` computes one."""

    functions: Mapping[str, Callable[[Array], Array]]

    def __call__(self, name: str, x: Array) -> Array:
        """Computes a layer."""
        return self.functions[name](x)

    @property
    def is_observed(self) -> bool:
        """Whether inputs are added to statistics."""
        return any(isinstance(f, FloatLayer) and f.statistics is not None for f in self.functions.values())

    def observe(self, inputs: Mapping[str, Array]) -> None:
        """Adds inputs of layers, by name, to their statistics."""
        for name, x in inputs.items():
            function = self.functions[name]
            if isinstance(function, FloatLayer):
                function.observe(x)

    def products(self, names: Mapping[str, str]) -> dict[str, Any] | None:
        """Returns the products of layers, by the key of their name; None if a fused function cannot compute one."""
        functions = {key: self.functions[name] for key, name in names.items()}
        products = {
            key: f.product if isinstance(f, FloatLayer) else f.run if isinstance(f, DeployedLayer) else None
            for key, f in functions.items()
        }
        return products if all(map(is_array_expression, products.values())) else None


@dataclass(slots=True)
class Calibration:
    """A calibration in progress; `calibrate` begins one.

    ``run(inputs)`` adds a batch: the inputs of the first block by name. ``convert()`` quantises block after block. A
    block is calibrated on the outputs of the quantised blocks before it.
    """

    blocks: Sequence[Block]
    config: Config
    folder: Path
    temporary: tempfile.TemporaryDirectory[str] | None = None
    digests: list[str] = field(default_factory=list)
    has_warned: bool = False

    def __enter__(self) -> Calibration:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.temporary is not None:
            self.temporary.cleanup()

    def __call__(self, inputs: Values) -> None:
        """Adds a batch."""
        self.run(inputs)

    def run(self, inputs: Values) -> None:
        """Adds a batch: arrays of the first block by name.

        Raises
        ------
        WrongCalibration
            If the folder holds a calibration with other data.
        """
        batch = len(self.digests)
        self.digests.append(digest(inputs))
        recorded = files.read_json(self.folder / f"batch-{batch:05}.json")
        if recorded is None:
            files.save(self.folder / self.inputs_file(batch, 0), inputs)
            files.write(self.folder / f"batch-{batch:05}.json", json.dumps(self.digests[-1]).encode())
        elif recorded != self.digests[-1]:
            self.refuse(f"batch {batch} differs from the one that is there")

    def convert(self, progress: Progress | None = None) -> dict[str, QuantizedLayer]:
        """Quantises all layers.

        Parameters
        ----------
        progress : callable, optional
            Called after each block with the number of finished blocks and the number of all blocks.

        Returns
        -------
        dict of str to QuantizedLayer
            The quantised layers by name, without the skipped ones. The folder stores them too: another call, even in a
            new process, resumes at the first unfinished block.

        Raises
        ------
        WrongCalibration, NotFinite

        Warns
        -----
        FewSamples
            Once, if the algorithm reads the Gram matrix and there are fewer than four rows for each column.
        """
        count = len(self.digests) or len(list(self.folder.glob("batch-*.json")))
        layers: dict[str, QuantizedLayer] = {}
        for number in range(len(self.blocks)):
            layers |= self.convert_block(number, count)
            if progress is not None:
                progress(number + 1, len(self.blocks))
        return layers

    def convert_block(self, number: int, count: int) -> dict[str, QuantizedLayer]:
        """Quantises one block and computes the inputs of the next; its weights are freed before those are read."""
        block = self.blocks[number]
        path = self.folder / f"block-{number:03}.safetensors"
        if not path.exists():
            files.save(path, self.tensors(self.quantize(number, block, count)))
        quantized = self.load(path, block)
        if number + 1 < len(self.blocks):
            self.forward(number, block, quantized, count)
        return quantized

    def quantize(self, number: int, block: Block, count: int) -> list[QuantizedLayer]:
        """Quantises one block, from its inputs on disk."""
        chosen = [layer for layer in block.layers if not self.config.skips(layer.name)]
        with_gram = find(self.config.algorithm).gram
        with_histogram = self.config.inputs is not None and self.config.inputs.observer != "minmax"
        statistics = {
            layer.name: Statistics(layer.name, layer.weight.shape[1], with_gram, with_histogram) for layer in chosen
        }
        self.observe(number, block, statistics, count if chosen else 0)
        few = few_samples(statistics.values(), self.config)
        if few is not None and not self.has_warned:
            self.has_warned = True
            warn(few)
        # Statistics are freed as they are used: those of the widest layer are larger than its weight.
        return [quantize_layer(layer, statistics.pop(layer.name), self.config) for layer in chosen]

    def observe(self, number: int, block: Block, statistics: Mapping[str, Statistics], count: int) -> None:
        """Gathers statistics of a block's layers over all batches."""
        products = Products()
        functions = {
            layer.name: replace(float_layer(layer), statistics=statistics[layer.name], products=products)
            for layer in block.layers
            if layer.name in statistics
        }
        for batch in range(count):
            block.run(self.inputs(batch, number), functions)

    def forward(self, number: int, block: Block, layers: Mapping[str, QuantizedLayer], count: int) -> None:
        """Computes the inputs of the next block with the quantised one, and then removes the inputs of this block."""
        is_done = (self.folder / f"block-{number + 1:03}.safetensors").exists()
        for batch in range(0 if is_done and self.is_past(number + 1) else count):
            path = self.folder / self.inputs_file(batch, number + 1)
            if not path.exists():
                files.save(path, block.run(self.inputs(batch, number), layers))
        for batch in range(count):
            (self.folder / self.inputs_file(batch, number)).unlink(missing_ok=True)

    def is_past(self, number: int) -> bool:
        """Says whether the inputs of a block are no longer needed: it is the last, or the next block has its inputs."""
        names = [path.name for path in self.folder.glob("batch-*.safetensors")]
        return number + 1 == len(self.blocks) or any(int(name.split(".")[1]) > number for name in names)

    def inputs_file(self, batch: int, block: int) -> str:
        return f"batch-{batch:05}.{block:03}.safetensors"

    def inputs(self, batch: int, block: int) -> Values:
        path = self.folder / self.inputs_file(batch, block)
        if not path.exists():
            self.refuse(f"{path.name} is missing from {self.folder}")
        return files.load_file(path)

    def tensors(self, layers: Sequence[QuantizedLayer]) -> Values:
        """Returns arrays of a block's result by name."""
        tensors = {f"{q.name}.{part}": getattr(q.weight, part) for q in layers for part in WEIGHTS}
        tensors |= {f"{q.name}.{part}": getattr(q, part) for q in layers for part in INPUTS}
        if self.config.inputs is not None:
            tensors |= {f"{q.name}.{FLOATS}": np.ones(1, np.int8) for q in layers if q.inputs is None}
        return {name: value for name, value in tensors.items() if value is not None}

    def load(self, path: Path, block: Block) -> dict[str, QuantizedLayer]:
        """Loads a block's result from disk."""
        arrays = files.load_file(path)
        layers = {}
        for layer in block.layers:
            if f"{layer.name}.codes" not in arrays:
                continue
            parts: dict[str, Any] = {part: arrays.get(f"{layer.name}.{part}") for part in WEIGHTS}
            weight = QuantizedTensor(scheme=self.config.weights, **parts).check(layer.name, layer.weight.shape)
            inputs = [arrays.get(f"{layer.name}.{part}") for part in INPUTS]
            scheme = None if f"{layer.name}.{FLOATS}" in arrays else self.config.inputs
            layers[layer.name] = QuantizedLayer(layer.name, weight, layer.bias, scheme, *inputs)
        return layers

    def refuse(self, what: str) -> None:
        raise WrongCalibration(what=what, way="begin again in another folder")


def calibrate_blocks(
    blocks: Sequence[Block], config: Config, folder: str | os.PathLike[str] | None, others: Collection[str] = ()
) -> Calibration:
    """Begins a calibration of blocks; see `pypto.quant.calibrate`. `others` are further names that `skip` may have."""
    names = [layer.name for block in blocks for layer in block.layers]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise WrongCalibration(what=f"two layers are named {twice}", way="give each layer a name of its own")
    if not names:
        raise WrongCalibration(what="the model has no linear layers", way="give blocks that have some")
    check_patterns(config.skip, [*names, *others])
    temporary = tempfile.TemporaryDirectory(prefix="pypto-quant-") if folder is None else None
    path = Path(temporary.name if temporary is not None else folder or "")
    path.mkdir(parents=True, exist_ok=True)
    calibration = Calibration(blocks, config, path, temporary)
    key = fingerprint(blocks, config)
    recorded = files.read_json(path / MANIFEST)
    if recorded is None:
        files.write(path / MANIFEST, json.dumps(key, indent=2, sort_keys=True).encode())
    elif recorded != key:
        calibration.refuse(f"{path} holds a calibration of another model or configuration")
    return calibration


def fingerprint(blocks: Sequence[Block], config: Config) -> dict[str, Any]:
    """Describes, as JSON, everything besides data that a calibration depends on."""
    layers = {
        layer.name: digest({"weight": layer.weight} | ({} if layer.bias is None else {"bias": layer.bias}))
        for block in blocks
        for layer in block.layers
    }
    return {
        "weights": asdict(config.weights),
        "inputs": None if config.inputs is None else asdict(config.inputs),
        "algorithm": find(config.algorithm).key,
        "skip": list(config.skip),
        "cache": config.cache,
        "least_sqnr": config.least_sqnr,
        "blocks": [block.name for block in blocks],
        "layers": layers,
    }


def digest(arrays: Values) -> str:
    """Computes the SHA-256 of arrays with their names, dtypes and shapes."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name} {array.dtype.name} {array.shape};".encode())
        total.update(array.view(np.uint8).data if array.size and array.ndim else array.tobytes())
    return total.hexdigest()
