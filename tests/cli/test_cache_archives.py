"""Archives of the disk cache: a second machine starts warm, and takes nothing that is damaged, foreign or hostile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from pypto.cli.caching import machine
from pypto.runtime.disk_cache import archive as archives
from pypto.runtime.disk_cache.archive import HEAD, Imported, Machine
from pypto.runtime.disk_cache.cache import Cache, CacheKey
from pypto.runtime.disk_cache.tools import CacheToolError, entries
from tests.cli.commands import kernels
from tests.patience import limit
from tests.runtime.caching import KEY, PAYLOAD, ROOT

HERE = Machine({"pypto": "1", "llvmlite": "2"}, ("CpuTarget(cpu='znver4', level='host')",))
WARM = """
import sys
from pathlib import Path
from pypto.backends.cpu.runtime.engine import Engine
from pypto.cli.caching import folder, machine
from pypto.compile import session
from pypto.runtime.disk_cache import archive

compiled, compile = [], Engine.compile
Engine.compile = lambda self, text, timings=None: compiled.append(text) or compile(self, text, timings)
command, file = sys.argv[1:]
if command == "import":
    assert archive.load(session().cache, Path(file), machine()).stored > 0
import kernels
for function, values in ((kernels.add, {"BLOCK": 256, "grid": 4}), (kernels.tuned, {})):
    given = {**kernels.tuned_args(), **values}
    grid = given.pop("grid")
    function[grid](**given)
    assert (given["out"] == 2).all()
if command == "export":
    archive.export(folder(), Path(file), machine())
print(len(compiled), "compiled,", len(kernels.tuned.tuning_report().sections), "searches")
"""


def run(place: Path, cache: str, command: str) -> str:
    env = {**os.environ, "PYPTO_CACHE_DIR": str(place / cache), "PYTHONPATH": f"{ROOT}{os.pathsep}{place}"}
    call = [sys.executable, "-W", "ignore", "-c", WARM, command, str(place / "warm.zip")]
    done = subprocess.run(call, env=env, capture_output=True, text=True, check=False, timeout=limit(120))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_second_process_with_an_imported_cache_compiles_and_tunes_nothing(tmp_path: Path) -> None:
    kernels(tmp_path)
    first = run(tmp_path, "first", "export")
    assert not first.startswith("0 compiled")
    assert first.endswith("1 searches")
    assert run(tmp_path, "second", "import") == "0 compiled, 0 searches"


def of_key(folder: Path, key: CacheKey = KEY) -> bytes:
    """The bytes of an entry."""
    Cache(folder).put(key, PAYLOAD)
    return next(e.blob for e in entries(folder) if e.digest == key.digest)


def archive_of(folder: Path, files: dict[str, bytes], head: object = None) -> Path:
    path = folder / "some.zip"
    known = {"format": 1, "versions": HERE.versions, "targets": HERE.targets}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr(HEAD, json.dumps(known if head is None else head))
        for name, blob in files.items():
            out.writestr(name, blob)
    return path


def test_what_is_no_entry_is_refused(tmp_path: Path) -> None:
    blob, cache = of_key(tmp_path / "source"), Cache(tmp_path / "cache")
    files = {
        "../../outside": blob, "/absolute": blob, "f" * 64: blob, KEY.digest.upper(): blob, "a" * 64: b"junk",
        KEY.digest: blob[:-1],
    }  # fmt: skip
    assert archives.load(cache, archive_of(tmp_path, files), HERE) == Imported(0, 6, 0)
    assert not (tmp_path / "cache").exists()
    assert not (tmp_path.parent / "outside").exists()
    assert archives.load(cache, archive_of(tmp_path, {KEY.digest: blob}), HERE) == Imported(1, 0, 0)


def test_entries_of_other_cpus_stay_out(tmp_path: Path) -> None:
    other = CacheKey((("ir", "kernel @k()"), ("target", "CpuTarget(cpu='skylake', level='host')")))
    chip = CacheKey((("ir", "kernel @k()"), ("target", "AscendTarget(name='910b')")))
    files = {key.digest: of_key(tmp_path / "source", key) for key in (other, chip, KEY)}
    cache = Cache(tmp_path / "cache")
    assert archives.load(cache, archive_of(tmp_path, files), HERE) == Imported(2, 0, 1)
    assert cache.get(other) is None
    assert cache.get(chip) == PAYLOAD


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        ({"versions": {"pypto": "0.9", "llvmlite": "2"}}, r"was made with pypto 0\.9, and this is pypto 1"),
        ({"versions": {"pypto": "1"}}, "was made with llvmlite unknown, and this is llvmlite 2"),
        ({"targets": ["CpuTarget(cpu='skylake-avx512', level='x86-64-v4')"]},
         "was made for CPU skylake-avx512, level x86-64-v4, and this is CPU znver4, level host"),
        ({"format": 2}, "it has no pypto-cache.json that this version"),
        ({"versions": [1]}, "it has no pypto-cache.json that this version"),
        ({"targets": "all"}, "it has no pypto-cache.json that this version"),
    ],
)  # fmt: skip
def test_archives_of_other_versions_and_cpus_are_refused_by_name(
    tmp_path: Path, head: dict[str, object], problem: str
) -> None:
    known = {"format": 1, "versions": HERE.versions, "targets": HERE.targets, **head}
    with pytest.raises(CacheToolError, match=problem):
        archives.load(Cache(tmp_path / "cache"), archive_of(tmp_path, {}, known), HERE)


def test_archives_that_are_none_or_too_large_are_refused(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", size_limit=1 << 20)
    large = archive_of(tmp_path, {"b" * 64: bytes(2 << 20)})
    assert large.stat().st_size < 1 << 16
    with pytest.raises(CacheToolError, match=r"unpacks to 2,097,\d+ bytes, and the cache has at most 1,048,576"):
        archives.load(cache, large, HERE)
    with pytest.raises(CacheToolError, match=r"is another file: its SHA-256 is [0-9a-f]{64}, not 1234"):
        archives.load(cache, large, HERE, "1234")
    text = tmp_path / "text.zip"
    text.write_text("no archive", encoding="utf-8")
    for broken in (text, tmp_path / "missing.zip"):
        with pytest.raises(CacheToolError, match="is no archive of a cache"):
            archives.load(cache, broken, HERE)
    with pytest.raises(CacheToolError, match=r"it has no pypto-cache\.json"):
        archives.load(cache, archive_of(tmp_path, {}, [1]), HERE)
    assert not (tmp_path / "cache").exists()


def test_an_archive_says_what_it_is_for(tmp_path: Path) -> None:
    here = machine()
    target = CacheKey((("ir", "kernel @k()"), ("target", here.targets[0])))
    Cache(tmp_path / "cache").put(target, PAYLOAD)
    count, digest = archives.export(tmp_path / "cache", tmp_path / "a.zip", here)
    assert (count, len(digest)) == (1, 64)
    other = Cache(tmp_path / "other")
    assert archives.load(other, tmp_path / "a.zip", here, digest.upper()) == Imported(1, 0, 0)
    assert other.get(target) == PAYLOAD
    newer = replace(here, versions={**here.versions, "compiler": "1"})
    with pytest.raises(CacheToolError, match=r"was made with compiler [0-9a-f]{16}, and this is compiler 1"):
        archives.load(other, tmp_path / "a.zip", newer)
