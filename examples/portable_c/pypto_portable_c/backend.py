"""The backend: C text, the system's compiler, and a call of what it made."""

from __future__ import annotations

import ctypes
import functools
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pypto.backends.base import Artifact, Backend, Show, timed
from pypto.ir.core import Function
from pypto.ops.target import TargetConstants
from pypto.passes import optimize
from pypto_portable_c.errors import NoCompiler
from pypto_portable_c.lower import lower

# -fwrapv: integers wrap as the language says. -ffp-contract=off: a product and a sum are rounded one by one.
FLAGS: Final = ("-std=c11", "-O2", "-fPIC", "-shared", "-fwrapv", "-ffp-contract=off", "-w")
_COST: Final = 1000.0  # nanoseconds of a program; launches are serial, so nothing depends on it


@dataclass(frozen=True)
class Target:
    """What is compiled for; its text is part of the cache key."""

    name: str = "portable-c"


@dataclass(eq=False)
class PortableCBackend(Backend):
    target: Target
    name: str = "portable-c"

    @property
    def constants(self) -> TargetConstants:
        return TargetConstants(name=self.name, cores=1)  # launches are serial

    def key_parts(self) -> tuple[tuple[str, str], ...]:
        return ("target", repr(self.target)), ("compiler", version_of(" ".join(compiler()))), ("flags", " ".join(FLAGS))

    def compile(self, function: Function, timings: dict[str, float]) -> Artifact:
        with timed(timings, "codegen"):
            name, abi, text = lower(function)
        with timed(timings, "cc"):
            code = compiled(text, name)
        return Artifact(name, abi, 0, _COST, code)

    def load(self, artifact: Artifact) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernel.so"
            path.write_bytes(artifact.code)
            call = ctypes.CDLL(str(path))[artifact.name]  # it stays loaded when the file is gone
        call.argtypes, call.restype = [ctypes.c_void_p], ctypes.c_int
        return call

    def run(self, executable: Any, args: int, programs: int, cost: float, threads: int) -> None:
        if executable(args):
            raise MemoryError("portable-c found no memory for the tiles of a kernel")

    @property
    def levels(self) -> Mapping[str, Show]:
        return MappingProxyType({"c": lambda function, artifact, places: lower(optimize(function))[2]})


def compiler() -> list[str]:
    """The command that ``CC`` names, else ``cc``."""
    return shlex.split(os.environ.get("CC", "")) or ["cc"]


@functools.cache
def version_of(command: str) -> str:
    """The first line of what a compiler says of itself; empty where there is none."""
    words = shlex.split(command)
    if shutil.which(words[0]) is None:
        return ""
    return subprocess.run([*words, "--version"], capture_output=True, text=True, check=False).stdout.partition("\n")[0]


def compiled(text: str, kernel: str) -> bytes:
    """A shared library.

    Raises
    ------
    NoCompiler
        When there is no compiler, or it fails.
    """
    command = compiler()
    if shutil.which(command[0]) is None:
        raise NoCompiler(kernel=kernel, problem=f"there is no {command[0]}")
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "kernel.c", Path(folder) / "kernel.so"
        source.write_text(text, encoding="utf-8")
        words = [*command, *FLAGS, str(source), "-o", str(made), "-lm"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoCompiler(kernel=kernel, problem=done.stderr.strip()[-500:])
        return made.read_bytes()
