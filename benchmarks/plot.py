"""A suite's figures as a picture: ratio bars and roofline, curves over size, growth of the compiler's stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.growth import Grown
from benchmarks.peers import imported
from benchmarks.report import Report
from benchmarks.runner import OURS, Missing, Result

OUR_COLOUR: Final = "#0b6e4f"
BAD: Final = "#c0392b"
PALETTE: Final = (
    "#4c78a8", "#f58518", "#b279a2", "#72b7b2", "#e45756", "#eeca3b", "#9d755d", "#bab0ac", "#17becf", "#e377c2",
)  # fmt: skip
KNOWN: Final = ("numpy", "torch", "torch out=", "torch.compile", "numba", "jax")
DPI: Final = 110


def draw(report: Report, path: Path) -> str:
    """Write the picture of a run to a PNG; says why there is none, or "".

    Needs matplotlib, which is drawn with no screen and with no state of its own.
    """
    found = imported("matplotlib")
    if isinstance(found, Missing):
        return f"{found.reason}; it draws the plot"
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    parts = panels(report)
    if not parts:
        return "no row was timed beside a peer, so there is nothing to draw"
    heights = [height for _, height, _ in parts]
    figure = Figure(figsize=(12, sum(heights)), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(len(parts), 1, height_ratios=heights)
    for place, (fill, _, given) in enumerate(parts):
        fill(figure.add_subplot(grid[place]), *given)
    figure.suptitle(f"pypto benchmarks: {report.suite.name}", fontsize=14, fontweight="bold")
    figure.savefig(path, format="png")
    return ""


def panels(report: Report) -> list[tuple[Any, float, tuple[Any, ...]]]:
    """What is drawn one below the other: a function, a height in inches, and what it is given."""
    found: list[tuple[Any, float, tuple[Any, ...]]] = []
    compared = [result for result in report.results if result.ratio() is not None]
    if report.suite.name == "scaling":
        names = list(dict.fromkeys(result.row.name for result in compared))
        return [(curves, 4.0, (name, [r for r in compared if r.row.name == name])) for name in names]
    numbers = {result.title: k for k, result in enumerate(compared, 1)}
    if compared:
        found.append((ratio_bars, 1.4 + 0.36 * len(compared), (compared, numbers)))
    placed = [result for result in compared if result.row.intensity]
    if placed:
        found.append((roofline, 6.5, (placed, report.limits, numbers)))
    found += [(stages, 4.0, (grown,)) for grown in report.growths if len(grown.lines) > 1]
    return found


def colours(names: Sequence[str]) -> Mapping[str, str]:
    """A colour for each peer that is there, the same in every picture for those that are everywhere."""
    order = (*KNOWN, *sorted({*names} - {OURS, *KNOWN}))
    shades = {name: PALETTE[k % len(PALETTE)] for k, name in enumerate(order)}
    return {OURS: OUR_COLOUR, **{name: shade for name, shade in shades.items() if name in names}}


def ratio_bars(axes: Any, results: Sequence[Result], numbers: Mapping[str, int]) -> None:
    """How many times as fast ours is as the best peer, and as everybody else; rows have the roofline's numbers."""
    ratios = [result.ratio() or 0.0 for result in results]
    places = np.arange(len(results))[::-1]
    fill = [OUR_COLOUR if ratio >= 1 else BAD for ratio in ratios]
    widths = [ratio - 1 for ratio in ratios]
    axes.barh(places, widths, left=1, color=fill, alpha=0.35, height=0.7, label="against the best peer")
    shades = colours([name for result in results for name in result.timings])
    for name, shade in shades.items():
        points = [(r.ratio(name), at) for r, at in zip(results, places, strict=True) if name in r.timings]
        if name != OURS and points:
            axes.scatter(*zip(*points, strict=True), color=shade, s=22, label=name, zorder=3)
    for ratio, at in zip(ratios, places, strict=True):
        axes.annotate(f"{ratio:.2f}", (ratio, at), (3, -11), textcoords="offset points", fontsize=7)
    axes.axvline(1, color="black", linewidth=1)
    axes.set(xscale="log", yticks=places, xlabel="times as fast as (log)", ylim=(-0.8, len(results) - 0.2))
    axes.set_yticklabels([f"{r.title}  {numbers[r.title]:>2}" for r in results], fontsize=8)
    ticks = [t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if axes.get_xlim()[0] <= t <= axes.get_xlim()[1]]
    axes.set_xticks(ticks, [f"{t:g}x" for t in ticks])
    axes.set_xticks([], minor=True)
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes.set_title("how much faster ours is", loc="left")


