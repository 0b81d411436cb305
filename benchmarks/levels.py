"""A forced CPU feature level: ours by its own setting, the peers by theirs, where they have one.

So a machine with AVX-512 measures what one with AVX2 would run. Each library reads its setting as it is loaded, and so
the process starts over with all of them.

torch keeps what it compiles on disk, under keys that leave out the level: it would hand kernels of one level to a
process of another. So each level has a cache folder of its own, and none is the one that other programs use.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

OURS: Final = "PYPTO_LEVEL"
TORCH: Final = "ATEN_CPU_CAPABILITY"
TORCH_CACHE: Final = "TORCHINDUCTOR_CACHE_DIR"
# Of numpy's own loops, by its names of all versions; it skips the names that it does not know.
_NUMPY_V4: Final = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR X86_V4"
_SSE: Final = "+sse4.2,+popcnt,+ssse3"
# The settings that hold each library to a level: its name, and the environment that does it.
PEERS: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = MappingProxyType({
    "x86-64-v2": {
        "oneDNN": {"ONEDNN_MAX_CPU_ISA": "SSE41"},
        "torch": {TORCH: "default"},
        "OpenBLAS": {"OPENBLAS_CORETYPE": "Nehalem"},
        "MKL": {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
        "numba": {"NUMBA_CPU_NAME": "x86-64-v2", "NUMBA_CPU_FEATURES": _SSE},
        "jax": {"XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2"},
        "numpy": {"NPY_DISABLE_CPU_FEATURES": f"AVX2 FMA3 X86_V3 {_NUMPY_V4}"},
    },
    "x86-64-v3": {
        "oneDNN": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
        "torch": {TORCH: "avx2", "FBGEMM_ENABLE_INSTRUCTIONS": "AVX2"},
        "OpenBLAS": {"OPENBLAS_CORETYPE": "Haswell"},
        "MKL": {"MKL_ENABLE_INSTRUCTIONS": "AVX2"},
        "numba": {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": f"{_SSE},+avx,+avx2,+fma,+f16c,+bmi2"},
        "jax": {"XLA_FLAGS": "--xla_cpu_max_isa=AVX2"},
        "numpy": {"NPY_DISABLE_CPU_FEATURES": _NUMPY_V4},
    },
    "x86-64-v4": {
        "oneDNN": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
        "torch": {TORCH: "avx512"},
        "OpenBLAS": {"OPENBLAS_CORETYPE": "SkylakeX"},
        "MKL": {"MKL_ENABLE_INSTRUCTIONS": "AVX512"},
        "numba": {"NUMBA_CPU_NAME": "x86-64-v4",
                  "NUMBA_CPU_FEATURES": f"{_SSE},+avx,+avx2,+fma,+f16c,+bmi2,+avx512f,+avx512bw,+avx512dq,+avx512vl"},
        "jax": {"XLA_FLAGS": "--xla_cpu_max_isa=AVX512"},
        "numpy": {"NPY_DISABLE_CPU_FEATURES": "AVX512_ICL AVX512_SPR"},
    },
})  # fmt: skip
# The C++ compiler asks the host, as do the libraries of ONNX Runtime and of jax's products.
UNFORCED: Final = ("torch.compile", "onnxruntime", "products of jax")


def environment(level: str) -> dict[str, str]:
    """The settings under which a process keeps to a level; those that others have set for a library are replaced.

    Examples
    --------
    >>> environment("x86-64-v3")["ONEDNN_MAX_CPU_ISA"], environment("x86-64-v3")["PYPTO_LEVEL"], list(environment(""))
    ('AVX2', 'x86-64-v3', ['TORCHINDUCTOR_CACHE_DIR'])
    """
    settings = caches(level)
    if not level:
        return settings
    settings[OURS] = level
    for library in PEERS[level].values():
        settings.update(library)
    return settings


def caches(level: str) -> dict[str, str]:
    """The settings that give a level cache folders of its own; without one, what the environment says is a level."""
    from platformdirs import user_cache_path

    by_hand = "-".join(filter(None, (forced_level() or "host", os.environ.get(TORCH, ""))))
    return {TORCH_CACHE: str(user_cache_path("pypto-benchmarks", appauthor=False) / "torch" / (level or by_hand))}


def forced_level() -> str:
    """The level that our kernels are held to in this process; "" is the host's own."""
    return os.environ.get(OURS, "")


def note() -> str:
    """One line about who is held to the level, and who cannot be; "" on the host's own level.

    A library counts as held where the environment has all of its settings.
    """
    level = forced_level()
    if not level:
        return ""
    rows = PEERS.get(level, {})
    held = [name for name, row in rows.items() if all(os.environ.get(key) == value for key, value in row.items())]
    others = [*(name for name in rows if name not in held), *UNFORCED]
    who = ", ".join(["ours", *held])
    return f"held to {level}: {who}; not held, so perhaps with wider vectors: {', '.join(others)}"
