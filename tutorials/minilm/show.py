"""What the demo prints."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from clock import best_seconds

from minilm.model import Array, Batch
from minilm.numpy_encoder import embed as embed_with_numpy
from minilm.sentences import Sentence
from minilm.timing import first_calls

if TYPE_CHECKING:
    from rich.table import Table


class Show:
    """Tables and figures of an encoder at work on a batch.

    Parameters
    ----------
    encoder : object
        Has `weights`, ``embed(ids, mask)``, and ``steps(ids, mask, vectors)`` that gives the names of its steps.
    batch : Batch
    """

    def __init__(self, encoder: Any, batch: Batch) -> None:
        from rich.console import Console

        self.encoder = encoder
        self.batch = batch
        self.console = Console(width=None if sys.stdout.isatty() else 120)

    def first_call(self) -> Array:
        """The vectors of the first call, whose steps a bar shows."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        batch, weights = self.batch, self.encoder.weights
        vectors = np.empty((len(batch.ids), weights.words.shape[1]), np.float32)
        columns = (TextColumn("compiling"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        with Progress(*columns, console=self.console, transient=True) as progress:
            task = progress.add_task("", total=2 + 4 * len(weights.layers))
            for step in self.encoder.steps(batch.ids, batch.mask, vectors):
                progress.update(task, advance=1, description=step, refresh=True)
        return vectors

    def neighbours(self, sentences: Sequence[Sentence], vectors: Array) -> None:
        """Every sentence with the one nearest to it."""
        self.console.print(neighbours_table(sentences, vectors))

    def differences(self, vectors: Array) -> float:
        """Largest difference from numpy in float32 and in float64; gives the latter."""
        largest = 0.0
        for dtype in ("float32", "float64"):
            with self.console.status(f"numpy in {dtype}"):
                expected = embed_with_numpy(self.encoder.weights, self.batch, np.dtype(dtype))
            largest = float(np.abs(vectors - expected).max())
            self.console.print(f"largest difference from numpy in {dtype}: {largest:.1e}")
        return largest

    def speeds(self) -> None:
        """Sentences per second of ours, numpy, and torch where it is installed."""
        encoder, batch = self.encoder, self.batch
        functions: dict[str, Callable[[], Any]] = {
            "pypto": lambda: encoder.embed(batch.ids, batch.mask),
            "numpy": lambda: embed_with_numpy(encoder.weights, batch),
        }
        if find_spec("torch") is not None:
            from minilm.torch_encoder import TorchEncoder

            torch_encoder = TorchEncoder(encoder.weights)
            functions["torch"] = lambda: torch_encoder.embed(batch)
        with self.console.status("timing", refresh_per_second=1):
            seconds = best_seconds(functions, rounds=5)
        self.console.print(speed_table({name: len(batch.ids) / took for name, took in seconds.items()}))

    def cold_and_cached(self) -> None:
        """What the first call costs in a fresh process."""
        with self.console.status("first calls in fresh processes"):
            cold, cached = first_calls()
        self.console.print(f"first call: {cold:.2f} s with an empty cache, {cached:.2f} s with the kernels in it")


def neighbours_table(sentences: Sequence[Sentence], vectors: Array) -> Table:
    """Every sentence with the one nearest to it; the cosine of two unit vectors is their dot product."""
    from rich.table import Table

    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -1)
    nearest = cosines.argmax(1)
    own = sum(sentences[i].topic == s.topic for i, s in zip(nearest, sentences, strict=True))
    table = Table(title="nearest neighbours", title_justify="left", expand=True, caption_justify="left")
    table.caption = f"{own} of {len(sentences)} have their nearest neighbour in their own topic"
    table.add_column("topic", no_wrap=True)
    for name in ("sentence", "nearest"):
        table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("cosine", justify="right", no_wrap=True)
    for row, (sentence, i) in enumerate(zip(sentences, nearest, strict=True)):
        last = row + 1 == len(sentences) or sentences[row + 1].topic != sentence.topic
        table.add_row(sentence.topic, sentence.text, sentences[i].text, f"{cosines[row, i]:.3f}", end_section=last)
    return table


def speed_table(rates: Mapping[str, float]) -> Table:
    """Sentences per second by each, and how many times as fast pypto is."""
    from rich.table import Table

    table = Table("by", title="speed", title_justify="left")
    for name in ("sentences per second", "pypto is"):
        table.add_column(name, justify="right")
    for name, rate in rates.items():
        table.add_row(name, f"{rate:.0f}", "" if name == "pypto" else f"{rates['pypto'] / rate:.2f}x as fast")
    return table
