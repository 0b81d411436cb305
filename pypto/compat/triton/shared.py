"""A shared library of a compiled kernel, which AOTInductor puts into a package: that needs neither Python nor pypto.

torch's C++ calls the function `run_from_nativert` of a kernel's launcher with the sizes of the grid, pointers to the
arguments, and the function that has the kernel's name. Here both functions are in one library, around the kernel as
`pypto.tools.aot` compiles it: for all feature levels of the CPU, and for arrays of which any may share memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pypto.backends import registry
from pypto.errors.aot import NotAhead
from pypto.ir.types import DTYPE_BY_NAME, DType, PtrType, float64, written_type
from pypto.tools.aot.build import chosen_levels, link, one, symbol
from pypto.tools.aot.contract import ABI, Version
from pypto.tools.aot.header import header, number_type

if TYPE_CHECKING:
    from pypto.compat.triton.compiled import CompiledKernel

_MANY: Final = 1 << 40  # elements, of memory whose end is not known
_SOURCE: Final = """
#include <stdio.h>
#include <stdlib.h>
{header}
typedef int32_t (*pypto_entry)(const int64_t *, int64_t, void **);
int32_t pypto_kernel(const int64_t *grid, int64_t threads, void **args) __asm__("{name}");

int32_t pypto_kernel(const int64_t *grid, int64_t threads, void **args) {{
    static const int64_t many = {many}, step = 1;
{arguments}
    return {function}({passed});
}}

void run_from_nativert(uint32_t x, uint32_t y, uint32_t z, int threads, void **args, void *kernel) {{
    const int64_t grid[3] = {{x, y, z}};
    if (x == 0 || y == 0 || z == 0) return;
    const int32_t status = ((pypto_entry)kernel)(grid, threads, args);
    if (status == PYPTO_OK) return;
    fprintf(stderr, "{name} was not run: status %d\\n", (int)status);
    abort();
}}
"""


@dataclass(frozen=True)
class Memory:
    """Memory of which only the type of elements is known. Any two overlap."""

    dtype: DType
    shape: tuple[int, ...] = (_MANY,)

    def data_ptr(self) -> int:
        return _MANY

    def stride(self) -> tuple[int, ...]:
        return (1,)


def library(compiled: CompiledKernel) -> bytes:
    """The bytes of the library of a kernel that `triton.compile` has compiled.

    Raises
    ------
    NotAhead
        When an argument is of a kind that a C function cannot take.
    NoLinker
        When there is no C compiler.
    """
    kernel, name, types = compiled.fn.ours, compiled.metadata.name, compiled.src.signature
    given = {arg: example(name, arg, compiled.src, types) for arg in compiled.fn.arg_names}
    compiled_version, entry = one(kernel, given, f"pypto{ABI}_{symbol(name)}_0", chosen_levels(name, ()))
    version, function = renamed(compiled_version, list(types)), f"pypto_{symbol(name)}"
    text = _SOURCE.format(
        header=header(function, name, [version]), name=name, many=_MANY, function=function,
        arguments="\n".join(arguments(version)),
        passed=", ".join(("grid", "threads", *(f"&{p.name}" if p.kind == "array" else p.name for p in version.given))),
    )  # fmt: skip
    ahead = registry.host().ahead()
    with tempfile.TemporaryDirectory() as folder:
        source, part, output = (Path(folder) / file for file in ("kernel.c", "kernel.o", "kernel.so"))
        source.write_text(text, encoding="utf-8")
        part.write_bytes(ahead.object_code([ahead.Entry(*entry)], {}))
        link([source, part], output)
        return output.read_bytes()


def example(kernel: str, arg: str, src: Any, types: dict[str, str]) -> Any:
    """An argument to compile for; a number is 2, since 1 would be compiled as a constant."""
    if types.get(arg, "constexpr") == "constexpr":
        return src.constants[arg] if arg in src.constants else src.fn.signature.parameters[arg].default
    dtype = written_type(types[arg])
    if isinstance(dtype, PtrType) and isinstance(dtype.pointee, DType):
        return Memory(dtype.pointee)
    if not isinstance(dtype, DType):
        raise NotAhead(kernel=kernel, problem=f"its argument `{arg}` is of the type {types[arg]}")
    if dtype == float64:
        return 2.0  # torch says so of any float, and passes a C `float`, which is what a launch takes it for
    return True if dtype.is_bool else dtype.numpy.type(2)


def renamed(version: Version, names: list[str]) -> Version:
    """A version whose parameters have names that C may have: their numbers, since torch passes them by these."""
    numbers = {name: f"argument_{n}" for n, name in enumerate(names)}
    return replace(
        version,
        parameters=tuple(replace(p, name=numbers.get(p.name, p.name)) for p in version.parameters),
        slots=tuple(replace(slot, arg=numbers.get(slot.arg, slot.arg)) for slot in version.slots),
        facts=tuple((kind, numbers[arg], dim, expected) for kind, arg, dim, expected in version.facts),
    )


def arguments(version: Version) -> Iterator[str]:
    """Lines of C that read the arguments: an array's is its memory, and a number's points to it."""
    for p in version.given:
        place = f"args[{p.name.removeprefix('argument_')}]"
        if p.kind == "array":
            code = f"PYPTO_{DTYPE_BY_NAME[p.dtype].public.upper()}"
            yield f"    const pypto_array {p.name} = {{{place}, {code}, 1, &many, &step}};"
        else:
            yield f"    const {number_type(p.dtype)} {p.name} = *({number_type(p.dtype)} *){place};"
