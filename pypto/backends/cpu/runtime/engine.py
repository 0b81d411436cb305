"""LLVM: text to object code, and object code to callable addresses.

LLJIT is used, since MCJIT ends the process on errors that LLJIT reports.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pypto.backends.base import NO_LOCALITY, Locality, timed
from pypto.backends.cpu.runtime.elf import Unsupported, is_loadable, load_object
from pypto.backends.cpu.target import CpuTarget
from pypto.errors import CompilerBug

# No value numbering: the writer eliminates common subexpressions (see `Writer.raw`), and LLVM's GVN took longer than
# all of these without a shorter loop.
_PASSES: Final = ("always_inliner", "sroa", "simplify_cfg", "instruction_combine", "dead_code_elimination",
    "simplify_cfg")  # fmt: skip

# Text for which instruction combining pays: masks, integer lanes, and functions that are inlined. In kernels of
# unmasked float lanes alone it finds nothing, but splits maxima into compares and selects.
_COMBINED: Final = ("llvm.masked", "define internal", "x i8> %", "x i16> %", "x i32> %", "x i64> %")


def llvm_version() -> str:
    """The version of LLVM in llvmlite."""
    import llvmlite.binding as llvm

    return ".".join(map(str, llvm.llvm_version_info))


@dataclass(slots=True)
class Loaded:
    """Code in memory, for as long as this object lives."""

    addresses: tuple[int, ...]
    keep: Any
    call: Any = None  # the first symbol as a Python function, if it is a kernel
    locality: Locality = NO_LOCALITY  # of the kernel's programs
    bounded: bool = True  # whether its cost is known, see `Artifact`

    @property
    def address(self) -> int:
        """Address of the first symbol."""
        return self.addresses[0]


@dataclass
class Engine:
    """One target machine. Every method may be called from any thread."""

    target: CpuTarget
    lock: threading.RLock = field(default_factory=threading.RLock)
    count: int = 0
    machine: Any = None
    jit: Any = None

    def ready(self) -> Any:
        """Initialise LLVM, a target machine and a linker; gives LLVM's binding.

        The linker is JITLink, which places code and its constants side by side. RuntimeDyld asks for memory section by
        section, and ends the process where sections lie 2 GB apart.
        """
        import llvmlite.binding as llvm

        if self.jit is None:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            self.machine = self.new_machine(llvm)
            self.jit = llvm.create_lljit_compiler(self.machine, use_jit_link=True)
        return llvm

    def new_machine(self, llvm: Any) -> Any:
        """A target machine with the small code model: constants are addressed relative to the instruction."""
        native = llvm.Target.from_triple(self.target.triple)
        return native.create_target_machine(
            cpu=self.target.cpu, features=self.target.features, opt=2, jit=True, codemodel="small", reloc="pic"
        )

    def module(self, text: str, timings: dict[str, float]) -> Any:
        """Parse, verify and optimise a module."""
        llvm = self.ready()
        try:
            with timed(timings, "llvm_parse"):
                module = llvm.parse_assembly(text)
                module.triple = self.target.triple
                module.data_layout = str(self.machine.target_data)
                module.verify()
        except RuntimeError as error:
            raise CompilerBug(f"the CPU backend wrote LLVM IR that LLVM refuses: {error}") from None
        builder = llvm.create_pass_builder(self.machine, llvm.create_pipeline_tuning_options(1))
        passes = llvm.create_new_module_pass_manager()
        is_plain = " x float> %" in text and not any(part in text for part in _COMBINED)
        for name in _PASSES:
            if not (is_plain and name == "instruction_combine"):
                getattr(passes, f"add_{name}_pass")()
        with timed(timings, "llvm_optimize"):
            passes.run(module, builder)
        return module

    def compile(self, text: str, timings: dict[str, float] | None = None) -> bytes:
        """Object code of a module's text.

        Raises
        ------
        CompilerBug
            When LLVM refuses the text.
        """
        times = {} if timings is None else timings
        with self.lock:
            module = self.module(text, times)
            with timed(times, "llvm_emit"):
                code: bytes = self.machine.emit_object(module)
            return code

    def assembly(self, text: str) -> str:
        """The assembly of a module's text."""
        with self.lock:
            module = self.module(text, {})
            listing: str = self.machine.emit_assembly(module)
            return listing

    def load(self, code: bytes, *symbols: str) -> Loaded:
        """Object code made callable at some of its symbols.

        Raises
        ------
        CompilerBug
            When the object is broken or wants symbols that the process does not have.
        """
        if is_loadable(code):
            with suppress(Unsupported):
                return Loaded(*load_object(code, symbols))
        with self.lock:
            llvm = self.ready()
            self.count += 1
            try:
                library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
                for symbol in symbols:
                    library.export_symbol(symbol)
                tracker = library.link(self.jit, f"kernel{self.count}")
                return Loaded(tuple(tracker[symbol] for symbol in symbols), (tracker, self.jit))
            except (RuntimeError, KeyError) as error:
                raise CompilerBug(f"compiled code cannot be loaded: {error}") from None
