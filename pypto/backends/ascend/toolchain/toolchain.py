"""CANN's compilers: where a toolkit is, which of its compilers is there, and a kernel's text made into a binary.

There are three forms of one thing. A toolkit with the library of runtime compilation (``rtc``) compiles in this
process. Others have `bisheng`, which takes the architecture and does the rest (``asc``); in those before 8.5, `bisheng`
or `ccec` compiles for each kind of core by itself, and `ld.lld` joins the parts (``cce``).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from pypto.errors.device import CompilerTimeout, NotCompiled, NoToolkit
from pypto.loc import Loc

VARIABLES: Final = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
PLACES: Final = (
    "/usr/local/Ascend/ascend-toolkit/latest",
    "/usr/local/Ascend/cann",
    "/usr/local/Ascend/latest",
    "~/Ascend/ascend-toolkit/latest",
    "~/Ascend/cann",
    "~/Ascend/latest",
)
_PROGRAMS: Final = ("bin", "compiler/ccec_compiler/bin", "tools/bisheng_compiler/bin", "ccec_compiler/bin",
    "aarch64-linux/ccec_compiler/bin", "x86_64-linux/ccec_compiler/bin")  # fmt: skip
_VERSIONS: Final = ("version.info", "compiler/version.info", "toolkit/version.info", "runtime/version.info",
    "aarch64-linux/ascend_toolkit_install.info", "x86_64-linux/ascend_toolkit_install.info")  # fmt: skip
_HEADERS: Final = ("compiler/tikcpp/tikcfw", "tikcpp/tikcfw", "aarch64-linux/tikcpp/tikcfw",
    "x86_64-linux/tikcpp/tikcfw")  # fmt: skip
LIBRARIES: Final = ("lib64", "runtime/lib64", "aarch64-linux/lib64", "x86_64-linux/lib64")
_ASC_SINCE: Final = (8, 5)  # the first release whose bisheng takes `-x asc --npu-arch=…`
FLAGS: Final = ("-O2", "-std=c++17", "-fwrapv")  # the language's integers wrap, which C++ leaves open
_TIMEOUT: Final = 300
_OLD_CORES: Final = {"dav-2201": "dav-c220", "dav-3510": "dav-c310"}
_CORES: Final = {"vector": ("vec",), "cube": ("cube",), "mix": ("cube", "vec")}
_ERROR: Final = re.compile(r"^[^\n:]*:(\d+)(?::\d+)?: (?:fatal )?error: (.*)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"//[^\"]*?(?:(\S+):)?(\d+)\s*$")


def find_toolkit(name: str, environ: Mapping[str, str] | None = None, places: tuple[str, ...] = PLACES) -> Path:
    """The folder of the CANN toolkit for a device.

    Raises
    ------
    NoToolkit
        When there is none, or when a variable names a folder that has no compiler.
    """
    environ = os.environ if environ is None else environ
    for variable in VARIABLES:
        if given := environ.get(variable):
            if has_compiler(Path(given)):
                return Path(given)
            raise NoToolkit(name=name, problem=f"{variable} is {given}, where no compiler is")
    for place in places:
        folder = Path(place).expanduser()
        if has_compiler(folder):
            return folder
    raise NoToolkit(name=name, problem=f"neither {' nor '.join(VARIABLES)} is set, and none is in /usr/local/Ascend")


def has_compiler(folder: Path) -> bool:
    return bool(program(folder, "bisheng") or program(folder, "ccec"))


def program(folder: Path, name: str) -> Path | None:
    """A program of a toolkit."""
    return next((path for place in _PROGRAMS if (path := folder / place / name).is_file()), None)


def library(folder: Path, name: str) -> Path | None:
    """A library of a toolkit."""
    return next((path for place in LIBRARIES if (path := folder / place / name).is_file()), None)


def toolkit_version(folder: Path) -> str:
    """What a toolkit says of its version, in every file where it does."""
    files = [path for name in _VERSIONS if (path := folder / name).is_file()]
    told = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    found = [match[1] for text in told if (match := re.search(r"(?im)^\s*version\s*=\s*\[?([^\s\]]+)", text))]
    return " ".join(dict.fromkeys(found)) or f"unknown, in {folder}"


def form_of(folder: Path, version: str) -> str:
    """How a toolkit compiles: ``rtc``, ``asc`` (bisheng as of today) or ``cce`` (a compiler run per kind of core)."""
    if library(folder, "libacl_rtc.so"):
        return "rtc"
    number = re.match(r"(\d+)\.(\d+)", version)
    is_old = number is not None and (int(number[1]), int(number[2])) < _ASC_SINCE
    return "cce" if is_old or not program(folder, "bisheng") else "asc"


@dataclass(frozen=True)
class Toolchain:
    """A toolkit's way from Ascend C to a binary. `form` is one of those of `form_of`; empty, it is found out."""

    folder: Path
    chosen: str = ""
    timeout: float = _TIMEOUT

    @cached_property
    def version(self) -> str:
        return toolkit_version(self.folder)

    @cached_property
    def form(self) -> str:
        return self.chosen or form_of(self.folder, self.version)

    def key_parts(self) -> tuple[tuple[str, str], ...]:
        """What a binary depends on beside its text."""
        return ("cann", self.version), ("form", self.form)

    def compile(self, text: str, kernel: str, kind: str, arch: str, file: str = "") -> bytes:
        """The binary of a kernel.

        Parameters
        ----------
        text : str
            Ascend C.
        kernel : str
            Its name.
        kind : str
            ``vector``, ``cube`` or ``mix``.
        arch : str
            As `bisheng` takes it: ``dav-2201``.
        file : str
            The user's, which comments of the text name without its folder.

        Raises
        ------
        NotCompiled
            When the compiler finds an error, at the user's line that the text is from.
        CompilerTimeout
            When it takes too long.
        """
        if self.form == "rtc":
            from pypto.backends.ascend.toolchain.rtc import compile_in_process

            found = library(self.folder, "libacl_rtc.so")
            return compile_in_process(found or Path("libacl_rtc.so"), text, kernel, arch, file)
        with tempfile.TemporaryDirectory(prefix="pypto-ascend-") as place:
            source, made = Path(place) / f"{kernel}.asc", Path(place) / f"{kernel}.bin"
            source.write_text(text, encoding="utf-8")
            for command in self.commands(source, made, kind, arch):
                self.run(command, text, kernel, file)
            return made.read_bytes()

    def commands(self, source: Path, made: Path, kind: str, arch: str) -> Iterator[list[str]]:
        """The command lines, in their order."""
        compiler = str(program(self.folder, "bisheng") or program(self.folder, "ccec"))
        common = [*FLAGS, "--cce-aicore-only", "-c"]
        if self.form == "asc":
            part = str(source.with_suffix(".o"))
            yield [compiler, "-x", "asc", f"--npu-arch={arch}", *common, str(source), "-o", part]
            yield self.link([part], made)
            return
        compiler = str(program(self.folder, "ccec") or compiler)
        parts = {core: str(source.with_suffix(f".{core}.o")) for core in _CORES[kind]}
        for core, part in parts.items():
            flags = [f"--cce-aicore-arch={_OLD_CORES[arch]}-{core}", *self.old_flags()]
            mix = ["-D__MIX_CORE_MACRO__=1"] if kind == "mix" else []
            yield [compiler, "-x", "cce", *flags, *mix, *common, str(source), "-o", part]
        yield self.link([*parts.values()], made)

    def link(self, parts: list[str], made: Path) -> list[str]:
        linker = program(self.folder, "ld.lld") or shutil.which("ld.lld") or "ld.lld"
        return [str(linker), "-m", "aicorelinux", "-Ttext=0", *parts, "-static", "-o", str(made)]

    def old_flags(self) -> list[str]:
        """What newer compilers add by themselves: headers, stacks, no dumps."""
        folder = next((self.folder / name for name in _HEADERS if (self.folder / name).is_dir()), None)
        headers = [f"-I{folder / part}" for part in ("", "impl", "interface")] if folder else []
        options = ("-cce-aicore-stack-size=0x8000", "-cce-aicore-function-stack-size=0x8000",
            "-cce-aicore-dcci-insert-for-scalar=false")  # fmt: skip
        back_end = [word for option in options for word in ("-mllvm", option)]
        return [*headers, "--cce-disable-kernel-global-attr-check", *back_end, "-DASCENDC_DUMP=0", "-D__NPU_TILING__"]

    def run(self, command: list[str], text: str, kernel: str, file: str) -> None:
        compiler = Path(command[0]).name
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False,
                timeout=self.timeout, stdin=subprocess.DEVNULL)  # fmt: skip
        except subprocess.TimeoutExpired:
            raise CompilerTimeout(compiler=compiler, kernel=kernel, seconds=self.timeout) from None
        except OSError as error:
            raise NoToolkit(name=f"{kernel} on Ascend", problem=f"{command[0]} does not run: {error}") from None
        if done.returncode:
            raise refusal(compiler, kernel, text, done.stderr.strip() or done.stdout.strip(), file)


def refusal(compiler: str, kernel: str, text: str, words: str, file: str) -> NotCompiled:
    """A compiler's error at the user's line; without one, all that it said."""
    found = _ERROR.search(words)
    if found is None:
        return NotCompiled(compiler=compiler, kernel=kernel, words=words[-2000:], text=text)
    place = user_place(text, int(found[1]), kernel, file)
    return NotCompiled(place, compiler=compiler, kernel=kernel, words=found[2], text=text)


def user_place(text: str, line: int, kernel: str, file: str = "") -> Loc | None:
    """The user's line that a line of the text was made from, by the comment behind it or behind one just above."""
    lines = text.splitlines()[:line]
    for one in reversed(lines[-8:]):
        if (found := _COMMENT.search(one)) and (found[1] or file):
            is_own = not found[1] or found[1] == Path(file).name
            return whole_line(file if is_own else found[1], int(found[2]), kernel)
    return None


def whole_line(file: str, line: int, kernel: str) -> Loc:
    import linecache

    code = linecache.getline(file, line).rstrip()
    return Loc(file, line, len(code) - len(code.lstrip()), line, len(code), kernel)
