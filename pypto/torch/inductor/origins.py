"""Finds the lines of a model that a generated kernel computes.

Each node of torch's graph knows the stack of calls that made it. Of these frames, the innermost one outside of torch is
the model's own line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

_FRAME: Final = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+), in .*\n\s*(?P<text>.*)')


class Line(NamedTuple):
    """A line of a model: its file, number and text."""

    file: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.number}  {self.text}"


def innermost(trace: str, inside: str) -> Line | None:
    """Returns the innermost frame of a stack whose file is not in the folder `inside`.

    Examples
    --------
    >>> trace = 'File "net.py", line 3, in f\\n    y = gelu(x)\\nFile "/torch/nn.py", line 9, in gelu\\n    return g(x)'
    >>> print(innermost(trace, "/torch"))
    net.py:3  y = gelu(x)
    """
    frames = [Line(match["file"], int(match["line"]), match["text"].strip()) for match in _FRAME.finditer(trace)]
    outside = [frame for frame in frames if not frame.file.startswith(inside)]
    return outside[-1] if outside else None


def model_lines(nodes: Iterable[Any], torch: ModuleType) -> list[Line]:
    """Returns the lines that nodes of a graph came from, in order."""
    folder = str(Path(str(torch.__file__)).parent)
    traces = (str(node.meta.get("stack_trace") or "") for node in nodes)
    return sorted({line for trace in traces if (line := innermost(trace, folder)) is not None})
