"""The disk cache: what it gives back, what it refuses, and that a call never fails because of it."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import diskcache  # type: ignore[import-untyped]  # it ships no types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto.errors import CacheWarning
from pypto.runtime import cache as cache_module
from pypto.runtime.cache import Cache, CacheKey, frame, unframe
from pypto.runtime.cache_disk import BytesDisk
from pypto.runtime.cache_store import DATABASE, FORMAT

ROOT = Path(cache_module.__file__).parents[2]
KEY = CacheKey((("ir", "func @k()"), ("target", b"x86-64-v3")))
OTHER = CacheKey((("ir", "func @k()"), ("target", b"x86-64-v4")))
THIRD = CacheKey((("ir", "func @f()"),))
PAYLOAD = bytes(range(256)) * 8

needs_posix = pytest.mark.skipif(os.name != "posix", reason="owners and permission bits are POSIX")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user can reach, which pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="pypto-test-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def database(folder: Path) -> Path:
    return folder / FORMAT / DATABASE


def fail() -> bytes:
    raise AssertionError("made although it was stored")


def start(code: str, *args: object) -> subprocess.Popen[str]:
    lines = ("import os, sys, time", "from pathlib import Path", "from pypto.runtime.cache import Cache, CacheKey")
    command = [sys.executable, "-W", "always::UserWarning", "-c", "\n".join((*lines, code)), *map(str, args)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def finish(child: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    return out.strip(), err


def wait_for(path: Path) -> None:
    for _ in range(3000):
        if path.exists():
            return
        time.sleep(0.01)
    raise AssertionError(f"{path} did not appear")


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


# Keys and framing


def test_the_digest_is_the_same_everywhere() -> None:
    assert KEY.digest == "8553dd525640009ad46c0cec494f70a72351599feb97f2956628d9e225c2f70e"


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3) | st.binary(max_size=3)), max_size=3), st.data())
def test_two_keys_share_no_record(parts: list[tuple[str, bytes | str]], data: st.DataObject) -> None:
    joined = "".join(value if isinstance(value, str) else value.decode("latin-1") for part in parts for value in part)
    cut = data.draw(st.integers(0, len(joined)))
    alike = CacheKey(((joined[:cut], joined[cut:]),))
    assert (alike.record == CacheKey(tuple(parts)).record) == (alike.parts == tuple(parts))


def test_bytes_and_text_of_a_part_differ() -> None:
    assert CacheKey((("a", "b"),)).digest != CacheKey((("a", b"b"),)).digest


@given(st.binary(max_size=40), st.binary(max_size=200))
def test_unframe_gives_back_what_was_framed(record: bytes, payload: bytes) -> None:
    assert frame(record, payload) == frame(record, payload)
    assert unframe(record, frame(record, payload)) == payload


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_an_entry_belongs_to_one_key(record: bytes, other: bytes, payload: bytes) -> None:
    found = unframe(other, frame(record, payload))
    assert found == (payload if record == other else None)


@pytest.mark.parametrize("eighth", range(8))
def test_a_cut_entry_is_refused(eighth: int) -> None:
    blob = frame(KEY.record, PAYLOAD)
    assert unframe(KEY.record, blob[: len(blob) * eighth // 8]) is None


@settings(max_examples=1000)
@given(st.data())
def test_a_flipped_bit_is_refused(data: st.DataObject) -> None:
    blob = bytearray(frame(KEY.record, PAYLOAD))
    for bit in data.draw(st.sets(st.integers(0, 8 * len(blob) - 1), min_size=1, max_size=4)):
        blob[bit // 8] ^= 1 << bit % 8
    assert unframe(KEY.record, bytes(blob)) is None


# The cache at work


def test_round_trip_between_two_caches(folder: Path) -> None:
    first = Cache(folder)
    assert first.get(KEY) is None
    first.put(KEY, PAYLOAD)
    second = Cache(folder)
    assert second.get(KEY) == PAYLOAD
    assert second.get(OTHER) is None
    assert (second.counters.hits, second.counters.misses, second.counters.made) == (1, 1, 0)


def test_a_later_payload_replaces_the_earlier(folder: Path) -> None:
    cache = Cache(folder)
    cache.put(KEY, b"old")
    cache.put(KEY, b"")
    assert Cache(folder).get(KEY) == b""


def test_get_or_make_makes_once(folder: Path) -> None:
    cache = Cache(folder)
    assert cache.get_or_make(KEY, lambda: PAYLOAD) == PAYLOAD
    assert cache.get_or_make(KEY, fail) == PAYLOAD
    assert (cache.counters.hits, cache.counters.misses, cache.counters.made) == (1, 1, 1)
    assert sorted(os.listdir(folder / FORMAT)) == [DATABASE, "write.lock"]


def test_what_make_raises_passes_and_the_lock_is_free(folder: Path) -> None:
    cache = Cache(folder, lock_timeout=0.0)
    with pytest.raises(AssertionError, match="made although"):
        cache.get_or_make(KEY, fail)
    assert cache.get_or_make(KEY, lambda: PAYLOAD) == PAYLOAD


def test_make_may_use_the_cache_for_another_key(folder: Path) -> None:
    cache = Cache(folder, lock_timeout=0.0)
    assert cache.get_or_make(KEY, lambda: cache.get_or_make(OTHER, lambda: b"inner") + b"!") == b"inner!"


def test_off_keeps_nothing(folder: Path) -> None:
    cache = Cache(folder, "off")
    cache.put(KEY, PAYLOAD)
    assert cache.get(KEY) is None
    assert cache.get_or_make(KEY, lambda: b"made") == b"made"
    assert not folder.exists()


def test_read_only_mode_writes_to_memory_alone(folder: Path) -> None:
    Cache(folder).put(KEY, PAYLOAD)
    before = database(folder).read_bytes()
    cache = Cache(folder, "ro")
    assert cache.get_or_make(KEY, fail) == PAYLOAD
    assert cache.get_or_make(OTHER, lambda: b"new") == b"new"
    assert cache.get_or_make(OTHER, fail) == b"new"
    assert database(folder).read_bytes() == before


def test_read_only_mode_without_a_cache_warns_once(folder: Path) -> None:
    cache = Cache(folder, "ro")
    with pytest.warns(CacheWarning, match="nothing in it to read") as caught:
        found = [cache.get(KEY), cache.get(OTHER)]
    assert found == [None, None]
    assert len(caught) == 1
    assert not folder.exists()


def test_the_size_limit_holds_and_the_oldest_go(folder: Path) -> None:
    limit = 2**19
    cache = Cache(folder, size_limit=limit)
    keys = [CacheKey((("number", str(i)),)) for i in range(64)]
    for key in keys:
        cache.put(key, key.digest.encode() * 256)
    assert sum(path.stat().st_size for path in (folder / FORMAT).iterdir()) <= 1.1 * limit
    assert cache.get(keys[0]) is None
    assert cache.get(keys[-1]) == keys[-1].digest.encode() * 256


def test_a_cache_removed_in_between_is_made_again(folder: Path) -> None:
    cache = Cache(folder)
    cache.put(KEY, PAYLOAD)
    shutil.rmtree(folder)
    assert cache.get(KEY) is None
    cache.put(KEY, PAYLOAD)
    assert Cache(folder).get(KEY) == PAYLOAD


# Damage


@pytest.mark.parametrize("eighth", range(8))
def test_a_cut_entry_on_disk_is_a_miss_with_one_warning(folder: Path, eighth: int) -> None:
    Cache(folder).put(KEY, PAYLOAD)
    blob = frame(KEY.record, PAYLOAD)
    overwrite(folder, blob[: len(blob) * eighth // 8])
    cache = Cache(folder)
    with pytest.warns(CacheWarning, match="damaged") as caught:
        assert cache.get_or_make(KEY, lambda: b"again") == b"again"
    assert len(caught) == 1
    assert Cache(folder).get(KEY) == b"again"


def test_entries_swapped_on_disk_are_misses(folder: Path) -> None:
    cache = Cache(folder)
    cache.put(KEY, b"one")
    cache.put(OTHER, b"two")
    overwrite(folder, frame(KEY.record, b"one"))
    with pytest.warns(CacheWarning, match="damaged"):
        assert cache.get(OTHER) is None
    assert cache.get(KEY) == b"one"


@pytest.mark.parametrize("content", [b"garbage " * 1000, b"SQLite format 3\0" + bytes(5000)])
def test_a_file_that_is_no_database_is_replaced(folder: Path, content: bytes) -> None:
    Cache(folder).put(KEY, PAYLOAD)
    database(folder).write_bytes(content)
    cache = Cache(folder)
    with pytest.warns(CacheWarning, match="damaged") as caught:
        assert cache.get_or_make(KEY, lambda: b"again") == b"again"
    assert len(caught) == 1
    assert Cache(folder).get(KEY) == b"again"


def test_a_database_of_another_shape_degrades_to_memory(folder: Path) -> None:
    (folder / FORMAT).mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)  # mkdir gave it the default of a parent
    with closing(sqlite3.connect(database(folder))) as connection:
        connection.execute("CREATE TABLE Cache (something TEXT)")
    database(folder).chmod(0o600)
    degrades_to_memory(folder, "goes on without")


@settings(max_examples=60, deadline=None)
@given(st.sets(st.integers(0, 2**30), min_size=1, max_size=6))
def test_bits_flipped_in_the_database_never_give_a_wrong_payload(bits: set[int]) -> None:
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)
        folder = Path(name) / "cache"
        Cache(folder).put(KEY, PAYLOAD)
        content = bytearray(database(folder).read_bytes())
        for bit in bits:
            content[bit // 8 % len(content)] ^= 1 << bit % 8
        database(folder).write_bytes(content)
        assert Cache(folder).get(KEY) in (None, PAYLOAD)
        assert Cache(folder).get_or_make(KEY, lambda: PAYLOAD) == PAYLOAD


# Bytes only


class Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("size", [1, 2**16])  # in the row, and in a file of its own
def test_a_pickled_row_is_neither_read_nor_kept(folder: Path, tmp_path: Path, size: int) -> None:
    sprung = tmp_path / "sprung"
    Cache(folder).put(OTHER, PAYLOAD)
    with diskcache.Cache(str(folder / FORMAT)) as plain:
        plain.set(KEY.digest.encode(), [Trap(sprung), "x" * size])
    cache = Cache(folder)
    assert cache.get(KEY) is None
    with diskcache.Cache(str(folder / FORMAT), disk=BytesDisk) as ours, pytest.raises(TypeError, match="never read"):
        ours.get(KEY.digest.encode())
    assert cache.get_or_make(KEY, lambda: PAYLOAD) == PAYLOAD
    assert cache.get_or_make(KEY, fail) == PAYLOAD
    assert not sprung.exists()


@pytest.mark.parametrize("value", ["text", 1, 1.5, "long text" * 10**4])
def test_a_row_of_another_type_is_a_miss(folder: Path, value: object) -> None:
    Cache(folder).put(OTHER, PAYLOAD)
    with diskcache.Cache(str(folder / FORMAT)) as plain:
        plain.set(KEY.digest.encode(), value)
    assert Cache(folder).get(KEY) is None


@pytest.mark.parametrize("value", ["text", 1, 1.5, None, (b"a",), bytearray(b"a")])
def test_the_disk_stores_bytes_alone(tmp_path: Path, value: object) -> None:
    with diskcache.Cache(str(tmp_path), disk=BytesDisk) as ours:
        with pytest.raises(TypeError, match="expected bytes"):
            ours.set(b"key", value)
        with pytest.raises(TypeError, match="expected bytes"):
            ours.set(value, b"value")
        ours.set(b"key", b"value")
        assert ours.get(b"key") == b"value"
        assert list(ours) == [b"key"]


def test_a_pickled_key_is_refused(tmp_path: Path) -> None:
    with diskcache.Cache(str(tmp_path)) as plain:
        plain.set(("a", "tuple"), b"value")
    with diskcache.Cache(str(tmp_path), disk=BytesDisk) as ours, pytest.raises(TypeError, match="pickled key"):
        list(ours)


def test_a_file_name_planted_in_a_row_deletes_nothing(folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.touch()
    cache = Cache(folder)
    cache.put(KEY, PAYLOAD)
    with closing(sqlite3.connect(database(folder))) as connection:
        connection.execute("UPDATE Cache SET filename = '../../victim'")
        connection.commit()
    assert cache.get(KEY) is None
    cache.put(KEY, PAYLOAD)
    assert Cache(folder).get(KEY) == PAYLOAD
    assert victim.exists()


# The folder


@needs_posix
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_folders_and_files_are_private(tmp_path: Path, umask: int) -> None:
    code = "os.umask(int(sys.argv[2])); Cache(Path(sys.argv[1])).get_or_make(CacheKey(()), lambda: b'x')"
    _, err = finish(start(code, tmp_path / "new" / "cache", umask))
    assert err == ""
    modes = {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.rglob("*") if p.is_dir()}
    assert modes == {0o700}
    modes = {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.rglob("*") if p.is_file()}
    assert modes == {0o600}


@needs_posix
@pytest.mark.parametrize("link", ["", FORMAT, f"{FORMAT}/{DATABASE}"])
def test_a_symbolic_link_is_refused(folder: Path, tmp_path: Path, link: str) -> None:
    Cache(folder).put(OTHER, PAYLOAD)
    target = tmp_path / "target"
    (folder / link).rename(target)
    (folder / link).symlink_to(target)
    before = sorted(target.rglob("*")) if target.is_dir() else target.read_bytes()
    degrades_to_memory(folder, "symbolic link")
    assert before == (sorted(target.rglob("*")) if target.is_dir() else target.read_bytes())


@needs_posix
@pytest.mark.parametrize("name", ["write.lock", f"{KEY.digest}.lock"])
def test_a_lock_that_is_a_symbolic_link_is_not_followed(folder: Path, tmp_path: Path, name: str) -> None:
    Cache(folder).put(OTHER, PAYLOAD)
    (folder / FORMAT / name).unlink(missing_ok=True)
    (folder / FORMAT / name).symlink_to(tmp_path / "target")
    degrades_to_memory(folder, "goes on without")
    assert not (tmp_path / "target").exists()


@needs_posix
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_can_write_is_refused(folder: Path, mode: int) -> None:
    folder.mkdir()
    folder.chmod(mode)
    degrades_to_memory(folder, "written by other users")
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)
    degrades_to_memory(folder, "another user")
    assert list(folder.iterdir()) == []


def test_a_path_that_is_a_file_is_refused(folder: Path) -> None:
    folder.write_bytes(b"mine")
    degrades_to_memory(folder, "not the folder")
    assert folder.read_bytes() == b"mine"


def test_the_current_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    degrades_to_memory(Path(), "not an absolute path")
    degrades_to_memory(tmp_path, "current directory")
    assert list(tmp_path.iterdir()) == []


def test_a_dollar_in_the_path_is_not_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_TEST", "elsewhere")
    degrades_to_memory(tmp_path / "$PYPTO_TEST", "environment variable")
    assert not (tmp_path / "elsewhere").exists()


@needs_posix
@pytest.mark.skipif(sys.platform != "linux", reason="the folder of XDG")
def test_the_default_folder_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    Cache().put(KEY, PAYLOAD)
    assert Cache(tmp_path / "pypto").get(KEY) == PAYLOAD


# Root may write anywhere and has a name, so a child of root turns into another user. That one may be unable to
# read the library's files, so all that it needs is imported before.
AS_USER = """
import platformdirs.unix, tempfile
with tempfile.TemporaryDirectory() as name:
    for _ in range(2):
        Cache(Path(name) / "cache").get_or_make(CacheKey(()), bytes)
