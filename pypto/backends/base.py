"""The interface of a backend, and the artifact that it gives: a compiled kernel as data, kept by the disk cache."""

from __future__ import annotations

import math
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pypto.backends.sites import Check, Site
from pypto.errors import Diagnostic, OptionError
from pypto.ir.core import Function
from pypto.ir.printer import print_function
from pypto.ir.types import DTYPE_BY_NAME, DType, int64
from pypto.ops.target import TargetConstants

if TYPE_CHECKING:
    from pypto.backends.findings import Findings, LineDetails
    from pypto.passes.manager import Pass

FIXED_SLOTS: Final = 5  # of an argument block: grid sizes, address and bytes of the scratch memory
PAGE: Final = 4096
PRINTS_HEAD: Final = 64  # bytes of the print buffer before the slices of programs, see `cpu.instrument.printing`


def mangled(name: str) -> str:
    """A kernel's name as a symbol: ASCII letters, digits and underscores.

    ``<lambda>`` loses its brackets, and every other character becomes its code in hexadecimal.

    Examples
    --------
    >>> mangled("größe"), mangled("<lambda>"), mangled("softmax")
    ('gru00f6u00dfe', 'lambda', 'softmax')
    """
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"u{ord(c):04x}" for c in name.strip("<>"))


@contextmanager
def timed(timings: dict[str, float], stage: str) -> Iterator[None]:
    """Record how long a stage of a compilation takes."""
    start = time.perf_counter()
    yield
    timings[stage] = time.perf_counter() - start


@dataclass(frozen=True, slots=True)
class Slot:
    """An 8-byte entry of a kernel's argument block, and where its value comes from."""

    kind: str  # ptr, shape, stride, scalar; in checked kernels watched and report; in kernels that print prints
    arg: str
    dim: int = 0  # of a shape, or of a stride in elements
    dtype: DType = int64


@dataclass(frozen=True, slots=True)
class Print:
    """A print of a kernel."""

    prefix: str  # text before the values
    hex: bool
    values: tuple[tuple[str, tuple[int, ...]], ...] = ()  # name of the dtype, and shape

    @property
    def bytes(self) -> int:
        """Bytes of a record: its number, and its values in whole words."""
        return 8 + sum(value_bytes(*value) for value in self.values)

    @staticmethod
    def of(fields: Mapping[str, Any]) -> Print:
        """From the fields as JSON gives them."""
        return Print(**{**fields, "values": tuple((dtype, tuple(shape)) for dtype, shape in fields["values"])})


def value_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes of a value in a record: whole words."""
    return -(-DTYPE_BY_NAME[dtype].itemsize * math.prod(shape) // 8) * 8


@dataclass(frozen=True, slots=True)
class Locality:
    """Locality of a grid: the programs that one thread should run one after the other, since they reuse cached data.

    ``programs``
        `count` programs that follow one another.
    ``row``
        All programs along `axis` of the grid, which runs fastest. If that axis has one program only: `count` programs.
    ``rows``
        `count` rows of the grid, if every thread gets as many; else one row.
    """

    kind: Literal["programs", "row", "rows"] = "programs"
    count: int = 1
    axis: int = 0

    @property
    def encoded(self) -> int:
        """The 64-bit word by which the thread pool's native code receives it (see ``pool.c``).

        Positive: programs. Zero or negative: a row, with the count of its fallback in the low 30 bits of the negated
        word, its axis in the next two, and a number of rows in its high half.
        """
        if self.kind == "programs":
            return self.count
        if self.kind == "row":
            return -(self.axis << 30 | (self.count if self.count > 1 else 0))
        return -(self.count << 32 | self.axis << 30)


NO_LOCALITY: Final = Locality()  # any program may run on any thread


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled kernel as data: machine code, and what a launch has to know."""

    name: str
    abi: tuple[Slot, ...]
    scratch_bytes: int  # of each thread
    cost: float  # estimated nanoseconds of a program
    code: bytes
    bounded: bool = True  # whether no program takes much longer than that
    sites: tuple[Site, ...] = ()  # of a profiled kernel
    locality: Locality = NO_LOCALITY
    checks: tuple[Check, ...] = ()  # of a checked kernel
    prints: tuple[Print, ...] = ()

    @property
    def pages(self) -> int:
        """Bytes of each thread's scratch memory, in whole pages."""
        return self.scratch_bytes + -self.scratch_bytes % PAGE

    def to_bytes(self) -> bytes:
        """A JSON header and the code, to be read back by `from_bytes`."""
        import json

        header = json.dumps({**plain(self), "code": ""}, sort_keys=True, default=plain).encode()
        return len(header).to_bytes(8, "little") + header + self.code

    @staticmethod
    def from_bytes(data: bytes) -> Artifact:
        """An artifact from what `to_bytes` gives."""
        import json

        end = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:end])
        records = {
            "abi": tuple(Slot(**{**slot, "dtype": DTYPE_BY_NAME[slot["dtype"]]}) for slot in header["abi"]),
            "sites": tuple(map(Site.of, header["sites"])),
            "checks": tuple(map(Check.of, header["checks"])),
            "prints": tuple(map(Print.of, header["prints"])),
            "locality": Locality(**header["locality"]),
        }
        return Artifact(**{**header, **records, "code": data[end:]})


