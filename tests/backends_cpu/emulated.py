"""An aarch64 machine on any other: kernels are compiled for it, linked with a small runner, and run in an emulator.

The arrays of a launch lie in a file that both this process and the emulated one map at the same address, so that the
argument block of an ordinary launch holds there too.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pypto.backends.base import FIXED_SLOTS, PAGE, Artifact
from pypto.backends.cpu.backend import CpuBackend
from pypto.backends.cpu.runtime.engine import Engine
from pypto.backends.cpu.target import CpuTarget, describe
from tests.patience import limit

Array = np.ndarray[Any, Any]
COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
ARENA, ARENA_BYTES, ALIGNMENT = 0x2000_0000_0000, 256 << 20, 64
SCRATCH_SLOT = 3
_READ_WRITE, _SHARED_FIXED = 3, 0x01 | 0x10_0000  # PROT_*; MAP_SHARED and MAP_FIXED_NOREPLACE

RUNNER = """
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

void KERNEL(int64_t first, int64_t last, int64_t thread, void *args);

int main(int argc, char **argv) {
    int file = open(argv[1], O_RDWR);
    void *arena = (void *)ARENA;
    if (argc != 4 || mmap(arena, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != arena) return 3;
    KERNEL(0, atoll(argv[2]), 0, (void *)atoll(argv[3]));
    return 0;
}
"""


def neon_target() -> CpuTarget:
    """A common server core: NEON, 128 bits wide, without SVE."""
    return describe("cortex-a76", "", "host", "aarch64-unknown-linux-gnu", {"neon"})


def can_emulate() -> bool:
    return all(shutil.which(tool) for tool in (COMPILER, EMULATOR))


class CrossEngine(Engine):
    """Compiles for another machine; nothing can be loaded."""

    def ready(self) -> Any:
        import llvmlite.binding as llvm

        if self.machine is None:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
            self.machine = self.new_machine(llvm)
        return llvm


@dataclass
class Arena:
    """Memory at a fixed address, backed by a file; `with` makes and frees it."""

    used: int = 0

    def __enter__(self) -> Arena:
        self.file = tempfile.NamedTemporaryFile()  # closed by __exit__
        self.file.truncate(ARENA_BYTES)
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.mmap.restype = ctypes.c_void_p
        self.libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_int64)
        self.libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        at = self.libc.mmap(ARENA, ARENA_BYTES, _READ_WRITE, _SHARED_FIXED, self.file.fileno(), 0)
        assert at == ARENA, os.strerror(ctypes.get_errno())
        return self

    def __exit__(self, *failure: object) -> None:
        self.libc.munmap(ARENA, ARENA_BYTES)
        self.file.close()

    def clear(self) -> None:
        """Forget all that was taken, and spoil it."""
        ctypes.memset(ARENA, 0xA5, self.used)
        self.used = 0

    def take(self, size: int) -> int:
        """The address of fresh memory."""
        at = ARENA + self.used
        self.used += size + -size % ALIGNMENT + ALIGNMENT
        assert self.used <= ARENA_BYTES, "the arena is full"
        return at

    def holding(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """The arrays, copied into the arena: those that share memory share it there."""
        owners = {id(root): root for root in map(owner, arrays.values())}
        moved = {key: self.copy(root) - low(root) for key, root in owners.items()}
        return {name: placed(x, x.ctypes.data + moved[id(owner(x))]) for name, x in arrays.items()}

    def copy(self, array: Array) -> int:
        size = np.lib.array_utils.byte_bounds(array)[1] - low(array)
        at = self.take(size)
        ctypes.memmove(at, low(array), size)
        return at


def low(array: Array) -> int:
    return int(np.lib.array_utils.byte_bounds(array)[0])


def owner(array: Array) -> Array:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def placed(array: Array, address: int) -> Array:
    """An array like another one, at an address."""
    first, last = np.lib.array_utils.byte_bounds(array)
    memory = (ctypes.c_uint8 * (last - first)).from_address(address - (array.ctypes.data - first))
    flat = np.frombuffer(memory, np.uint8) if last > first else np.empty(0, np.uint8)
    return np.ndarray(array.shape, array.dtype, flat, array.ctypes.data - first, array.strides)


@dataclass
class Program:
    """A linked executable for the emulator."""

    path: Path
    scratch_bytes: int
    slot_bytes: int
    address: int = 0


@dataclass(eq=False)
class EmulatedBackend(CpuBackend):
    """The CPU backend whose kernels run in the emulator. `folder` takes what is linked."""

    folder: Path = field(kw_only=True)
    arena: Arena = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.engine = CrossEngine(self.target)

    def located(self, artifact: Artifact, executable: Any, place: str) -> None:
        """Note nothing: a crash is one of the emulator."""

    def load(self, artifact: Artifact) -> Any:
        path = Path(tempfile.mkdtemp(dir=self.folder))
        (path / "kernel.o").write_bytes(artifact.code)
        (path / "runner.c").write_text(RUNNER, encoding="ascii")
        facts = (f"-DKERNEL={artifact.name}", f"-DARENA={ARENA}L", f"-DBYTES={ARENA_BYTES}L")
        subprocess.run([COMPILER, "-O1", "-static", *facts, "runner.c", "kernel.o", "-o", "run"], cwd=path, check=True)
        return Program(path / "run", artifact.scratch_bytes, 8 * (FIXED_SLOTS + len(artifact.abi)))

    def run(self, executable: Any, args: int, programs: int, cost: float, threads: int) -> None:
        block = self.arena.take(executable.slot_bytes)
        ctypes.memmove(block, args, executable.slot_bytes)
        scratch = self.arena.take(executable.scratch_bytes + PAGE)
        ctypes.c_int64.from_address(block + 8 * SCRATCH_SLOT).value = scratch + -scratch % PAGE
        command = [EMULATOR, executable.path, self.arena.file.name, str(programs), str(block)]
        subprocess.run(command, check=True, timeout=limit(120))
