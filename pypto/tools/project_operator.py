"""The host side of an operator project: definition, inference of shapes and types, and the tiling function.

The tiling function is the launch of pypto: it chooses the version that was compiled for the types and sizes of a call,
as the guard of a specialization does, counts the programs, and hands sizes, strides and numbers to the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors.project import NoOperator
from pypto.ir.core import Function
from pypto.passes.analysis.memory_effects import pointer_roots, reads_memory
from pypto.tools.project_fields import Field
from pypto.tools.project_formula import CANN, Names, NoFormula, Spelling, translated
from pypto.tools.project_torch import TorchVersion

_TYPES: Final = MappingProxyType(
    {"f32": "DT_FLOAT", "f16": "DT_FLOAT16", "bf16": "DT_BF16", "i8": "DT_INT8", "i16": "DT_INT16", "i32": "DT_INT32",
     "i64": "DT_INT64", "u8": "DT_UINT8", "u16": "DT_UINT16", "u32": "DT_UINT32", "u64": "DT_UINT64",
     "f64": "DT_DOUBLE", "i1": "DT_BOOL"})  # fmt: skip


@dataclass(frozen=True)
class OperatorVersion:
    """A compiled version as the operator's host side sees it.

    Attributes
    ----------
    torch : TorchVersion
        Fields, arrays, guard, and arguments that it writes.
    code : the content of an artifact
        What was compiled.
    read : frozenset of str
        Arrays that it reads.
    grid : tuple of int
        Of the launch that it was compiled for.
    formula : str
        The grid as a formula of arguments; without one the version takes exactly the shapes that it was compiled for.
    arguments : dict
        Of that launch.
    """

    torch: TorchVersion
    code: Any
    read: frozenset[str]
    grid: tuple[int, ...]
    formula: str
    arguments: Mapping[str, Any]

    @property
    def arrays(self) -> list[Field]:
        return [f for f in self.torch.arguments if f.slot.kind == "ptr"]

    def shape(self, array: str) -> tuple[int, ...]:
        return tuple(self.torch.infos[array].shape)


@dataclass(frozen=True)
class Operator:
    """An operator: its type, its arrays and numbers in order, and the chips and versions that there are.

    ``inputs``, ``outputs`` and ``numbers`` are names of the kernel's arguments. An array that is read and written is
    an input and an output. ``shapes`` has formulas of outputs' shapes, ``defaults``
    values of numbers.
    """

    type: str
    unit: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    numbers: tuple[str, ...]
    versions: tuple[OperatorVersion, ...]
    shapes: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, int | float | bool | None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of its files and of its kernel, which CANN derives from the type."""
        return snake(self.type)

    @property
    def fields(self) -> Mapping[str, Field]:
        """Parameters by argument."""
        return {f.slot.arg: f for f in self.versions[0].torch.arguments}


