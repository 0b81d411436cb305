"""The CPU of this process, as LLVM knows it, and kept on disk: to ask LLVM means to import it."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

Remember = Callable[[tuple[tuple[str, str], ...], Callable[[], bytes]], bytes]  # what a key stands for, made once
_CPUINFO: Final = Path("/proc/cpuinfo")
# Lines about a CPU that say which kind of it this is; others say which one, or how fast it runs just now.
_KINDS: Final = ("vendor_id", "cpu family", "model", "model name", "stepping", "microcode", "flags", "Features",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Host:
    """What LLVM says of the CPU."""

    name: str
    features: str  # as LLVM takes them
    present: frozenset[str]
    triple: str


def ask_llvm() -> Host:
    """The CPU of this process."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    present = frozenset(name for name, is_present in features.items() if is_present)
    return Host(llvm.get_host_cpu_name(), features.flatten(), present, llvm.get_process_triple())


def host_cpu(remember: Remember | None = None) -> Host:
    """The CPU of this process, from disk where it was asked for before."""
    kind = cpu_kind()
    if remember is None or not kind:
        return ask_llvm()
    import llvmlite

    key = ("host", f"{sys.platform} {platform.machine()}"), ("cpu", kind), ("llvmlite", llvmlite.__version__)
    row = json.loads(remember(key, lambda: to_bytes(ask_llvm())))
    return Host(row["name"], row["features"], frozenset(row["present"]), row["triple"])


def to_bytes(host: Host) -> bytes:
    """A host as JSON."""
    row = {"name": host.name, "features": host.features, "present": sorted(host.present), "triple": host.triple}
    return json.dumps(row).encode()


def cpu_kind(path: Path = _CPUINFO) -> str:
    """What Linux says of the kind of the first CPU; empty elsewhere. Only the head of the file is read."""
    lines = []
    with suppress(OSError), path.open(encoding="utf-8") as file:
        for line in file:
            if not line.strip():
                break
            lines.append(line)
    return "".join(line for line in lines if line.partition(":")[0].strip() in _KINDS)
