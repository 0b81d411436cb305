"""A compiled version of a generated kernel, as it is kept with a plan: launching it reads no source.

Its IR is made when someone asks for it, from the facts that it was compiled for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pypto.jit import Kernel
from pypto.runtime.specialization import Guard, Specialization


@dataclass(frozen=True, slots=True)
class Facts:
    """What a version of a kernel was compiled for.

    Parameters
    ----------
    name : str
        Of the kernel.
    types : tuple of (str, str)
        Arguments, and their types.
    guard : dict
        Facts of a launch that were asked for, with the answers.
    noalias : bool
        Whether arrays that it writes to overlap no others.
    written : tuple of str
        Arguments that it writes to.
    """

    name: str
    types: tuple[tuple[str, str], ...]
    guard: Guard
    noalias: bool
    written: tuple[str, ...]

    @staticmethod
    def of(name: str, version: Specialization) -> Facts:
        return Facts(name, version.types, version.guard, version.noalias, tuple(sorted(version.program.written)))

    def plain(self) -> dict[str, Any]:
        """The facts as JSON takes them."""
        guard = [[*fact, value] for fact, value in self.guard.items()]
        return {
            "name": self.name, "types": self.types, "guard": guard, "noalias": self.noalias, "written": self.written,
        }  # fmt: skip

    @staticmethod
    def from_plain(row: Mapping[str, Any]) -> Facts:
        """The facts from what `plain` gives.

        Raises
        ------
        ValueError, TypeError, LookupError
            When it gives no such thing.
        """
        guard: Guard = {}
        for kind, arg, dim, value in row["guard"]:
            if kind not in ("shape", "stride") or not (value is None or isinstance(value, int)):
                raise ValueError(f"{kind} is no fact of an array")
            guard[str(kind), str(arg), int(dim)] = value
        types = tuple((str(name), str(kind)) for name, kind in row["types"])
        return Facts(str(row["name"]), types, guard, bool(row["noalias"]), tuple(map(str, row["written"])))


def stored_version(kernel: Kernel, facts: Facts, code: bytes) -> tuple[Any, Specialization]:
    """The version of a kernel from its code: under which key the kernel knows it, and itself.

    Raises
    ------
    ValueError, TypeError, LookupError
        When the facts do not fit the kernel.
    """
    from pypto.arguments import spec_key
    from pypto.backends.base import Artifact
    from pypto.compile import session
    from pypto.ir.parser import parse_type
    from pypto.jit.manifest import StoredProgram

    if tuple(name for name, _ in facts.types) != kernel.signature.names:
        raise ValueError(f"{kernel} has other arguments")
    if not {arg for _, arg, _ in facts.guard} | set(facts.written) <= set(kernel.signature.names):
        raise ValueError(f"{kernel} has no such argument")
    backend = session().backend(kernel.options)
    specs = {name: parse_type(text) for name, text in facts.types}
    artifact = Artifact.from_bytes(code)
    program = StoredProgram(kernel, specs, facts.guard, facts.noalias, artifact)
    program.written = frozenset(facts.written)
    group = backend, tuple((name, spec_key(spec)) for name, spec in specs.items())
    version = Specialization(facts.types, facts.guard, facts.noalias, "its plan was on disk", {}, (), program)
    return group, version
