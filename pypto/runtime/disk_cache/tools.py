"""What people do with the disk cache: look into it, check it, carry it to another machine, and ask why it missed."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pypto.errors import PyptoError
from pypto.runtime.disk_cache.cache import MAGIC, CacheKey, unframe
from pypto.runtime.disk_cache.store import DATABASE, FORMAT, Unusable, check_folder

_KERNEL: Final = re.compile(r"^kernel @([^(\s]+)", re.MULTILINE)
_ROWS: Final = (
    "SELECT key, value, store_time FROM Cache WHERE raw AND mode = 1 AND typeof(value) = 'blob' ORDER BY rowid"
)


class CacheToolError(PyptoError, ValueError):
    """The cache, or an archive of one, cannot be used for what was asked."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored entry. `size` is in bytes; `parts` are those of its key, None where the entry is damaged."""

    digest: str
    size: int
    stored: float
    parts: Mapping[str, bytes | str] | None
    blob: bytes

    @property
    def is_whole(self) -> bool:
        return self.parts is not None

    @property
    def name(self) -> str:
        """The kernel's name, or what else is kept under this key."""
        parts = self.parts or {}
        match = _KERNEL.search(str(parts.get("ir", "")))
        return match[1] if match else str(parts.get("part", "" if parts else "damaged"))


def parts_of(record: bytes) -> dict[str, bytes | str]:
    """The parts of a key, read back from its record.

    Raises
    ------
    ValueError
        When it is no record.

    Examples
    --------
    >>> parts_of(CacheKey((("target", "x86-64-v3"), ("raw", b"1"))).record)
    {'target': 'x86-64-v3', 'raw': b'1'}
    """
    values: list[bytes | str] = []
    at = 0
    while at < len(record):
        kind, length = record[at : at + 1], int.from_bytes(record[at + 1 : at + 9], "little")
        raw, at = record[at + 9 : at + 9 + length], at + 9 + length
        if kind not in (b"b", b"s") or at > len(record):
            raise ValueError("no record of a key")
        values.append(raw if kind == b"b" else raw.decode("utf-8", "surrogatepass"))
    return {str(name): value for name, value in zip(values[::2], values[1::2], strict=True)}


def parsed(blob: bytes) -> dict[str, bytes | str] | None:
    """The parts of a whole entry's key, None for a damaged one."""
    start = len(MAGIC) + 8
    length = int.from_bytes(blob[len(MAGIC) : start], "little")
    record = blob[start : start + length]
    try:
        return parts_of(record) if unframe(record, blob) is not None else None
    except ValueError:
        return None


def entries(folder: Path) -> Iterator[Entry]:
    """Every entry of the cache in a folder, those stored first at the head.

    Raises
    ------
    CacheToolError
        When the folder is not one that pypto would read from, or its database is broken.
    """
    database = folder / FORMAT / DATABASE
    try:
        check_folder(folder)
        if not database.exists():
            return
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
            rows = connection.execute(_ROWS).fetchall()
    except (Unusable, sqlite3.Error) as error:
        raise CacheToolError(f"the cache in {folder} cannot be read: {error}; `pypto cache clear` removes it") from None
    for key, value, stored in rows:
        blob = bytes(value)
        yield Entry(bytes(key).decode("ascii", "replace"), len(blob), stored, parsed(blob), blob)


def clear(folder: Path) -> int:
    """Remove every entry; gives how many there were. Locks of running processes stay."""
    try:
        count = sum(1 for _ in entries(folder))
    except CacheToolError:
        count = 0
    check_folder(folder)
    for name in (DATABASE, f"{DATABASE}-journal"):
        (folder / FORMAT / name).unlink(missing_ok=True)
    return count


def remove_damaged(folder: Path, damaged: list[Entry]) -> None:
    with closing(sqlite3.connect(folder / FORMAT / DATABASE, timeout=5)) as connection, connection:
        connection.executemany("DELETE FROM Cache WHERE key = ?", [(e.digest.encode(),) for e in damaged])


def key_of(blob: bytes) -> CacheKey | None:
    """The key under which a whole entry is stored."""
    parts = parsed(blob)
    return None if parts is None else CacheKey(tuple(parts.items()))


def nearest(key: CacheKey, stored: list[Entry]) -> tuple[Entry, list[str]] | None:
    """The entry of the same kernel whose key differs in the fewest parts, and the names of these."""
    wanted = dict(key.parts)
    name = _KERNEL.search(str(wanted.get("ir", "")))
    alike = [e for e in stored if e.parts and name and e.name == name[1]]
    differing = [(e, unlike(wanted, e.parts or {})) for e in alike]
    return min(differing, key=lambda row: (len(row[1]), -row[0].stored), default=None)


def unlike(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Names of the parts in which two keys differ."""
    return [name for name in {**a, **b} if a.get(name) != b.get(name)]
