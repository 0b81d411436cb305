"""The commands of `pypto`, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import typer

from pypto.cli import caching, compiling, creating, facts, inspecting, running, tuning

Command = Callable[..., Any]
COMMANDS: Final[tuple[tuple[str, Command], ...]] = (
    ("run", running.run),
    ("compile", compiling.compile_kernel),
    ("inspect", inspecting.inspect),
    ("explain", compiling.explain),
    ("tune", tuning.tune),
    ("bench", running.bench),
    ("ops", facts.ops),
    ("doctor", facts.doctor),
    ("new", creating.new),
)
CACHE: Final[tuple[tuple[str, Command], ...]] = (
    ("stat", caching.stat),
    ("list", caching.list_entries),
    ("why", caching.why),
    ("verify", caching.verify),
    ("clear", caching.clear),
    ("export", caching.export),
    ("import", caching.load),
)
TUTORIALS: Final[tuple[tuple[str, Command], ...]] = (
    ("list", creating.list_tutorials),
    ("copy", creating.copy_tutorials),
)


def group(text: str, commands: tuple[tuple[str, Command], ...]) -> typer.Typer:
    made = typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None)
    for name, command in commands:
        made.command(name)(command)
    return made


def make_app() -> typer.Typer:
    """All commands, put together."""
    app = group("Kernels in Python: run them, compile them, look inside.", COMMANDS)
    app.add_typer(group("The disk cache: look into it, check it, carry it elsewhere.", CACHE), name="cache")
    app.add_typer(group("The tutorials that come with pypto.", TUTORIALS), name="tutorials")
    return app


def main() -> None:
    """The console script."""
    make_app()(prog_name="pypto")
