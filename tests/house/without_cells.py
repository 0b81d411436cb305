"""Lowers the conformance kernels while no module of a cell can be imported; prints what came of each.

`python -m tests.house.without_cells MODULE …`
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

from pypto.backends.cpu.codegen.function import lower
from pypto.backends.cpu.library.registry import LIBRARY_OPS, SCALAR_LOOP_OPS
from pypto.ir.core import Function
from tests.backends_cpu.lowering import fixed_target, optimized
from tests.conformance.running import ALL, make_launch


class Refusing(MetaPathFinder):
    """Finds none of some modules."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname in self.names:
            raise ModuleNotFoundError(f"there is no {fullname}", name=fullname)
        return None


def forget(names: list[str]) -> None:
    """Take modules away that were loaded before."""
    for name in names:
        package, _, own = name.rpartition(".")
        if sys.modules.pop(name, None) is not None:
            delattr(sys.modules[package], own)


def outcome(function: Function) -> str:
    uses = any(op.name in (*LIBRARY_OPS, *SCALAR_LOOP_OPS) for op in function.walk())
    try:
        lower(function, fixed_target())
    except ImportError:
        return "needs a cell" if uses else "needs a cell that it does not use"
    return "needs a cell, and compiled without" if uses else "compiled"


if __name__ == "__main__":
    functions = {name: optimized(make_launch(name)) for name in ALL}
    forget(sys.argv[1:])
    sys.meta_path.insert(0, Refusing(sys.argv[1:]))
    for name, function in functions.items():
        print(f"{name}: {outcome(function)}")
