"""The C header of a library: a function for each version, which checks its arguments, and one that tries all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Final

from pypto.backends.base import Slot
from pypto.ir.types import DTYPE_BY_NAME, DTYPES, FLOAT8
from pypto.tools.aot.contract import ABI, Parameter, Version

_NUMBERS: Final = MappingProxyType({"f32": "float", "f64": "double", "i1": "bool"})
_ONES: Final = MappingProxyType({"f16": "0x3c00", "bf16": "0x3f80"})  # of numbers that are passed as their bits
_CODES: Final = MappingProxyType({d.mnemonic: n for n, d in enumerate((*DTYPES, *FLOAT8))})
_PRELUDE: Final = """
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifndef PYPTO_ABI
#define PYPTO_ABI {abi}

/* What a call returns. */
enum {{ PYPTO_OK = 0, PYPTO_BAD_GRID = 1, PYPTO_NO_VERSION = 2, PYPTO_NO_CPU = 3, PYPTO_NO_MEMORY = 4 }};

/* Types of elements. */
enum {{ {codes} }};

/* An array: where its first element is, its type and number of axes, and for each axis its size and its stride, which
   is counted in elements. Any alignment of the data is right. */
typedef struct pypto_array {{
    void *data;
    int32_t dtype, ndim;
    const int64_t *shape, *stride;
}} pypto_array;

static inline bool pypto_is(const pypto_array *x, int32_t dtype, int32_t ndim) {{
    return x->dtype == dtype && x->ndim == ndim;
}}

/* The stride of an axis as versions know it: 0, 1, or 2 for any other. */
static inline int pypto_step(const pypto_array *x, int axis) {{
    if (x->stride[axis] == 0 || x->stride[axis] == 1) return (int)x->stride[axis];
    return axis == x->ndim - 1 && x->shape[axis] == 1 ? 1 : 2;
}}

/* The first byte of an array, and the byte behind its last one; the same where it has no elements. */
static inline void pypto_reach(const pypto_array *x, int64_t size, int64_t ends[2]) {{
    ends[0] = ends[1] = (int64_t)(intptr_t)x->data;
    for (int axis = 0; axis < x->ndim; ++axis) if (x->shape[axis] == 0) return;
    for (int axis = 0; axis < x->ndim; ++axis) {{
        int64_t step = (x->shape[axis] - 1) * x->stride[axis] * size;
        ends[step > 0] += step;
    }}
    ends[1] += size;
}}

static inline bool pypto_disjoint(const pypto_array *x, int64_t x_size, const pypto_array *y, int64_t y_size) {{
    int64_t a[2], b[2];
    pypto_reach(x, x_size, a);
    pypto_reach(y, y_size, b);
    return a[0] == a[1] || b[0] == b[1] || a[1] <= b[0] || b[1] <= a[0];
}}

/* A floating-point number as the bits of an argument. */
static inline int64_t pypto_bits(const void *value, size_t size) {{
    int64_t bits = 0;
    memcpy(&bits, value, size);  /* least significant byte first */
    return bits;
}}
#endif
"""
_ABOUT: Final = """/* {kernel}, compiled ahead of time by pypto. Link with the object or library beside this file.

   `grid` has three sizes, 1 for axes that there are none of. Programs run on up to `threads` threads. Calls return
   PYPTO_OK, or why nothing was run. */
"""


def header(name: str, kernel: str, versions: Sequence[Version]) -> str:
    """The text of a header."""
    guard = f"PYPTO_{name.upper()}_H"
    codes = ", ".join(f"PYPTO_{DTYPE_BY_NAME[d].public.upper()} = {n}" for d, n in _CODES.items())
    parts = [_ABOUT.format(kernel=kernel), f"#ifndef {guard}\n#define {guard}", _PRELUDE.format(abi=ABI, codes=codes)]
    parts.append('#ifdef __cplusplus\nextern "C" {\n#endif\n')
    parts += [f"int32_t {v.symbol}(const int64_t *grid, const int64_t *slots, int64_t threads);\n" for v in versions]
    parts.append("\n#ifdef __cplusplus\n}\n#endif\n")
    parts += [function(f"{name}_{n}", v) for n, v in enumerate(versions)]
    if len({parameters(v) for v in versions}) == 1:
        parts.append(chooser(name, versions))
    return "".join([*parts, f"\n#endif  /* {guard} */\n"])


def parameters(version: Version) -> str:
    """The parameters of a version's function."""
    return ", ".join(("const int64_t grid[3]", "int64_t threads", *map(declared, version.given)))


