"""diskcache with bytes only. It is imported when something is stored, never for a hit."""

from __future__ import annotations

import os
import sqlite3
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import diskcache  # type: ignore[import-untyped]  # it ships no types

RAW: Final = 1  # diskcache's mode of a value that stands in the row as it is; the others are files and pickles


class BytesDisk(diskcache.Disk):  # type: ignore[misc]  # its base has no types
    """Keys and values are bytes in the row. All else is refused, writing and reading.

    diskcache would pickle any other value and unpickle what it finds (CVE-2025-69872).
    """

    def put(self, key: Any) -> tuple[Any, bool]:
        """The key as the database takes it."""
        return sqlite3.Binary(only_bytes(key)), True

    def get(self, key: Any, raw: bool) -> bytes:
        """The key as it was put."""
        if not raw:
            raise TypeError("the cache holds a pickled key, which is never read; remove the cache folder")
        return only_bytes(key)

    def store(self, value: Any, read: bool, key: Any = None) -> tuple[int, int, None, Any]:
        """Size beside the database, mode, file name and value of the row."""
        return 0, RAW, None, sqlite3.Binary(only_bytes(value))

    def fetch(self, mode: int, filename: str | None, value: Any, read: bool) -> bytes:
        """The value as it was stored."""
        if mode != RAW or filename is not None or read:
            raise TypeError(f"the cache holds a value of mode {mode}, which is never read; remove the cache folder")
        return only_bytes(value)

    def remove(self, file_path: str) -> None:
        """Do nothing: no value of ours is a file, and a planted name must not become a deletion."""


def only_bytes(value: Any) -> bytes:
    """The value, which is bytes, or a TypeError."""
    if type(value) is not bytes:
        raise TypeError(f"expected bytes, got {type(value).__name__}: encode what the cache shall keep")
    return value


class BytesCache(diskcache.Cache):  # type: ignore[misc]  # its base has no types
    """diskcache in one file of bytes, which a failure to open leaves closed.

    Parameters
    ----------
    folder : Path
        Where the database is.
    size_limit : int
        Bytes of the database above which storing evicts.
    timeout : float
        Seconds to wait for readers.
    """

    def __init__(self, folder: Path, size_limit: int, timeout: float) -> None:
        if os.path.expandvars(folder) != str(folder):  # diskcache would go to the folder with the value in its name
            raise ValueError("its path looks as if it named an environment variable")
        with ExitStack() as failed:
            failed.callback(self.close)
            super().__init__(
                str(folder),
                timeout=timeout,
                disk=BytesDisk,
                size_limit=size_limit,
                eviction_policy="least-recently-stored",  # the others make every hit a write
                sqlite_journal_mode="delete",  # a write-ahead log cannot be read in a read-only folder
                sqlite_synchronous=0,  # a torn or lost entry is a miss, not worth waiting for the disk
            )
            failed.pop_all()
