"""Plots the SQNR of a report's outputs over the blocks, with one curve for each kind of layer."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pypto.errors.quant import WrongCalibration


@dataclass(frozen=True, slots=True)
class Line:
    """A quantised layer: its name and scheme, SQNR of weight and outputs in decibels, bytes before and after."""

    layer: str
    scheme: str
    weight_sqnr: float
    output_sqnr: float
    bytes_before: int
    bytes_after: int


def plot(lines: Sequence[Line], path: str | os.PathLike[str] | None = None) -> Any:
    """Draws a report; see `Report.plot`.

    The name of a layer is split at its first dot: the part before it names the block, and the part after it the kind.
    """
    if not lines:
        raise WrongCalibration(what="a report without layers has no plot", way="quantise a layer first")
    try:
        figures = importlib.import_module("matplotlib.figure")
    except ImportError:
        raise WrongCalibration(what="a plot needs matplotlib", way="pip install 'pypto-jit[viz]'") from None
    blocks = list(dict.fromkeys(block_of(line) for line in lines))
    curves: dict[str, list[tuple[int, float]]] = {}
    for line in lines:
        if math.isfinite(line.output_sqnr):
            curve = curves.setdefault(kind_of(line), [])
            curve.append((blocks.index(block_of(line)), line.output_sqnr))
    figure = figures.Figure(figsize=(max(6.0, 0.25 * len(blocks) + 3), 4), layout="constrained")
    axes = figure.subplots()
    for number, (kind, points) in enumerate(curves.items()):
        axes.plot(*zip(*points, strict=True), marker="osv^Dxp"[number % 7], markersize=4, linewidth=1, label=kind)
    every = -(-len(blocks) // 16)
    axes.set_xticks(range(0, len(blocks), every), blocks[::every])
    axes.set_xlabel("block")
    axes.set_ylabel("SQNR of outputs in dB")
    axes.set_title(lines[0].scheme, fontsize="medium")
    axes.grid(axis="y", alpha=0.3)
    if curves:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    if path is not None:
        figure.savefig(path)
    return figure


def block_of(line: Line) -> str:
    """Returns the part of a layer's name before its first dot."""
    return line.layer.partition(".")[0]


def kind_of(line: Line) -> str:
    """Returns the part of a layer's name after its first dot; the whole name if it has none."""
    return line.layer.partition(".")[2] or line.layer
