"""Many kernels in few runs of the compiler: what is launched first is only collected, then compiled together."""

from __future__ import annotations

import argparse
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pypto as pto
from pypto.backends.ascend.backend import AscendBackend
from pypto.backends.ascend.blockir.softfloat64 import parts
from pypto.backends.ascend.target import ascend_target
from pypto.backends.ascend.toolchain.toolchain import Toolchain
from pypto.runtime.devices import Device

TOP: Final = '#include "kernel_operator.h"\nusing namespace AscendC;\n'
EACH: Final = 24  # kernels of a unit
CHIPS: Final = ("ascend910b2", "ascend950")


def joined(texts: list[str]) -> str:
    """One source of several, whose kernels have names of their own; what they share stands there once."""
    helpers: dict[str, None] = {}
    kernels = []
    for text in texts:
        head, begin, kernel = text.removeprefix(TOP).partition('extern "C"')
        helpers |= dict.fromkeys(piece.strip("\n") for piece in head.split("\n\n") if piece.strip())
        kernels.append(begin + kernel)
    order = [part.text for part in parts().values()]
    ordered = sorted(helpers, key=lambda text: order.index(text) if text in order else -1)
    return "\n\n".join([TOP.rstrip("\n"), *ordered, *kernels])


Key = tuple[str, str]  # a kernel's name, and which of its versions


@dataclass
class Function:
    """A kernel that a unit will have."""

    key: Key
    owner: Any


@dataclass
class Unit:
    """What a binary of the backend's stands for."""

    version: str

    def function(self, symbol: str, owner: Any) -> Function:
        return Function((symbol, self.version), owner)


@dataclass
class Units:
    """A toolchain and a device at once: compiles nothing and runs nothing until `build`."""

    place: Any
    arch: str = "dav-2201"
    texts: dict[Key, str] = field(default_factory=dict)
    functions: dict[Key, Any] = field(default_factory=dict)
    built: bool = False

    # --- as a toolchain

    def key_parts(self) -> tuple[tuple[str, str], ...]:
        return (("form", f"units of {id(self)}"),)

    def compile(self, text: str, kernel: str, kind: str, arch: str, file: str = "") -> bytes:
        name = text.split("__aicore__ void ", 1)[1].partition("(")[0]
        version = hashlib.sha256(text.encode()).hexdigest()
        self.texts[name, version] = text
        return version.encode()

    def takes_sync_address(self, kind: str, arch: str) -> bool:
        return False

    def build(self) -> None:
        """Compile all that is known and not compiled yet."""
        self.built = True
        left = [key for key in self.texts if key not in self.functions]
        chunks = []
        while left:  # of a kernel with several versions, a unit has one
            first = {name: (name, version) for name, version in reversed(left)}
            chunks.append([key for key in left if key in first.values()][:EACH])
            left = [key for key in left if key not in chunks[-1]]
        with ThreadPoolExecutor(2) as pool:
            for chunk, binary in zip(chunks, pool.map(self.compiled, chunks), strict=True):
                loaded = self.place.acl.load(binary)
                self.functions |= {key: loaded.function(key[0]) for key in chunk}

    def compiled(self, keys: list[Key]) -> bytes:
        chain: Toolchain = self.place.backend.toolchain
        return chain.compile(joined([self.texts[key] for key in keys]), "unit", "vector", self.arch)

    # --- as a device

    def __getattr__(self, name: str) -> Any:
        return getattr(self.place.acl, name)

    def load(self, binary: bytes, kind: str) -> Unit:
        return Unit(binary.decode())

    def launch(self, function: Function, blocks: int, arguments: bytes) -> None:
        if not self.built:
            return
        if self.functions and next(iter(self.functions.values())).binary.epoch != self.place.acl.epoch:
            self.functions.clear()  # a fault of another kernel has reset the device
        if function.key not in self.functions:
            self.build()
        made = self.functions[function.key]
        made = type(made)(made.binary, made.handle, made.name, function.owner)
        self.place.acl.launch(made, blocks, arguments)


@contextmanager
def units(chip: str = "ascend910b2") -> Iterator[tuple[Units, Device]]:
    """The simulated device twice: what is launched on the second one runs only after the first one's `build`."""
    place, target = pto.device(f"ascend-sim:{chip}"), ascend_target(chip)
    made = Units(place, target.flag)
    backend = AscendBackend(target, Path, lambda: made)
    backend.found.append(made)  # type: ignore[arg-type]  # it stands for a toolchain
    yield made, Device("ascend-sim", place.acl, backend, pto.device)


def search(
    described: str | None, drawn: Callable[..., list[Any]], differing: Callable[..., Any], each: int, seed: int | None
) -> int:
    """The command line of a search: draw kernels, compare `each` of them at a time, and show those that differ."""
    parser = argparse.ArgumentParser(description=described)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=seed)
    parser.add_argument("--chip", choices=CHIPS, default=CHIPS[0])
    options = parser.parse_args()
    cases, differ = drawn(options.count, options.seed), 0
    refused: Counter[str] = Counter()
    for start in range(0, len(cases), each):
        some = cases[start : start + each]
        failed = differing(some, options.chip)
        for case, words in failed:
            print(f"--- {case}\n{words}")
        differ += len(failed)
        refused.update(case.refused for case in some if case.refused not in ("", "failed"))
        print(f"{start + len(some)} kernels: {differ} differ, {refused.total()} were refused", flush=True)
    for reason, count in refused.most_common():
        print(f"{count:5}  {reason}")
    return 1 if differ else 0
