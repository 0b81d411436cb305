"""What every backend gives: an artifact that can be kept on disk, and an executable made from it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Protocol

from pypto.ir.core import Function
from pypto.ir.types import DTYPE_BY_NAME, DType, int64


@dataclass(frozen=True, slots=True)
class Slot:
    """An 8-byte entry of a kernel's argument block, and where its value comes from.

    `kind` is ``ptr``, ``shape`` or ``stride`` (in elements) of an array argument, or ``scalar``.
    """

    kind: str
    arg: str
    dim: int = 0
    dtype: DType = int64


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled kernel as data: machine code, and what a launch must know.

    `cost` estimates the nanoseconds that one program takes.
    """

    name: str
    abi: tuple[Slot, ...]
    scratch_bytes: int
    cost: float
    code: bytes

    def to_bytes(self) -> bytes:
        """A JSON header and the code, to be read back by `from_bytes`."""
        fields = {"name": self.name, "scratch": self.scratch_bytes, "cost": self.cost,
                  "abi": [{**asdict(s), "dtype": s.dtype.name} for s in self.abi]}
        header = json.dumps(fields, sort_keys=True).encode()
        return len(header).to_bytes(8, "little") + header + self.code

    @staticmethod
    def from_bytes(data: bytes) -> Artifact:
        end = 8 + int.from_bytes(data[:8], "little")
        fields = json.loads(data[8:end])
        abi = tuple(Slot(s["kind"], s["arg"], s["dim"], DTYPE_BY_NAME[s["dtype"]]) for s in fields["abi"])
        return Artifact(fields["name"], abi, fields["scratch"], fields["cost"], data[end:])


class Executable(Protocol):
    """A kernel that can be run."""

    @property
    def address(self) -> int: ...


class Backend(Protocol):
    """One way to run kernels."""

    name: str

    def key_parts(self) -> tuple[tuple[str, str], ...]:
        """What the code depends on beside the kernel: target, features, versions."""

    def compile(self, function: Function, timings: dict[str, float]) -> Artifact: ...

    def load(self, artifact: Artifact) -> Executable: ...

    def run(self, executable: Executable, args: int, programs: int, cost: float, threads: int) -> None:
        """Run all programs with the argument block at an address; returns when they are done."""
