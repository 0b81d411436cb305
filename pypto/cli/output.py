"""How commands speak: tables and text for people, one JSON object for programs, and exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer

from pypto.cli.specs import UsageError
from pypto.errors import PyptoError

FAILED: Final = 1  # what was asked for failed: a kernel with a mistake, a check that did not hold
USAGE: Final = 2  # the command line itself is wrong

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]


def say_json(value: Mapping[str, Any]) -> None:
    print(json.dumps(value, indent=2, sort_keys=True, default=str))


def say_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table on the terminal; in a pipe its lines are not cut."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*headings, title=title, title_justify="left")
    for row in rows:
        table.add_row(*map(str, row))
    Console(width=None if sys.stdout.isatty() else 200, markup=False).print(table)


@contextmanager
def mistakes() -> Iterator[None]:
    """Errors of ours as their text, without a traceback, and with an exit code."""
    try:
        yield
    except UsageError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(USAGE) from None
    except PyptoError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(FAILED) from None
