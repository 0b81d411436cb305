"""Tables and plots of times over a range of sizes, in the form of Triton's `perf_report`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pypto._platform import install_command


@dataclass
class Benchmark:
    """What `perf_report` measures: `line_arg` takes the values of `line_vals` for every x of `x_vals`.

    Parameters
    ----------
    x_names : list of str
        Arguments of the function along the x axis.
    x_vals : list
        Their values: one for all names, or a tuple with one for each.
    line_arg : str
        The argument that tells lines apart.
    line_vals, line_names : list
        Its values, and what the lines are called.
    plot_name : str
        Title of the table, and name of its files.
    args : dict
        Further arguments.
    xlabel, ylabel, x_log, y_log, styles
        How a plot is drawn.
    """

    x_names: list[str]
    x_vals: Iterable[Any]
    line_arg: str
    line_vals: list[Any]
    line_names: list[str]
    plot_name: str
    args: dict[str, Any] = field(default_factory=dict)
    xlabel: str = ""
    ylabel: str = ""
    x_log: bool = False
    y_log: bool = False
    styles: list[tuple[str, str]] | None = None


def perf_report(benchmarks: Benchmark | list[Benchmark]) -> Callable[[Callable[..., Any]], Mark]:
    """Decorator of a function that measures one point; `.run()` of the result measures and shows them all."""
    return lambda fn: Mark(fn, benchmarks)


class Mark:
    """A function with the benchmarks that it is run for."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Benchmark | list[Benchmark]) -> None:
        self.fn, self.benchmarks = fn, benchmarks

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str = "",
        return_df: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Measure every point. Plots are drawn where `save_path` or `show_plots` asks for them, with matplotlib.

        Returns
        -------
        list of dict, or a list of these
            Rows of the table, when `return_df` is given: the x values, and the result of each line.
        """
        single = isinstance(self.benchmarks, Benchmark)
        tables = []
        for bench in [self.benchmarks] if isinstance(self.benchmarks, Benchmark) else self.benchmarks:
            tables.append(table(self.fn, bench, kwargs))
            if print_data:
                print(f"{bench.plot_name}:\n{as_text(tables[-1])}")
            if save_path:
                write_csv(tables[-1], Path(save_path), bench.plot_name)
            if bench.plot_name and (show_plots or save_path):
                plot(tables[-1], bench, save_path, show_plots)
        return (tables[0] if single else tables) if return_df else None


def table(fn: Callable[..., Any], bench: Benchmark, kwargs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row per x. A line that gives three numbers is a value with its bounds, of which the value is kept."""
    rows = []
    for x in bench.x_vals:
        values = x if isinstance(x, list | tuple) else [x] * len(bench.x_names)
        if len(values) != len(bench.x_names):
            raise ValueError(f"{bench.plot_name}: {len(bench.x_names)} names of x, but {len(values)} values: {x}")
        row = dict(zip(bench.x_names, values, strict=True))
        point = dict(row)
        for value, name in zip(bench.line_vals, bench.line_names, strict=True):
            result = fn(**point, **{bench.line_arg: value}, **bench.args, **kwargs)
            row[name] = result[0] if isinstance(result, list | tuple) else result
        rows.append(row)
    return rows


def as_text(rows: list[dict[str, Any]]) -> str:
    """A table with aligned columns."""
    cells = [list(rows[0])] if rows else []
    cells += [[f"{v:.6f}" if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in cells)


def write_csv(rows: list[dict[str, Any]], folder: Path, name: str) -> None:
    import csv

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)


def plot(rows: list[dict[str, Any]], bench: Benchmark, folder: str, show: bool) -> None:
    """A line plot; nothing without matplotlib, which is optional."""
    try:
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        print(f"{bench.plot_name}: no plot, as matplotlib is not installed: {install_command('viz')}")
        return
    figure, axes = pyplot.subplots()
    for n, name in enumerate(bench.line_names):
        color, style = bench.styles[n] if bench.styles else (None, None)
        axes.plot([r[bench.x_names[0]] for r in rows], [r[name] for r in rows], label=name, color=color, ls=style)
    axes.legend()
    axes.set(xlabel=bench.xlabel or bench.x_names[0], ylabel=bench.ylabel)
    axes.set(xscale="log" if bench.x_log else "linear", yscale="log" if bench.y_log else "linear")
    if show:
        pyplot.show()
    if folder:
        figure.savefig(Path(folder) / f"{bench.plot_name}.png")
    pyplot.close(figure)
