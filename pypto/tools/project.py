"""A kernel as a project of its own: its text, a launcher, a test with data, a torch extension; CANN alone builds it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.arguments import describe
from pypto.backends.base import Slot
from pypto.compile import session
from pypto.devices import device
from pypto.ir.types import DType
from pypto.jit import Kernel
from pypto.runtime.acl import MAGIC
from pypto.runtime.arrays import ArrayInfo, scalar_bits

_TEMPLATES: Final = Path(__file__).resolve().parent / "project_files"
_FILES: Final = (
    ("cmake.txt", "CMakeLists.txt"), ("readme.txt", "README.md"), ("kernel.h.txt", "host/$name.h"),
    ("kernel.cpp.txt", "host/$name.cpp"), ("test.cpp.txt", "test/test_$name.cpp"), ("torch.cpp.txt", "torch/$name.cpp"),
    ("setup.txt", "torch/setup.py"),
)  # fmt: skip
_TYPES: Final = MappingProxyType(
    {"f32": "float", "f64": "double", "f16": "half_bits", "bf16": "bfloat_bits", "i1": "bool"})  # fmt: skip
_TORCH: Final = MappingProxyType(
    {"f32": "Float", "f64": "Double", "f16": "Half", "bf16": "BFloat16", "i1": "Bool", "i8": "Char", "i16": "Short",
     "i32": "Int", "i64": "Long", "u8": "Byte"})  # fmt: skip
_TOLERANCES: Final = MappingProxyType({"f32": 1e-4, "f16": 5e-3, "bf16": 4e-2})


def c_type(dtype: DType) -> str:
    return _TYPES.get(dtype.mnemonic) or f"{'u' if dtype.kind == 'uint' else ''}int{dtype.bits}_t"


@dataclass(frozen=True)
class Field:
    """A parameter of the kernel: its slot, and its value in the test."""

    slot: Slot
    value: Any

    @property
    def name(self) -> str:
        """In C++."""
        name = self.slot.arg.replace(".", "_")
        return name if self.slot.kind in ("ptr", "scalar") else f"{name}_{self.slot.kind}{self.slot.dim}"

    @property
    def type(self) -> str:
        number = "uint16_t" if self.is_half else c_type(self.slot.dtype)
        return {"ptr": "void*", "scalar": number}.get(self.slot.kind, "int64_t")

    @property
    def is_half(self) -> bool:
        """Whether it is a number that C++ has no type for, and is passed as its bits."""
        return self.slot.kind == "scalar" and self.slot.dtype.is_float and self.slot.dtype.bits == 16

    @property
    def literal(self) -> str:
        """The value in the test: a pointer's by its name."""
        if self.slot.kind == "ptr":
            return self.name
        if self.is_half:
            return str(scalar_bits(self.value, self.slot.dtype))
        if self.slot.kind == "scalar" and self.slot.dtype.is_float:
            text = repr(float(self.value))
            return f"{text}f" if math.isfinite(self.value) else text.replace("inf", "HUGE_VALF").replace("nan", "NAN")
        return str(self.value).lower()


def write_project(
    folder: Path, kernel: Kernel, grid: tuple[int, ...], chip: str, arguments: Mapping[str, Any]
) -> list[str]:
    """Write a project for a kernel.

    Parameters
    ----------
    folder : Path
        Where to; it must not be there yet.
    kernel : Kernel
        What it is to run.
    grid : tuple of int
        Of the launch in its test.
    chip : str
        As in ``ascend910b2``.
    arguments : dict
        Of the kernel, by name. Arrays are the test's inputs.

    Returns
    -------
    list of str
        Files, relative to the folder.

    Raises
    ------
    FileExistsError
        When the folder is there already.
    Diagnostic
        When the kernel cannot be compiled for the chip.
    """
    with session().devices.chip(chip) as place:
        version = kernel.compile(**arguments)
    artifact = version.program.artifact
    infos, _ = describe(kernel.signature, kernel.signature.bind((), arguments))
    fields = [Field(slot, value_of(slot, infos[slot.arg])) for slot in artifact.abi]
    expected = computed(kernel, grid, arguments)
    backend = place.backend
    facts = {"name": backend.symbol(artifact.name), "chip": chip, "flag": backend.target.flag, "grid": numbers(grid)}
    code = backend.code(artifact)
    attribute = "ACL_DEV_ATTR_VECTOR_CORE_NUM" if code.kind == "vector" else "ACL_DEV_ATTR_CUBE_CORE_NUM"
    facts |= {"one_core": str(code.one_core).lower(), "workspace": str(code.workspace), "attribute": attribute}
    facts |= {"kind": f"for cores of kind {code.kind}", "magic": hex(MAGIC[code.kind])}
    folder.mkdir(parents=True)
    files = [write(folder, f"kernel/{facts['name']}.asc", code.text.encode())]
    for field in (f for f in fields if f.slot.kind == "ptr"):
        files.append(write(folder, f"test/data/{field.name}.bin", field.value.tobytes()))
        if field.slot.arg in version.program.written:
            files.append(write(folder, f"test/data/{field.name}.expected.bin", expected[field.slot.arg].tobytes()))
    texts = {**facts, **host_texts(fields), **test_texts(fields, infos, version.program.written)}
    texts |= {**torch_texts(fields, infos, version.guard), **readme_texts(arguments, fields)}
    for source, target in _FILES:
        text = Template((_TEMPLATES / source).read_text(encoding="utf-8")).substitute(texts)
        files.append(write(folder, Template(target).substitute(texts), text.encode()))
    return sorted(files)


