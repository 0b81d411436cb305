"""Manifests: a second process finds a kernel's code in the disk cache without reading the kernel's source.

The key of code is the text of its Tile IR, and to know that text, the front end has to run. A manifest stands under
what can be known without it: the files of the functions, the kinds of the arguments with all that can be asked of them,
the options, and the package's files. It holds the code, and a record of each outside value that the front end read, in
the order in which it did. The front end is a function of these: where each record still holds, it would read the same
values again and write the same text. What cannot be recorded makes no manifest, and the front end runs as ever.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pypto.arguments import shown
from pypto.backends.base import Artifact, timed
from pypto.compile import Program, session, to_ir, unfinished
from pypto.frontend.spec import GONE, Capture, ConstSpec, reader
from pypto.ir.types import ArrayType
from pypto.jit.records import Records, Unrecorded
from pypto.passes.manager import is_observed
from pypto.runtime.arrays import check_writable
from pypto.runtime.disk_cache.cache import CacheKey
from pypto.runtime.disk_cache.sources import package_files
from pypto.runtime.launch import disjoint, overlaps
from pypto.runtime.specialization import Specialization, observe, why

if TYPE_CHECKING:
    from pypto.frontend import ArgSpec
    from pypto.jit.kernel import Kernel
    from pypto.ops.target import TargetConstants
    from pypto.runtime.specialization import Guard

_FORMAT: Final = "1"
_SAYS: Final = frozenset({"static_print"})  # what the front end does that anybody could see
_MOST_VERSIONS: Final = 8  # of a kernel, before the front end is asked for its advice


@dataclass
class Manifest:
    """The manifest for a launch, which may be there or not.

    Parameters
    ----------
    kernel : Kernel
    known : list of Specialization
        Versions that do not fit the launch.
    infos, specs : mapping
        The launch's arguments, see `describe`.
    dynamic : frozenset
        Sizes that stay run-time values.
    backend : Backend
        Where it runs.
    """

    kernel: Kernel
    known: list[Specialization]
    infos: Mapping[str, Any]
    specs: Mapping[str, ArgSpec]
    dynamic: frozenset[tuple[str, int]]
    backend: Any
    key: CacheKey | None = field(init=False)

    def __post_init__(self) -> None:
        self.key = None
        if is_kept(self.kernel, self.backend) and package_files():
            with suppress(Unrecorded):
                self.key = self.make_key(Records(), True)

    def make_key(self, records: Records, fresh: bool) -> CacheKey:
        """What is known before the source is read. Fresh text of the functions is as it is on disk now.

        Raises
        ------
        Unrecorded
            When something of it cannot be recorded.
        """
        kernel, signature = self.kernel, self.kernel.signature
        records.fresh = fresh
        promises = signature.constant, sorted(signature.declared.items()), sorted(map(repr, signature.typed.items()))
        arrays = frozenset(name for name, spec in self.specs.items() if isinstance(spec, ArrayType))
        parts = {
            "format": f"manifest {_FORMAT}", "part": f"manifest of {signature.kernel}",
            "files": package_files(), "python": sys.version, "numpy": np.__version__,
            **dict(self.backend.key_parts()), "constants": repr(self.backend.constants),
            "options": repr(kernel.options), "kind": kernel.kind.__qualname__,
            "function": records.function(kernel.function), "signature": repr((signature.names, promises)),
            "opaque": repr(sorted(kernel.opaque)), "dynamic": repr(sorted(self.dynamic)),
            "arguments": repr([self.argument(records, *row) for row in self.specs.items()]),
            "disjoint": str(disjoint(*overlaps(arrays, self.infos))),
        }  # fmt: skip
        return CacheKey(tuple(parts.items()))

    def argument(self, records: Records, name: str, spec: ArgSpec) -> Any:
        """The kind of an argument, and all facts that the front end may ask of it."""
        if isinstance(spec, ConstSpec):
            return name, "constant", records.value(spec.value)
        if isinstance(spec, tuple):
            if type(spec) is not tuple:
                raise Unrecorded(type(spec))
            return name, [self.argument(records, f"{name}.{n}", x) for n, x in enumerate(spec)]
        if isinstance(spec, ArrayType):
            rows = [("shape", name, d) for d in range(spec.ndim)] + [("stride", name, d) for d in range(spec.ndim)]
        else:
            rows = [("one", name, 0), ("weak", name, 0)]
        return name, repr(spec), [observe(fact, self.infos) for fact in rows]

    # --- reading ----------------------------------------------------------------------------------------------------

    def load(self) -> Specialization | None:
        """The version that the manifest describes, if there is one and it holds."""
        if self.key is None:
            return None
        timings: dict[str, float] = {}
        with timed(timings, "cache"):
            data = session().cache.get(self.key)
        if data is None:
            return None
        end = 8 + int.from_bytes(data[:8], "little")
        head = json.loads(data[8:end])
        written = frozenset(head["written"])
        with suppress(Unrecorded):
            captures = self.captures(head)
            check_writable(self.kernel.signature.kernel, written, self.infos, self.kernel.lenient)
            noalias = disjoint(*overlaps(written, self.infos))
            if noalias == head["noalias"]:
                guard = {(kind, arg, dim): value for kind, arg, dim, value in head["guard"]}
                with timed(timings, "load"):
                    artifact = Artifact.from_bytes(data[end:])
                    program = StoredProgram(self.kernel, self.specs, guard, noalias, artifact)
                program.written, program.timings = written, timings
                types = tuple((name, shown(spec)) for name, spec in self.specs.items())
                reason = why(self.known, self.infos, noalias)
                return Specialization(types, guard, noalias, reason, timings, captures, program)
        return None

    def captures(self, head: Mapping[str, Any]) -> tuple[Capture, ...]:
        """The outside values, where each is as it was.

        Raises
        ------
        Unrecorded
            Where one is not.
        """
        records = Records(frozenset(head["names"]))
        self.make_key(records, True)
        captures = []
        for name, place, recorded in head["captures"]:
            read = reader(records.owner(place), name)
            value = read()
            if value is GONE or records.value(value) != recorded:
                raise Unrecorded(name)
            captures.append(Capture(name, value, read))
        return tuple(captures)

    # --- writing ----------------------------------------------------------------------------------------------------

    def keep(self, version: Specialization) -> None:
        """Store the manifest of a version that was compiled for the launch, if all of it can be recorded."""
        if self.key is None or self.kernel.reported or session().settings.cache != "rw":
            return
        with suppress(Unrecorded):
            names = self.record(version, Records(frozenset())).names
            records = self.record(version, Records(frozenset(names)))
            if names & _SAYS or self.make_key(Records(), False).record != self.key.record:
                return
            head = {
                "names": sorted(names), "captures": records.captures, "noalias": version.noalias,
                "written": sorted(version.program.written), "guard": [[*fact, x] for fact, x in version.guard.items()],
            }  # fmt: skip
            text = json.dumps(head).encode()
            code = version.program.artifact.to_bytes()
            session().cache.put(self.key, len(text).to_bytes(8, "little") + text + code)

    def record(self, version: Specialization, records: Records) -> Records:
        """All that the front end read for a version."""
        self.make_key(records, False)
        for capture in version.captures:
            if capture.read() is not capture.value:
                raise Unrecorded(capture.name)
            records.capture(capture)
        return records


def is_kept(kernel: Kernel, backend: Any) -> bool:
    """Whether manifests are made of a kernel: written by a user, and launched plainly on the host."""
    options, settings = kernel.options, session().settings
    special = options.checked or options.profile or options.interpret or options.differentiable or kernel.origins
    logged = "passes" in settings.log or is_observed()
    many = sum(map(len, kernel.known.values())) >= _MOST_VERSIONS
    return settings.cache != "off" and bool(backend.has_native_launches) and not (special or logged or many)


class StoredProgram(Program):
    """A program whose Tile IR is made when it is asked for: by explanations, not by launches."""

    def __init__(
        self, kernel: Kernel, specs: Mapping[str, ArgSpec], guard: Guard, noalias: bool, artifact: Artifact
    ) -> None:
        self.timings = {}
        self.backend = session().backend(kernel.options)
        self.artifact = artifact
        self.executable = self.backend.load(artifact)
        self.source = kernel, specs, GuardFacts(guard, lambda: self.backend.constants), noalias

    def __getattr__(self, name: str) -> Any:
        if name not in ("built", "function"):
            raise AttributeError(name)
        kernel, specs, facts, noalias = self.source
        self.built = to_ir(kernel.kernel_source, specs, facts, kernel.options, {})
        self.function = unfinished(self.built, noalias, kernel.options, {})
        return self.__dict__[name]


@dataclass(frozen=True, slots=True)
class GuardFacts:
    """Answers the front end as it was answered when a version was compiled."""

    guard: Guard
    target: Callable[[], TargetConstants]

    def shape(self, arg: str, dim: int) -> int | None:
        return self.guard.get(("shape", arg, dim))

    def require_shape(self, arg: str, dim: int) -> int:
        return int(self.guard["shape", arg, dim] or 0)

    def stride(self, arg: str, dim: int) -> int | None:
        return self.guard.get(("stride", arg, dim))

    def equals_one(self, arg: str) -> bool:
        return bool(self.guard.get(("one", arg, 0)))

    def is_weak(self, arg: str) -> bool:
        return bool(self.guard.get(("weak", arg, 0)))
