"""What the tests of the disk cache share."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from pypto.errors import CacheWarning
from pypto.runtime.disk_cache import cache as cache_module
from pypto.runtime.disk_cache.cache import Cache, CacheKey
from pypto.runtime.disk_cache.store import DATABASE, FORMAT
from tests.patience import limit

ROOT = Path(cache_module.__file__).parents[2]
KEY = CacheKey((("ir", "func @k()"), ("target", b"x86-64-v3")))
OTHER = CacheKey((("ir", "func @k()"), ("target", b"x86-64-v4")))
THIRD = CacheKey((("ir", "func @f()"),))
PAYLOAD = bytes(range(256)) * 8

needs_posix = pytest.mark.skipif(os.name != "posix", reason="owners and permission bits are POSIX")


def database(folder: Path) -> Path:
    return folder / FORMAT / DATABASE


def fail() -> bytes:
    raise AssertionError("made although it was stored")


def start(code: str, *args: object) -> subprocess.Popen[str]:
    lines = (
        "import os, sys, time",
        "from pathlib import Path",
        "from pypto.runtime.disk_cache.cache import Cache, CacheKey",
    )
    command = [sys.executable, "-W", "always::UserWarning", "-c", "\n".join((*lines, code)), *map(str, args)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def finish(child: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = child.communicate(timeout=limit(60))
    assert child.returncode == 0, err
    return out.strip(), err


def wait_for(path: Path) -> None:
    until = time.monotonic() + limit(30)
    while not path.exists():
        assert time.monotonic() < until, f"{path} did not appear"
        time.sleep(0.01)


def overwrite(folder: Path, blob: bytes) -> None:
    with closing(sqlite3.connect(database(folder))) as connection:
        connection.execute("UPDATE Cache SET value = ?", (blob,))
        connection.commit()


def degrades_to_memory(folder: Path, match: str) -> None:
    """One warning for all that the cache is asked, and every entry is served from memory."""
    cache = Cache(folder)
    with pytest.warns(CacheWarning, match=match) as caught:
        served = [cache.get_or_make(key, make) for key, make in ((KEY, lambda: PAYLOAD), (KEY, fail), (THIRD, bytes))]
    assert served == [PAYLOAD, PAYLOAD, b""]
    assert cache.get(THIRD) == b""
    assert len(caught) == 1
