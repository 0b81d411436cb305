"""Trials 1 to 15: what may happen to the disk cache. A call gives its result, and nothing from a bad entry is run."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pypto.runtime.disk_cache.cache import Cache, CacheKey, unframe
from pypto.runtime.disk_cache.store import DATABASE, FORMAT
from pypto.runtime.disk_cache.tools import entries, key_of
from tests.patience import limit
from tests.reliability import jobs
from tests.reliability.jobs import finish, run, start, write_kernels

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals, owners and permission bits are POSIX")
as_root = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root can do this")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_kernels(tmp_path_factory.mktemp("filled") / "job")
    assert run(folder).right
    return folder


@pytest.fixture
def folder(filled: Path, tmp_path: Path) -> Path:
    """A job, with a cache that its kernels are in."""
    shutil.copytree(filled, tmp_path / "job")
    return tmp_path / "job"


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return write_kernels(tmp_path / "job")


def database(folder: Path) -> Path:
    return folder / "cache" / FORMAT / DATABASE


def rewrite(folder: Path, change: Any) -> None:
    """Replace every entry by what `change` makes of it."""
    with closing(sqlite3.connect(database(folder))) as connection:
        rows = connection.execute("SELECT rowid, value FROM Cache").fetchall()
        for rowid, value in rows:
            connection.execute("UPDATE Cache SET value = ? WHERE rowid = ?", (change(bytes(value)), rowid))
        connection.commit()


def served(said: jobs.Said, warnings: int = 1) -> None:
    assert said.right
    assert len(said.warnings) == warnings, said.warnings


@pytest.mark.parametrize("eighth", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 7)), 7])
def test_trial_01_cut_entries(folder: Path, eighth: int) -> None:
    rewrite(folder, lambda blob: blob[: len(blob) * eighth // 8])
    said = run(folder)
    served(said)
    assert said.made > 0
    again = run(folder)
    served(again, 0)
    assert again.made == 0


def test_trial_02_flipped_bits_never_run(folder: Path) -> None:
    """A thousand, one after the other; and one in the machine code of every entry of a real cache."""
    draw = random.Random(2)
    entry = next(e for e in entries(folder / "cache") if e.name == "scaled")
    key = key_of(entry.blob)
    assert key is not None
    for _ in range(1000):
        bit = draw.randrange(8 * len(entry.blob))
        broken = bytearray(entry.blob)
        broken[bit // 8] ^= 1 << bit % 8
        assert unframe(key.record, bytes(broken)) is None
    rewrite(folder, lambda blob: blob[:-40] + bytes([blob[-40] ^ 4]) + blob[-39:])
    said = run(folder)
    served(said)
    assert said.hits == 0


def test_trial_03_swapped_entries_garbage_and_leftovers(folder: Path) -> None:
    found = [e.blob for e in entries(folder / "cache")]
    assert len(found) > 1
    turned = iter([*found[1:], found[0]])
    rewrite(folder, lambda blob: next(turned))
    (folder / "cache" / FORMAT / f"{DATABASE}-journal").write_bytes(b"left by a process that died")
    (folder / "cache" / FORMAT / "something.tmp").write_bytes(b"left, too")
    said = run(folder)
    served(said)
    assert (said.hits, said.made > 0) == (0, True)
    served(run(folder), 0)
    database(folder).write_bytes(b"garbage" * 999)
    assert run(folder).right
    served(run(folder), 0)


@pytest.mark.slow
def test_trial_04_sixteen_processes_twenty_kernels(new: Path) -> None:
    """One compile for each key, and nothing is left behind."""
    said = [finish(job, 600) for job in [start(new, 20) for _ in range(16)]]
    assert all(s.right and not s.warnings for s in said)
    names = [e.name for e in entries(new / "cache")]
    assert names.count("scaled") == 20
    manifests = names.count("manifest of scaled")  # the first eight versions have one
    assert sum(s.made for s in said) == len(names) - manifests
    assert sorted(p.name for p in (new / "cache" / FORMAT).iterdir()) == [DATABASE, "write.lock"]


@pytest.mark.slow
def test_trial_05_killed_at_any_moment(new: Path) -> None:
    draw = random.Random(5)
    for _ in range(100):
        job = start(new, 3)
        time.sleep(draw.uniform(0.02, 0.6))
        job.kill()
        job.communicate()
    said = run(new, 3)
    assert said.right
    served(run(new, 3), 0)


HOLD = """
import os, signal, sys
from pathlib import Path
from pypto.runtime.disk_cache.store import Store
store = Store(Path(sys.argv[1]), False, 2**20, 10.0)
with store.lock(sys.argv[2]):
    print("held", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.slow
def test_trial_06_a_stopped_process_holds_the_lock(folder: Path) -> None:
    (digest,) = (e.digest for e in entries(folder / "cache") if e.name == "scaled")
    rewrite(folder, lambda blob: blob[:-1])
    env = {**os.environ, "PYTHONPATH": str(jobs.ROOT)}
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(folder / "cache"), digest], env=env, text=True,
                              stdout=subprocess.PIPE)  # fmt: skip
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        said = run(folder)
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    assert said.right
    assert any("another process held" in text for text in said.warnings)
    assert len(said.warnings) == 2  # that, and that an entry was damaged


