"""The commands of `pypto`, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from pypto.cli import caching, compiling, creating, facts, inspecting, library, quantising, running, tuning

Command = Callable[..., Any]
COMMANDS: Final[tuple[tuple[str, Command], ...]] = (
    ("run", running.run),
    ("compile", compiling.compile_kernel),
    ("inspect", inspecting.inspect),
    ("explain", compiling.explain),
    ("tune", tuning.tune),
    ("bench", running.bench),
    ("quant", quantising.quantise),
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
LIBRARY: Final[tuple[tuple[str, Command], ...]] = (
    ("list", library.list_operators),
    ("show", library.show),
    ("check", library.check),
    ("bench", library.bench),
)


def group(text: str, commands: tuple[tuple[str, Command], ...]) -> typer.Typer:
    app = typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None)
    for name, command in commands:
        app.command(name)(command)
    return app


def say_version(wanted: bool) -> None:
    """Print the version, and stop."""
    if wanted:
        import pypto

        print(f"pypto {pypto.__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", callback=say_version, is_eager=True, help="Print the version, and stop.")
    ] = False,
) -> None:
    """Kernels in Python: run them, compile them, look inside."""


def make_app() -> typer.Typer:
    """All commands, put together."""
    app = group("Kernels in Python: run them, compile them, look inside.", COMMANDS)
    app.callback()(options)
    app.add_typer(group("The disk cache: look into it, check it, carry it elsewhere.", CACHE), name="cache")
    app.add_typer(
        group("The operators of large models: what there is, whether it is right, how fast it is.", LIBRARY), name="lib"
    )
    app.add_typer(group("The tutorials that come with pypto.", TUTORIALS), name="tutorials")
    return app


def main() -> None:
    """The console script."""
    make_app()(prog_name="pypto")
