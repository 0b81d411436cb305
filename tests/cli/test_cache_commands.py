"""Commands on the disk cache, each on a folder of its own."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pypto.runtime.disk_cache.cache import Cache, CacheKey
from pypto.runtime.disk_cache.tools import CacheToolError, entries, nearest, parts_of
from tests.cli.commands import ADD, kernels
from tests.patience import limit
from tests.runtime.caching import KEY, OTHER, PAYLOAD, ROOT, database


def pypto(folder: Path, *arguments: object, code: int = 0) -> str:
    """What a command in a process of its own says, with a cache in `folder`."""
    env = {**os.environ, "PYPTO_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pypto", *map(str, arguments)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=limit(120))
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def damage(folder: Path) -> None:
    """Flip a bit of the last entry."""
    with closing(sqlite3.connect(database(folder))) as connection:
        (rowid, value) = connection.execute("SELECT rowid, value FROM Cache ORDER BY rowid DESC").fetchone()
        broken = bytes(value[:-1]) + bytes([value[-1] ^ 1])
        connection.execute("UPDATE Cache SET value = ? WHERE rowid = ?", (broken, rowid))
        connection.commit()


def test_the_life_of_a_cache(tmp_path: Path) -> None:
    """Missed, compiled, found, carried to another folder, cleared."""
    cache, file, other = tmp_path / "cache", kernels(tmp_path), tmp_path / "other"
    assert "it is not in the cache" in pypto(cache, "cache", "why", f"{file}:add", *ADD)
    pypto(cache, "run", f"{file}:add", *ADD, "--grid", "4")
    assert "it is in the cache" in pypto(cache, "cache", "why", f"{file}:add", *ADD)
    changed = pypto(cache, "cache", "why", f"{file}:add", *ADD[:-1], "BLOCK=128")
    assert "differs in: ir" in changed
    assert "value = 256" in changed
    assert "value = 128" in changed
    assert "add" in pypto(cache, "cache", "list")
    archive = tmp_path / "cache.zip"
    pypto(cache, "cache", "export", archive)
    pypto(other, "cache", "import", archive)
    assert "it is in the cache" in pypto(other, "cache", "why", f"{file}:add", *ADD)
    assert "entries removed" in pypto(cache, "cache", "clear")
    assert list(entries(cache)) == []


def test_damaged_entries_are_told_and_removed(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    cache.put(KEY, PAYLOAD)
    cache.put(OTHER, PAYLOAD)
    damage(tmp_path / "cache")
    assert "2 entries, 1 damaged" in pypto(tmp_path / "cache", "cache", "verify", code=1)
    pypto(tmp_path / "cache", "cache", "verify", "--remove")
    assert [e.digest for e in entries(tmp_path / "cache")] == [KEY.digest]


@pytest.mark.parametrize("record", [b"x", b"s" + bytes([9] * 8), KEY.record[:-1]])
def test_no_record_is_read_as_a_key(record: bytes) -> None:
    with pytest.raises(ValueError, match="no record"):
        parts_of(record)


def test_a_key_is_read_back() -> None:
    key = CacheKey((("ir", "kernel @k()"), ("raw", b"\0\1"), ("empty", "")))
    assert tuple(parts_of(key.record).items()) == key.parts


def test_the_nearest_entry_differs_in_the_fewest_parts(tmp_path: Path) -> None:
    def key(**parts: Any) -> CacheKey:
        return CacheKey(tuple({"ir": "kernel @k()", "options": "o", "target": "t", **parts}.items()))

    cache = Cache(tmp_path / "cache")
    for stored in (key(options="p", target="u"), key(target="u"), key(ir="kernel @other()")):
        cache.put(stored, PAYLOAD)
    found = nearest(key(), list(entries(tmp_path / "cache")))
    assert found is not None
    assert (found[0].digest, found[1]) == (key(target="u").digest, ["target"])


def test_a_broken_database_is_told_and_can_be_cleared(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    Cache(folder).put(KEY, PAYLOAD)
    database(folder).write_bytes(b"no database" * 1000)
    with pytest.raises(CacheToolError, match="pypto cache clear"):
        list(entries(folder))
    pypto(folder, "cache", "clear")
    Cache(folder).put(KEY, PAYLOAD)
    assert [e.is_whole for e in entries(folder)] == [True]