# Root may write anywhere and has a name, so the job becomes another user. That one may be unable to read the libraries'
# files: all that it needs is loaded by a first launch, whose cache is another, and new.
DEMOTE = """
    import importlib, os, platformdirs.unix
    if os.environ.pop("WARM", None):
        x = np.zeros(4, np.float32)
        kernels.scaled[1](x, x.copy(), 4, BLOCK=4)
        session.cache_clear()
        for name in ("HOME", "XDG_CACHE_HOME", "PYPTO_CACHE_DIR"):
            os.environ.pop(name, None)
        os.environ.update({k[4:]: v for k, v in os.environ.items() if k.startswith("NEW_")})
        os.setgroups([])
        os.setgid(54321)
        os.setuid(54321)
        importlib.reload(kernels)
"""


def run_as_another(folder: Path, count: int, **environment: str) -> jobs.Said:
    text = (jobs.JOB).replace("    right = True\n", DEMOTE + "    right = True\n")
    (folder / "job.py").write_text(text, encoding="utf-8")
    new = {f"NEW_{name}": value for name, value in environment.items()}
    return run(folder, count, cache=folder / f"warm {count}", WARM="1", **new)


def test_trial_07_a_cache_path_that_is_a_file(new: Path) -> None:
    (new / "cache").write_text("mine", encoding="utf-8")
    said = run(new)
    served(said)
    assert "is not the folder it should be" in said.warnings[0]
    assert (new / "cache").read_text(encoding="utf-8") == "mine"


@as_root
@pytest.mark.parametrize("home", [None, "/nonexistent"])
def test_trial_07_no_home_and_no_name(home: str | None, open_job: Path) -> None:
    served(run_as_another(open_job, 1, **({"HOME": home} if home else {})))