user = int(sys.argv[2])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
"""


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root can be a user without a name")
def test_without_home_and_name_calls_are_served(open_folder: Path) -> None:
    code = """
for name in ("HOME", "XDG_CACHE_HOME"):
    os.environ.pop(name, None)
os.chdir(sys.argv[1])
cache = Cache()
print(cache.get_or_make(CacheKey(()), lambda: b"x"), cache.counters.made)
"""
    out, err = finish(start(AS_USER + code, open_folder, 54321))
    assert out == "b'x' 1"
    assert err.count("CacheWarning") == 1
    assert list(open_folder.iterdir()) == []


@needs_posix
def test_a_folder_that_cannot_be_written_is_read(open_folder: Path) -> None:
    home, user = open_folder / "home", os.geteuid() or 65534
    home.mkdir()
    os.chown(home, user, -1)
    stored = finish(start(AS_USER + "Cache(Path(sys.argv[1])).put(CacheKey(()), b'stored')", home / "cache", user))
    for path in (database(home / "cache"), home / "cache" / FORMAT, home / "cache"):
        path.chmod(0o500 if path.is_dir() else 0o400)
    code = """
cache = Cache(Path(sys.argv[1]))
new = CacheKey((("new", ""),))
print(cache.get(CacheKey(())), cache.get_or_make(new, lambda: b"made"), cache.get(new), cache.counters)
"""
    out, err = finish(start(AS_USER + code, home / "cache", user))
    for path in (home / "cache", home / "cache" / FORMAT):
        path.chmod(0o700)
    assert stored == ("", "")
    assert out == "b'stored' b'made' b'made' Counters(hits=2, misses=1, made=1)"
    assert err.count("CacheWarning") == 1


@needs_posix
def test_a_full_disk_loses_neither_the_result_nor_the_cache(folder: Path) -> None:
    Cache(folder).put(KEY, PAYLOAD)
    code = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))
cache = Cache(Path(sys.argv[1]))
big = CacheKey((("big", ""),))
print(len(cache.get_or_make(big, lambda: bytes(2**20))), len(cache.get(big)))
"""
    out, err = finish(start(code, folder))
    assert out == "1048576 1048576"
    assert err.count("CacheWarning") == 1
    assert Cache(folder).get(KEY) == PAYLOAD
    assert Cache(folder).get(CacheKey((("big", ""),))) is None


