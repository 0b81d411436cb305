"""Pictures of a kernel on an Ascend core, as SVG: what lies where in its memories, and which unit works when."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pypto.backends.ascend.explain.prediction import PROGRAMS
from pypto.backends.findings import Picture

if TYPE_CHECKING:
    from pypto.backends.ascend.block.liveness import LiveRange
    from pypto.backends.ascend.blockir.ir import BlockKernel, Buffer
    from pypto.backends.ascend.target import AscendTarget
    from pypto.backends.ascend.timing.prediction import Prediction

_COLORS: Final = ("#74c0fc", "#ffa94d", "#8ce99a", "#e599f7", "#ffd43b", "#66d9e8", "#ff8787", "#c0eb75")
_WIDTH: Final = 900
_LEFT: Final = 84  # for the names of rows
_PANEL: Final = 170  # height of a memory
_ROW: Final = 30  # height of a unit
_MOST: Final = 1500  # instructions in a timeline
_ORDER: Final = ("UB", "L1", "L0A", "L0B", "L0C", "BT", "FB")


def pictures_of(block: BlockKernel, target: AscendTarget, found: Prediction) -> tuple[Picture, ...]:
    """The memory plan, and the timeline of what `predict_core` gives."""
    return memory_plan(block, target), timeline(found)


def memory_plan(block: BlockKernel, target: AscendTarget) -> Picture:
    """Buffers by address (upwards) and by time (the kernel's instructions, in order)."""
    from pypto.backends.ascend.block.liveness import live_ranges

    alive = live_ranges(block.body) | live_ranges(block.cube_body)
    spaces = [s for s in _ORDER if any(b.space == s for b in block.buffers)]
    end = max((life.last for life in alive.values()), default=0) + 1
    parts, told = list[str](), list[str]()
    for n, space in enumerate(spaces):
        mine = [b for b in block.buffers if b.space == space and b.name in alive and b.address is not None]
        used = max((place(b) + b.bytes for b in mine), default=0)
        told.append(f"{space} {used / 1024:.4g} of {target.memories[space].bytes / 1024:.4g} KB")
        parts += panel(space, n * (_PANEL + 34), used, ((b, alive[b.name]) for b in mine), end)
    text = f"Used: {', '.join(told) or 'nothing'}. Upwards is the address, to the right the order of instructions."
    return Picture("memory plan", text, svg(len(spaces) * (_PANEL + 34), parts))


def place(buffer: Buffer) -> int:
    return buffer.address or 0


def panel(space: str, top: float, used: int, buffers: Iterable[tuple[Buffer, LiveRange]], end: int) -> Iterator[str]:
    """One memory, with its buffers."""
    across, up = (_WIDTH - _LEFT - 10) / max(1, end), _PANEL / max(1, used)
    bottom = top + _PANEL + 8
    yield label(0, top + 20, space, bold=True)
    yield label(0, top + 36, f"{used / 1024:.4g} KB")
    yield f"<line x1='{_LEFT}' x2='{_WIDTH}' y1='{bottom:.1f}' y2='{bottom:.1f}' stroke='#868e96'/>"
    for buffer, life in buffers:
        x, width = _LEFT + life.first * across, max(2.0, (life.last - life.first + 1) * across)
        height = buffer.bytes * up
        y = bottom - place(buffer) * up - height
        stages = f", {buffer.stages} stages" if buffer.stages > 1 else ""
        kind = f"{buffer.dtype.public}, {buffer.elements} elements{stages}"
        tip = f"{buffer.name}: {kind}, {buffer.bytes} bytes at {place(buffer)}, line {life.line}"
        yield shape(x, y, width, max(1.0, height), life.line, tip)
        for stage in range(1, buffer.stages):
            cut = y + height * stage / buffer.stages
            yield f"<line x1='{x:.1f}' x2='{x + width:.1f}' y1='{cut:.1f}' y2='{cut:.1f}' class='cut'/>"
        if height >= 13 and width >= 60:
            yield label(x + 4, y + min(height / 2 + 4, 16), f"{buffer.name}, line {life.line}", inside=True)


def timeline(found: Prediction) -> Picture:
    """Which unit works when, on one core."""
    shown = found.slices[:_MOST]
    rows = list(dict.fromkeys((core, s.pipe) for core, s in shown))
    end = max((s.end for _, s in shown), default=1.0)
    across, mhz = (_WIDTH - _LEFT - 10) / end, found.cycles / found.seconds / 1e6
    parts = [label(0, 20 + _ROW * n, f"{pipe} ({core})" if core == "cube" else pipe, bold=True)
             for n, (core, pipe) in enumerate(rows)]  # fmt: skip
    for core, s in shown:
        tip = f"{s.name}, line {s.line}: {s.start:.0f} to {s.end:.0f} cycles"
        y = 5 + _ROW * rows.index((core, s.pipe))
        parts.append(shape(_LEFT + s.start * across, y, max(1.0, (s.end - s.start) * across), _ROW - 8, s.line, tip))
    parts += axis(_ROW * len(rows) + 8, end / mhz)
    cut = f" Its first {_MOST} instructions are shown." if len(found.slices) > _MOST else ""
    text = f"{PROGRAMS} programs one after the other on one core of {found.target}, by the timing model.{cut}"
    return Picture("timeline", text, svg(_ROW * len(rows) + 40, parts))


def axis(y: float, microseconds: float) -> Iterator[str]:
    """Ticks of time."""
    for n in range(5):
        x = _LEFT + n / 4 * (_WIDTH - _LEFT - 10)
        yield f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{y - 4}' y2='{y}' stroke='#868e96'/>"
        anchor = "end" if n == 4 else "middle"
        yield f"<text x='{x:.1f}' y='{y + 14}' text-anchor='{anchor}'>{microseconds * n / 4:.3g} µs</text>"


def shape(x: float, y: float, width: float, height: float, line: int, tip: str) -> str:
    """A bar in the colour of its line, with words for the mouse."""
    color = _COLORS[line % len(_COLORS)] if line else "#ced4da"
    where = f"x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}'"
    return f"<rect class='line' data-line='{line}' {where} fill='{color}'><title>{html.escape(tip)}</title></rect>"


def label(x: float, y: float, text: str, bold: bool = False, inside: bool = False) -> str:
    """Words; those `inside` of a shape are dark in dark pages, too."""
    weight = " font-weight='600'" if bold else ""
    place = " class='on'" if inside else ""
    return f"<text x='{x:.1f}' y='{y:.1f}'{weight}{place}>{html.escape(text)}</text>"


def svg(height: float, parts: Sequence[Any]) -> str:
    """A drawing as wide as its place."""
    head = f"<svg viewBox='0 0 {_WIDTH} {height:.0f}' xmlns='http://www.w3.org/2000/svg' role='img'>"
    return f"{head}{''.join(parts)}</svg>"
