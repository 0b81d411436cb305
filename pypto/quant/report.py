"""A report states for each quantised layer the SQNR of its weight and outputs, and how many bytes it saves."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pypto.arguments import BOUNDARY
from pypto.quant.arrays import Array
from pypto.quant.calibrate.blocks import Block, Progress, Values, float_layer
from pypto.quant.checks import check_layers
from pypto.quant.layer import Layer, QuantizedLayer
from pypto.quant.metrics import sqnr
from pypto.quant.plot import Line, plot


@dataclass(frozen=True, slots=True)
class Report:
    """Lines of all quantised layers; ``print(report)`` shows a table.

    Attributes
    ----------
    lines : tuple of Line
    """

    lines: tuple[Line, ...]

    def json(self) -> dict[str, Any]:
        """Returns the lines as plain values, and the sums of the bytes."""
        before = sum(line.bytes_before for line in self.lines)
        after = sum(line.bytes_after for line in self.lines)
        return {"layers": [asdict(line) for line in self.lines], "bytes_before": before, "bytes_after": after}

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Plots the SQNR of the outputs over the blocks, with one curve for each kind of layer, as a matplotlib figure.

        Parameters
        ----------
        path : path, optional
            A file to write, such as ``report.svg``.

        Raises
        ------
        WrongCalibration
            When matplotlib is not installed, or there are no lines.
        """
        return plot(self.lines, path)

    def __str__(self) -> str:
        width = max([len(line.layer) for line in self.lines] + [5])
        scheme = max([len(line.scheme) for line in self.lines] + [6])
        head = f"{'layer':{width}}  {'scheme':{scheme}}  weight dB  output dB       bytes"
        rows = [
            f"{line.layer:{width}}  {line.scheme:{scheme}}  {line.weight_sqnr:9.1f}  {line.output_sqnr:9.1f}  "
            f"{line.bytes_before / max(line.bytes_after, 1):4.1f}x less"
            for line in self.lines
        ]
        said = self.json()
        total = f"{said['bytes_before'] / 1e6:.1f} MB become {said['bytes_after'] / 1e6:.1f} MB"
        return "\n".join([head, *rows, total])


@BOUNDARY
def report(
    blocks: Sequence[Block], layers: Mapping[str, QuantizedLayer], inputs: Values, progress: Progress | None = None
) -> Report:
    """Compares quantised layers with the original layers.

    Parameters
    ----------
    blocks : sequence of Block
        The model.
    layers : mapping of str to QuantizedLayer
    inputs : mapping of str to ndarray
        The inputs of the first block. Each layer is compared on its inputs in the float model.
    progress : callable, optional
        Called after each block with the number of finished blocks and the number of all blocks.

    Returns
    -------
    Report

    Raises
    ------
    NoSuchLayer
        If no block has a layer of a given name.

    Examples
    --------
    >>> from pypto import quant
    >>> layer = quant.Layer("up", np.eye(2, dtype=np.float32))
    >>> block = quant.Block("0", [layer], lambda values, linear: {"x": linear("up", values["x"])})
    >>> layers = {"up": quant.QuantizedLayer("up", quant.quantize(layer.weight))}
    >>> report([block], layers, {"x": np.ones((1, 2), np.float32)}).json()["bytes_after"]
    12
    """
    lines: list[Line] = []
    values = inputs
    known: list[str] = []
    for number, block in enumerate(blocks):
        seen: dict[str, list[tuple[Array, Array]]] = {}
        known += [layer.name for layer in block.layers]
        functions = {one.name: compared(one, layers[one.name], seen) for one in block.layers if one.name in layers}
        values = block.run(values, functions)
        lines += [line(one, layers[one.name], seen.get(one.name, [])) for one in block.layers if one.name in layers]
        if progress is not None:
            progress(number + 1, len(blocks))
    check_layers(layers, known)
    return Report(tuple(lines))


def compared(layer: Layer, quantized: QuantizedLayer, seen: dict[str, list[tuple[Array, Array]]]) -> Any:
    """Wraps the layer so that it stores its results and those of the quantised layer."""
    run = float_layer(layer)

    def both(x: Array) -> Array:
        y = run(x)
        seen.setdefault(layer.name, []).append((y.copy(), quantized(x)))
        return y

    return both


def line(layer: Layer, quantized: QuantizedLayer, seen: Sequence[tuple[Array, Array]]) -> Line:
    """Builds a line of the report."""
    exact = np.concatenate([y.ravel() for y, _ in seen]) if seen else np.zeros(0)
    values = np.concatenate([q.ravel() for _, q in seen]) if seen else np.zeros(0)
    return Line(
        layer.name,
        quantized.weight.scheme.name + (f"; inputs {quantized.inputs.name}" if quantized.inputs else ""),
        sqnr(layer.weight, quantized.weight.dequantize()),
        sqnr(exact, values),
        int(layer.weight.nbytes),
        quantized.weight.bytes,
    )
