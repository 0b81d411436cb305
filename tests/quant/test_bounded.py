"""Calibration in bounded memory, and results that do not depend on kills in the midst of a block."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pypto import quant

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 128
HIDDEN = 384
ROWS = 1024
CONFIG = quant.Config(quant.int4(group=64), algorithm=quant.gptq(act_order=True, clip_steps=2))


class Model(list[quant.Block]):
    """Blocks with SwiGLU whose weights are made when a block is asked for, as those of a file are read."""

    def __init__(self, count: int = 2) -> None:
        super().__init__([None] * count)  # type: ignore[list-item]

    def __getitem__(self, number: Any) -> Any:
        return self.block(number)

    def __iter__(self) -> Any:
        return (self.block(number) for number in range(len(self)))

    @staticmethod
    def block(number: int) -> quant.Block:
        rng = np.random.default_rng(number)
        shapes = {"gate": (HIDDEN, WIDTH), "up": (HIDDEN, WIDTH), "down": (WIDTH, HIDDEN)}
        layers = [
            quant.Layer(f"{number}.{part}", rng.standard_normal(shape, np.float32) / 20)
            for part, shape in shapes.items()
        ]

        def forward(values: Any, linear: Any) -> Any:
            x = values["x"]
            hidden = np.maximum(linear(f"{number}.gate", x), 0)
            hidden *= linear(f"{number}.up", x)
            return {"x": x + linear(f"{number}.down", hidden)}

        return quant.Block(str(number), layers, forward)


def batch(number: int) -> dict[str, Any]:
    return {"x": np.random.default_rng(100 + number).standard_normal((ROWS, WIDTH), np.float32)}


def converted(folder: Path | None = None) -> dict[str, quant.QuantizedLayer]:
    with quant.calibrate(Model(), CONFIG, folder) as run:
        for number in range(2):
            run(batch(number))
        return run.convert()


def peak_of(work: Callable[[], Any]) -> tuple[int, Any]:
    """Bytes that work allocates at most, and what it gives."""
    tracemalloc.start()
    try:
        result = work()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


def test_memory_holds_one_block_and_the_data() -> None:
    """A block is its weights in float32 and a Gram matrix in float64 for each of its inputs."""
    converted()  # what is loaded once is no part of it
    first = Model.block(0)
    weights = sum(layer.weight.nbytes for layer in first.layers)
    grams = 8 * (WIDTH**2 + HIDDEN**2)
    data, _ = peak_of(lambda: first.run(batch(0)))
    peak, layers = peak_of(converted)
    result = sum(q.weight.codes.nbytes + q.weight.scales.nbytes for q in layers.values())
    assert peak - result <= 1.5 * (weights + grams) + data + (1 << 20)  # what does not grow with the layers


KILLED = """
import os, signal, sys
from pathlib import Path
from pypto.quant.calibrate import blocks
from pypto.quant.formats import files
from tests.quant import test_bounded
layer, batch = sys.argv[2:]
quantize, load = blocks.quantize_layer, files.load_file
def quantize_until(found, statistics, config):
    if found.name == layer:
        os.kill(os.getpid(), signal.SIGKILL)
    return quantize(found, statistics, config)
def load_until(path):
    if path.name == batch:
        os.kill(os.getpid(), signal.SIGKILL)
    return load(path)
blocks.quantize_layer, files.load_file = quantize_until, load_until
test_bounded.converted(Path(sys.argv[1]))
"""


def test_killed_twice_in_the_midst_of_a_block(tmp_path: Path) -> None:
    """While a layer is rounded, then while a batch goes through the block that is done."""
    resumed, whole = tmp_path / "resumed", tmp_path / "whole"
    for layer, name in (("1.up", ""), ("", "batch-00001.001.safetensors")):
        command = [sys.executable, "-c", KILLED, str(resumed), layer, name]
        killed = subprocess.run(command, cwd=ROOT, check=False, capture_output=True)
        assert killed.returncode == -9, killed.stderr
    converted(resumed)
    converted(whole)
    files = sorted(path.name for path in whole.iterdir())
    assert sorted(path.name for path in resumed.iterdir()) == files
    assert sum(name.startswith("block-") for name in files) == 2
    for name in files:
        assert (resumed / name).read_bytes() == (whole / name).read_bytes(), name
