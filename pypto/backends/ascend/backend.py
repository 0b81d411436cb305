"""The Ascend backend: lowers Tile IR to Ascend C, compiles it with a toolkit, and launches the binary on a device."""

from __future__ import annotations

import ctypes
import json
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from pypto.backends.ascend.blockir.ir import BlockKernel
from pypto.backends.ascend.blockir.reserved import symbol
from pypto.backends.ascend.emit.text import wrapped
from pypto.backends.ascend.pipeline import PASSES, lower_to_text
from pypto.backends.ascend.target import REPEAT, AscendTarget
from pypto.backends.ascend.toolchain.toolchain import Toolchain, user_place, whole_line
from pypto.backends.base import FIXED_SLOTS, Artifact, Backend, ElementNumber, Lines, Show, Slot, SlotNumber, timed
from pypto.backends.findings import Findings, LineDetails
from pypto.errors import Diagnostic
from pypto.errors.advice import OffTheCube
from pypto.errors.device import DeviceFault, UnalignedCopies
from pypto.ir.core import Function
from pypto.loc import Loc
from pypto.ops.target import TargetConstants
from pypto.passes.manager import Pass

if TYPE_CHECKING:
    from pypto.backends.ascend.timing.prediction import Prediction

Lower = Callable[[Function, AscendTarget], tuple[BlockKernel, str]]
_COST: Final = 1000.0  # nanoseconds of a program, which nobody asks for: all cores take part in any case
_LINE: Final = re.compile(r"\bline (\d+)")


class Runner(Protocol):
    """A device of the runtime. Its `epoch` grows with each reset, which invalidates everything loaded before."""

    epoch: int

    def load(self, binary: bytes, kind: str) -> Any: ...

    def workspace(self, size: int) -> int: ...

    def launch(self, function: Any, blocks: int, arguments: bytes) -> None: ...

    def sync_address(self) -> int: ...


@dataclass(frozen=True)
class Code:
    """The content of an artifact: Ascend C for readers and fault reports, the binary, and facts for a launch.

    Attributes
    ----------
    kind : str
        The cores that the kernel runs on: ``vector``, ``cube`` or ``mix``.
    workspace : int
        Bytes of device memory for each block.
    one_core : bool
        Whether one block runs all programs.
    file, line : str, int
        Of the kernel's source.
    takes_sync_address : bool
        Whether the first argument is the address of the flags between cores.
    """

    kind: str
    workspace: int
    one_core: bool
    file: str
    line: int
    text: str
    binary: bytes
    takes_sync_address: bool = False
    off_cube: tuple[int, str] | None = None  # the line of a product that is not on the cube, and why

    @staticmethod
    def wrapped(text: str, opens: str) -> list[str]:
        """A statement in lines, as the text of kernels has them."""
        return wrapped(text, opens=opens)

    def to_bytes(self) -> bytes:
        text = self.text.encode()
        head = {"kind": self.kind, "workspace": self.workspace, "one_core": self.one_core, "file": self.file,
                "line": self.line, "text": len(text), "takes_sync_address": self.takes_sync_address,
                "off_cube": self.off_cube}  # fmt: skip
        header = json.dumps(head, sort_keys=True).encode()
        return len(header).to_bytes(8, "little") + header + text + self.binary

    @staticmethod
    def from_bytes(data: bytes) -> Code:
        start = 8 + int.from_bytes(data[:8], "little")
        head = json.loads(data[8:start])
        end, refusal = start + head.pop("text"), head.pop("off_cube")
        return Code(**head, off_cube=refusal and tuple(refusal), text=data[start:end].decode(), binary=data[end:])


@dataclass
class Loaded:
    """An executable: a kernel that is loaded onto the device with its first launch, and again after a reset."""

    name: str
    abi: tuple[Slot, ...]
    code: Code
    runner: Runner | None
    epoch: int = -1
    function: Any = None
    address: int = 0  # no code of the host

    def ready(self, runner: Runner) -> Any:
        if self.epoch != runner.epoch or self.function is None:
            self.function = runner.load(self.code.binary, self.code.kind).function(symbol(self.name), self)
            self.epoch = runner.epoch
        return self.function


