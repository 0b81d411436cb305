"""Archives of the disk cache: what a program's kernels became, to be shipped with it, so that a server starts warm.

An archive is a zip file. Its first file says for which versions and CPUs the entries are; each other file is an entry
under the digest of its key. Nothing is unpacked: an entry goes into the database of the cache after its checksum, its
key and its target were compared. Entries are machine code, and a checksum that an archive has of itself proves no
origin, so an import can also be given the SHA-256 of the file, as the export said it.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NamedTuple

from pypto.runtime.disk_cache.cache import Cache, unframe
from pypto.runtime.disk_cache.tools import CacheToolError, entries, key_of

HEAD: Final = "pypto-cache.json"
_FORMAT: Final = 1
_MOST_HEAD: Final = 1 << 20  # bytes of the first file
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_FIELD: Final = re.compile(r"(\w+)=('[^']*'|\([^()]*\)|[^,()]+)")
_NAMED: Final = ("cpu", "level", "triple", "caches")  # fields of a target that its name has


@dataclass(frozen=True)
class Machine:
    """What entries hold for: versions by name, and CPU targets as they stand in keys."""

    versions: Mapping[str, str]
    targets: tuple[str, ...]


class Imported(NamedTuple):
    """How many entries were stored, were refused because they are damaged or no entries, and are for other CPUs."""

    stored: int
    refused: int
    others: int


def export(folder: Path, archive: Path, machine: Machine) -> tuple[int, str]:
    """Writes all whole entries to a zip file; gives how many, and the SHA-256 of the file."""
    complete = [entry for entry in entries(folder) if entry.is_whole]
    targets = {str(entry.parts["target"]) for entry in complete if entry.parts and "target" in entry.parts}
    head = {"format": _FORMAT, **asdict(Machine(dict(machine.versions), tuple(sorted(targets))))}
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr(zipfile.ZipInfo(HEAD), json.dumps(head, indent=1))
        for entry in complete:
            out.writestr(zipfile.ZipInfo(entry.digest), entry.blob)
    return len(complete), digest_of(archive)


def digest_of(archive: Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal."""
    with archive.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load(cache: Cache, archive: Path, machine: Machine, sha256: str = "") -> Imported:
    """Takes the entries of an archive into the cache, if they are for these versions and for a CPU like this one.

    An entry is machine code. Import archives only from people whose code you would run.

    Raises
    ------
    CacheToolError
        When the file is another one than its SHA-256 says, no archive, of other versions or CPUs, or too large.
    """
    try:
        if sha256 and digest_of(archive) != sha256.lower():
            raise CacheToolError(f"{archive} is another file: its SHA-256 is {digest_of(archive)}, not {sha256}")
        with zipfile.ZipFile(archive) as file:
            check(head_of(file, archive), machine, archive)
            check_size(file, cache.size_limit, archive)
            return store(cache, file, machine)
    except (OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:  # encrypted, or packed otherwise
        raise CacheToolError(f"{archive} is no archive of a cache: {error}") from None


def head_of(file: zipfile.ZipFile, archive: Path) -> Machine:
    """Returns what the first file says that the entries are for."""
    with suppress(KeyError, ValueError, TypeError):
        with file.open(HEAD) as stream:
            head = json.loads(stream.read(_MOST_HEAD))
        versions, targets = head["versions"], head["targets"]
        lists = isinstance(versions, dict) and isinstance(targets, list)
        if lists and head["format"] == _FORMAT and all(isinstance(x, str) for x in (*versions.values(), *targets)):
            return Machine(versions, tuple(targets))
    raise CacheToolError(f"{archive} is no archive of a cache: it has no {HEAD} that this version of pypto can read")


def check(head: Machine, here: Machine, archive: Path) -> None:
    """Refuses entries of other versions, or all of whose targets are other ones than those of this machine."""
    for name, version in here.versions.items():
        if head.versions.get(name) != version:
            theirs = head.versions.get(name, "unknown")
            way = "no kernel here would find its entries; export the cache again, where the same version is installed"
            raise CacheToolError(f"{archive} was made with {name} {theirs}, and this is {name} {version}: {way}")
    if head.targets and not any(runs_here(target, here) for target in head.targets):
        made_for, ours = " or ".join(map(name_of, head.targets)), name_of(here.targets[0])
        way = "export it on such a CPU, or make and use it with PYPTO_LEVEL set to a level that both have"
        raise CacheToolError(f"{archive} was made for {made_for}, and this is {ours}: {way}")


def check_size(file: zipfile.ZipFile, limit: int, archive: Path) -> None:
    """Refuses an archive whose entries take more than the cache may have, before any of them is unpacked."""
    size = sum(info.file_size for info in file.infolist())
    if size > limit:
        raise CacheToolError(f"{archive} unpacks to {size:,} bytes, and the cache has at most {limit:,}")


def runs_here(target: str, here: Machine) -> bool:
    """Whether code for a target is used on this machine. That of chips is for whoever has one."""
    kind = target.partition("(")[0]
    return target in here.targets or all(x.partition("(")[0] != kind for x in here.targets)


def name_of(target: str) -> str:
    """Returns the name of a target, for a sentence.

    Examples
    --------
    >>> name_of("CpuTarget(vector_bytes=64, cpu='znver4', level='host')")
    'CPU znver4, level host'
    """
    fields = {name: value.strip("'") for name, value in _FIELD.findall(target) if name in _NAMED}
    cpu, level = fields.pop("cpu", target[:40]), fields.pop("level", "")
    return ", ".join([f"CPU {cpu}", *([f"level {level}"] if level else []), *(f"{n} {x}" for n, x in fields.items())])


def store(cache: Cache, file: zipfile.ZipFile, here: Machine) -> Imported:
    """Puts the entries that are whole and for this machine into the cache."""
    counts = {"stored": 0, "refused": 0, "others": 0}
    for name, blob in blobs(file):
        key = key_of(blob)
        payload = unframe(key.record, blob) if key else None
        if key is None or payload is None or key.digest != name:
            counts["refused"] += 1
        elif not runs_here(str(dict(key.parts).get("target", here.targets[0])), here):
            counts["others"] += 1
        else:
            cache.put(key, payload)
            counts["stored"] += 1
    return Imported(**counts)


def blobs(file: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    """Yields the files of an archive but the first, with nothing for those that cannot be entries."""
    for info in file.infolist():
        if info.filename == HEAD:
            continue
        blob = b""
        if _DIGEST.fullmatch(info.filename):
            with suppress(zipfile.BadZipFile), file.open(info) as stream:
                blob = stream.read(info.file_size + 1)
        yield info.filename, blob