def value_of(slot: Slot, info: Any) -> Any:
    """What a launch passes for a slot; for a pointer, the array."""
    if not isinstance(info, ArrayInfo):
        return info
    owner = {"ptr": info.owner, "shape": info.shape, "stride": info.strides}[slot.kind]
    return owner if slot.kind == "ptr" else owner[slot.dim]


def computed(kernel: Kernel, grid: tuple[int, ...], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments after a launch on the CPU."""
    copies = {name: x.copy() if isinstance(x, np.ndarray) else x for name, x in arguments.items()}
    with device("cpu"):
        kernel[grid](**copies)
    return copies


def numbers(grid: tuple[int, ...]) -> str:
    return ", ".join(map(str, (*grid, 1, 1)[:3]))


def write(folder: Path, name: str, data: bytes) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return name


def host_texts(fields: list[Field]) -> dict[str, str]:
    narrow = {f.name: "alignas(4) " if f.slot.kind == "scalar" and f.slot.dtype.bits < 32 else "" for f in fields}
    return {
        "fields": "\n".join(f"    {f.type} {f.name};" for f in fields),
        "packed": "\n".join(f"    {narrow[f.name]}{f.type} {f.name};" for f in fields),
        "values": " ".join(f"arguments.{f.name}," for f in fields),
    }


def test_texts(fields: list[Field], infos: Mapping[str, Any], written: frozenset[str]) -> dict[str, str]:
    pointers = [f for f in fields if f.slot.kind == "ptr"]
    return {
        "uploads": "\n".join(f'        void* {f.name} = upload(read(folder + "{f.name}.bin"));' for f in pointers),
        "frees": "\n".join(f'        check(aclrtFree({f.name}), "aclrtFree");' for f in pointers),
        "compares": "\n".join(comparison(f, infos[f.slot.arg].dtype) for f in pointers if f.slot.arg in written),
        "call": ", ".join(f.literal for f in fields),
    }


def comparison(field: Field, dtype: DType) -> str:
    name, tolerance = field.name, _TOLERANCES.get(dtype.mnemonic, 0.0)
    return (
        f'        const Bytes wanted_{name} = read(folder + "{name}.expected.bin");\n'
        f'        wrong += differences<{c_type(dtype)}>("{name}", download({name}, wanted_{name}.size()), '
        f"wanted_{name}, {tolerance!r});"
    )


def torch_texts(fields: list[Field], infos: Mapping[str, Any], guard: Mapping[Any, Any]) -> dict[str, str]:
    wide = {f.name: "double" if f.slot.dtype.is_float else "int64_t" for f in fields}
    taken = [f for f in fields if f.slot.kind in ("ptr", "scalar")]
    parameters = (f"const at::Tensor& {f.name}" if f.slot.kind == "ptr" else f"{wide[f.name]} {f.name}" for f in taken)
    checks = [line for f in fields if f.slot.kind == "ptr" for line in tensor_checks(f, infos[f.slot.arg])]
    return {
        "parameters": ", ".join(parameters),
        "checks": "\n".join([*checks, *guard_checks({f.slot.arg for f in fields if f.slot.kind == "ptr"}, guard)]),
        "tensors": ", ".join(tensor_fields(fields)),
    }


def tensor_checks(field: Field, info: ArrayInfo) -> Iterator[str]:
    """That a tensor is one that the kernel was compiled for, as far as its type says."""
    x, dtype, rank = field.name, info.dtype, len(info.shape)
    kind = _TORCH.get(dtype.mnemonic)
    same = f"{x}.scalar_type() == at::k{kind}" if kind else f"{x}.element_size() == {dtype.itemsize}"
    yield f'    TORCH_CHECK({x}.device().type() == c10::DeviceType::PrivateUse1, "{x} is not on an NPU");'
    yield f'    TORCH_CHECK({same} && {x}.dim() == {rank}, "{x} is no tensor of {dtype!r} with {rank} dimensions");'


def guard_checks(arrays: set[str], guard: Mapping[Any, Any]) -> Iterator[str]:
    """That what is a constant in the kernel's text is so in a launch."""
    for (kind, arg, d), value in guard.items():
        x = arg.replace(".", "_")
        held = f"{x}.size({d}) == {value}" if kind == "shape" else f"{x}.size({d}) == 1 || {x}.stride({d}) == {value}"
        if kind in ("shape", "stride") and arg in arrays and value is not None:
            yield f'    TORCH_CHECK({held}, "the kernel was compiled for {held}");'


def tensor_fields(fields: list[Field]) -> Iterator[str]:
    for f in fields:
        name = f.slot.arg.replace(".", "_")
        match f.slot.kind:
            case "ptr":
                yield f"{name}.data_ptr()"
            case "scalar" if f.is_half:
                yield f"c10::{'BFloat16' if f.slot.dtype.mnemonic == 'bf16' else 'Half'}(static_cast<float>({name})).x"
            case "scalar":
                yield f"static_cast<{f.type}>({name})"
            case kind:
                yield f"{name}.{'size' if kind == 'shape' else 'stride'}({f.slot.dim})"


def readme_texts(arguments: Mapping[str, Any], fields: list[Field]) -> dict[str, str]:
    kinds = {n: f": {x.dtype} {x.shape}" if isinstance(x, np.ndarray) else f" = {x!r}" for n, x in arguments.items()}
    rows = (f"- `{name}`{kind}" for name, kind in kinds.items())
    names = ", ".join(f.name for f in fields if f.slot.kind in ("ptr", "scalar"))
    return {"arguments": "\n".join(rows), "names": names}