@dataclass(eq=False)
class AscendBackend(Backend):
    """The backend for one chip. Without a toolkit it emits text alone, and without a device nothing can run.

    Examples
    --------
    >>> from pypto.backends.ascend.target import ascend_target
    >>> AscendBackend(ascend_target("ascend910b2")).toolchain is None
    True
    """

    target: AscendTarget
    find: Callable[[], Path] | None = None
    runner: Callable[[], Runner] | None = None
    form: str = ""
    lower: Lower = lower_to_text
    name: str = "ascend"
    keeps_places: bool = True  # a fault names the user's line, so the places of ops are part of what is compiled
    found: list[Toolchain] = field(default_factory=list)

    @property
    def toolchain(self) -> Toolchain | None:
        if not self.found and self.find:
            self.found.append(Toolchain(self.find(), self.form))
        return self.found[0] if self.found else None

    @property
    def constants(self) -> TargetConstants:
        found = self.target
        return TargetConstants(
            name=found.name, cores=found.vector_cores, cube_cores=found.cube_cores, l2_bytes=found.l2_bytes,
            vector_bytes=REPEAT, has_exp2=False,
        )  # fmt: skip

    def key_parts(self) -> tuple[tuple[str, str], ...]:
        chain = self.toolchain
        return ("target", repr(self.target)), *(chain.key_parts() if chain else (("form", "text"),))

    def compile(self, function: Function, timings: dict[str, float]) -> Artifact:
        with timed(timings, "codegen"):
            kernel, text = self.lower(function, self.target)
        with timed(timings, "toolchain"):
            chain = self.toolchain
            file = kernel.file or function.loc.file
            binary = chain.compile(text, kernel.name, kernel.kind, self.target.flag, file) if chain else b""
        takes_address = chain is not None and chain.takes_sync_address(kernel.kind, self.target.flag)
        line = function.loc.line
        refusal = (kernel.off_cube.line, kernel.off_cube.reason) if kernel.off_cube else None
        code = Code(kernel.kind, kernel.workspace, kernel.one_core, file, line, text, binary, takes_address, refusal)
        return Artifact(kernel.name, kernel.slots, 0, _COST, code.to_bytes())

    def load(self, artifact: Artifact) -> Loaded:
        return Loaded(artifact.name, artifact.abi, Code.from_bytes(artifact.code), self.runner and self.runner())

    def run(self, executable: Loaded, args: int, programs: int, cost: float, threads: int) -> None:
        """Queue the kernel with the argument block at an address. The device's `synchronize` waits for it."""
        runner, code = executable.runner, executable.code
        assert runner is not None, "what was compiled for a chip alone has nothing to run on"
        function, blocks = executable.ready(runner), min(programs, self.cores(code))
        words = (ctypes.c_int64 * (FIXED_SLOTS + len(executable.abi))).from_address(args)
        sync = runner.sync_address() if code.takes_sync_address else None
        place = runner.workspace(code.workspace * blocks) if code.workspace else None
        runner.launch(function, blocks, packed(executable.abi, words, place, sync))

    def advice(self, artifact: Artifact) -> tuple[Diagnostic, ...]:
        code = Code.from_bytes(artifact.code)
        if code.off_cube is None:
            return ()
        line, reason = code.off_cube
        place = whole_line(code.file, line, artifact.name)
        return (OffTheCube(place, kernel=artifact.name, chip=self.target.name, reason=reason),)

    def code(self, artifact: Artifact) -> Code:
        """Decode the content of an artifact."""
        return Code.from_bytes(artifact.code)

    def symbol(self, name: str) -> str:
        """Return the name of a kernel in its text and binary."""
        return symbol(name)

    def cores(self, code: Code) -> int:
        """The greatest number of blocks that run at once: the device's cores of the kernel's kind."""
        if code.one_core:
            return 1
        return self.target.vector_cores if code.kind == "vector" else self.target.cube_cores

    def fault(self, device: str, words: str, kernels: tuple[Loaded, ...]) -> DeviceFault:
        """Make a diagnostic of a device fault, at the user's line if the device reports one."""
        said = named(kernels, words) or list(kernels)
        names = ", ".join(dict.fromkeys(k.name for k in said)) or "a kernel"
        place = place_of(said[0], words) if len({id(k) for k in said}) == 1 else None
        plain = _LINE.sub(r"line \1 of the Ascend C", words.strip().removeprefix(f"{symbol(names)}, "))
        return DeviceFault(place, kernel=names, device=device, words=plain)

    def remark(self, words: str, kernels: tuple[Loaded, ...]) -> UnalignedCopies | None:
        """Make a warning of a simulator remark: its kernel and line, and the touched and needed lines of memory."""
        touched, needed = words.split()[-2:]
        for kernel in named(kernels, words):
            return UnalignedCopies(place_of(kernel, words), kernel=kernel.name, touched=touched, needed=needed)
        return None  # it was another device's

    # --- explanations ------------------------------------------------------------------------------------------------

    @property
    def passes(self) -> tuple[Pass, ...]:
        return PASSES

    def run_passes(self, function: Function) -> None:
        lower_to_text(function, self.target)

    def print_ir(self, ir: Any) -> str:
        from pypto.backends.ascend.explain.passes import print_ir

        return print_ir(ir)

    @property
    def levels(self) -> Mapping[str, Show]:
        from pypto.backends.ascend.explain.levels import shows

        return shows(self.target)

    def explain(self, function: Function) -> Findings:
        from pypto.backends.ascend.explain.decisions import explain

        return explain(function, self.target)

    def line_details(
        self, function: Function, artifact: Artifact, texts: Mapping[str, Lines], number: SlotNumber
    ) -> LineDetails:
        from pypto.backends.ascend.explain.levels import block_kernel
        from pypto.backends.ascend.explain.pictures import pictures_of
        from pypto.backends.ascend.explain.prediction import predict_core

        block = block_kernel(function, self.target)
        found = predict_core(block, self.target, number)
        return LineDetails(cycles=found.lines, pictures=pictures_of(block, self.target, found))

    def predict(
        self,
        function: Function,
        number: SlotNumber,
        sizes: tuple[int, int, int],
        element: ElementNumber | None = None,
        since: Mapping[str, float] | None = None,
    ) -> Prediction:
        from pypto.backends.ascend.explain.prediction import predict_launch

        return predict_launch(function, self.target, number, sizes, element, since or {})


