"""The disk cache: one make per key across processes, verified before use, never the reason that a call fails.

An entry is the bytes of `frame`: whoever reads it checks that it belongs to the key and is whole before anything
else sees it. Where and how entries are kept is the matter of `store`; this module decides what a failure means.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from pypto.errors import CacheWarning
from pypto.runtime.disk_cache.store import Busy, Corrupt, Store, Unusable

Mode = Literal["rw", "ro", "off"]

MAGIC: Final = b"pypto\x00\x01\n"  # the byte before the newline is the version of the framing


@dataclass(frozen=True)
class CacheKey:
    """What an entry depends on, as named parts.

    Parameters
    ----------
    parts : tuple of (str, bytes or str)
        Name and value of each part, in an order that the caller keeps fixed.

    Examples
    --------
    >>> CacheKey((("target", "x86-64-v3"),)).digest == CacheKey((("target", b"x86-64-v3"),)).digest
    False
    """

    parts: tuple[tuple[str, bytes | str], ...]

    @cached_property
    def record(self) -> bytes:
        """All parts as bytes from which they can be read back: no two keys share a record."""
        return b"".join(_field(name) + _field(value) for name, value in self.parts)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the record, in hexadecimal."""
        return hashlib.sha256(self.record).hexdigest()


def _field(value: bytes | str) -> bytes:
    kind, raw = (b"b", value) if isinstance(value, bytes) else (b"s", value.encode("utf-8", "surrogatepass"))
    return kind + len(raw).to_bytes(8, "little") + raw


def frame(key_record: bytes, payload: bytes) -> bytes:
    """The entry for a payload: magic, length and bytes of the key record, SHA-256 of all the rest, payload."""
    head = MAGIC + len(key_record).to_bytes(8, "little") + key_record
    return head + hashlib.sha256(head + payload).digest() + payload


def unframe(key_record: bytes, blob: bytes) -> bytes | None:
    """The payload of an entry, or None if the entry is damaged or another key's.

    Examples
    --------
    >>> entry = frame(b"key", b"object code")
    >>> unframe(b"key", entry), unframe(b"key", entry[:-1]), unframe(b"yek", entry)
    (b'object code', None, None)
    """
    payload = blob[len(frame(key_record, b"")) :]
    return payload if blob == frame(key_record, payload) else None


@dataclass
class Counters:
    """How often a cache was asked and had the entry, had it not, and how often `get_or_make` had to make it."""

    hits: int = 0
    misses: int = 0
    made: int = 0


class Cache:
    """Payloads by key, on disk while that works and in memory where it does not.

    Parameters
    ----------
    folder : Path, optional
        Absolute path of the cache folder; the user's cache folder of the platform where None.
    mode : {'rw', 'ro', 'off'}
        Read and write; only read; neither (every `get` misses and `put` keeps nothing).
    size_limit : int
        Bytes on disk above which the entries stored first are evicted.
    lock_timeout : float
        Seconds to wait for another process that makes the same entry or is storing one.

    Notes
    -----
    Nothing here raises because of the cache: what goes wrong with it is a `CacheWarning`, once per kind.

    Examples
    --------
    >>> cache = Cache(mode="off")
    >>> cache.get_or_make(CacheKey((("ir", "func @add()"),)), lambda: b"object code")
    b'object code'
    >>> cache.counters
    Counters(hits=0, misses=1, made=1)
    """

    def __init__(
        self, folder: Path | None = None, mode: Mode = "rw", size_limit: int = 2**29, lock_timeout: float = 10.0
    ) -> None:
        self.counters, self.size_limit = Counters(), size_limit
        self._store = Store(folder, mode != "rw", size_limit, lock_timeout)
        self._keeps = self._readable = mode != "off"
        self._writable = mode == "rw"
        self._memory: dict[str, bytes] = {}
        self._warned: set[str] = set()

    def get(self, key: CacheKey) -> bytes | None:
        """The payload stored for the key, or None."""
        payload = self._find(key)
        self.counters.misses += payload is None
        self.counters.hits += payload is not None
        return payload

    def put(self, key: CacheKey, payload: bytes) -> None:
        """Store the payload for the key, in place of an earlier one."""
        if self._writable:
            try:
                self._store.write(key.digest, frame(key.record, payload))
            except Unusable as error:
                self._give_up_writing(error)
        if self._keeps and not self._writable:
            self._memory[key.digest] = payload

    def get_or_make(self, key: CacheKey, make: Callable[[], bytes]) -> bytes:
        """The payload stored for the key; else made here and stored, by one process while the others wait.

        Parameters
        ----------
        key : CacheKey
            What the payload depends on.
        make : callable
            Gives the payload. What it raises passes through, and nothing is stored.
        """
        payload = self.get(key)
        if payload is not None:
            return payload
        with ExitStack() as locks:
            self._wait_for(key, locks)
            payload = self._find(key)  # whoever held the lock before may have stored it
            if payload is None:
                payload = make()
                self.counters.made += 1
                self.put(key, payload)
        return payload

    def _find(self, key: CacheKey) -> bytes | None:
        if key.digest in self._memory or not self._readable:
            return self._memory.get(key.digest)
        try:
            blob = self._store.read(key.digest)
        except Corrupt:
            blob = b""
        except Unusable as error:
            self._readable = False
            self._tell_unusable(error)
            return None
        payload = None if blob is None else unframe(key.record, blob)
        if blob is not None and payload is None:
            self._tell(f"the disk cache in {self._store} was damaged; what is missing is made anew. Check that disk.")
        return payload

    def _wait_for(self, key: CacheKey, locks: ExitStack) -> None:
        """Take the key's lock into `locks`, or say why this process goes on without it."""
        if not self._writable:
            return
        try:
            locks.enter_context(self._store.lock(key.digest))
        except Busy as error:
            self._tell(f"{error}; this process makes the entry itself. End that process if it hangs.")
        except Unusable as error:
            self._give_up_writing(error)

    def _give_up_writing(self, error: Unusable) -> None:
        self._writable = False
        self._tell_unusable(error)

    def _tell_unusable(self, error: Unusable) -> None:
        self._tell(
            f"pypto goes on without its disk cache in {self._store}: {error}. "
            "Mend or remove that folder, name another in PYPTO_CACHE_DIR, or set PYPTO_CACHE=off."
        )

    def _tell(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(text, CacheWarning, stacklevel=4)
