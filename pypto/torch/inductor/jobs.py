"""Defines jobs: what another process can compile for this one. This module needs no torch."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from pypto.arguments import describe
from pypto.compile import key_parts, machine_code, session, unfinished
from pypto.ir.core import Function
from pypto.ir.printer import print_function
from pypto.jit.kernel import Kernel
from pypto.jit.specialize import build
from pypto.options import KernelOptions
from pypto.passes.analysis.memory_effects import written_names
from pypto.runtime.launch import disjoint, overlaps
from pypto.runtime.specialization import changing_entries


class Job(NamedTuple):
    """A job for a worker: Tile IR as text, and options."""

    text: str
    options: KernelOptions


def job_for(kernel: Kernel, values: tuple[Any, ...]) -> Job | None:
    """Returns the job that compiles the code of such a launch; None where no other process can compile it."""
    if any(kernel.modes) or kernel.options.profile or session().devices.default is not None:
        return None
    infos, specs = describe(kernel.signature, values)
    timings: dict[str, float] = {}
    built, _ = build(kernel, infos, specs, changing_entries([], infos), timings)
    noalias = disjoint(*overlaps(written_names(built.function), infos))
    function = unfinished(built, noalias, kernel.options, timings)
    return Job(print_function(function), kernel.options)


def put_code(function: Function, options: KernelOptions) -> None:
    """Puts the code of Tile IR into the disk cache, where a launch finds it."""
    shared = session()
    backend = shared.backend(options)
    make = functools.partial(machine_code, function, backend, {})
    shared.through_cache(backend, lambda: key_parts(function, options, backend), make)
