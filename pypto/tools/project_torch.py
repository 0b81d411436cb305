"""The torch extension of an operator project: an operator with a schema that dispatches to the version that fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from pypto.errors import OptionError
from pypto.runtime.arrays import ArrayInfo
from pypto.tools.project_fields import Field

TORCH_TYPES: Final = MappingProxyType(
    {"f32": "Float", "f64": "Double", "f16": "Half", "bf16": "BFloat16", "i1": "Bool", "i8": "Char", "i16": "Short",
     "i32": "Int", "i64": "Long", "u8": "Byte"})  # fmt: skip


_MARGIN: Final = " " * 4


@dataclass(frozen=True)
class TorchVersion:
    """A version of the kernel as the extension sees it: fields, arrays, guard, and arguments that it writes."""

    name: str
    fields: tuple[Field, ...]
    infos: Mapping[str, Any]
    guard: Mapping[Any, Any]
    written: frozenset[str]

    @property
    def arguments(self) -> tuple[Field, ...]:
        """Parameters of the operator, in the kernel's order; sizes and strides are those of its tensors."""
        order = list(self.infos)
        inputs = (f for f in self.fields if f.slot.kind in ("ptr", "scalar"))
        return tuple(sorted(inputs, key=lambda f: order.index(f.slot.arg)))


def torch_texts(versions: Sequence[TorchVersion]) -> dict[str, str]:
    """Texts of the launch in place.

    Raises
    ------
    OptionError
        When versions differ in their parameters, so that there is no one schema.
    """
    first = versions[0]
    for version in versions:
        if [parameter(f) for f in version.arguments] != [parameter(f) for f in first.arguments]:
            raise OptionError(
                "versions of a project take the same arrays and numbers; they differ in dtypes and shapes"
            )
    return {
        "parameters": ", ".join(map(parameter, first.arguments)),
        "values": ", ".join(f.name for f in first.arguments),
        "headers": "\n".join(f'#include "{version.name}.h"' for version in versions),
        "refusals": "\n\n".join(map(refusal, versions)),
        "devices": indented((on_npu(f) for f in first.arguments if f.slot.kind == "ptr"), 1),
        "launches": "\n".join(map(launch, versions)),
        "reasons": reasons(list(map(refusal_call, versions)), 16),
        "any_fits": " || ".join(f"{refusal_call(v)} == nullptr" for v in versions),
        "names": ", ".join(f.name for f in first.arguments),
    }


def indented(lines: Iterable[str], depth: int) -> str:
    return "\n".join(_MARGIN * depth + line for line in lines)


def reasons(tests: Sequence[str], margin: int) -> str:
    """Calls of functions that say why a version does not take arguments, as parts of a message."""
    return f",\n{' ' * margin}".join(f'"\\n- ", {test}' for test in tests)


def schema(version: TorchVersion) -> str:
    """The operator's schema: which tensors it writes, and the types of numbers."""
    words = []
    for number, f in enumerate(version.arguments):
        is_written = f.slot.arg in version.written
        tensor = f"Tensor(a{number}!)" if is_written else "Tensor"
        words.append(f"{tensor if f.slot.kind == 'ptr' else schema_number(f)} {f.name}")
    return ", ".join([*words, "str binaries", "int[3] grid"])


def schema_number(field: Field) -> str:
    """The type of a number in a schema."""
    return "float" if field.slot.dtype.is_float else "int"


def parameter(field: Field) -> str:
    """A parameter of the operator in C++."""
    if field.slot.kind == "ptr":
        return f"const at::Tensor& {field.name}"
    return f"{'double' if field.slot.dtype.is_float else 'int64_t'} {field.name}"


def refusal_call(version: TorchVersion) -> str:
    """A call of the function that says why a version does not take the arguments."""
    return f"refusal_{version.name}({', '.join(f.name for f in version.arguments)})"


def refusal(version: TorchVersion) -> str:
    """A function that says why a version does not take some arguments, or gives a null pointer."""
    pointers = [f for f in version.fields if f.slot.kind == "ptr"]
    tests = [line for f in pointers for line in tensor_tests(f.name, version.infos[f.slot.arg])]
    tests += guard_tests({f.slot.arg: f.name for f in pointers}, version.guard)
    parameters = ", ".join(f"[[maybe_unused]] {parameter(f)}" for f in version.arguments)
    return refusal_text(
        f"refusal_{version.name}", parameters, tests, f"Why {version.name} does not take these arguments."
    )


def refusal_text(name: str, parameters: str, tests: Iterable[tuple[str, str]], comment: str = "") -> str:
    """A function that gives the reason of the first condition that does not hold, or a null pointer."""
    lines = [f'if (!({condition})) return "{says}";' for condition, says in tests]
    head = [f"// {comment}"] if comment else []
    head.append(f"const char* {name}({parameters}) {{")
    return "\n".join([*head, indented([*lines, "return nullptr;"], 1), "}"])


def tensor_tests(x: str, info: ArrayInfo) -> Iterator[tuple[str, str]]:
    """That a tensor has the dtype and rank that the version was compiled for."""
    dtype, rank = info.dtype, len(info.shape)
    kind = TORCH_TYPES.get(dtype.mnemonic)
    same = f"{x}.scalar_type() == at::k{kind}" if kind else f"{x}.element_size() == {dtype.itemsize}"
    yield f"{same} && {x}.dim() == {rank}", f"{x} is no tensor of {dtype!r} with {rank} dimensions"


def guard_tests(arrays: Mapping[str, str], guard: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    """That what is a constant in the kernel's text is so in a launch."""
    for (kind, arg, d), value in guard.items():
        if kind not in ("shape", "stride") or arg not in arrays or value is None:
            continue
        x = arrays[arg]
        says = f"{x}.size({d}) == {value}" if kind == "shape" else f"{x}.size({d}) == 1 || {x}.stride({d}) == {value}"
        yield says.replace(f"{x}.", f"{x}.sym_"), f"it was compiled for {says}"


def on_npu(field: Field) -> str:
    """The check that a tensor is on an NPU: the dispatcher looks whether one of them is."""
    is_there = f"{field.name}.device().type() == c10::DeviceType::PrivateUse1"
    return f'TORCH_CHECK({is_there}, "{field.name} is not on an NPU");'


def launch(version: TorchVersion) -> str:
    """The statement that launches the version where it takes the arguments."""
    fields = ", ".join(tensor_fields(version.fields))
    launch = launched(version.name, "binaries", fields, "grid")
    return f"    if ({refusal_call(version)} == nullptr)\n        return {launch};"


def launched(version: str, binaries: str, fields: str, grid: str) -> str:
    """The launch of a version."""
    path = f'folder_of({binaries}) + "/{version}.bin"'
    return f"queue<{version}_kernel>({path}, {version}_arguments{{{fields}}}, {grid})"


def tensor_fields(fields: Sequence[Field]) -> Iterator[str]:
    """Values of the launcher's record, from tensors and numbers."""
    for f in fields:
        match f.slot.kind:
            case "ptr":
                yield f"{f.argument}.data_ptr()"
            case "scalar":
                yield number_value(f, f.argument)
            case kind:
                yield f"{f.argument}.{'size' if kind == 'shape' else 'stride'}({f.slot.dim})"


def number_value(field: Field, number: str) -> str:
    """A number of torch as the launcher's record takes it."""
    if field.is_half:
        half = "BFloat16" if field.slot.dtype.mnemonic == "bf16" else "Half"
        return f"c10::{half}(static_cast<float>({number})).x"
    return f"static_cast<{field.type}>({number})"
