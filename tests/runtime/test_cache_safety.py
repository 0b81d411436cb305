"""The disk cache: what it refuses, and that a call never fails because of it."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path

import diskcache  # type: ignore[import-untyped]  # it ships no types
import pytest

from pypto.runtime.disk_cache.cache import Cache, CacheKey
from pypto.runtime.disk_cache.disk import BytesDisk
from pypto.runtime.disk_cache.store import DATABASE, FORMAT
from tests.runtime.caching import KEY, OTHER, PAYLOAD, database, degrades_to_memory, fail, finish, needs_posix, start

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
