"""The demo's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from minilm.model import Array
from minilm.sentences import Sentence

if TYPE_CHECKING:
    from rich.table import Table


def neighbours_table(sentences: Sequence[Sentence], vectors: Array) -> Table:
    """Every sentence with the one nearest to it; the cosine of two unit vectors is their dot product."""
    from rich.table import Table

    table = Table("topic", "sentence", "nearest", "cosine", title="nearest neighbours", title_justify="left")
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -1)
    for sentence, nearest, row in zip(sentences, cosines.argmax(1), cosines, strict=True):
        table.add_row(sentence.topic, short(sentence.text), short(sentences[nearest].text), f"{row[nearest]:.3f}")
    return table


def short(text: str, most: int = 52) -> str:
    """The text, cut at a length.

    Examples
    --------
    >>> short("It has been raining since Tuesday.", 12)
    'It has been…'
    """
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def speed_table(rates: Mapping[str, float]) -> Table:
    """Sentences per second by each, and how many times as fast pypto is."""
    from rich.table import Table

    table = Table("by", "sentences per second", "pypto is", title="speed", title_justify="left")
    for name, rate in rates.items():
        table.add_row(name, f"{rate:.0f}", f"{rates['pypto'] / rate:.2f}x")
    return table
