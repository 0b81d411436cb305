"""Generated kernels against the public headers of Ascend C: every name, parameter and type, by a compiler of the host.

    python -m tests.backends_ascend.public_headers --headers DIR [--target ascend910b2] [--target ascend950]

`DIR` holds `include` and `impl` of the public repository. The headers are written for a compiler with types and
functions of its own: `public_prelude.h` has the types, and functions are whatever names the headers, and they alone,
turn out to miss; these take any arguments, so what only the chip's compiler knows of them is not checked. Templates
are instantiated, so the headers' own assertions about dtypes are.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np

from pypto.backends.ascend.pipeline import lower_to_text
from pypto.backends.ascend.target import AscendTarget, ascend_target
from pypto.debug.simulate import function_of
from tests.patience import limit

PRELUDE: Final = Path(__file__).with_name("public_prelude.h")
CHIPS: Final = ("ascend910b2", "ascend950")
CORES: Final = MappingProxyType({"__vector__": ("VEC",), "__cube__": ("CUBE",), "__mix__": ("VEC", "CUBE")})
GENERATIONS: Final = MappingProxyType({2201: "C220", 3510: "C310"})
# As strict as the chip's compiler, which is a clang, about braces; and as our own headers are compiled with.
WARNINGS: Final = ("-Wall", "-Wextra", "-Wconversion", "-Woverflow", "-Wnarrowing")
_MISSING: Final = re.compile(r"(.+?):(\d+):(\d+): error: (?:there are no arguments to )?'(\w+)' (?:that|was not)")
_NOTHING: Final = re.compile(r"(.+?):(\d+):\d+: error: return-statement with a value, in function returning 'void'")
_LEFT_OUT: Final = re.compile(r'#include "((?:include/adv_api|simt_api)/[^"]+)"')  # the basic API needs none of them

Kernels = Mapping[str, str]  # texts by name


def place(given: str | None = None) -> Path | None:
    """Where the public headers are: as said, or as the environment says."""
    home = os.environ.get("ASCEND_HOME_PATH")
    tried = [given, os.environ.get("ASCENDC_PUBLIC_HEADERS"), *([home, f"{home}/asc"] if home else [])]
    return next((Path(x) for x in tried if x and (Path(x) / "include" / "basic_api").is_dir()), None)


@dataclass
class Headers:
    """The public headers as one kind of core of one chip sees them; `builtins` are the functions that they miss."""

    root: Path
    arch: int
    core: str
    folder: Path
    builtins: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Empty files for what is left out."""
        basic = (self.root / "include" / "basic_api" / "kernel_operator_intf.h").read_text(encoding="utf-8")
        for name in _LEFT_OUT.findall(basic):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).touch()

    @property
    def flags(self) -> list[str]:
        made = GENERATIONS[self.arch]
        defined = (f"NPU_ARCH__={self.arch}", f"DAV_{made}__", f"DAV_{made}_{self.core}__", f"DAV_{self.core}__")
        inside = ("", "include", "include/basic_api", "include/utils", "impl", "impl/basic_api")
        folders = [self.folder, *(self.root / x for x in inside)]
        return ["-std=c++17", *(f"-D__{x}" for x in defined), *(f"-isystem{x}" for x in folders)]

    def complaints(self, text: str) -> list[str]:
        """What a compiler says of a text, once it knows all functions that the headers call."""
        while True:
            said = self._compile(text)
            more = {name: gives for name, gives in self._learnt(said) if self.builtins.get(name) != gives}
            if not more:
                return said
            self.builtins |= more

    def _compile(self, text: str) -> list[str]:
        declared = (f"template <typename... A> {gives} {name}(const A&...);" for name, gives in self.builtins.items())
        file = self.folder / "builtins.h"
        file.write_text("\n".join([f'#include "{PRELUDE}"', *declared]), encoding="utf-8")
        source = self.folder / "kernels.cpp"
        source.write_text(text, encoding="utf-8")
        command = ["g++", "-fsyntax-only", "-fmax-errors=0", *WARNINGS, *self.flags, "-include", str(file), str(source)]
        run = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=limit(600), env={**os.environ, "LC_ALL": "C"}
        )
        return run.stderr.splitlines()

    def _learnt(self, said: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Functions that the headers call, and whether they give something."""
        for line in said:
            if (found := _MISSING.match(line)) and found[1].startswith(str(self.root)):
                before, after = self._around(found[1], int(found[2]), int(found[3]))
                name = found[4]
                if name not in self.builtins and (re.match(rf"{name}\s*\(", after) or before.endswith(name)):
                    yield name, "Anything"
            elif (found := _NOTHING.match(line)) and found[1].startswith(str(self.root)):
                called = re.search(r"return (\w+)\(", "".join(self._around(found[1], int(found[2]), 1)))
                if called and called[1] in self.builtins:
                    yield called[1], "void"

    def _around(self, file: str, line: int, column: int) -> tuple[str, str]:
        text = Path(file).read_bytes().splitlines()[line - 1]
        return text[: column - 1].decode(errors="replace"), text[column - 1 :].decode(errors="replace")


def joined(kernels: Kernels) -> str:
    """One source of many kernels, each in a namespace of its own."""
    top = ['#include "kernel_operator.h"', "using namespace AscendC;"]
    parts = []
    for number, (name, text) in enumerate(kernels.items()):
        body = "\n".join("" if line in top else line for line in text.splitlines())
        body = body.replace('extern "C" ', "")
        parts.append(f'namespace kernel{number} {{\n#line 1 "{name}"\n{body}\n}}')
    return "\n".join([*top, *parts, ""])


def for_core(kernels: Kernels, core: str) -> dict[str, str]:
    """The kernels that a kind of core runs."""
    return {name: text for name, text in kernels.items()
            if any(word in text and core in cores for word, cores in CORES.items())}  # fmt: skip


def complaints(root: Path, target: AscendTarget, kernels: Kernels) -> list[str]:
    """What is wrong with kernels of a chip, for each kind of core that runs them."""
    found = []
    for core in ("VEC", "CUBE"):
        mine = for_core(kernels, core)
        with tempfile.TemporaryDirectory(prefix="public-headers-") as folder:
            headers = Headers(root, target.arch, core, Path(folder))
            found += headers.complaints(joined(mine)) if mine else []
    return found


def tutorial_kernels(target: AscendTarget) -> Iterator[tuple[str, str]]:
    from tests.backends_ascend import test_golden_kernels as golden

    for name in golden.CASES | golden.PRODUCTS:
        yield name, golden.made(name, target)[1]


def product_kernels(target: AscendTarget) -> Iterator[tuple[str, str]]:
    """Products in every dtype, with operands as they are stored and turned, and kernels of both kinds of cores."""
    from tests.backends_ascend.test_cube_kernels import by_slices, of_integers, turned
    from tests.backends_ascend.test_cube_mixed import attention, with_epilogue

    sizes = {"BM": 64, "BN": 64, "BK": 32}
    for dtype in (np.dtype(dtype.numpy) for dtype in target.multiplies):
        a, b, bias = np.zeros((96, 64), dtype), np.zeros((64, 96), dtype), np.zeros(96, dtype)
        square, heads = np.zeros((64, 64), dtype), np.zeros((2, 100, 64), dtype)
        exact = np.zeros((96, 96), np.int32 if dtype == np.int8 else np.float32)
        product = of_integers if dtype == np.int8 else by_slices
        made = [("product", product, (a, b, exact), sizes),
                ("large", product, (a, b, exact), {"BM": 128, "BN": 256, "BK": 32}),
                ("turned", turned, (square, square, exact[:64, :64].copy()), {"B": 64})]  # fmt: skip
        if dtype.itemsize > 1:
            made += [("rounded", by_slices, (a, b, exact.astype(dtype)), sizes),
                     ("epilogue", with_epilogue, (a, b, bias, exact), sizes),
                     ("attention", attention, (*[heads] * 3, heads.copy()), {"CAUSAL": True, "BM": 32, "BN": 32}),
                     ]  # fmt: skip
        for what, kernel, arrays, constants in made:
            function = function_of(kernel, kernel.signature.bind(arrays, constants))
            yield f"{what}_{dtype}", lower_to_text(function, target)[1]


def op_kernels(target: AscendTarget) -> Iterator[tuple[str, str]]:
    from tests.backends_ascend import test_every_op as ops

    for case in ops.CASES:
        if str(case) not in ops.REFUSED:
            kernel = ops.define(case.text, name=str(case))
            values = kernel.signature.bind(tuple(case.arguments()[0]), {})
            yield str(case), lower_to_text(function_of(kernel, values), target)[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--headers", metavar="DIR", help="holds include/basic_api and impl")
    parser.add_argument("--target", action="append", choices=CHIPS)
    given = parser.parse_args()
    root = place(given.headers)
    if root is None:
        parser.error("no public headers: give --headers DIR, which holds include/basic_api and impl")
    wrong = 0
    for name in given.target or CHIPS:
        target = ascend_target(name)
        kernels = dict(itertools.chain(tutorial_kernels(target), product_kernels(target), op_kernels(target)))
        found = complaints(root.resolve(), target, kernels)
        wrong += len(found)
        print(*found, f"{name}: {len(kernels)} kernels, {len(found)} lines of complaints", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