def declared(parameter: Parameter) -> str:
    name = parameter.name
    return f"const pypto_array *{name}" if parameter.kind == "array" else f"{number_type(parameter.dtype)} {name}"


def number_type(dtype: str) -> str:
    """A C type for a number; those that C has none for are passed as their bits."""
    element = DTYPE_BY_NAME[dtype]
    if dtype in _NUMBERS:
        return _NUMBERS[dtype]
    return f"{'int' if element.kind == 'int' else 'uint'}{8 * element.itemsize}_t"


def function(name: str, version: Version) -> str:
    lines = [f"\n/* {description(version)} */", f"static inline int32_t {name}({parameters(version)}) {{"]
    lines += [f"    if ({check}) return PYPTO_NO_VERSION;" for check in checks(version)]
    values = ", ".join(value(slot) for slot in version.slots) or "0"
    lines += [f"    const int64_t slots[] = {{{values}}};"]
    return "\n".join([*lines, f"    return {version.symbol}(grid, slots, threads);", "}", ""])


def description(version: Version) -> str:
    """What a version is for, for people."""
    kinds = {"array": "{0.name}: {1}[{2}]{3}", "number": "{0.name}: {1}", "constant": "{0.name} = {0.text}"}
    texts = []
    for p in version.parameters:
        public = DTYPE_BY_NAME[p.dtype].public if p.dtype else ""
        texts.append(kinds[p.kind].format(p, public, ", ".join(":" * p.ndim), " (written)" if p.is_written else ""))
    return f"{', '.join(texts)}; for {', '.join(filter(None, version.levels)) or 'any CPU'}".replace("*/", "* /")


def checks(version: Version) -> Iterator[str]:
    """Conditions under which a version does not fit."""
    for p in version.arrays:
        yield f"!pypto_is({p.name}, PYPTO_{DTYPE_BY_NAME[p.dtype].public.upper()}, {p.ndim})"
    for kind, arg, dim, expected in version.facts:
        if kind == "shape":
            yield f"{arg}->shape[{dim}] != {expected}"
        elif kind == "stride":
            yield f"pypto_step({arg}, {dim}) != {2 if expected is None else expected}"
        else:
            one = _ONES.get(next(p.dtype for p in version.given if p.name == arg), "1")
            yield f"({arg} == {one}) != {int(bool(expected))}"
    sizes = {p.name: DTYPE_BY_NAME[p.dtype].itemsize for p in version.arrays}
    for n, p in enumerate(version.arrays if version.noalias else ()):
        for q in version.arrays[:n]:
            if p.is_written or q.is_written:
                yield f"!pypto_disjoint({p.name}, {sizes[p.name]}, {q.name}, {sizes[q.name]})"


def value(slot: Slot) -> str:
    match slot.kind:
        case "ptr":
            return f"(int64_t)(intptr_t){slot.arg}->data"
        case "shape" | "stride":
            return f"{slot.arg}->{slot.kind}[{slot.dim}]"
        case _:
            is_bits = slot.dtype.mnemonic in ("f32", "f64")
            return f"pypto_bits(&{slot.arg}, sizeof {slot.arg})" if is_bits else f"(int64_t){slot.arg}"


def chooser(name: str, versions: Sequence[Version]) -> str:
    """The function that runs the first version that fits."""
    names = ", ".join(("grid", "threads", *(p.name for p in versions[0].given)))
    lines = [f"\n/* The first version that fits. */\nstatic inline int32_t {name}({parameters(versions[0])}) {{"]
    lines += ["    int32_t status = PYPTO_NO_VERSION;"]
    for n, _ in enumerate(versions):
        lines.append(f"    if (status == PYPTO_NO_VERSION) status = {name}_{n}({names});")
    return "\n".join([*lines, "    return status;", "}", ""])
