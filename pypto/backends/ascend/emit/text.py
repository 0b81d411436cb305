"""Line breaking of C++ statements: at most 120 columns, at commas of a call first, then before operators."""

from __future__ import annotations

import re
from typing import Final

WIDTH: Final = 120
_OPERATOR: Final = re.compile(r" (?=[-+*/%<>=!&|^?:]+ )|(?<=,) |(?<=;) ")


def wrapped(text: str, note: str = "", opens: str = "(") -> list[str]:
    """Break a statement into lines, after commas of the call that `opens`. Its comment stands behind it, or above.

    Examples
    --------
    >>> wrapped("Exp(b, a, 64);", "  // 7")
    ['Exp(b, a, 64);  // 7']
    """
    if len(text) + len(note) <= WIDTH:
        return [text + note]
    margin = text[: len(text) - len(text.lstrip())]
    above = [margin + note.strip()] if note else []
    lines = _call(text, text.find(opens) + len(opens), 0) if opens in text else [text]
    return [*above, *(short for line in lines for short in _folded(line))]


def _call(text: str, start: int, column: int) -> list[str]:
    """Break a call whose arguments begin at `start`. Further lines are aligned with the first argument."""
    margin = " " * (column + start)
    lines: list[str] = []
    for piece in _arguments(text, start):
        end = column + len(lines[0]) if len(lines) == 1 else len(lines[-1]) if lines else 0
        if lines and end + 1 + len(piece) <= WIDTH:
            lines[-1] += f" {piece}"
            continue
        begin = margin if lines else ""
        room = WIDTH - len(begin) - (0 if lines else column)
        if len(piece) > room and lines and "{" in piece:
            first, *more = _call(piece, piece.index("{") + 1, len(margin))
            lines += [begin + first, *more]
        else:
            lines.append(begin + piece)
    return lines


def _arguments(text: str, start: int) -> list[str]:
    """Split a call behind the commas between its arguments, which begin at `start`."""
    pieces, depth, begin = [], 0, 0
    for at in range(start, len(text)):
        depth += (text[at] in "({") - (text[at] in ")}")
        if text[at] == "," and depth == 0:
            pieces.append(text[begin : at + 1])
            begin = at + 2
    return [*pieces, text[begin:]]


def _folded(line: str) -> list[str]:
    """Break a line that is still too long before operators, with further lines indented by four columns."""
    if len(line) <= WIDTH:
        return [line]
    margin = " " * (len(line) - len(line.lstrip()))
    places = [m.start() for m in _OPERATOR.finditer(line, len(margin)) if m.start() <= WIDTH]
    if not places:
        return [line]
    rest = f"{margin}    {line[places[-1] + 1 :]}"
    return [line[: places[-1]], *_folded(rest)] if len(rest) < len(line) else [line]