def named(kernels: tuple[Loaded, ...], words: str) -> list[Loaded]:
    """The kernels that a device's message begins with."""
    return [k for k in kernels if words.startswith(f"{symbol(k.name)},")]


def place_of(kernel: Loaded, words: str) -> Loc:
    """The user's line for a line of Ascend C in a device's message; without one, the kernel's first line."""
    code = kernel.code
    line = _LINE.search(words)
    found = user_place(code.text, int(line[1]), kernel.name, code.file) if line else None
    return found or whole_line(code.file, code.line, kernel.name)


def packed(abi: tuple[Slot, ...], words: Any, workspace: int | None, sync: int | None = None) -> bytes:
    """Pack the arguments in the device's layout: each aligned to its size, at least to 4 bytes."""
    data = bytearray() if sync is None else bytearray(struct.pack("<Q", sync))
    for slot, word in zip(abi, words[FIXED_SLOTS:], strict=True):
        size = max(1, slot.dtype.bits // 8) if slot.kind == "scalar" else 8
        append(data, (word & (1 << 64) - 1).to_bytes(8, "little")[:size])
    for number in words[:3]:
        append(data, struct.pack("<i", number))
    if workspace is not None:
        append(data, struct.pack("<Q", workspace))
    return bytes(data) + bytes(-len(data) % 8)


def append(data: bytearray, value: bytes) -> None:
    data.extend(bytes(-len(data) % max(4, len(value))))
    data.extend(value)
