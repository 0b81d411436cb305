"""Runs the conformance kernels without the optional passes of the CPU; prints what came of each, and who was called.

`python -m tests.house.without_techniques MODULE …`
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import CodeType
from typing import Any, Final

import pypto as pto
from pypto.backends.cpu.pipeline import PASSES
from tests.conformance.running import ALL, assert_close, make_launch, run

CPU: Final = "pypto.backends.cpu."
OPTIONAL: Final = tuple(dict.fromkeys(row.name for row in PASSES if row.optional))


class Called:
    """The functions of some modules of the backend that are called while it is on."""

    def __init__(self, names: list[str]) -> None:
        self.names = frozenset(names)
        self.found: set[str] = set()
        self.seen: dict[int, CodeType] = {}  # by identity, which is quicker than what makes codes equal

    def __call__(self, frame: Any, event: str, _: Any) -> None:
        code: CodeType = frame.f_code
        if event != "call" or id(code) in self.seen:
            return
        self.seen[id(code)] = code
        module = "/".join(Path(code.co_filename).with_suffix("").parts[-2:])
        if module in self.names:
            self.found.add(f"{module.replace('/', '.')}.{code.co_qualname.partition('.<locals>')[0]}")


def outcome(name: str) -> str:
    launch = make_launch(name)
    found = run(pto.jit(launch.kernel.function, disable=OPTIONAL), launch)
    assert_close(found, launch.expected, launch.tolerance, name)
    return "right"


if __name__ == "__main__":
    outcome(next(iter(ALL)))  # imports what is imported with the first kernel
    for module in sys.argv[1:]:
        room = {"passes": "pypto.", "analysis": "pypto.passes."}.get(module.partition("/")[0], CPU)
        importlib.import_module(room + module.replace("/", "."))
    called = Called(sys.argv[1:])
    sys.setprofile(called)
    for name in ALL:
        print(f"{name}: {outcome(name)}")
    sys.setprofile(None)
    print("called:", *sorted(called.found))
