"""Stored kernels: a compiled version of a generated kernel is stored with its plan and launches without its source.

Its IR is rebuilt on demand, from the facts that it was compiled for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pypto.jit import Kernel
from pypto.runtime.specialization import Guard, Specialization


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts for which a version of a kernel was compiled.

    Parameters
    ----------
    name : str
        The name of the kernel.
    types : tuple of (str, str)
        The arguments and their types.
    guard : dict
        The facts of a launch that the compiler used.
    noalias : bool
        Whether written arrays overlap no others.
    written : tuple of str
        The arguments that the kernel writes.
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
        """Return the facts as plain values for JSON."""
        guard = [[*fact, value] for fact, value in self.guard.items()]
        return {
            "name": self.name, "types": self.types, "guard": guard, "noalias": self.noalias, "written": self.written,
        }  # fmt: skip

    @staticmethod
    def from_plain(row: Mapping[str, Any]) -> Facts:
        """Rebuild the facts from the values of `plain`.

        Raises
        ------
        ValueError, TypeError, LookupError
            When the values are malformed.
        """
        guard: Guard = {}
        for kind, arg, dim, value in row["guard"]:
            if kind not in ("shape", "stride") or not (value is None or isinstance(value, int)):
                raise ValueError(f"{kind} is no fact of an array")
            guard[str(kind), str(arg), int(dim)] = value
        types = tuple((str(name), str(kind)) for name, kind in row["types"])
        return Facts(str(row["name"]), types, guard, bool(row["noalias"]), tuple(map(str, row["written"])))


def stored_version(kernel: Kernel, facts: Facts, code: bytes) -> tuple[Any, Specialization]:
    """Rebuild a version of a kernel from its machine code: return its key in the kernel's table, and the version.

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
