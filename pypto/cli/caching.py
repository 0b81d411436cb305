"""`pypto cache`: what is in the disk cache, whether it is sound, and why a kernel was not found in it."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

import pypto
from pypto.backends import registry
from pypto.cli.output import FAILED, Json, mistakes, say_json, say_table
from pypto.cli.running import Arguments, Kernel
from pypto.cli.specs import arguments, kernel_of
from pypto.compile import session
from pypto.errors import OptionError
from pypto.options import KernelOptions
from pypto.runtime.disk_cache import archive
from pypto.runtime.disk_cache import tools as cache_tools
from pypto.runtime.disk_cache.store import default_folder

Archive = Annotated[Path, typer.Argument(metavar="FILE", help="A zip file of entries.")]


def folder() -> Path:
    """The folder of this process's cache."""
    chosen = session().settings.cache_dir
    return Path(chosen) if chosen else default_folder()


def age(stored: float) -> str:
    seconds = max(0.0, time.time() - stored)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def row_of(entry: cache_tools.Entry) -> dict[str, Any]:
    parts = entry.parts or {}
    return {"digest": entry.digest, "name": entry.name, "bytes": entry.size, "stored": entry.stored,
            "target": str(parts.get("target", "")), "whole": entry.is_whole}  # fmt: skip


def stat(json: Json = False) -> None:
    """Where the cache is, how many entries it has and how large they are."""
    with mistakes():
        entries = list(cache_tools.entries(folder()))
        facts = {"folder": str(folder()), "mode": session().settings.cache, "entries": len(entries),
                 "bytes": sum(e.size for e in entries), "limit_bytes": session().cache.size_limit,
                 "damaged": sum(not e.is_whole for e in entries)}  # fmt: skip
        if json:
            say_json(facts)
        else:
            say_table("disk cache", ("fact", "value"), [(k.replace("_", " "), v) for k, v in facts.items()])


def list_entries(json: Json = False) -> None:
    """Every entry: the kernel, how large it is, how old, and its key."""
    with mistakes():
        entries = list(cache_tools.entries(folder()))
        if json:
            say_json({"entries": [row_of(e) for e in entries]})
            return
        rows = [(e.name, f"{e.size:,}", age(e.stored), e.digest[:16], "yes" if e.is_whole else "NO") for e in entries]
        say_table(str(folder()), ("kernel", "bytes", "age", "key", "whole"), rows)


def verify(
    json: Json = False, remove: Annotated[bool, typer.Option("--remove", help="Remove what is damaged.")] = False
) -> None:
    """Check every entry against its checksum and its key; damaged ones are never used, and can be removed."""
    with mistakes():
        entries = list(cache_tools.entries(folder()))
        damaged = [e for e in entries if not e.is_whole]
        if remove and damaged:
            cache_tools.remove_damaged(folder(), damaged)
        if json:
            say_json({"entries": len(entries), "damaged": [e.digest for e in damaged], "removed": remove})
        else:
            print(f"{len(entries)} entries, {len(damaged)} damaged" + (", removed" if remove and damaged else ""))
        if damaged and not remove:
            raise typer.Exit(FAILED)


def clear(json: Json = False) -> None:
    """Remove every entry. Kernels are compiled anew when they are next needed."""
    with mistakes():
        count = cache_tools.clear(folder())
        say_json({"removed": count}) if json else print(f"{count} entries removed")


def export(file: Archive, json: Json = False) -> None:
    """Write all entries to a file, to be imported where the same kernels run on the same kind of machine."""
    with mistakes():
        count, digest = archive.export(folder(), file, machine())
        if json:
            say_json({"written": count, "file": str(file), "sha256": digest})
        else:
            print(f"{count} entries written to {file}\nSHA-256 {digest}")


def load(
    file: Archive, json: Json = False,
    sha256: Annotated[str, typer.Option("--sha256", help="What the export said; another file is refused.")] = "",
) -> None:  # fmt: skip
    """Take entries from a file. They are machine code: import only from people whose code you would run."""
    with mistakes():
        imported = archive.load(session().cache, file, machine(), sha256)
        if json:
            say_json(imported._asdict())
        else:
            others = f", {imported.others} for other CPUs left out" if imported.others else ""
            refused = f", {imported.refused} refused: they are damaged or no entries" if imported.refused else ""
            print(f"{imported.stored} entries taken{others}{refused}")
        if imported.refused:
            raise typer.Exit(FAILED)


def machine() -> archive.Machine:
    """The versions and CPU targets by which this process finds entries: its own target first, then lower levels."""
    shared, targets = session(), list[str]()
    for level, fast_math in product((shared.settings.level, *registry.host().ahead().levels()), (False, True)):
        with suppress(OptionError):
            backend = shared.backend(KernelOptions(level=level, fast_math=fast_math))
            targets.append(dict(backend.key_parts())["target"])
    backend = shared.backend(KernelOptions())
    parts = dict((*backend.key_parts(), *shared.key(backend, ()).parts))
    versions = {"pypto": pypto.__version__, "llvmlite": parts["llvmlite"], "compiler": str(parts["compiler"])[:16]}
    return archive.Machine(versions, tuple(dict.fromkeys(targets)))


def why(target: Kernel, args: Arguments = None, json: Json = False) -> None:
    """Say whether a kernel is in the cache, and if not, which part of its key differs from the nearest entry."""
    from pypto.debug.levels import cache_key

    with mistakes():
        kernel = kernel_of(target)
        key = cache_key(kernel, **arguments(args or [], kernel.arg_names))
        stored = list(cache_tools.entries(folder()))
        hit = any(e.digest == key.digest and e.is_whole for e in stored)
        nearest = None if hit else cache_tools.nearest(key, stored)
        facts = {"kernel": target, "hit": hit, "key": key.digest, "nearest": nearest and nearest[0].digest,
                 "differs": nearest[1] if nearest else []}  # fmt: skip
        if json:
            say_json(facts)
            return
        print("it is in the cache" if hit else "it is not in the cache")
        if nearest:
            when = f"{nearest[0].digest[:16]} of {age(nearest[0].stored)} ago"
            print(f"the nearest entry, {when}, differs in: {', '.join(nearest[1])}")
            for name in nearest[1]:
                print(differing(name, dict(key.parts).get(name), (nearest[0].parts or {}).get(name)))
        elif not hit:
            print("no entry is of a kernel with this name")


def differing(name: str, ours: Any, theirs: Any) -> str:
    """A part of two keys, side by side; of the IR, the lines that differ."""
    import difflib

    if name == "compiler":
        return "  compiler: pypto's own sources changed since"
    a, b = str(theirs).splitlines(), str(ours).splitlines()
    lines = [line for line in difflib.unified_diff(a, b, "stored", "now", lineterm="", n=0) if line[:2] != "@@"]
    return "\n".join(f"  {line}" for line in [f"{name}:", *lines[:24]])