def roofline(axes: Any, results: Sequence[Result], limits: Any, numbers: Mapping[str, int]) -> None:
    """Operations per second over operations per byte, under what the machine can do; numbers stand for the rows."""
    threads = max(result.threads for result in results)
    work = [r.row.intensity for r in results]
    x = np.geomspace(min(0.02, *work) if len(work) > 1 else 0.02, max(1000.0, *work, 1000.0) * 2, 200)
    peak, on = limits.rate("fma", threads), f"{threads} thread{'s' * (threads > 1)}"
    for k, level in enumerate(("copy DRAM", "copy L3", "copy L2")):
        bound = np.minimum(x * limits.rate(level, threads), peak) / 1e9
        axes.plot(x, bound, color="black", alpha=1 - 0.3 * k, linewidth=1, label=f"{level}, {on}")
    for name in ("bf16", "int8"):
        rate = limits.rate(name, threads)
        if rate > 1.2 * peak:
            axes.axhline(rate / 1e9, color="black", linestyle=":", linewidth=1)
            axes.annotate(name, (x[-1], rate / 1e9), (-24, 3), textcoords="offset points", fontsize=7)
    for result in results:
        point = (result.row.intensity, operations(result, OURS) / 1e9)
        axes.scatter(*point, color=OUR_COLOUR, s=26, zorder=3)
        if result.best_peer is not None:
            theirs = (result.row.intensity, operations(result, result.best_peer) / 1e9)
            axes.scatter(*theirs, color=PALETTE[0], s=26, marker="x", zorder=3)
    axes.scatter([], [], color=OUR_COLOUR, label=OURS)
    axes.scatter([], [], color=PALETTE[0], marker="x", label="best peer")
    axes.set(xscale="log", yscale="log", xlabel="operations per byte", ylabel="Gop/s", xlim=(x[0], x[-1]))
    axes.grid(alpha=0.3, which="major")
    axes.legend(fontsize=8, loc="upper left")
    axes.set_title("roofline", loc="left")
    name_points(axes, [(str(numbers[r.title]), r.row.intensity, operations(r, OURS) / 1e9) for r in results])


def name_points(axes: Any, points: Sequence[tuple[str, float, float]]) -> None:
    """Names beside points, each moved to the right until it covers no other."""
    axes.figure.draw_without_rendering()  # which decides how large everything is
    taken: list[tuple[float, float]] = []
    for name, x, y in points:
        left, middle = axes.transData.transform((x, y))
        right = 6.0
        while any(abs(middle - at) < 11 and abs(left + right - start) < 15 for start, at in taken):
            right += 3
        taken.append((left + right, middle))
        axes.annotate(name, (x, y), (right * 72 / DPI, -3), textcoords="offset points", fontsize=7)


def operations(result: Result, name: str) -> float:
    """Operations per second, also of rows that count bytes."""
    rate = result.rate(name)
    return rate if result.row.unit == "flop" else rate * result.row.intensity


def curves(axes: Any, name: str, results: Sequence[Result]) -> None:
    """Rate over size: ours and the peers, one thread dashed."""
    shades = colours([peer for result in results for peer in result.timings])
    counts = sorted({result.threads for result in results})
    for peer, shade in shades.items():
        for threads in counts:
            points = [
                (r.row.work, r.rate(peer) / 1e9) for r in results if r.threads == threads and peer in r.timings
            ]  # fmt: skip
            if points:
                line, width = ("-" if threads == counts[-1] else "--"), 2 if peer == OURS else 1
                label = f"{peer}, {threads}"
                axes.plot(*zip(*points, strict=True), line, color=shade, linewidth=width, marker=".", label=label)
    unit = results[0].row.unit
    axes.set(xscale="log", yscale="log", xlabel=f"{unit} of one call", ylabel=f"G{unit}/s")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0), title="by, threads")
    axes.set_title(name, loc="left")


def stages(axes: Any, grown: Grown) -> None:
    """Seconds of each stage over the lines of the kernel, with a line of slope one."""
    for k, (stage, times) in enumerate(grown.seconds.items()):
        power = grown.exponent(stage)
        label = stage if power is None else f"{stage}, lines^{power:.2f}"
        shade = OUR_COLOUR if stage == "total" else PALETTE[k % len(PALETTE)]
        axes.plot(grown.lines, times, color=shade, marker=".", linewidth=2 if stage == "total" else 1, label=label)
    start = grown.seconds["total"][0] / grown.lines[0]
    axes.plot(grown.lines, [start * n for n in grown.lines], ":", color="black", label="linear")
    axes.set(xscale="log", yscale="log", xlabel="lines", ylabel="seconds")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes.set_title(f"compiling: {grown.growth.what}{' (stopped)' if grown.reason else ''}", loc="left")