def snake(kind: str) -> str:
    """An operator's type in lower case, with underscores where words begin.

    Examples
    --------
    >>> snake("AddCustom"), snake("RMSNorm2d")
    ('add_custom', 'rms_norm2d')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind).lower()


def type_of(symbol: str, is_reserved: Callable[[str], bool]) -> str:
    """An operator's type for a kernel: its words, each with a capital. C++ has no other meaning for its name.

    Examples
    --------
    >>> type_of("row_sums", str.isupper), type_of("int", lambda name: name == "int")
    ('RowSums', 'IntOp')
    """
    words = [word for word in symbol.split("_") if word]
    kind = "".join(word[0].upper() + word[1:] for word in words) or "Kernel"
    kind = kind if kind[0].isalpha() else f"Op{kind}"
    return f"{kind}Op" if is_reserved(snake(kind)) else kind


def read_names(function: Function) -> frozenset[str]:
    """Names of the arrays that a kernel may read, through loops and branches too."""
    roots = pointer_roots(function)
    return frozenset().union(*(roots.get(op.operands[0], ()) for op in function.walk() if reads_memory(op)))


def check_version(version: OperatorVersion, kernel: str) -> None:
    """Refuse what an operator of CANN cannot be called with.

    Raises
    ------
    NoOperator
        When an array is not contiguous or of a type that operators lack, or when a number has 64 bits of a float.
    """
    for f in version.torch.arguments:
        dtype = f.slot.dtype
        if f.slot.kind == "scalar":
            if dtype.mnemonic == "f64":
                way = "pass it as a float32, or in an array"
                raise NoOperator(kernel=kernel, problem=f"`{f.slot.arg}` is a number of 64 bits", way=way)
            continue
        info = version.torch.infos[f.slot.arg]
        if info.dtype.mnemonic not in _TYPES:
            way = f"use one of {', '.join(_TYPES)}"
            raise NoOperator(kernel=kernel, problem=f"`{f.slot.arg}` is of {info.dtype}", way=way)
        steps = list(contiguous(info.shape))
        if any(n != 1 and a != b for n, a, b in zip(info.shape, info.strides, steps, strict=True)):
            way = f"copy it: `np.ascontiguousarray({f.slot.arg})`"
            raise NoOperator(kernel=kernel, problem=f"`{f.slot.arg}` is not contiguous", way=way)


def contiguous(shape: Sequence[int]) -> Iterator[int]:
    """The strides of an array whose elements follow one another, in elements."""
    return (int(np.prod(shape[d + 1 :], dtype=np.int64)) for d in range(len(shape)))


# --- texts ------------------------------------------------------------------------------------------------------------


def host_facts(operator: Operator, kernel: str) -> dict[str, str]:
    """Texts of the host side.

    Raises
    ------
    NoOperator
        When a formula is none, or when the shape of an output does not follow from the inputs.
    """
    versions = operator.versions
    combinations = list(dict.fromkeys((types(v, operator.inputs), types(v, operator.outputs)) for v in versions))
    sides = (("Input", operator.inputs, 0), ("Output", operator.outputs, 1))
    definition = [
        defined(side, operator.fields[name].name, [one[number][n] for one in combinations])
        for side, names, number in sides
        for n, name in enumerate(names)
    ]
    definition += [defined_number(f, operator.defaults.get(f.slot.arg)) for f in numbers(operator)]
    return {
        "type": operator.type,
        "operator": operator.name,
        "unit": operator.unit,
        "definition": "\n".join(definition),
        "input_count": str(len(operator.inputs)),
        "output_count": str(len(operator.outputs)),
        "functions": "\n\n".join(functions(operator, v, kernel) for v in versions),
        "records": "\n".join(record(operator, v) for v in versions),
    }


def numbers(operator: Operator) -> list[Field]:
    return [operator.fields[name] for name in operator.numbers]


def types(version: OperatorVersion, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"ge::{_TYPES[version.torch.infos[name].dtype.mnemonic]}" for name in names)


def defined(side: str, name: str, each: Sequence[str]) -> str:
    """The definition of an array: its type in each combination."""
    formats = ", ".join(["ge::FORMAT_ND"] * len(each))
    return (
        f'        this->{side}("{name}")\n            .ParamType(REQUIRED)\n'
        f"            .DataType({{{', '.join(each)}}})\n"
        f"            .Format({{{formats}}})\n            .UnknownShapeFormat({{{formats}}});"
    )


def defined_number(f: Field, default: int | float | bool | None) -> str:
    """The definition of an attribute, which is optional where it has a default."""
    if default is None:
        return f'        this->Attr("{f.name}").AttrType(REQUIRED).{attribute(f)}();'
    value = repr(float(default)) if f.slot.dtype.is_float else str(default).lower()
    return f'        this->Attr("{f.name}").AttrType(OPTIONAL).{attribute(f)}({value});'


def attribute(f: Field) -> str:
    """The kind of an attribute."""
    if f.slot.dtype.is_float:
        return "Float"
    return "Bool" if f.slot.dtype.kind == "bool" else "Int"


def record(operator: Operator, version: OperatorVersion) -> str:
    """What the tiling function knows of a version."""
    name, code = version.torch.name, version.code
    lists = ", ".join(f"{{{', '.join(types(version, names))}}}" for names in (operator.inputs, operator.outputs))
    cores = "true" if code.kind == "vector" else "false"
    flags = f"{cores}, {str(code.one_core).lower()}, {code.workspace}"
    sizes = ", ".join(f"{{{', '.join(map(str, version.shape(x)))}}}" for x in operator.inputs)
    return f"    {{{lists}, {{{sizes}}}, fits_{name}, sizes_{name}, plan_{name}, {flags}}},"


def functions(operator: Operator, version: OperatorVersion, kernel: str) -> str:
    """The three functions of a version: whether it fits, the outputs' shapes, and the tiling."""
    name, both = version.torch.name, (*operator.inputs, *operator.outputs)
    fits = "    return " + (" && ".join(conditions(operator, version)) or "true") + ";"
    shapes = (f"{{{', '.join(shape)}}}" for shape in output_shapes(operator, version, kernel))
    sizes = f"    return {{{', '.join(shapes)}}};"
    plan = "\n".join(assignments(version, grid_of(operator, version, kernel, both)))
    array = f"std::vector<std::vector<int64_t>> sizes_{name}([[maybe_unused]] const Call& call)"
    return "\n".join([
        f"// The version {name}.", f"bool fits_{name}([[maybe_unused]] const Call& call) {{",
        *bindings(operator, operator.inputs, fits), fits, "}", f"{array} {{",
        *bindings(operator, operator.inputs, sizes), sizes, "}",
        f"void plan_{name}([[maybe_unused]] const Call& call, Plan& plan) {{", *bindings(operator, both, plan), plan,
        "}",
    ])  # fmt: skip


