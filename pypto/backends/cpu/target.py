"""CPU targets: facts about the machine that code is compiled for, from LLVM's knowledge of the host."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pypto._platform import may_use_tiles
from pypto.backends.cpu.host import Remember, host_cpu
from pypto.errors import OptionError
from pypto.ops.target import TargetConstants
from pypto.passes.target_facts import TargetFacts

# Features that each x86-64 level from v2 on adds, of those that the backend uses.
_LEVEL_FEATURES: Final = ("sse4.2 popcnt ssse3", "avx2 fma f16c bmi2", "avx512f avx512bw avx512dq avx512vl avx512cd")
_LEVELS: Final = MappingProxyType({f"x86-64-v{n + 2}": " ".join(_LEVEL_FEATURES[: n + 1]).split() for n in range(3)})
_SYSFS_CACHES: Final = "/sys/devices/system/cpu/cpu0/cache"
_LAST_LEVEL_SHARE: Final = 16 << 20  # of the last-level cache, for each core: few chips have more
# Others take two cycles for a register of bfloat16 pairs, which is the time of four registers of float32.
_FAST_BF16_DOT: Final = ("znver", "cooperlake")
_AMX_FEATURES: Final = frozenset({"amx-tile", "amx-bf16", "amx-int8"})


@dataclass(frozen=True, slots=True)
class CpuTarget(TargetFacts):
    """Facts about a CPU, beside those that passes on Tile IR ask for."""

    cpu: str  # as LLVM names it
    features: str
    level: str  # the feature level that was forced, or host
    triple: str
    store_bytes: int  # of an unaligned store; may be less than a register
    # Whether masked loads and stores cost as much as plain ones. With AVX2, those of bytes become branches, and on many
    # processors every masked store is slow.
    has_fast_masks: bool
    has_fma: bool
    has_half: bool
    has_round: bool
    has_scalef: bool
    attributes: str
    contract: str = ""  # flag of arithmetic that may become FMA

    @property
    def constants(self) -> TargetConstants:
        """What kernels may read of any machine with these features."""
        return TargetConstants(name="cpu", vector_bytes=self.vector_bytes, has_exp2=True)

    @property
    def registers_and_caches(self) -> str:
        """What the blocking of matrix products is computed from, as text."""
        first, second = (size >> 10 for size in self.caches[:2])
        vectors = f"{self.registers} registers of {8 * self.vector_bytes} bits"
        return f"{vectors}, caches of {first:,} and {second:,} KiB"


def host_target(level: str | None = None, fast_math: bool = False, remember: Remember | None = None) -> CpuTarget:
    """The host, or the host held to a feature level (for tests and for binaries that move).

    With `fast_math`, products and sums may be contracted.

    Raises
    ------
    OptionError
        When the level is unknown or the host lacks some of it.
    """
    return replace(detect_target(level, remember), contract=" contract" * fast_math)


def detect_target(level: str | None, remember: Remember | None = None) -> CpuTarget:
    """The host, or the host held to a feature level."""
    host = host_cpu(remember)
    if level in (None, "", "host"):
        return describe(host.name, host.features, "host", host.triple, host.present)
    if level not in _LEVELS or platform.machine().lower() not in ("x86_64", "amd64"):
        choices = f"known are host, {', '.join(_LEVELS)}"
        raise OptionError(f"unknown feature level {level!r} on {platform.machine()}; {choices}")
    missing = [f for f in _LEVELS[level] if f not in host.present]
    if missing:
        raise OptionError(f"this CPU has no {', '.join(missing)}, so {level} code cannot run on it; choose a lower one")
    return describe(level, "", level, host.triple, frozenset(_LEVELS[level]))


def level_target(level: str) -> CpuTarget:
    """A feature level, whether the host has it or not; an empty one is the baseline of the host's architecture."""
    import llvmlite.binding as llvm

    triple = llvm.get_process_triple()
    return describe(level or "generic", "", level or "baseline", triple, frozenset(_LEVELS.get(level, ())))


def describe(cpu: str, features: str, level: str, triple: str, present: frozenset[str]) -> CpuTarget:
    """The facts that follow from a CPU's features."""
    arm = triple.startswith(("aarch64", "arm64"))
    has_avx512 = "avx512f" in present and "avx512bw" in present
    vector_bytes = 64 if has_avx512 else 32 if "avx2" in present else 16
    return CpuTarget(
        cpu=cpu,
        features=features,
        level=level,
        triple=triple,
        vector_bytes=vector_bytes,
        store_bytes=32 if has_avx512 and not cpu.startswith("znver") else vector_bytes,
        has_fast_masks=has_avx512,
        registers=32 if has_avx512 or arm else 16,
        has_fma=arm or "fma" in present,
        has_half=arm or "f16c" in present,
        has_round=arm or "sse4.1" in present or "sse4.2" in present,
        has_scalef=has_avx512 and "avx512vl" in present and "avx512dq" in present,
        has_bf16_dot="avx512bf16" in present and cpu.startswith(_FAST_BF16_DOT),
        has_bf16_round=has_avx512 and "avx512bf16" in present,
        int8_bytes=4 if arm else 1 if present & {"avx512vnni", "avxvnni"} else 2,
        has_amx=has_avx512 and present >= _AMX_FEATURES and may_use_tiles(),
        attributes='"prefer-vector-width"="512"' if has_avx512 else "",
        caches=cache_bytes(),
    )


def cache_bytes() -> tuple[int, int, int]:
    """Bytes of the data caches, from Linux; usual sizes elsewhere.

    A virtual machine sees the last-level cache of the whole chip, of which its few cores have a share.
    """
    files = (Path(_SYSFS_CACHES, f"index{n}", "size") for n in (0, 2, 3))  # 1 holds instructions
    texts = (file.read_text(encoding="utf-8").strip() for file in files if file.exists())
    sizes = [int(s[:-1]) << 10 for s in texts if s.endswith("K")] or [32 << 10, 1 << 20, 32 << 20]
    return sizes[0], sizes[:2][-1], min(sizes[-1], _LAST_LEVEL_SHARE * (os.cpu_count() or 1))
