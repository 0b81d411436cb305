"""LLVM: text to object code to callable addresses. LLJIT only, since MCJIT dies on what LLJIT reports."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from pypto.backends.cpu.target import CpuTarget
from pypto.errors import CompilerBug


@dataclass(slots=True)
class Loaded:
    """Code in memory; it stays there as long as this object lives."""

    addresses: tuple[int, ...]
    keep: Any
    call: Any = None  # the first symbol as a function, where it is a kernel

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

    def ready(self, compiling: bool) -> Any:
        """LLVM's binding, initialised as far as is needed: loading an object needs no target machine of ours."""
        import llvmlite.binding as llvm

        if self.jit is None:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            self.jit = llvm.create_lljit_compiler(self.new_machine(llvm))
        if compiling and self.machine is None:
            self.machine = self.new_machine(llvm)
        return llvm

    def new_machine(self, llvm: Any) -> Any:
        native = llvm.Target.from_triple(self.target.triple)
        return native.create_target_machine(cpu=self.target.cpu, features=self.target.features, opt=2, jit=True,
            codemodel="jitdefault")

    def module(self, text: str, timings: dict[str, float]) -> Any:
        """Parsed, verified and optimised."""
        llvm = self.ready(compiling=True)
        start = time.perf_counter()
        try:
            module = llvm.parse_assembly(text)
            module.triple = self.target.triple
            module.data_layout = str(self.machine.target_data)
            module.verify()
        except RuntimeError as error:
            raise CompilerBug(f"the CPU backend wrote LLVM IR that LLVM refuses: {error}") from None
        timings["parse"] = time.perf_counter() - start
        start = time.perf_counter()
        builder = llvm.create_pass_builder(self.machine, llvm.create_pipeline_tuning_options(1))
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
        passes.add_new_gvn_pass()
        passes.add_dead_code_elimination_pass()
        passes.add_simplify_cfg_pass()
        passes.run(module, builder)
        timings["optimize"] = time.perf_counter() - start
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
            start = time.perf_counter()
            code: bytes = self.machine.emit_object(module)
            times["codegen"] = time.perf_counter() - start
            return code

    def assembly(self, text: str) -> str:
        with self.lock:
            listing: str = self.machine.emit_assembly(self.module(text, {})) if self.ready(True) else ""
            return listing

    def optimized_ir(self, text: str) -> str:
        with self.lock:
            return str(self.module(text, {}))

    def load(self, code: bytes, *symbols: str) -> Loaded:
        """Object code made callable at some of its symbols.

        Raises
        ------
        CompilerBug
            When the object is broken or wants symbols that the process does not have.
        """
        with self.lock:
            llvm = self.ready(compiling=False)
            self.count += 1
            try:
                library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
                for symbol in symbols:
                    library.export_symbol(symbol)
                tracker = library.link(self.jit, f"kernel{self.count}")
                return Loaded(tuple(tracker[symbol] for symbol in symbols), (tracker, self.jit))
            except (RuntimeError, KeyError) as error:
                raise CompilerBug(f"compiled code cannot be loaded: {error}") from None

    def imported_symbols(self, code: bytes) -> tuple[str, ...]:
        """Symbols that an object wants from elsewhere."""
        from pypto.backends.cpu.elf import undefined_symbols

        return undefined_symbols(code)
