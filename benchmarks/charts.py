"""Charts of the site from a run's JSON: ``python -m benchmarks charts docs/measured.json docs/charts``.

They are SVG that is written here, without a library, so that the same figures give the same bytes. Their colours are
readable on light and on dark pages.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

OURS: Final = "pypto"
_KEY: Final = "ours"  # of a run's JSON
_COLOURS: Final = MappingProxyType({OURS: "#0b8a5f", "numpy": "#4c78a8", "numba": "#d9822b", "torch": "#b279a2"})
_OTHER: Final = "#8a8f98"
_INK: Final = "#737a85"  # as dark on white as it is light on black
_WIDTH: Final = 760
_LEFT: Final = 210  # for names of rows
_RIGHT: Final = 90  # for figures
_BAR: Final = 15
_GAP: Final = 12
_TOP: Final = 46


def speedups(run: Mapping[str, Any]) -> str:
    """How many times as fast ours is as each peer, on a logarithmic axis, a group of bars for each row."""
    rows = [(label(row), ratios(row)) for row in timed(run)]
    most = max(ratio for _, found in rows for ratio in found.values())
    least = min(1.0, *(ratio for _, found in rows for ratio in found.values()))
    low, high = math.log10(least) - 0.02, math.log10(most) + 0.05
    y = _TOP
    parts = list[str]()
    for name, found in rows:
        parts.append(text(_LEFT - 8, y + _BAR * len(found) / 2 + 4, name, "end"))
        for peer, ratio in found.items():
            start, end = sorted((place(1.0, low, high), place(ratio, low, high)))
            told = f"{name}: {ratio:.2f} times as fast as {peer}"
            parts += [bar(start, y, end - start, colour(peer), told), text(end + 5, y + 12, ratio_text(ratio))]
            y += _BAR
        y += _GAP
    title = f"How many times as fast {OURS} is as the others (logarithmic)"
    return drawing(y + 26, title, run, [*axis(low, high, y), *parts], peers_of(rows))


def times(run: Mapping[str, Any]) -> str:
    """Milliseconds of every row and implementation: the fastest call, a group of bars for each row."""
    rows = [(label(row), milliseconds(row)) for row in timed(run)]
    y = _TOP
    parts = list[str]()
    for name, found in rows:
        most = max(found.values())
        parts.append(text(_LEFT - 8, y + _BAR * len(found) / 2 + 4, name, "end"))
        for who, time in found.items():
            wide = (_WIDTH - _LEFT - _RIGHT) * time / most
            told = f"{name}: {who} {time:.4g} ms"
            parts += [bar(_LEFT, y, wide, colour(who), told), text(_LEFT + wide + 5, y + 12, time_text(time))]
            y += _BAR
        y += _GAP
    return drawing(y + 4, "Time of one call; each row has a scale of its own", run, parts, peers_of(rows))


CHARTS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = MappingProxyType({
    "speedups.svg": speedups, "times.svg": times,
})  # fmt: skip


def timed(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rows in which ours was timed beside someone else."""
    return [row for row in run["rows"] if _KEY in row["implementations"] and len(row["implementations"]) > 1]


def ratio_text(ratio: float) -> str:
    """A ratio with a digit behind the point where it is small.

    Examples
    --------
    >>> ratio_text(1.84), ratio_text(140.2)
    ('1.8x', '140x')
    """
    return f"{ratio:.1f}x" if ratio < 10 else f"{ratio:.0f}x"


def time_text(milliseconds: float) -> str:
    """A time with three digits.

    Examples
    --------
    >>> time_text(0.1612), time_text(1130.0)
    ('0.161 ms', '1.13 s')
    """
    return f"{milliseconds:.3g} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.3g} s"


def label(row: Mapping[str, Any]) -> str:
    return f"{row['name']} {row['shape']}"


def ratios(row: Mapping[str, Any]) -> dict[str, float]:
    """How many times as fast ours is as each of the others, by the fastest call of each."""
    ours, *others = milliseconds(row).items()
    return {who: time / ours[1] for who, time in others}


def milliseconds(row: Mapping[str, Any]) -> dict[str, float]:
    """The fastest call of everyone, ours first."""
    found = {who: 1e3 * told["minimum_s"] for who, told in row["implementations"].items()}
    return {OURS: found.pop(_KEY), **found}


def peers_of(rows: Sequence[tuple[str, Mapping[str, float]]]) -> list[str]:
    return list(dict.fromkeys(who for _, found in rows for who in found))


def machine_text(run: Mapping[str, Any]) -> str:
    """The machine that the figures are of, in a sentence."""
    machine = run["machine"]
    names = ", ".join(f"{name} {version}" for name, version in sorted(machine["versions"].items()) if version)
    busy = f", with other work on the machine (load {machine['load']:.1f})" if machine["load"] > 0.7 else ""
    threads = sorted({row["threads"] for row in run["rows"]})
    on = f"{' and '.join(map(str, threads))} thread{'s' if threads != [1] else ''}"
    return f"{machine['cpu']}, {on} of {machine['cores']} cores, Python {machine['python']}, {names}{busy}"


# --- SVG -----------------------------------------------------------------------------------------------------------


def place(ratio: float, low: float, high: float) -> float:
    """Where a ratio lies on the logarithmic axis."""
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (math.log10(ratio) - low) / (high - low)


def axis(low: float, high: float, bottom: float) -> Iterator[str]:
    """Lines at round ratios, with their names below; that of 1 is strong."""
    for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100):
        if low <= math.log10(tick) <= high:
            x, width = place(tick, low, high), 1.4 if tick == 1 else 0.4
            where = f'x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 8}" y2="{bottom:.1f}"'
            yield f'<line {where} stroke="{_INK}" stroke-width="{width}"/>'
            yield text(x, bottom + 14, f"{tick:g}x", "middle")


def colour(who: str) -> str:
    return _COLOURS.get(who, _OTHER)


def bar(x: float, y: float, width: float, fill: str, told: str) -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 1.0):.1f}" height="{_BAR - 3}"'
    return f'<rect {where} fill="{fill}"><title>{html.escape(told)}</title></rect>'


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'


def legend(names: Sequence[str]) -> Iterator[str]:
    x = float(_LEFT)
    for name in names:
        yield f'<rect x="{x:.1f}" y="20" width="11" height="11" fill="{colour(name)}"/>'
        yield text(x + 16, 30, name)
        x += 34 + 7.5 * len(name)


def drawing(height: float, title: str, run: Mapping[str, Any], parts: Sequence[str], names: Sequence[str]) -> str:
    """A whole picture: its title, legend and parts; the machine is its description."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" role="img"'
    style = f'font-family="system-ui,sans-serif" font-size="12" fill="{_INK}"'
    told = f"<title>{html.escape(title)}</title><desc>{html.escape(machine_text(run))}</desc>"
    lines = [f"{head} {style}>", told, text(0, 12, title), *legend(names), *parts, "</svg>"]
    return "\n".join(lines) + "\n"


# --- files ---------------------------------------------------------------------------------------------------------


def charts(path: Path) -> dict[str, str]:
    """Every chart of a run by the name of its file."""
    run = json.loads(path.read_text(encoding="utf-8"))
    return {name: draw(run) for name, draw in CHARTS.items()}


def write(path: Path, folder: Path) -> list[Path]:
    """Write the charts of a run into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in charts(path).items():
        (folder / name).write_text(picture, encoding="utf-8")
    return [folder / name for name in CHARTS]