def bindings(operator: Operator, names: Sequence[str], used: str) -> list[str]:
    """Declarations of the shapes and numbers that a text uses. An array that is read and written is an input."""
    words, lines = set(re.findall(r"(?<![.\w])\w+", used)), []
    for name in dict.fromkeys(names):
        if operator.fields[name].name not in words:
            continue
        side = "inputs" if name in operator.inputs else "outputs"
        at = (operator.inputs if name in operator.inputs else operator.outputs).index(name)
        lines.append(f"    const gert::Shape& {operator.fields[name].name} = *call.{side}[{at}];")
    for at, f in enumerate(numbers(operator)):
        if f.name in words:
            kind = attribute(f)
            ctype = {"Float": "float", "Bool": "bool", "Int": "int64_t"}[kind]
            lines.append(f"    const {ctype} {f.name} = *call.attributes->Get{kind}({at});")
    return lines


def conditions(operator: Operator, version: OperatorVersion) -> Iterator[str]:
    """What a version asks of the inputs' shapes: its guard, or the shapes themselves where its grid is of numbers."""
    for name in operator.inputs:
        x, shape = operator.fields[name].name, version.shape(name)
        yield f"{x}.GetDimNum() == {len(shape)}"
        if not version.formula:
            yield from (f"{x}.GetDim({d}) == {size}" for d, size in enumerate(shape))
    if version.formula:
        yield from guards(operator, version, operator.inputs)


def guards(operator: Operator, version: OperatorVersion, names: Sequence[str]) -> Iterator[str]:
    """The conditions of a version's guard on the shapes of some arrays; operators see contiguous arrays alone."""
    for (kind, arg, d), value in version.torch.guard.items():
        if arg not in names or value is None or kind not in ("shape", "stride"):
            continue
        x = operator.fields[arg].name
        if kind == "shape":
            yield f"{x}.GetDim({d}) == {value}"
        elif d + 1 < len(version.shape(arg)):
            yield f"({x}.GetDim({d}) == 1 || stride({x}, {d}) == {value})"


def names_of(operator: Operator, version: OperatorVersion, arrays: Sequence[str], spelling: Spelling) -> Names:
    """What the names of a formula mean: arrays, numbers of the launch, and the kernel's constants."""
    variables = {name: (operator.fields[name].name, len(version.shape(name))) for name in arrays}
    scalars = {f.slot.arg: f"static_cast<int64_t>({f.name})" for f in numbers(operator)}
    constants = {name: x for name, x in version.arguments.items() if isinstance(x, int) and name not in scalars}
    return Names(variables, scalars, constants, spelling)


def sizes_of(text: str, names: Names, kernel: str, what: str) -> list[str]:
    try:
        return translated(text, names)
    except NoFormula as part:
        way = "write sizes as in `x.shape[0]`, `n`, `cdiv(n, BLOCK)`, with + - * // % min max"
        raise NoOperator(kernel=kernel, problem=f"{what} has `{part}`, which is no formula here", way=way) from None


def grid_of(
    operator: Operator, version: OperatorVersion, kernel: str, arrays: Sequence[str], spelling: Spelling = CANN
) -> list[str]:
    """The three sizes of the grid as C++, as a formula of some arrays."""
    names = names_of(operator, version, arrays, spelling)
    sizes = sizes_of(version.formula, names, kernel, "the grid") if version.formula else list(map(str, version.grid))
    return [*sizes, "1", "1"][:3]


def output_shapes(
    operator: Operator, version: OperatorVersion, kernel: str, spelling: Spelling = CANN
) -> Iterator[list[str]]:
    """The shapes of the outputs as C++, from the inputs'."""
    for name in operator.outputs:
        x, shape = operator.fields[name].name, version.shape(name)
        guard = version.torch.guard
        fixed = [guard.get(("shape", name, d)) for d in range(len(shape))]
        if name in operator.inputs:
            yield [f"{x}.{spelling.size}({d})" for d in range(len(shape))]
        elif not version.formula:
            yield list(map(str, shape))
        elif name in operator.shapes:
            names = names_of(operator, version, operator.inputs, spelling)
            sizes = sizes_of(operator.shapes[name], names, kernel, f"the shape of `{name}`")
            if len(sizes) != len(shape):
                problem = f"the shape of `{name}` has {len(sizes)} sizes, and the array {len(shape)}"
                raise NoOperator(kernel=kernel, problem=problem, way=f"write {len(shape)} sizes")
            yield sizes
        elif all(size is not None for size in fixed):
            yield list(map(str, fixed))
        else:
            way = f'say it, as in `--shape "{name}=x.shape[0], x.shape[1]"`, or give the grid as numbers'
            raise NoOperator(kernel=kernel, problem=f"the shape of `{name}` does not follow from the inputs", way=way)


def assignments(version: OperatorVersion, grid: Sequence[str]) -> Iterator[str]:
    """The kernel's plan: sizes and strides of arrays, numbers, the grid."""
    for f in version.torch.fields:
        match f.slot.kind:
            case "shape":
                yield f"    plan.{f.name} = {f.argument}.GetDim({f.slot.dim});"
            case "stride":
                yield f"    plan.{f.name} = stride({f.argument}, {f.slot.dim});"
            case "scalar":
                yield f"    plan.{f.name} = {f.name};"
    for axis, size in zip("xyz", grid, strict=True):
        yield f"    plan.grid_{axis} = static_cast<int32_t>({size});"