# Several processes


def test_two_processes_make_one_entry(folder: Path, tmp_path: Path) -> None:
    code = """
def make():
    with open(sys.argv[2], "a") as log:
        log.write("made\\n")
    time.sleep(0.5)
    return b"payload"
cache = Cache(Path(sys.argv[1]), lock_timeout=50)
Path(sys.argv[3]).touch()
while not all(Path(sys.argv[2] + str(i)).exists() for i in range(2)):
    time.sleep(0.001)
print(cache.get_or_make(CacheKey(()), make), cache.counters.made)
"""
    log = tmp_path / "log"
    children = [start(code, folder, log, f"{log}{i}") for i in range(2)]
    outputs = sorted(finish(child) for child in children)
    assert outputs == [("b'payload' 0", ""), ("b'payload' 1", "")]
    assert log.read_text() == "made\n"
    assert sorted(os.listdir(folder / FORMAT)) == [DATABASE, "write.lock"]


def test_many_writers_and_readers_do_not_disturb_each_other(folder: Path) -> None:
    code = """
cache = Cache(Path(sys.argv[1]), lock_timeout=50)
for i in range(10):
    assert cache.get_or_make(CacheKey((("i", str(i)),)), lambda: bytes([i]) * 10**4) == bytes([i]) * 10**4
print(cache.counters.made)
"""
    outputs = [finish(child) for child in [start(code, folder) for _ in range(4)]]
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
    cache = Cache(folder, lock_timeout=5.0)
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
