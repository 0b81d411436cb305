"""Toolchain driver: finds a CANN toolkit, and compiles and links a kernel's Ascend C with its programs.

Toolkits differ in how they compile. One with the library of run-time compilation compiles in this process (``rtc``).
Since 8.5, `bisheng` takes the architecture and makes one object for all kinds of cores (``asc``). Before, `ccec` or
`bisheng` makes an object for one kind of core, and `ld.lld` joins the objects (``cce``, see `mixed_parts`).

Examples
--------
>>> Toolchain(Path("/usr/local/Ascend/cann"), "cce").form
'cce'
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

from pypto.backends.ascend.toolchain.mixed_parts import QUALIFIERS, mixed_part, takes_sync_address
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
    """Find the folder of the CANN toolkit: by the environment, else in the usual places.

    Raises
    ------
    NoToolkit
        When there is none, or when a variable names a folder without a compiler.
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
    """Whether a folder is that of a toolkit."""
    return bool(program(folder, "bisheng") or program(folder, "ccec"))


def program(folder: Path, name: str) -> Path | None:
    """Find a program of a toolkit."""
    return next((path for place in _PROGRAMS if (path := folder / place / name).is_file()), None)


def library(folder: Path, name: str) -> Path | None:
    """Find a library of a toolkit."""
    return next((path for place in LIBRARIES if (path := folder / place / name).is_file()), None)


def toolkit_version(folder: Path) -> str:
    """Read the version of a toolkit, from every file that has one."""
    files = [path for name in _VERSIONS if (path := folder / name).is_file()]
    told = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    found = [match[1] for text in told if (match := re.search(r"(?im)^\s*version\s*=\s*\[?([^\s\]]+)", text))]
    return " ".join(dict.fromkeys(found)) or f"unknown, in {folder}"


def form_of(folder: Path, version: str) -> str:
    """Decide how a toolkit compiles: ``rtc``, ``asc`` or ``cce``, see this module's head."""
    if library(folder, "libacl_rtc.so"):
        return "rtc"
    number = re.match(r"(\d+)\.(\d+)", version)
    is_old = number is not None and (int(number[1]), int(number[2])) < _ASC_SINCE
    return "cce" if is_old or not program(folder, "bisheng") else "asc"


@dataclass(frozen=True)
class Toolchain:
    """A toolkit as a compiler from Ascend C to a binary.

    Attributes
    ----------
    folder : Path
        The toolkit's.
    chosen : str
        The form, see `form_of`. Empty, it follows from what the toolkit has.
    timeout : float
        Seconds that one program may run.
    """

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
        """Parts of the cache key: what a binary depends on beside its text."""
        return ("cann", self.version), ("form", self.form)

    def compile(self, text: str, kernel: str, kind: str, arch: str, file: str = "") -> bytes:
        """Compile a kernel to a binary.

        Parameters
        ----------
        text : str
            Ascend C of one kernel.
        kernel : str
            The kernel's name.
        kind : str
            The cores that it runs on: ``vector``, ``cube`` or ``mix``.
        arch : str
            As `bisheng` takes it: ``dav-2201``.
        file : str
            The user's source. Comments of the text name it without its folder.

        Raises
        ------
        NotCompiled
            When the compiler finds an error; at the user's line from which the text was made.
        CompilerTimeout
            When a program runs longer than `timeout`.
        """
        if self.form == "rtc":
            from pypto.backends.ascend.toolchain.rtc import compile_in_process

            found = library(self.folder, "libacl_rtc.so")
            return compile_in_process(found or Path("libacl_rtc.so"), text, kernel, arch, file)
        with tempfile.TemporaryDirectory(prefix="pypto-ascend-") as place:
            source, made = Path(place) / f"{kernel}.asc", Path(place) / f"{kernel}.bin"
            self.write_sources(source, text, kind, arch)
            for command in self.commands(source, made, kind, arch):
                self.run(command, text, kernel, file)
            return made.read_bytes()

    def takes_sync_address(self, kind: str, arch: str) -> bool:
        """Whether a launch passes the address of the flags between cores as the first argument."""
        return self.form == "cce" and takes_sync_address(kind, arch)

    def write_sources(self, source: Path, text: str, kind: str, arch: str) -> None:
        """Write what the commands read: the text, or a text for each kind of core."""
        if self.form == "cce" and kind == "mix":
            for core in _CORES[kind]:
                part = mixed_part(text, core, arch)
                source.with_suffix(f".{core}.asc").write_text(part, encoding="utf-8")
        else:
            source.write_text(text, encoding="utf-8")

    def commands(self, source: Path, made: Path, kind: str, arch: str) -> Iterator[list[str]]:
        """Yield the command lines in their order."""
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
            mix = ["-cce-enable-mix", "-D__MIX_CORE_MACRO__=1"] if kind == "mix" else []
            text = source.with_suffix(f".{core}.asc") if kind == "mix" else source
            yield [compiler, "-x", "cce", *flags, *mix, *common, str(text), "-o", part]
        yield self.link([*parts.values()], made)

    def link(self, parts: list[str], made: Path) -> list[str]:
        linker = program(self.folder, "ld.lld") or shutil.which("ld.lld") or "ld.lld"
        return [str(linker), "-m", "aicorelinux", "-Ttext=0", *parts, "-static", "-o", str(made)]

    def old_flags(self) -> list[str]:
        """Flags that newer compilers add by themselves: headers, sizes of stacks, no dumps."""
        folder = next((self.folder / name for name in _HEADERS if (self.folder / name).is_dir()), None)
        headers = [f"-I{folder / part}" for part in ("", "impl", "interface")] if folder else []
        options = ("-cce-aicore-stack-size=0x8000", "-cce-aicore-function-stack-size=0x8000",
            "-cce-aicore-dcci-insert-for-scalar=false")  # fmt: skip
        back_end = [word for option in options for word in ("-mllvm", option)]
        defined = (*QUALIFIERS, "-DASCENDC_DUMP=0", "-D__NPU_TILING__")
        return [*headers, "--cce-disable-kernel-global-attr-check", *back_end, *defined]

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
    """Make an error of what a compiler said, at the user's line where it names one."""
    found = _ERROR.search(words)
    if found is None:
        return NotCompiled(compiler=compiler, kernel=kernel, words=words[-2000:], text=text)
    place = user_place(text, int(found[1]), kernel, file)
    return NotCompiled(place, compiler=compiler, kernel=kernel, words=found[2], text=text)


def user_place(text: str, line: int, kernel: str, file: str = "") -> Loc | None:
    """Find the user's line of a line of the text: by the comment behind it, or the last one above."""
    for one in reversed(text.splitlines()[:line]):
        if (found := _COMMENT.search(one)) and (found[1] or file):
            is_own = not found[1] or found[1] == Path(file).name
            return whole_line(file if is_own else found[1], int(found[2]), kernel)
    return None


def whole_line(file: str, line: int, kernel: str) -> Loc:
    import linecache

    code = linecache.getline(file, line).rstrip()
    return Loc(file, line, len(code) - len(code.lstrip()), line, len(code), kernel)
