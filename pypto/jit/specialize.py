"""Specialization: the version of a kernel for some arguments, found by its guard or compiled."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from pypto.arguments import check_writable, shown, spec_key
from pypto.errors import Diagnostic
from pypto.runtime.launch import disjoint, overlaps
from pypto.runtime.specialization import FactRecorder, Specialization, changing_entries, why

if TYPE_CHECKING:
    from pypto.frontend import ArgSpec
    from pypto.jit.kernel import Kernel


def version_for(kernel: Kernel, infos: Mapping[str, Any], specs: Mapping[str, ArgSpec]) -> Specialization:
    """The version for these arguments, compiled if need be."""
    from pypto.jit.manifest import Manifest

    shared = kernel.compiler.session()
    backend = shared.devices.backend(kernel.signature.kernel, infos) or shared.backend(kernel.options)
    group = backend, tuple((name, spec_key(spec)) for name, spec in specs.items())
    with kernel.lock:
        known = kernel.known.setdefault(group, [])
        for s in reversed(known):
            if s.holds(infos, disjoint(*overlaps(s.program.written, infos))):
                check_writable(kernel.signature.kernel, s.program.written, infos)
                return s
        dynamic = changing_entries(known, infos)
        manifest = Manifest(kernel, known, infos, specs, dynamic, backend)
        stored = manifest.load()
        known.append(stored or compile_version(kernel, known, infos, specs, dynamic, backend))
        if stored is None:
            manifest.keep(known[-1])
        if "specialize" in shared.settings.log:
            print(f"pypto: {kernel.signature.kernel} compiled for {known[-1]}", file=sys.stderr)
        return known[-1]


def compile_version(
    kernel: Kernel, known: list[Specialization], infos: Mapping[str, Any], specs: Mapping[str, ArgSpec],
    dynamic: frozenset[tuple[str, int]], backend: Any,
) -> Specialization:  # fmt: skip
    from pypto.debug.advice import advise
    from pypto.passes.memory_effects import written_names

    timings: dict[str, float] = {}
    built, facts = build(kernel, infos, specs, dynamic, timings)
    written = written_names(built.function)
    check_writable(kernel.signature.kernel, written, infos)
    noalias = disjoint(*overlaps(written, infos))
    with logged(kernel, backend):
        program = kernel.compiler.compile_program(built, noalias, kernel.options, timings, backend)
    types = tuple((name, shown(spec)) for name, spec in specs.items())
    version = Specialization(types, facts.guard, noalias, why(known, infos, noalias), timings, built.captures, program)
    advise(kernel, built, "" if backend.reports else backend.name, (*kernel.specializations, version), specs)
    return version


def logged(kernel: Kernel, backend: Any) -> AbstractContextManager[None]:
    """Log the passes of a compilation, where that is wanted."""
    if "passes" not in kernel.compiler.session().settings.log:
        return nullcontext()
    from pypto.debug.passes import PassLog
    from pypto.passes.manager import observed

    return observed(PassLog(kernel.signature.kernel, backend))


def build(
    kernel: Kernel, infos: Mapping[str, Any], specs: Mapping[str, ArgSpec], dynamic: Any, timings: dict[str, float]
) -> tuple[Any, FactRecorder]:
    """Tile IR, and the facts that it was built with."""
    strong = None if kernel.kernel_source.lenient else frozenset(kernel.signature.typed)
    facts = FactRecorder(kernel.signature.kernel, infos, dynamic, kernel.signature.declared, kernel.opaque, strong)
    try:
        return kernel.compiler.to_ir(kernel.kernel_source, specs, facts, kernel.options, timings), facts
    except Diagnostic:
        if not dynamic:
            raise
    return build(kernel, infos, specs, frozenset(), timings)  # what changes may have to be a constant all the same
