"""`pypto ops` and `pypto doctor`: what there is, in the language and on this machine."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer

from pypto._platform import PACKAGE, checkout, install_command
from pypto.backends import registry
from pypto.backends.plugin import Diagnosis
from pypto.cli.output import FAILED, Json, mistakes, say_json, say_table
from pypto.cli.specs import UsageError
from pypto.errors import PyptoError
from pypto.ops.row import OpRow, Unsupported
from pypto.ops.table import ROWS
from pypto.options import suggestion

_WIDTH: Final = 14  # of the column that names what was looked for


def cell(lowering: object) -> str:
    return f"no: {lowering.reason}" if isinstance(lowering, Unsupported) else "yes"


def ops(name: Annotated[str, typer.Argument(help="One op; all of them without.")] = "", json: Json = False) -> None:
    """The table of ops: what each is, and where it runs.

    Example:

        pypto ops cumsum
    """
    with mistakes():
        rows = {row.name: row for row in ROWS if row.public or row.name == name}
        if name and name not in rows:
            raise UsageError(f"there is no op {name!r}{suggestion(name, rows)}")
        chosen = [rows[name]] if name else list(rows.values())
        if json:
            say_json({"ops": [facts_of(row) for row in chosen]})
        elif name:
            facts = facts_of(chosen[0])
            say_table(name, ("fact", "value"), [(k, v) for k, v in facts.items() if v])
        else:
            table = [(r.name, r.doc, cell(r.lane_rule), cell(ascend_rule(r))) for r in chosen]
            say_table("ops", ("op", "does", "cpu", "ascend"), table)


def ascend_rule(row: OpRow) -> Any:
    plugin: Any = registry.built_in("ascend")
    return plugin.rule_for(row)


def facts_of(row: OpRow) -> dict[str, object]:
    takes = ", ".join(p.name for p in row.params)
    return {
        "name": row.name,
        "signature": f"{row.name}({takes})",
        "doc": row.doc,
        "example": row.example,
        "gradient": row.kink,
        "cpu": cell(row.lane_rule),
        "ascend": cell(ascend_rule(row)),
        "ulp": dict(row.ulp),
    }


def doctor(json: Json = False) -> None:
    """What pypto finds on this machine, what is missing, and how to get it."""
    with mistakes():
        findings = [finding for look in LOOKS for finding in look()]
        if json:
            say_json({"findings": [asdict(f) for f in findings]})
        else:
            print("\n".join(line for f in findings for line in lines_of(f)))
        if any(f.needed and not f.found for f in findings):
            raise typer.Exit(FAILED)


def lines_of(finding: Diagnosis) -> Iterator[str]:
    """A finding as plain lines, so that nothing of a path or a command is cut or broken."""
    yield f"{finding.what:<{_WIDTH}}{finding.found or 'missing'}"
    if finding.way:
        yield f"{'':<{_WIDTH}}→ {finding.way}"


def python() -> Iterator[Diagnosis]:
    import pypto

    yield Diagnosis("pypto", f"{pypto.__version__}, {'checkout' if checkout() else 'installed'}, {PACKAGE}")
    yield Diagnosis("python", f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}")
    yield Diagnosis("platform", f"{platform.system()} on {platform.machine()}")


def host() -> Iterator[Diagnosis]:
    from pypto.compile import session

    yield from registry.host().diagnose()
    yield Diagnosis("threads", f"{session().most_threads} of {os.cpu_count()}; PYPTO_NUM_THREADS changes it")
    yield Diagnosis("launches", "native code" if session().launcher else "Python",
                  "" if session().launcher else "native launches need CPython on Linux; see the README")  # fmt: skip


def cache() -> Iterator[Diagnosis]:
    from pypto.cli.caching import folder
    from pypto.compile import session
    from pypto.runtime.disk_cache.tools import entries

    way = "mend or remove the folder, or name another in PYPTO_CACHE_DIR"
    try:
        stored = list(entries(folder()))
    except PyptoError as error:
        yield Diagnosis("disk cache", "", f"{error}; {way}")
        return
    size, bad = sum(e.size for e in stored), sum(not e.is_whole for e in stored)
    mode, problem = usable_mode(session().settings.cache, folder())
    text = f"{folder()}, {mode}: {len(stored)} entries, {size >> 20} MiB"
    damaged = f"{bad} are damaged: pypto cache verify --remove" if bad else ""
    yield Diagnosis("disk cache", text, f"{problem}; {way}" if problem else damaged)


def usable_mode(mode: str, folder: Path) -> tuple[str, str]:
    """How the cache can be used, and why not as it is set: a file is written where the cache would write."""
    if mode != "rw":
        return mode, ""
    existing = next((place for place in (folder, *folder.parents) if place.exists()), folder)
    try:
        with tempfile.TemporaryFile(dir=existing):
            return mode, ""
    except OSError as error:
        return "not writable", f"nothing can be written to {existing} ({error.strerror}), so nothing is kept"


def compilers() -> Iterator[Diagnosis]:
    compiler = next((path for name in ("g++", "clang++") if (path := shutil.which(name))), "")
    yield Diagnosis("C++ compiler", compiler, "" if compiler else "needed for ascend-sim alone: apt-get install g++")


# Libraries that pypto uses where they are, and the extra that brings each; none for what it always needs.
LIBRARIES: Final = MappingProxyType({
    "numpy": "", "llvmlite": "", "torch": "torch", "jax": "jax", "matplotlib": "viz", "jupytext": "notebook",
    "sphinx": "docs",
})  # fmt: skip


def libraries() -> Iterator[Diagnosis]:
    for name, extra in LIBRARIES.items():
        version = version_of(name)
        yield Diagnosis(name, version, "" if version else install_command(extra), needed=not extra)


def version_of(name: str) -> str:
    """A library's version, with LLVM's own for llvmlite; empty where it is not installed. Nothing heavy is imported."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
    detail = registry.host().library_detail(name)
    return f"{version}, with {detail}" if detail else version


def devices() -> Iterator[Diagnosis]:
    """What backends of other devices find."""
    for plugin in registry.plugins():
        if plugin is not registry.host():
            yield from plugin.diagnose()


LOOKS: Final[tuple[Callable[[], Iterator[Diagnosis]], ...]] = (python, host, cache, compilers, devices, libraries)
