"""A table of what is being tried, on a terminal and in a notebook; silent elsewhere, as in continuous integration."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pypto.tuning.search import Outcome

_SHOWN: Final = 8


def is_watched() -> bool:
    """Whether someone sees what is written to stderr while it is written."""
    return not os.environ.get("CI") and (sys.stderr.isatty() or "ipykernel" in sys.modules)


@contextmanager
def watching(kernel: str, outcomes: list[Outcome]) -> Iterator[Callable[[Outcome], None]]:
    """Gives a function to be told of every outcome."""
    if not is_watched():
        yield lambda outcome: None
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=8, transient=True) as live:
        yield lambda outcome: live.update(picture(kernel, outcomes))


def picture(kernel: str, outcomes: list[Outcome]) -> Any:
    """The bar, and the fastest configurations so far."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    from pypto.tuning.config import name_of

    done = [o for o in outcomes if o.status != "untried"]
    fast = sorted((o for o in done if o.status == "ok"), key=lambda o: o.quantiles[0])
    left = {word: sum(o.status == word for o in done) for word in ("failed", "wrong")}
    told = ", ".join(f"{count} {word}" for word, count in left.items() if count)
    table = Table("configuration", "median", "runs", box=None)
    for outcome in fast[:_SHOWN]:
        table.add_row(Text(name_of(outcome.config)), f"{outcome.quantiles[0]:.4g} ms", str(len(outcome.times)))
    head = Text(f"tuning {kernel}: {len(done)} of {len(outcomes)}" + (f" ({told})" if told else ""))
    return Group(head, ProgressBar(total=len(outcomes), completed=len(done), width=40), table)
