"""Shows the IR after passes: after a named one, or after each that changes something."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pypto.backends.base import Backend
from pypto.passes import optimize, prepare
from pypto.passes.manager import Pass, observed
from pypto.passes.optimizing import OPTIMIZE
from pypto.passes.preparing import PREPARE
from pypto.runtime.specialization import Specialization

AFTER: Final = "after:"  # prefix of a level that is the IR after a pass


def passes_of(backend: Backend) -> dict[str, Pass]:
    """Returns the names of all passes of a kernel that return IR, in their order."""
    return {row.name: row for row in (*PREPARE, *OPTIMIZE, *backend.passes) if row.run is not None}


def text_after(version: Specialization, name: str) -> str:
    """Returns the IR of a version after a pass, each time that it runs; empty if it does not run.

    Parameters
    ----------
    version : Specialization
        The result of `Kernel.compile`.
    name : str
        The pass, such as ``fusion``.
    """
    program, texts = version.program, list[str]()

    def observer(step: Pass, before: Any, after: Any) -> None:
        if step.name == name:
            texts.append(program.backend.print_ir(after))

    with observed(observer):
        function = prepare(program.built.function)
        function.attrs |= program.function.attrs
        program.backend.run_passes(optimize(function))
    return "\n".join(dict.fromkeys(texts))


@dataclass
class PassLog:
    """Writes the IR to stderr after each pass that changes its text."""

    function: str
    print_ir: Callable[[Any], str]
    texts: dict[int, tuple[Any, str]] = field(default_factory=dict)  # texts of passes' IR, by its identity

    def __call__(self, step: Pass, before: Any, after: Any) -> None:
        known = self.texts.get(id(before))
        old = known[1] if known is not None else self.print_ir(before)
        text = self.print_ir(after)
        self.texts[id(after)] = after, text
        if text != old:
            print(f"pypto: {self.function} after {step.name}\n{text}", file=sys.stderr)