@pytest.fixture
def open_job(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A job that every user may read, whose folder nobody else may write."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = write_kernels(Path(name) / "job")
        for path in (Path(name), folder):
            path.chmod(0o755)
        yield folder


@as_root
def test_trial_07_a_folder_that_is_read_only(open_job: Path) -> None:
    cache = open_job / "cache"
    assert run(open_job, 1).right
    for path in (*cache.rglob("*"), cache):
        os.chown(path, 54321, 54321)
    for path in (*cache.rglob("*"), cache):
        path.chmod(0o500 if path.is_dir() else 0o400)
    said = run_as_another(open_job, 1, PYPTO_CACHE_DIR=str(cache))
    served(said, 0)
    assert said.hits > 0
    served(run_as_another(open_job, 2, PYPTO_CACHE_DIR=str(cache)))
    for path in (cache, *cache.rglob("*")):
        path.chmod(0o700)


def test_trial_08_a_full_disk(folder: Path) -> None:
    before = {e.digest for e in entries(folder / "cache")}

    def full() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    said = run(folder, 3, before=full)
    served(said)
    after = list(entries(folder / "cache"))
    assert all(e.is_whole for e in after)
    assert before <= {e.digest for e in after}


@as_root
def test_trial_09_a_folder_of_another_owner(folder: Path) -> None:
    os.chown(folder / "cache", 54321, -1)
    said = run(folder)
    served(said)
    assert "belongs to another user" in said.warnings[0]
    assert said.hits == 0


def test_trial_09_a_folder_that_anyone_may_write(folder: Path) -> None:
    (folder / "cache").chmod(0o777)
    said = run(folder)
    served(said)
    assert "can be written by other users" in said.warnings[0]


@pytest.mark.parametrize("part", ["", FORMAT, f"{FORMAT}/{DATABASE}"])
def test_trial_10_symbolic_links(folder: Path, part: str) -> None:
    path, elsewhere = folder / "cache" / part, folder / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    before = {p: p.stat().st_mtime_ns for p in (elsewhere, *elsewhere.rglob("*"))}
    said = run(folder, 2)
    served(said)
    assert "is a symbolic link" in said.warnings[0]
    assert said.hits == 0
    assert {p: p.stat().st_mtime_ns for p in (elsewhere, *elsewhere.rglob("*"))} == before


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_trial_11_permissions_do_not_depend_on_the_umask(new: Path, umask: int) -> None:
    served(run(new, before=lambda: os.umask(umask) and None), 0)
    for path in (new / "cache", *(new / "cache").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


AUDITED = """
import sys
from pypto.runtime.disk_cache.cache import Cache
seen, asked = [], []
find = Cache._find
def watched(self, key):
    asked.append(1)
    try:
        return find(self, key)
    finally:
        asked.pop()
Cache._find = watched
def hook(event, args):
    if event == "pickle.find_class" or (asked and event in ("exec", "compile", "marshal.loads")):
        seen.append((event, str(args)[:200]))
sys.addaudithook(hook)
"""


def test_trial_12_nothing_is_unpickled_or_executed(folder: Path) -> None:
    """While the cache gives an entry, modules are imported from Python's own files and nothing else is executed."""
    job = (folder / "job.py").read_text(encoding="utf-8")
    (folder / "job.py").write_text(AUDITED + "import sqlite3\n" + job + "\nassert not seen, seen\n", encoding="utf-8")
    said = run(folder)
    served(said, 0)
    assert said.made == 0
    assert said.hits > 0


def test_trial_13_an_entry_of_a_richer_cpu_is_a_miss(new: Path) -> None:
    import platform

    if platform.machine().lower() not in ("x86_64", "amd64"):
        pytest.skip("feature levels are those of x86-64")
    assert run(new, 12).right
    lesser = run(new, 1, PYPTO_LEVEL="x86-64-v2")
    served(lesser, 0)
    assert lesser.made > 0
    again = run(new, 12)
    assert again.hits >= 0.99 * (again.hits + again.misses)


def test_trial_14_a_cache_that_is_removed_meanwhile(new: Path) -> None:
    remove = f"        __import__('shutil').rmtree({str(new / 'cache')!r})\n"
    job = jobs.JOB.replace("        right = right", f"{remove}        right = right")
    (new / "job.py").write_text(job, encoding="utf-8")
    served(run(new, 4), 0)


@as_root
def test_trial_14_a_mount_that_runs_nothing(new: Path) -> None:
    place = new / "mounted"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec,size=16m", "tmpfs", str(place)], check=False).returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        served(run(new, 2, cache=place / "cache"), 0)
        again = run(new, 2, cache=place / "cache")
        served(again, 0)
        assert again.made == 0
    finally:
        subprocess.run(["umount", str(place)], check=True)


READ = """
import sys, warnings
from pathlib import Path
from pypto.runtime.disk_cache.cache import Cache, CacheKey
warnings.simplefilter("error")
cache = Cache(Path(sys.argv[1]), size_limit=2**20)
found = 0
for turn in range(400):
    data = cache.get(CacheKey((("n", str(turn % 200)),)))
    found += data is not None
    assert data in (None, bytes([turn % 200]) * 10_000)
print(found)
"""


def test_trial_15_eviction_under_readers(tmp_path: Path) -> None:
    """Twice as much as the limit allows is stored while others read."""
    size_limit, folder = 2**20, tmp_path / "cache"
    cache = Cache(folder, size_limit=size_limit)
    env = {**os.environ, "PYTHONPATH": str(jobs.ROOT)}
    cache.put(CacheKey((("n", "0"),)), bytes(10_000))
    readers = [subprocess.Popen([sys.executable, "-c", READ, str(folder)], env=env, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE) for _ in range(3)]  # fmt: skip
    for n in range(200):
        cache.put(CacheKey((("n", str(n)),)), bytes([n]) * 10_000)
    for reader in readers:
        _, err = reader.communicate(timeout=limit(60))
        assert reader.returncode == 0, err
    assert (folder / FORMAT / DATABASE).stat().st_size <= 1.1 * size_limit + 2**16
    assert cache.get(CacheKey((("n", "199"),))) is not None
    assert cache.get(CacheKey((("n", "0"),))) is None
    shutil.rmtree(folder)
