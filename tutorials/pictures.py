"""Pictures for the tutorials, as SVG: squares that show what lies where, and points over a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

COLOURS: Final = ("#d0d7de", "#74c0fc", "#38d9a9", "#e64980", "#fab005")
_TEXT: Final = 'font-family="system-ui,sans-serif" font-size="12" fill="#868e96"'


class Picture:
    """An SVG, which a notebook shows; printed, it is its caption."""

    def __init__(self, caption: str, width: float, height: float, parts: Sequence[str]) -> None:
        self.caption = caption
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height + 22:.0f}">'
        self.svg = "".join([head, *parts, f'<text x="0" y="{height + 16:.0f}" {_TEXT}>{caption}</text></svg>'])

    def _repr_svg_(self) -> str:
        return self.svg

    def __str__(self) -> str:
        return self.caption

    __repr__ = __str__


def squares(kinds: Any, caption: str, side: int = 9) -> Picture:
    """One square for every number of a matrix: its colour is that of the number.

    Parameters
    ----------
    kinds : array of int, shape (rows, columns)
        Indices of `COLOURS`.
    caption : str
        The line below.
    side : int
        Pixels from one square to the next.
    """
    rows, columns = np.shape(kinds)
    parts = [
        f'<rect x="{side * j}" y="{side * i}" width="{side - 1}" height="{side - 1}" fill="{COLOURS[kinds[i][j]]}"/>'
        for i in range(rows)
        for j in range(columns)
    ]
    return Picture(caption, max(side * columns, 640), side * rows, parts)


def points(y: Any, kinds: Any, level: float, caption: str, width: int = 860, height: int = 160) -> Picture:
    """Numbers over their index, in the colours of `kinds`, and a dashed line at `level`."""
    numbers = np.asarray(y, np.float64)
    low, high = float(numbers.min()), float(numbers.max())

    def down(value: float) -> float:
        return 4 + (height - 8) * (high - value) / (high - low)

    parts = [
        f'<circle cx="{width * i / len(numbers):.1f}" cy="{down(value):.1f}" r="1.6" fill="{COLOURS[kinds[i]]}"/>'
        for i, value in enumerate(numbers)
    ]
    line = f'<line x1="0" x2="{width}" y1="{down(level):.1f}" y2="{down(level):.1f}" stroke="#868e96"'
    return Picture(caption, width, height, [*parts, f'{line} stroke-dasharray="6 4"/>'])
