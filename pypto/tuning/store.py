"""Stored winners of tuning, in the disk cache and in JSON files beside the user's code.

Both are hints. A stored winner is used only if it is one of the configurations to try, so a wrong entry can make a
launch slower, but never incorrect.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pypto.errors import PyptoError
from pypto.tuning.config import Config, name_of
from pypto.tuning.model import PREDICTED

FORMAT: Final = "pypto tuning 1"
_CHECKED: Final = "pypto tuning 2"  # of the disk cache: before, a winner might cover a part of the work only
Key = tuple[Any, ...]
_FIELDS: Final = ("kernel", "target", "key", "config")


class TuningFileError(PyptoError, ValueError):
    """A file of tuning results cannot be used; the message says why."""


@dataclass
class Winners:
    """The winners of one kernel from files and from the disk cache, which needs the kernel's source."""

    kernel: str
    source: str
    configs: Sequence[Config]
    parameters: Container[str] = ()
    from_files: dict[tuple[str, str], str] = field(default_factory=dict)

    def find(self, key: Key, chip: str = "") -> Config | None:
        """Return the stored winner for a key on this machine or on a chip."""
        name = self.from_files.get((machine(chip)[0], repr(key))) or self.stored(key, chip)
        return None if name is None else next((c for c in self.configs if self.name_of(c) == name), None)

    def name_of(self, config: Config) -> str:
        return name_of(config, self.parameters)

    def stored(self, key: Key, chip: str = "") -> str | None:
        cache_key = self.cache_key(key, chip)
        data = None if cache_key is None else self.cache.get(cache_key)
        try:
            return None if data is None else str(json.loads(data)["config"])
        except (ValueError, KeyError, TypeError):
            return None

    def keep(self, key: Key, winner: Config, ms: float, chip: str = "") -> None:
        cache_key = self.cache_key(key, chip)
        if cache_key is not None:
            self.cache.put(cache_key, json.dumps({"config": self.name_of(winner), "ms": ms}).encode())

    @property
    def cache(self) -> Any:
        from pypto.compile import session

        return session().cache

    def cache_key(self, key: Key, chip: str = "") -> Any:
        """Return the disk cache key of a winner, or None without a source."""
        from pypto.runtime.disk_cache.cache import CacheKey

        if not self.source:
            return None
        names = "\n".join(sorted(map(self.name_of, self.configs)))
        parts = {"tuning": _CHECKED, "part": f"tuning of {self.kernel}", "source": self.source, "configs": names}
        return CacheKey((*parts.items(), ("machine", "\n".join(machine(chip))), ("key", repr(key))))

    def read(self, path: str | Path) -> int:
        """Read the winners of a file, and return how many are for this kernel.

        Raises
        ------
        TuningFileError
            When the file is not one that `write` made.
        """
        rows = rows_of(Path(path))
        mine = [row for row in rows if row["kernel"] == self.kernel]
        self.from_files.update({(row["target"], row["key"]): row["config"] for row in mine})
        return len(mine)


def rows_of(path: Path) -> list[dict[str, str]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        rows = content["winners"] if content["format"] == FORMAT else None
        if rows is None or not all(isinstance(row[name], str) for row in rows for name in _FIELDS):
            raise TuningFileError(f"{path} is of another version; tune again and export it")
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, TuningFileError):
            raise
        raise TuningFileError(f"{path} is no file of tuning results: {error}; write one with `export_tuning`") from None
    return list(rows)


def write(path: str | Path, kernel: str, chosen: dict[tuple[str, Key], tuple[str, float]]) -> int:
    """Write winners to a file, keep its winners of other kernels and machines, and return how many it has."""
    file = Path(path)
    new = [{"kernel": kernel, "target": target, "key": repr(key), "config": name, "ms": f"{ms:.4g}"}
           for (target, key), (name, ms) in chosen.items()]  # fmt: skip
    replaced = {(row["kernel"], row["target"], row["key"]) for row in new}
    old = rows_of(file) if file.exists() else []
    remaining = [row for row in old if (row["kernel"], row["target"], row["key"]) not in replaced]
    rows = sorted((*remaining, *new), key=lambda row: (row["kernel"], row["target"], row["key"]))
    text = json.dumps({"format": FORMAT, "winners": rows}, indent=1, sort_keys=True)
    scratch = file.with_name(file.name + ".part")
    scratch.write_text(text + "\n", encoding="utf-8")
    scratch.replace(file)
    return len(rows)


def machine(chip: str = "") -> tuple[str, ...]:
    """Return the machine or chip that times belong to: the target's name, then every fact that they depend on."""
    from pypto.compile import compiler_hash, session
    from pypto.options import KernelOptions

    if chip:
        backend = session().devices.chip(chip.removesuffix(PREDICTED)).backend
        return chip, f"compiler={compiler_hash(backend)}"
    shared = session()
    backend = shared.backend(KernelOptions())
    target = backend.target
    name = f"cpu {getattr(target, 'cpu', '')} x{shared.threads}"
    return name, *(f"{part}={value}" for part, value in backend.key_parts())


def source_of(function: Any) -> str:
    """Hash the kernel's source; the result is empty if the source is unknown."""
    try:
        return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()
    except (OSError, TypeError):
        return ""
