"""The live table of a search on a terminal or in a notebook; other outputs, such as logs, stay silent."""

from __future__ import annotations

import importlib
import io
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pypto.tuning.search import Outcome

_SHOWN: Final = 8
_PER_SECOND: Final = 8  # how often the table changes


def notebook() -> bool:
    """Whether this code runs in a notebook's cell."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


def is_watched() -> bool:
    """Whether the output is interactive."""
    return not os.environ.get("CI") and (sys.stderr.isatty() or notebook())


@contextmanager
def watching(kernel: str, outcomes: list[Outcome], names: Mapping[int, str]) -> Iterator[Callable[[Outcome], None]]:
    """Show the table within a `with` block, and yield a function that takes every outcome."""
    if not is_watched():
        yield lambda outcome: None
        return
    with in_cell() if notebook() else on_terminal() as show:
        yield lambda outcome: show(picture(kernel, outcomes, names))


@contextmanager
def on_terminal() -> Iterator[Callable[[Any], None]]:
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=_PER_SECOND, transient=True) as live:
        yield live.update


@contextmanager
def in_cell() -> Iterator[Callable[[Any], None]]:
    """An output of the cell that changes, and is empty in the end; rich's own needs widgets for that."""
    ipython = importlib.import_module("IPython.display")
    output, last = ipython.display(ipython.HTML(""), display_id=True), [0.0]

    def show(drawn: Any) -> None:
        if time.monotonic() - last[0] > 1 / _PER_SECOND:
            output.update(ipython.HTML(html_of(drawn)))
            last[0] = time.monotonic()

    try:
        yield show
    finally:
        output.update(ipython.HTML(""))


def html_of(drawn: Any) -> str:
    """Render rich's output as HTML."""
    from rich.console import Console

    console = Console(record=True, file=io.StringIO(), width=100, force_jupyter=False)
    console.print(drawn)
    return console.export_html(inline_styles=True, code_format="<pre style='line-height:normal'>{code}</pre>")


def picture(kernel: str, outcomes: list[Outcome], names: Mapping[int, str]) -> Any:
    """Draw the progress bar and the fastest configurations so far."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    done = [o for o in outcomes if o.status != "untried"]
    fast = sorted((o for o in done if o.status == "ok"), key=lambda o: o.low)
    left = {word: sum(o.status == word for o in done) for word in ("equal", "failed", "wrong")}
    counts = ", ".join(f"{count} {word}" for word, count in left.items() if count)
    table = Table("configuration", "median", "runs", box=None)
    for outcome in fast[:_SHOWN]:
        table.add_row(Text(names[id(outcome.config)]), f"{outcome.quantiles[0]:.4g} ms", str(len(outcome.times)))
    head = Text(f"tuning {kernel}: {len(done)} of {len(outcomes)}" + (f" ({counts})" if counts else ""))
    return Group(head, ProgressBar(total=len(outcomes), completed=len(done), width=40), table)
