"""Specialization: the plan and the version of a kernel for some arguments, found by a key or guard, or compiled."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from pypto.arguments import describe, shown, spec_key
from pypto.errors import Diagnostic
from pypto.runtime.arrays import check_writable
from pypto.runtime.collection import without_collection
from pypto.runtime.launch import Plan, Values, disjoint, fingerprint, overlaps
from pypto.runtime.signature import flatten
from pypto.runtime.specialization import FactRecorder, Specialization, changing_entries, why

if TYPE_CHECKING:
    from pypto.frontend import ArgSpec
    from pypto.jit.kernel import Kernel
    from pypto.ops.target import TargetConstants


_MOST_ENTRIES: Final = 4096


def plan_for(kernel: Kernel, given: Values) -> tuple[Plan, list[int], Values]:
    """How to launch for these arguments, compiled if need be, where their arrays are, and their leaves."""
    key, entry = None, None
    try:
        key, addresses, values = fingerprint(given, kernel.signature.constant)
        entry = kernel.entries.get(key)
    except (LookupError, TypeError, RuntimeError):  # no key, no hash, or a tensor without memory
        pass
    if entry is not None:
        pairs, plans = entry
        plan = plans.get(disjoint(pairs, addresses))
        if plan is not None and plan.fits(values):
            return plan, addresses, values
    infos, specs = describe(kernel.signature, given)
    version = version_for(kernel, infos, specs)
    plan, (pairs, addresses) = Plan.of(version, infos), overlaps(version.program.written, infos)
    prints = version.program.artifact.prints
    if version.program.backend.reports and (kernel.options.checked or prints):
        from pypto.debug.watching import watch_of

        plan.watch = watch_of(version.program, infos, kernel.options.checked, kernel.compiler.session().owners)
    if key is not None and len(kernel.entries) < _MOST_ENTRIES:
        is_disjoint = disjoint(pairs, addresses)
        kernel.entries.setdefault(key, (pairs, {}))[1][is_disjoint] = plan
        if kernel.table and version.program.backend.has_native_launches and not prints:
            kernel.table.teach(version, infos, given, not is_disjoint)
    return plan, addresses, flatten(given, kernel.signature.constant)[1]


def backend_for(kernel: Kernel, infos: Mapping[str, Any]) -> Any:
    """The backend of a launch: that of the device on which its arrays are, or which is chosen."""
    shared = kernel.compiler.session()
    return shared.devices.backend(kernel.signature.kernel, infos) or shared.backend(kernel.options)


def version_for(kernel: Kernel, infos: Mapping[str, Any], specs: Mapping[str, ArgSpec]) -> Specialization:
    """The version for these arguments, compiled if need be."""
    from pypto.jit.manifest import Manifest

    shared, backend = kernel.compiler.session(), backend_for(kernel, infos)
    group = backend, tuple((name, spec_key(spec)) for name, spec in specs.items())
    with kernel.lock:
        known = kernel.known.setdefault(group, [])
        for s in reversed(known):
            if s.holds(infos, disjoint(*overlaps(s.program.written, infos))):
                check_writable(kernel.signature.kernel, s.program.written, infos, kernel.lenient)
                return s
        dynamic = changing_entries(known, infos)
        manifest = Manifest(kernel, known, infos, specs, dynamic, backend)
        stored = manifest.load()
        known.append(stored or compile_version(kernel, known, infos, specs, dynamic, backend))
        if stored is None:
            manifest.keep(known[-1])
        if "specialize" in shared.settings.log:
            print(f"pypto: {kernel.signature.kernel} compiled for {known[-1]}", file=sys.stderr)
        if place := text_place(kernel):
            backend.located(known[-1].program.artifact, known[-1].program.executable, place)
        return known[-1]


def text_place(kernel: Kernel) -> str:
    """Where the text of a user's kernel begins; empty for kernels of pypto itself."""
    code = getattr(kernel.function, "__code__", None)
    is_ours = kernel.origins or (kernel.function.__module__ or "").startswith("pypto.")
    return "" if code is None or is_ours else f"{code.co_filename}:{code.co_firstlineno}"


@without_collection()
def compile_version(
    kernel: Kernel, known: list[Specialization], infos: Mapping[str, Any], specs: Mapping[str, ArgSpec],
    dynamic: frozenset[tuple[str, int]], backend: Any,
) -> Specialization:  # fmt: skip
    from pypto.debug.advice import advise
    from pypto.passes.analysis.memory_effects import written_names

    timings: dict[str, float] = {}
    built, facts = build(kernel, infos, specs, dynamic, timings)
    written = written_names(built.function)
    check_writable(kernel.signature.kernel, written, infos, kernel.lenient)
    noalias = disjoint(*overlaps(written, infos))
    with logged(kernel, backend):
        program = kernel.compiler.compile_program(built, noalias, kernel.options, timings, backend)
    types, reason = tuple((name, shown(spec)) for name, spec in specs.items()), why(known, infos, noalias)
    version = Specialization(types, facts.guard, noalias, reason, timings, built.captures, program)
    advise(kernel, built, "" if backend.reports else backend.name, (*kernel.specializations, version), specs)
    return version


def logged(kernel: Kernel, backend: Any) -> AbstractContextManager[None]:
    """Log the passes of a compilation, where that is wanted."""
    if "passes" not in kernel.compiler.session().settings.log:
        return nullcontext()
    from pypto.debug.passes import PassLog
    from pypto.passes.manager import observed

    return observed(PassLog(kernel.signature.kernel, backend.print_ir))


def build(
    kernel: Kernel, infos: Mapping[str, Any], specs: Mapping[str, ArgSpec], dynamic: Any, timings: dict[str, float],
    target: Callable[[], TargetConstants] | None = None,
) -> tuple[Any, FactRecorder]:  # fmt: skip
    """Tile IR, and the facts that it was built with: those of the device in force, or of another target."""
    strong = None if kernel.kernel_source.lenient else frozenset(kernel.signature.typed)
    name, declared = kernel.signature.kernel, kernel.signature.declared
    target = target or (lambda: backend_for(kernel, infos).constants)
    facts = FactRecorder(name, infos, dynamic, declared, kernel.opaque, strong, target)
    try:
        return kernel.compiler.to_ir(kernel.kernel_source, specs, facts, kernel.options, timings), facts
    except Diagnostic:
        if not dynamic:
            raise
    # What changes may have to be a constant all the same.
    return build(kernel, infos, specs, frozenset(), timings, target)
