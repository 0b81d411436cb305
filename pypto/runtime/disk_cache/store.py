"""Where the disk cache keeps its entries: a private folder with one database and the locks of those who make entries.

Reading opens diskcache's database directly and writes nothing, so that a hit costs about a millisecond, works in a
read-only folder and never waits for a writer's settings. diskcache itself is loaded to store and to evict.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from filelock import BaseFileLock

FORMAT: Final = "store-1"  # a folder of its own per layout: neither another version's files nor another program's
DATABASE: Final = "cache.db"  # diskcache's name for it
BUSY_TIMEOUT: Final = 5.0  # seconds that a read waits for a write to end
# Bytes that stand in their row. Any other row, such as one with a pickle or a file, is as good as absent.
SELECT: Final = (
    "SELECT value FROM Cache WHERE key = ? AND raw AND mode = 1 AND filename IS NULL AND typeof(value) = 'blob'"
)


class Unusable(Exception):
    """The cache folder cannot be used, or not safely; the text says why."""


class Corrupt(Unusable):
    """The database is none, or not a whole one; the next write replaces it."""


class Busy(Unusable):
    """Another process held a lock for too long."""


@dataclass(frozen=True)
class Store:
    """Blobs by digest in one folder. Whatever goes wrong, its methods raise `Unusable` and nothing else.

    Parameters
    ----------
    folder : Path or None
        As in `Cache`.
    read_only : bool
        Whether nothing may be created or changed.
    size_limit : int
        Bytes of the database above which blobs are evicted, the ones stored first at the head.
    lock_timeout : float
        Seconds to wait for a lock.
    """

    folder: Path | None
    read_only: bool
    size_limit: int
    lock_timeout: float

    def __str__(self) -> str:
        return str(self.folder or "the user's cache folder")

    def read(self, digest: str) -> bytes | None:
        """The blob stored under the digest, or None."""
        with failures():
            database = self._place() / DATABASE
            if database.exists():
                return select(database, digest, "ro" if self.read_only else "rw")
            if self.read_only:
                raise Unusable("there is nothing in it to read")
            return None

    def write(self, digest: str, blob: bytes) -> None:
        """Store the blob under the digest, whole or not at all."""
        with failures():
            database = self._create() / DATABASE
            # One writer at a time: diskcache retries for a minute where another connection is in its way.
            with self._acquired(database.with_name("write.lock")):
                try:
                    self._store(database, digest, blob)
                except Corrupt:
                    for path in (database, database.with_name(DATABASE + "-journal")):
                        path.unlink(missing_ok=True)
                    self._store(database, digest, blob)

    @contextmanager
    def lock(self, digest: str) -> Iterator[None]:
        """Hold the lock on a digest; it is freed on leaving and by the death of this process."""
        with failures():
            path = self._create() / f"{digest}.lock"
            lock = self._acquired(path)
        try:
            yield
        finally:
            # Removed while still held: a waiter sees that its file has lost its name and begins again.
            with suppress(OSError):
                path.unlink()
            with suppress(OSError):
                lock.release()

    def _acquired(self, path: Path) -> BaseFileLock:
        from filelock import FileLock, Timeout

        lock = FileLock(path, timeout=self.lock_timeout, mode=0o600, poll_interval=0.01)
        try:
            with suppress(FileNotFoundError):  # in some releases, when a holder removes the file between two looks
                lock.acquire()
            if not lock.is_locked:
                lock.acquire()
        except Timeout:
            raise Busy(f"another process held {path} for {self.lock_timeout:g} seconds") from None
        return lock

    def _store(self, database: Path, digest: str, blob: bytes) -> None:
        from pypto.runtime.disk_cache.disk import BytesCache

        with failures():
            os.close(os.open(database, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite would let others read it
            with BytesCache(database.parent, self.size_limit, BUSY_TIMEOUT) as cache:
                cache.set(digest.encode(), blob)

    def _place(self) -> Path:
        """The folder with the database. What exists of it is the user's own, or this raises `Unusable`."""
        folder = self.folder if self.folder is not None else default_folder()
        check_folder(folder)
        return folder / FORMAT

    def _create(self) -> Path:
        place = self._place()
        if not place.is_dir():
            for path in (*reversed(place.parents), place):
                path.mkdir(mode=0o700, exist_ok=True)
            self._place()  # someone else may have been quicker
        return place


@contextmanager
def failures() -> Iterator[None]:
    """Make whatever a disk, a database, a lock or their libraries raise an `Unusable`."""
    try:
        yield
    except Unusable:
        raise
    except Exception as error:  # no list of them is complete, and none may reach the user's call
        # SQLite's extended codes carry the primary one in the low byte: 11 is a corrupt file, 26 is no database.
        kind = Corrupt if getattr(error, "sqlite_errorcode", 0) & 0xFF in (11, 26) else Unusable
        raise kind(f"{type(error).__name__}: {error}") from error


def select(database: Path, digest: str, mode: str) -> bytes | None:
    """The blob in the digest's row, or None."""
    import sqlite3

    uri = f"{database.as_uri()}?mode={mode}"
    with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT, isolation_level=None)) as connection:
        try:
            row = connection.execute(SELECT, (digest.encode(),)).fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise
            return None  # no such table: its first writer is not done yet
    return None if row is None else bytes(row[0])


def default_folder() -> Path:
    """The platform's cache folder for this user; relative, and so refused, for a user without a home."""
    from platformdirs import user_cache_path

    return user_cache_path("pypto", appauthor=False)


def check_folder(folder: Path) -> None:
    """Raise `Unusable` unless a cache folder, as far as it exists, is the user's own."""
    if not folder.is_absolute():
        raise Unusable(f"{folder} is not an absolute path")
    check(folder, stat.S_ISDIR)
    check(folder / FORMAT, stat.S_ISDIR)
    check(folder / FORMAT / DATABASE, stat.S_ISREG)


def check(path: Path, is_kind: Callable[[int], bool]) -> None:
    """Raise `Unusable` if the path exists and others could have put there what this process would run."""
    try:
        info = path.lstat()
    except FileNotFoundError:
        return
    posix = os.name == "posix"
    reasons = (
        (stat.S_ISLNK(info.st_mode), "is a symbolic link"),
        (not is_kind(info.st_mode), f"is not the {'folder' if is_kind is stat.S_ISDIR else 'file'} it should be"),
        (os.path.samestat(info, os.stat(os.curdir)), "is the current directory"),
        (posix and info.st_uid != os.geteuid(), "belongs to another user"),
        (posix and info.st_mode & (stat.S_IWGRP | stat.S_IWOTH), "can be written by other users"),
    )
    for holds, reason in reasons:
        if holds:
            raise Unusable(f"{path} {reason}")
