"""Operator projects: versions of a kernel as Ascend C, with launchers, tests with data, and a torch extension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.arguments import describe
from pypto.compile import session
from pypto.devices import device
from pypto.ir.types import DType
from pypto.jit import Kernel
from pypto.runtime.acl import MAGIC
from pypto.tools.project_fields import TEMPLATES, Field, c_type, free_names, value_of
from pypto.tools.project_torch import TorchVersion, torch_texts

_PER_VERSION: Final = (
    ("kernel.h.txt", "host/$name.h"), ("kernel.cpp.txt", "host/$name.cpp"), ("test.cpp.txt", "test/test_$name.cpp"),
)  # fmt: skip
_PER_PROJECT: Final = (
    ("cmake.txt", "CMakeLists.txt"), ("readme.txt", "README.md"), ("torch.cpp.txt", "torch/$name.cpp"),
    ("setup.txt", "torch/setup.py"),
)  # fmt: skip
_CORES: Final = MappingProxyType({"vector": "ACL_DEV_ATTR_VECTOR_CORE_NUM"})  # other kernels count cube cores
_TOLERANCES: Final = MappingProxyType({"f32": 1e-4, "f16": 5e-3, "bf16": 4e-2})


@dataclass(frozen=True)
class Version:
    """A compiled version: Ascend C, facts for templates, arguments of its test, and the results that are expected."""

    torch: TorchVersion
    text: str
    facts: Mapping[str, str]
    expected: Mapping[str, Any]
    arguments: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.torch.name


def write_project(
    folder: Path,
    kernel: Kernel,
    grid: tuple[int, ...],
    chip: str,
    arguments: Mapping[str, Any],
    further: Sequence[tuple[tuple[int, ...], Mapping[str, Any]]] = (),
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
    further : sequence of pairs
        Grid and arguments of each further version: other dtypes, other shapes.

    Returns
    -------
    list of str
        Files, relative to the folder.

    Raises
    ------
    FileExistsError
        When the folder is there already.
    OptionError
        When versions differ in their parameters.
    Diagnostic
        When the kernel cannot be compiled for the chip.
    """
    launches = [(grid, arguments), *further]
    versions = [version_of(kernel, chip, number, *launch) for number, launch in enumerate(launches)]
    first = versions[0]
    texts = {**first.facts, **torch_texts([version.torch for version in versions])}
    texts |= {"versions": " ".join(v.name for v in versions), "arguments": "\n\n".join(map(described, versions))}
    folder.mkdir(parents=True)
    files = [name for version in versions for name in write_version(folder, version)]
    files += filled(folder, _PER_PROJECT, texts)
    return sorted(files)


def version_of(kernel: Kernel, chip: str, number: int, grid: tuple[int, ...], arguments: Mapping[str, Any]) -> Version:
    """Compile a version for a chip, and compute on the CPU what its test expects."""
    with session().devices.chip(chip) as place:
        made = kernel.compile(**arguments)
    backend, artifact = place.backend, made.program.artifact
    infos, _ = describe(kernel.signature, kernel.signature.bind((), arguments))
    names = free_names((slot.arg for slot in artifact.abi), backend.symbol)
    fields = tuple(Field(slot, value_of(slot, infos[slot.arg]), names[slot.arg]) for slot in artifact.abi)
    code, symbol = backend.code(artifact), backend.symbol(artifact.name)
    name = f"{symbol}_{number}" if number else symbol
    facts = {"name": name, "symbol": symbol, "chip": chip, "flag": backend.target.flag, "grid": numbers(grid)}
    facts |= {"one_core": str(code.one_core).lower(), "workspace": str(code.workspace)}
    facts |= {"kind": f"for cores of kind {code.kind}", "magic": hex(MAGIC[code.kind])}
    facts["attribute"] = _CORES.get(code.kind, "ACL_DEV_ATTR_CUBE_CORE_NUM")
    torch = TorchVersion(name, fields, infos, made.guard, made.program.written)
    return Version(torch, code.text, facts, computed(kernel, grid, arguments), arguments)


def computed(kernel: Kernel, grid: tuple[int, ...], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments after a launch on the CPU."""
    copies = {name: x.copy() if isinstance(x, np.ndarray) else x for name, x in arguments.items()}
    with device("cpu"):
        kernel[grid](**copies)
    return copies


def numbers(grid: tuple[int, ...]) -> str:
    """The three sizes of a grid as C++ takes them."""
    return ", ".join(map(str, (*grid, 1, 1)[:3]))


def write_version(folder: Path, version: Version) -> list[str]:
    """Write a version's text, launcher, test and data."""
    files = [write(folder, f"kernel/{version.name}.asc", version.text.encode())]
    for field in (f for f in version.torch.fields if f.slot.kind == "ptr"):
        place = f"test/data/{version.name}/{field.name}"
        files.append(write(folder, f"{place}.bin", field.value.tobytes()))
        if field.slot.arg in version.torch.written:
            files.append(write(folder, f"{place}.expected.bin", version.expected[field.slot.arg].tobytes()))
    texts = {**version.facts, **host_texts(version.torch.fields), **test_texts(version.torch)}
    return files + filled(folder, _PER_VERSION, texts)


def filled(folder: Path, files: tuple[tuple[str, str], ...], texts: Mapping[str, str]) -> list[str]:
    """Write templates with their texts."""
    written = []
    for source, target in files:
        text = Template((TEMPLATES / source).read_text(encoding="utf-8")).substitute(texts)
        written.append(write(folder, Template(target).substitute(texts), text.encode()))
    return written


def write(folder: Path, name: str, data: bytes) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return name


def host_texts(fields: Sequence[Field]) -> dict[str, str]:
    """Texts of the launcher: its record of arguments, and the record that the device reads."""
    narrow = {f.name: "alignas(4) " if f.slot.kind == "scalar" and f.slot.dtype.bits < 32 else "" for f in fields}
    return {
        "fields": "\n".join(f"    {f.type} {f.name};" for f in fields),
        "packed": "\n".join(f"    {narrow[f.name]}{f.type} {f.name};" for f in fields),
        "values": " ".join(f"arguments.{f.name}," for f in fields),
    }


def test_texts(version: TorchVersion) -> dict[str, str]:
    """Texts of the test: arrays that it uploads, the launch, and what it compares."""
    pointers = [f for f in version.fields if f.slot.kind == "ptr"]
    return {
        "uploads": "\n".join(f'        void* {f.name} = upload(read(folder + "{f.name}.bin"));' for f in pointers),
        "frees": "\n".join(f'        check(aclrtFree({f.name}), "aclrtFree");' for f in pointers),
        "compares": "\n".join(
            comparison(f, version.infos[f.slot.arg].dtype) for f in pointers if f.slot.arg in version.written
        ),
        "call": ", ".join(f.literal for f in version.fields),
    }


def comparison(field: Field, dtype: DType) -> str:
    """The comparison of one array with what is expected."""
    name, tolerance = field.name, _TOLERANCES.get(dtype.mnemonic, 0.0)
    return (
        f'        const Bytes wanted_{name} = read(folder + "{name}.expected.bin");\n'
        f'        wrong += differences<{c_type(dtype)}>("{name}", download({name}, wanted_{name}.size()), '
        f"wanted_{name}, {tolerance!r});"
    )


def described(version: Version) -> str:
    """A version's arguments for the page of the project."""
    rows = (
        f"- `{name}`: {x.dtype} {x.shape}" if isinstance(x, np.ndarray) else f"- `{name}` = {x!r}"
        for name, x in version.arguments.items()
    )
    return "\n".join([f"`{version.name}`, grid {version.facts['grid']}:", "", *rows])
