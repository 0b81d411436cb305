"""Measuring kernels, and comparing what they give."""

from __future__ import annotations

import importlib
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

__all__ = ["Benchmark", "Mark", "assert_close", "do_bench", "do_bench_cudagraph", "perf_report"]

_MODES: Final = ("min", "max", "mean", "median", "all")


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """The time of a call in milliseconds.

    Parameters
    ----------
    fn : function
        What is measured; it takes no arguments.
    warmup, rep : float
        Milliseconds to spend before and while measuring.
    grad_to_none : sequence of tensor, optional
        Tensors whose gradients are dropped before every call.
    quantiles : sequence of float, optional
        Quantiles of the times to give, in place of what `return_mode` says.
    return_mode : str
        "min", "max", "mean", "median", or "all" for a list.

    Returns
    -------
    float or list of float

    Examples
    --------
    >>> do_bench(lambda: sum(range(100)), warmup=1, rep=1) > 0
    True
    """
    if return_mode not in _MODES:
        raise ValueError(f"return_mode is one of {', '.join(_MODES)}, not {return_mode!r}")
    estimate = max(timed(fn), 1e-6)
    for _ in range(int(warmup / estimate)):
        fn()
    times = []
    for _ in range(max(1, int(rep / estimate))):
        for tensor in grad_to_none or ():
            tensor.grad = None
        times.append(timed(fn))
    return summary(times, quantiles, return_mode)


def timed(fn: Callable[[], Any]) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter_ns()
    fn()
    return (time.perf_counter_ns() - start) / 1e6


def do_bench_cudagraph(
    fn: Callable[[], Any],
    rep: float = 20,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """`do_bench`: there are no graphs of launches to be recorded on a CPU."""
    return do_bench(fn, rep, rep, grad_to_none, quantiles, return_mode)


def summary(times: list[float], quantiles: Sequence[float] | None, mode: str) -> Any:
    if quantiles is not None:
        found = [quantile(sorted(times), q) for q in quantiles]
        return found[0] if len(found) == 1 else found
    if mode == "all":
        return times
    functions: dict[str, Any] = {"min": min, "max": max, "mean": statistics.mean, "median": statistics.median}
    return functions[mode](times)


def quantile(ordered: list[float], q: float) -> float:
    """Linear between the two values that q lies between."""
    if not 0 <= q <= 1:
        raise ValueError(f"a quantile lies between 0 and 1, and {q} does not")
    at = q * (len(ordered) - 1)
    low, part = math.floor(at), at - math.floor(at)
    return ordered[low] * (1 - part) + ordered[math.ceil(at)] * part


def assert_close(x: Any, y: Any, atol: Any = None, rtol: Any = None, err_msg: str = "") -> None:
    """Raise unless two numbers, arrays or tensors are close; NaN is close to NaN.

    Parameters
    ----------
    x, y : array, tensor or number
    atol, rtol : float or function of a dtype, optional
        Tolerances; 0.01 and 0 without.
    err_msg : str
        What the error begins with.

    Examples
    --------
    >>> assert_close([1.0, 2.0], [1.0, 2.001])
    """
    atol, rtol = (t(getattr(x, "dtype", None)) if callable(t) else t for t in (atol, rtol))
    atol, rtol = 1e-2 if atol is None else atol, 0.0 if rtol is None else rtol
    np.testing.assert_allclose(as_numpy(x), as_numpy(y), rtol=rtol, atol=atol, equal_nan=True, err_msg=err_msg)


def as_numpy(x: Any) -> Any:
    """An array that numpy can compare, of a number, an array or a tensor of any float type."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        x = (x.double() if x.is_floating_point() else x).numpy()
    x = np.asarray(x)
    return x.astype(np.float64) if x.dtype.kind == "V" or x.dtype.itemsize < 4 else x


# --- tables of times --------------------------------------------------------------------------------------------------


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
            found = fn(**point, **{bench.line_arg: value}, **bench.args, **kwargs)
            row[name] = found[0] if isinstance(found, list | tuple) else found
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
        print(f"{bench.plot_name}: no plot, as matplotlib is not installed (`pip install pypto-jit[viz]`)")
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
