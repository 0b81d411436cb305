"""From a kernel and examples of its arguments to an object or a shared library, and its header."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from pypto.arguments import describe
from pypto.backends import registry
from pypto.compile import attributes, verified
from pypto.errors.aot import NoLinker, NotAhead
from pypto.ir.types import TileType
from pypto.passes import optimize, prepare
from pypto.passes.analysis.memory_effects import written_names
from pypto.runtime.collection import without_collection
from pypto.runtime.launch import disjoint, overlaps
from pypto.tools.aot.contract import ABI, Version, facts_of, manifest, parameters_of
from pypto.tools.aot.header import header

SUFFIX: Final = {"object": ".o", "shared": ".so"}
MANIFEST: Final = "pypto_manifest"
_TIMEOUT: Final = 120  # seconds for the linker


def build(
    kernel: Any, versions: Sequence[Mapping[str, Any]], output: Path, kind: str = "shared", levels: Sequence[str] = ()
) -> list[Path]:
    """Compile versions of a kernel ahead of time.

    Parameters
    ----------
    kernel : Kernel
        What to compile.
    versions : sequence of dict
        Examples of the arguments by name, one for each version: arrays of the wanted types, numbers, constants.
    output : Path
        The file to write; the header stands beside it.
    kind : str
        ``"shared"``, a shared library, which a C compiler links; or ``"object"``, which needs none.
    levels : sequence of str
        CPU feature levels that there is to be code for, as in ``"x86-64-v3"``. The best one that a CPU has is run. All
        that this kind of machine knows if there are none.

    Returns
    -------
    list of Path
        The file and its header.

    Raises
    ------
    NotAhead
        When a version needs what only a launch in Python provides, or no such level is known.
    NoLinker
        When there is no C compiler, or it fails.
    """
    ahead = registry.host().ahead()
    name = symbol(kernel.signature.kernel)
    chosen = chosen_levels(kernel.signature.kernel, levels)
    built, entries = [], []
    for n, given in enumerate(versions):
        version, entry = one(kernel, given, f"pypto{ABI}_{name}_{n}", chosen)
        built.append(version)
        entries.append(ahead.Entry(*entry))
    data = manifest(kernel.signature.kernel, built) + b"\0"
    code = ahead.object_code(entries, {MANIFEST: data})
    write(output, code, kind)
    beside = output.with_suffix(".h")
    beside.write_text(header(name, kernel.signature.kernel, built), encoding="utf-8")
    return [output, beside]


def symbol(name: str) -> str:
    """A kernel's name as C may have it."""
    return re.sub(r"[^0-9A-Za-z_]", lambda m: f"_u{ord(m[0]):04x}", name)


def chosen_levels(kernel: str, levels: Sequence[str]) -> list[str]:
    """Levels to compile for, the best one first."""
    known = registry.host().ahead().levels()
    unknown = [level for level in levels if level not in known]
    if unknown:
        known_text = ", ".join(filter(None, known)) or "none on this kind of machine"
        raise NotAhead(kernel=kernel, problem=f"known_text is no feature level {unknown[0]}; known are {known_text}")
    return [level for level in reversed(known) if level in levels or not levels]


def one(kernel: Any, given: Mapping[str, Any], name: str, levels: Sequence[str]) -> tuple[Version, tuple[Any, ...]]:
    """A version: its contract, and its symbol with the code for each level."""
    ahead = registry.host().ahead()
    typed = {name: np.float32(value) if type(value) is float else value for name, value in given.items()}
    infos, specs = describe(kernel.signature, kernel.signature.bind((), typed))
    # Code that is told nothing of a number is right for each; that it is 1 makes better code, so that is kept.
    others = {n for n, spec in specs.items() if isinstance(spec, TileType) and infos[n] != 1}
    variant = kernel.kind(kernel.function, kernel.options, {*kernel.opaque, *others})
    bodies = []
    for level in levels:
        built, facts = variant.build(infos, specs, frozenset(), {}, partial(ahead.constants, level))
        written = written_names(built.function)
        noalias = disjoint(*overlaps(written, infos))
        with without_collection():
            function = prepare(built.function)
            function.attrs |= attributes(noalias, replace(kernel.options, checked=False, profile=False))
            verified(function, {})
            bodies.append(ahead.compile_body(optimize(function), level))
    entry = ahead.Entry(name, tuple(bodies))
    parameters = parameters_of(kernel, specs, written)
    shares = noalias and bool(written) and sum(p.kind == "array" for p in parameters) > 1
    version = Version(name, parameters, entry.slots, facts_of(facts.guard), shares, tuple(levels))
    return version, (name, tuple(bodies))


def write(output: Path, code: bytes, kind: str) -> None:
    """The object itself, or what the linker makes of it."""
    if kind == "object":
        output.write_bytes(code)
        return
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "kernels.o"
        part.write_bytes(code)
        link([part], output)


def link(parts: Sequence[Path], output: Path) -> None:
    """Have the C compiler make a shared library of C and objects; threads stay in it, so it is never unloaded."""
    words = shlex.split(os.environ.get("CC", "")) or ["cc"]
    program = shutil.which(words[0])
    if program is None:
        raise NoLinker(output=output, problem=f"there is no {words[0]}")
    flags = [
        "-shared",
        "-fPIC",
        "-O1",
        "-o",
        str(output),
        *map(str, parts),
        "-Wl,-z,nodelete",
        "-Wl,-z,defs",
        "-pthread",
    ]
    try:
        done = subprocess.run(
            [program, *words[1:], *flags], capture_output=True, text=True, check=False, timeout=_TIMEOUT
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoLinker(output=output, problem=str(error)) from None
    if done.returncode:
        raise NoLinker(output=output, problem=done.stderr.strip()[-500:])
