"""What every backend gives: an artifact that can be kept on disk, and an executable made from it."""

from __future__ import annotations

import json
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
from pypto.errors import OptionError
from pypto.ir.core import Function
from pypto.ir.printer import print_function
from pypto.ir.types import DTYPE_BY_NAME, DType, int64

if TYPE_CHECKING:
    from pypto.backends.findings import Findings, LineDetails
    from pypto.passes.manager import Pass

FIXED_SLOTS: Final = 5  # of an argument block: grid sizes, address and bytes of the scratch memory
PAGE: Final = 4096
PRINTS_HEAD: Final = 64  # bytes of a launch's print buffer before the first program's; see `backends.cpu.prints`


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
    """Keep how long a stage of a compilation took."""
    start = time.perf_counter()
    yield
    timings[stage] = time.perf_counter() - start


@dataclass(frozen=True, slots=True)
class Slot:
    """An 8-byte entry of a kernel's argument block, and where its value comes from.

    `kind` is ``ptr``, ``shape`` or ``stride`` (in elements) of an array argument, or ``scalar``; in checked kernels
    also ``watched``, an array's record in the launch's ``report``; in kernels that print ``prints``, their buffer.
    """

    kind: str
    arg: str
    dim: int = 0
    dtype: DType = int64


@dataclass(frozen=True, slots=True)
class Print:
    """A print of a kernel: the text before its values, and of each value the dtype's name and the shape."""

    prefix: str
    hex: bool
    values: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def bytes(self) -> int:
        """Of a record: its number, and its values in whole words."""
        return 8 + sum(value_bytes(*value) for value in self.values)

    @staticmethod
    def of(fields: Mapping[str, Any]) -> Print:
        """From what `asdict` gives, after a way through JSON."""
        return Print(**{**fields, "values": tuple((dtype, tuple(shape)) for dtype, shape in fields["values"])})


def value_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes that a value takes in a record: whole words."""
    return -(-DTYPE_BY_NAME[dtype].itemsize * math.prod(shape) // 8) * 8


@dataclass(frozen=True, slots=True)
class Locality:
    """Locality of a grid: the programs that one thread should run one after the other, since they reuse cached data.

    ``programs``
        `count` programs that follow one another.
    ``row``
        All programs along the grid's first axis. If that axis has one program only: `count` programs.
    ``rows``
        `count` rows of the grid, if every thread gets as many; else one row.
    """

    kind: Literal["programs", "row", "rows"] = "programs"
    count: int = 1

    @property
    def encoded(self) -> int:
        """The 64-bit word by which the thread pool's native code receives it (see ``pool.ll``).

        Positive: programs. Zero or negative: a row, with the count of its fallback in the low half of the negated word,
        and a number of rows in its high half.
        """
        if self.kind == "programs":
            return self.count
        if self.kind == "row":
            return -self.count if self.count > 1 else 0
        return -self.count << 32


NO_LOCALITY: Final = Locality()  # any program may run on any thread


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled kernel as data: machine code, and what a launch must know.

    `cost` estimates the nanoseconds that one program takes; a program may take much longer if it is not `bounded`.
    `sites` is filled by a profiled compilation, `checks` by a checked one, `prints` if the kernel prints.
    """

    name: str
    abi: tuple[Slot, ...]
    scratch_bytes: int
    cost: float
    code: bytes
    bounded: bool = True
    sites: tuple[Site, ...] = ()
    locality: Locality = NO_LOCALITY
    checks: tuple[Check, ...] = ()
    prints: tuple[Print, ...] = ()

    @property
    def pages(self) -> int:
        """Bytes of each thread's scratch memory, which comes in whole pages."""
        return self.scratch_bytes + -self.scratch_bytes % PAGE

    def to_bytes(self) -> bytes:
        """A JSON header and the code, to be read back by `from_bytes`."""
        header = json.dumps({**plain(self), "code": ""}, sort_keys=True, default=plain).encode()
        return len(header).to_bytes(8, "little") + header + self.code

    @staticmethod
    def from_bytes(data: bytes) -> Artifact:
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


def plain(held: Any) -> Any:
    """What stands for a part of an artifact in JSON."""
    return held.mnemonic if isinstance(held, DType) else {f.name: getattr(held, f.name) for f in fields(held)}


Show = Callable[[Function, Artifact, bool], str]  # the text of a level; with True, it names the lines of the source
SlotNumber = Callable[[Slot], int | None]  # the integer that a launch passes in a slot, None for anything else
Lines = Iterable[tuple[int, str]]  # of a level's text, each with the line of the source that it comes from, or 0


class Backend(ABC):
    """One way to run kernels: what a backend must give, and with defaults what it may give.

    Attributes
    ----------
    name : str
        As it is shown to users.
    target : object
        Facts about the machine that is compiled for; its `repr` is part of what the code depends on.
    keeps_places : bool
        Whether the code names lines of the source and belongs to them.
    reports : bool
        Whether its kernels print, and are checked, through buffers of the launch.
    has_native_launches : bool
        Whether the launcher in native code makes its launches.
    """

    name: str
    target: Any
    keeps_places: bool = False
    reports: bool = False
    has_native_launches: bool = False

    @abstractmethod
    def key_parts(self) -> tuple[tuple[str, str], ...]:
        """What the code depends on beside the kernel and the sources of the backend: target, features, versions."""

    @abstractmethod
    def compile(self, function: Function, timings: dict[str, float]) -> Artifact:
        """Code of an optimised function."""

    @abstractmethod
    def load(self, artifact: Artifact) -> Any:
        """Something that `run` can run."""

    @abstractmethod
    def run(self, executable: Any, args: int, programs: int, cost: float, threads: int) -> None:
        """Run all programs with the argument block at an address; returns when they are done or queued."""

    def sources(self) -> Path:
        """The folder of the backend, whose sources are part of what the code depends on; a module outside of all
        packages stands for itself.
        """
        module = sys.modules[type(self).__module__]
        file = Path(module.__file__ or "")
        return file.parent if module.__package__ else file

    # --- passes ------------------------------------------------------------------------------------------------------

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The backend's pass list, in the order in which its passes run."""
        return ()

    def run_passes(self, function: Function) -> None:
        """Run the passes on an optimised function, for those who observe them; nothing is kept."""
        return None

    def print_ir(self, ir: Any) -> str:
        """What a pass of the backend gives, as text."""
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

    def predict(self, function: Function, number: SlotNumber, sizes: tuple[int, int, int], footprint: int) -> Any:
        """How long a launch of an optimised function takes, by a timing model; `footprint` is in bytes of its arrays.

        Raises
        ------
        OptionError
            When the backend has no timing model.
        """
        raise OptionError(f"{self.name} has no timing model")
