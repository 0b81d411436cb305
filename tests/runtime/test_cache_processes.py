"""The disk cache between threads and processes, and what a hit costs."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from threading import Thread

import pytest

from pypto.errors import CacheWarning
from pypto.runtime.disk_cache.cache import Cache, CacheKey
from pypto.runtime.disk_cache.store import DATABASE, FORMAT
from tests.patience import limit
from tests.runtime.caching import KEY, PAYLOAD, finish, needs_posix, start, wait_for

# Several processes


def test_two_processes_make_one_entry(folder: Path, tmp_path: Path) -> None:
    code = """
def make():
    with open(sys.argv[2], "a") as log:
        log.write("made\\n")
    time.sleep(0.5)
    return b"payload"
cache = Cache(Path(sys.argv[1]), lock_timeout=float(sys.argv[4]))
Path(sys.argv[3]).touch()
while not all(Path(sys.argv[2] + str(i)).exists() for i in range(2)):
    time.sleep(0.001)
print(cache.get_or_make(CacheKey(()), make), cache.counters.made)
"""
    log = tmp_path / "log"
    children = [start(code, folder, log, f"{log}{i}", limit(50)) for i in range(2)]
    outputs = sorted(finish(child) for child in children)
    assert outputs == [("b'payload' 0", ""), ("b'payload' 1", "")]
    assert log.read_text() == "made\n"
    assert sorted(os.listdir(folder / FORMAT)) == [DATABASE, "write.lock"]


def test_many_writers_and_readers_do_not_disturb_each_other(folder: Path) -> None:
    code = """
cache = Cache(Path(sys.argv[1]), lock_timeout=float(sys.argv[2]))
for i in range(10):
    assert cache.get_or_make(CacheKey((("i", str(i)),)), lambda: bytes([i]) * 10**4) == bytes([i]) * 10**4
print(cache.counters.made)
"""
    outputs = [finish(child) for child in [start(code, folder, limit(50)) for _ in range(4)]]
    assert sum(int(out) for out, _ in outputs) == 10
    assert {err for _, err in outputs} == {""}


def test_threads_make_one_entry(folder: Path) -> None:
    cache = Cache(folder)
    results: list[bytes] = []
    threads = [Thread(target=lambda: results.append(cache.get_or_make(KEY, lambda: PAYLOAD))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [PAYLOAD] * 8
    assert cache.counters.made == 1


HOLD = """
def make():
    Path(sys.argv[2]).touch()
    time.sleep(600)
Cache(Path(sys.argv[1])).get_or_make(CacheKey(()), make)
"""


@needs_posix
def test_the_lock_of_a_killed_process_is_free(folder: Path, tmp_path: Path) -> None:
    child = start(HOLD, folder, tmp_path / "holds")
    wait_for(tmp_path / "holds")
    child.kill()
    child.communicate()
    cache = Cache(folder, lock_timeout=limit(5))
    assert cache.get_or_make(CacheKey(()), lambda: PAYLOAD) == PAYLOAD  # a warning here would fail the test
    assert Cache(folder).get(CacheKey(())) == PAYLOAD


@needs_posix
def test_a_stopped_process_is_waited_for_only_so_long(folder: Path, tmp_path: Path) -> None:
    child = start(HOLD, folder, tmp_path / "holds")
    wait_for(tmp_path / "holds")
    child.send_signal(signal.SIGSTOP)
    cache = Cache(folder, lock_timeout=0.1)
    with pytest.warns(CacheWarning, match="another process held") as caught:
        assert cache.get_or_make(CacheKey(()), lambda: PAYLOAD) == PAYLOAD
    child.kill()
    child.communicate()
    assert len(caught) == 1


# What it costs to start


def test_a_hit_loads_neither_diskcache_nor_locks_and_unpickles_nothing(folder: Path) -> None:
    Cache(folder).put(CacheKey(()), PAYLOAD)
    code = """
heavy = {"sqlite3", "diskcache", "filelock", "platformdirs"}
print(sorted(heavy & set(sys.modules)))
events = []
sys.addaudithook(lambda name, args: events.append(name) if name.startswith("pickle") else None)
assert Cache(Path(sys.argv[1])).get(CacheKey(())) is not None
print(sorted(heavy & set(sys.modules)), events)
"""
    assert finish(start(code, folder)) == ("[]\n['sqlite3'] []", "")