def plain(part: Any) -> Any:
    """A part of an artifact as JSON takes it."""
    return part.mnemonic if isinstance(part, DType) else {f.name: getattr(part, f.name) for f in fields(part)}


Show = Callable[[Function, Artifact, bool], str]  # the text of a level; with True, it names the lines of the source
SlotNumber = Callable[[Slot], int | None]  # the integer that a launch passes in a slot, None for anything else
# The integer at an index of an array argument, by its name; None where the host cannot read it.
ElementNumber = Callable[[str, int], int | None]
Lines = Iterable[tuple[int, str]]  # of a level's text, each with the line of the source that it comes from, or 0


class Backend(ABC):
    """A way to run kernels: the methods that a backend must have, and with defaults those that it may have.

    Attributes
    ----------
    name : str
        The name that users see.
    target : object
        Facts about the target machine; its `repr` is part of the key of the code.
    keeps_places : bool
        Whether the code names lines of the source, which are part of its key then.
    reports : bool
        Whether its kernels print, and are checked, through buffers of the launch.
    has_native_launches : bool
        Whether native code launches its kernels.
    """

    name: str
    target: Any
    keeps_places: bool = False
    reports: bool = False
    has_native_launches: bool = False

    @property
    def constants(self) -> TargetConstants:
        """The facts that kernels read as `pto.target.NAME`; those that are left out are refused."""
        return TargetConstants(name=self.name)

    @abstractmethod
    def key_parts(self) -> tuple[tuple[str, str], ...]:
        """The key of the code beside the kernel and the sources of the backend: target, features, versions."""

    def advice(self, artifact: Artifact) -> tuple[Diagnostic, ...]:
        """Warnings about what a kernel became, given each time that it is compiled or comes from the cache."""
        return ()

    @abstractmethod
    def compile(self, function: Function, timings: dict[str, float]) -> Artifact:
        """Compile an optimised function."""

    def estimate(self, function: Function) -> float | None:
        """The estimated nanoseconds of one program, or None where nothing is known of them."""
        return None

    @abstractmethod
    def load(self, artifact: Artifact) -> Any:
        """An executable, for `run`."""

    @abstractmethod
    def run(self, executable: Any, args: int, programs: int, cost: float, threads: int) -> None:
        """Run all programs with the argument block at an address; returns when they are done or queued."""

    def located(self, artifact: Artifact, executable: Any, place: str) -> None:
        """Note where the text of a user's kernel is, for what a crash of the process says."""
        return None

    def sources(self) -> Path:
        """The folder of the backend, whose sources are part of the key of the code; or a module outside of packages."""
        module = sys.modules[type(self).__module__]
        file = Path(module.__file__ or "")
        return file.parent if module.__package__ else file

    # --- passes ------------------------------------------------------------------------------------------------------

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The backend's pass list, in the order in which its passes run."""
        return ()

    def run_passes(self, function: Function) -> None:
        """Run the passes on an optimised function for their observers; results are dropped."""
        return None

    def print_ir(self, ir: Any) -> str:
        """The IR that a pass of the backend gives, as text."""
        return print_function(ir)

    # --- explanations ------------------------------------------------------------------------------------------------

    @property
    def levels(self) -> Mapping[str, Show]:
        """The backend's own levels of a prepared function as text, from the source down."""
        return {}

    def explain(self, function: Function) -> Findings:
        """Why a prepared function is compiled as it is."""
        from pypto.backends.findings import Findings, access_findings

        return Findings(tuple(access_findings(function)))

    def line_details(
        self, function: Function, artifact: Artifact, texts: Mapping[str, Lines], number: SlotNumber
    ) -> LineDetails:
        """Widths, predicted times and pictures of a prepared function, whose levels are `texts`."""
        from pypto.backends.findings import LineDetails

        return LineDetails()

    def predict(
        self,
        function: Function,
        number: SlotNumber,
        sizes: tuple[int, int, int],
        element: ElementNumber | None = None,
        since: Mapping[str, float] | None = None,
    ) -> Any:
        """How long a launch of an optimised function takes, by a timing model.

        `since` are arguments that launches before it have written, with the bytes that came into caches after them.

        Raises
        ------
        OptionError
            When the backend has no timing model.
        """
        raise OptionError(f"{self.name} has no timing model")
