"""Operator projects: an operator of CANN, and beside it launchers, tests with data, and a torch extension.

The operator is what CANN's tools expect: definition, inference and tiling function in `op_host`, versions under tiling
keys in `op_kernel`, and the scripts that build a package of them. `launch` runs the same versions without the operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.arguments import describe
from pypto.compile import session
from pypto.devices import device
from pypto.errors.project import NoOperator, WrongPrototype
from pypto.jit import Kernel
from pypto.runtime.acl import MAGIC
from pypto.tools.project_autograd import extension_texts
from pypto.tools.project_backward import Backward, backward_of
from pypto.tools.project_fields import TEMPLATES, Field, free_names, value_of
from pypto.tools.project_kernel import direct_text, function_text, kernel_facts
from pypto.tools.project_operator import Operator, OperatorVersion, check_version, host_facts, read_names, type_of
from pypto.tools.project_tests import operator_test_texts, test_texts
from pypto.tools.project_torch import TorchVersion, torch_texts
from pypto.tools.prototype import Prototype

_PER_VERSION: Final = (
    ("kernel.h.txt", "launch/host/$name.h"), ("kernel.cpp.txt", "launch/host/$name.cpp"),
    ("test.cpp.txt", "launch/test_$name.cpp"),
)  # fmt: skip
_PER_PROJECT: Final = (
    ("cmake.txt", "CMakeLists.txt"), ("presets.txt", "CMakePresets.json"), ("build.txt", "build.sh"),
    ("op_host.cpp.txt", "op_host/$operator.cpp"), ("host_cmake.txt", "op_host/CMakeLists.txt"),
    ("op_kernel.cpp.txt", "op_kernel/$operator.cpp"), ("tiling.h.txt", "op_kernel/${operator}_tiling.h"),
    ("kernel_cmake.txt", "op_kernel/CMakeLists.txt"), ("launch_cmake.txt", "launch/CMakeLists.txt"),
    ("support.h.txt", "test/support.h"), ("test_cmake.txt", "test/CMakeLists.txt"), ("readme.txt", "README.md"),
    ("torch.cpp.txt", "torch/$name.cpp"), ("setup.txt", "torch/setup.py"),
)  # fmt: skip
_CORES: Final = MappingProxyType({"vector": "ACL_DEV_ATTR_VECTOR_CORE_NUM"})  # other kernels count cube cores
Names = tuple[str, ...]
_FAMILIES: Final = MappingProxyType({"ascend910_": "ascend910_93", "ascend910c": "ascend910_93",
                                     "ascend910b": "ascend910b", "ascend950": "ascend950"})  # fmt: skip


@dataclass(frozen=True)
class Interface:
    """How an operator is called where its arguments alone do not say it.

    Attributes
    ----------
    grid : str
        The grid as a formula of the arguments, as in ``cdiv(x.shape[0], BLOCK)``. Without one, each version takes
        exactly the shapes that it was compiled for.
    shapes : dict
        Formulas of the shapes of outputs, by name, as in ``x.shape[0], x.shape[1]``.
    prototype : Prototype or None
        The operator's type, and the order of its arrays and numbers.
    adjoint : tuple of str
        Arrays by which the torch extension is differentiated: kernels of the backward are derived for each version.
    namespace : str
        Of the operator of torch that gives new tensors, as in ``op_api``; otherwise that of the launch in place.
    """

    grid: str = ""
    shapes: Mapping[str, str] = field(default_factory=dict)
    prototype: Prototype | None = None
    adjoint: tuple[str, ...] = ()
    namespace: str = ""


@dataclass(frozen=True)
class Version:
    """A compiled version, facts for templates, and the results that its test expects."""

    operator: OperatorVersion
    facts: Mapping[str, str]
    expected: Mapping[str, Any]

    @property
    def torch(self) -> TorchVersion:
        return self.operator.torch

    @property
    def name(self) -> str:
        return self.torch.name


def write_project(  # the launch, and what surrounds it
    folder: Path,
    kernel: Kernel,
    grid: tuple[int, ...],
    chip: str,
    arguments: Mapping[str, Any],
    further: Sequence[tuple[tuple[int, ...], Mapping[str, Any]]] = (),
    interface: Interface | None = None,
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
    interface : Interface, optional
        A grid of formulas, shapes of outputs, a prototype, a backward, and a namespace.

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
    NoOperator
        When CANN has no operators that are called so.
    NoGradient
        When a backward is asked for, and the kernel cannot be differentiated.
    WrongPrototype
        When the prototype has other arrays or numbers than the kernel.
    Diagnostic
        When the kernel cannot be compiled for the chip.
    """
    interface, launches = interface or Interface(), [(grid, arguments), *further]
    versions = [version_of(kernel, chip, n, *launch, interface.grid) for n, launch in enumerate(launches)]
    operator = operator_of(kernel, chip, versions, interface)
    backwards = backwards_of(kernel, chip, launches, versions, interface.adjoint)
    texts = project_texts(versions, backwards) | host_facts(operator, kernel.signature.kernel)
    texts |= extension_texts(operator, kernel.signature.kernel, texts["name"], interface.namespace, backwards)
    texts |= {f"kernel_{name}": text for name, text in kernel_facts(operator).items()}
    folder.mkdir(parents=True)
    files = write_versions(folder, operator, versions, derived_versions(backwards))
    files += filled(folder, _PER_PROJECT, texts)
    (folder / "build.sh").chmod(0o755)
    return sorted(files)


def write_versions(
    folder: Path, operator: Operator, versions: Sequence[Version], derived: Sequence[Version]
) -> list[str]:
    """Write the files of versions, and of the kernels of their backward; gives their names."""
    files = [name for version in versions for name in write_version(folder, operator, version)]
    return files + [name for version in derived for name in write_backward(folder, version)]


def derived_versions(backwards: Sequence[Backward]) -> list[Version]:
    """The versions of all kernels of backwards."""
    return [version for backward in backwards for version in backward.versions]


def project_texts(versions: Sequence[Version], backwards: Sequence[Backward]) -> dict[str, str]:
    """What the files of a project say of its versions, and of those of their backward."""
    first = versions[0]
    derived = derived_versions(backwards)
    texts = {**first.facts, **torch_texts([version.torch for version in versions])}
    texts["sources"] = ", ".join(f'str(ROOT / "launch" / "host" / "{v.name}.cpp")' for v in (*versions, *derived))
    texts["backward"] = gradients_of(backwards[0].wrt if backwards else ())
    texts["arguments"] = "\n\n".join(map(described, versions))
    texts["operator_versions"] = " ".join(v.name for v in versions)  # those of a backward are launched alone
    texts["binary_names"] = "".join(f'"{v.name}", ' for v in (*versions, *derived))
    texts["versions"] = " ".join(v.name for v in (*versions, *derived))
    return texts


def backwards_of(
    kernel: Kernel, chip: str, launches: Sequence[Any], versions: Sequence[Version], wrt: Names
) -> list[Backward]:
    """The backward of each version, where arrays are named by which the kernel is differentiated."""
    if not wrt:
        return []

    def compiled(derived: Kernel, name: str, grid: tuple[int, ...], arguments: Mapping[str, Any]) -> Version:
        return version_of(derived, chip, name, grid, arguments)

    return [
        backward_of(kernel, wrt, version.torch, grid, arguments, compiled)
        for version, (grid, arguments) in zip(versions, launches, strict=True)
    ]


def gradients_of(wrt: Names) -> str:
    """What the page of the project says of gradients."""
    if not wrt:
        return ""
    names = ", ".join(f"`{name}`" for name in wrt)
    return (
        f"Autograd has gradients by {names}, for the shapes and the grid of each version. Their kernels are in "
        "`launch`, as `*_backward_*`.\n"
    )


def operator_of(kernel: Kernel, chip: str, versions: Sequence[Version], interface: Interface) -> Operator:
    """The operator of all versions: arrays that are only written are outputs, the others inputs."""
    name = kernel.signature.kernel
    for version in versions:
        check_version(version.operator, name)
    arguments = versions[0].torch.arguments
    arrays = [f.slot.arg for f in arguments if f.slot.kind == "ptr"]
    numbers = tuple(f.slot.arg for f in arguments if f.slot.kind == "scalar")
    written = frozenset().union(*(v.torch.written for v in versions))
    read = frozenset().union(*(v.operator.read for v in versions))
    outputs = tuple(name for name in arrays if name in written)
    inputs = tuple(name for name in arrays if name in read or name not in written)
    if not outputs:
        raise NoOperator(kernel=name, problem="it writes no array", way="store a result to an argument")
    kind = interface.prototype.type if interface.prototype else versions[0].facts["type"]
    if interface.prototype:
        inputs, outputs, numbers = in_order(interface.prototype, inputs, outputs, numbers, name)
    unit = next(unit for start, unit in _FAMILIES.items() if chip.startswith(start))
    each = tuple(version.operator for version in versions)
    from_kernel = {n: x for n, x in kernel.signature.defaults.items() if isinstance(x, int | float)}
    defaults = interface.prototype.attributes if interface.prototype else from_kernel
    return Operator(kind, unit, inputs, outputs, numbers, each, interface.shapes, defaults)


def in_order(prototype: Prototype, inputs: Names, outputs: Names, numbers: Names, kernel: str) -> tuple[Names, ...]:
    """Names of the kernel's arguments in the order of a prototype.

    Raises
    ------
    WrongPrototype
        When the prototype has other names.
    """
    sides = (("inputs", prototype.inputs, inputs), ("outputs", prototype.outputs, outputs),
             ("attributes", prototype.attributes, numbers))  # fmt: skip
    for what, said, sides_found in sides:
        if set(said) != set(sides_found):
            problem = (
                f"its {what} are {', '.join(said) or 'none'}, and those of {kernel} {', '.join(sides_found) or 'none'}"
            )
            raise WrongPrototype(path=prototype.type, problem=problem)
    return tuple(tuple(said) for _, said, _ in sides)


def version_of(  # the launch, and where it stands
    kernel: Kernel, chip: str, named: int | str, grid: tuple[int, ...], arguments: Mapping[str, Any], formula: str = ""
) -> Version:
    """Compile a version for a chip, and compute on the CPU what its test expects. `named` is its number or its name."""
    with session().devices.chip(chip) as place:
        compiled = kernel.compile(**arguments)
    backend, artifact = place.backend, compiled.program.artifact
    infos, _ = describe(kernel.signature, kernel.signature.bind((), arguments))
    names = free_names((slot.arg for slot in artifact.abi), backend.symbol)
    fields = tuple(Field(slot, value_of(slot, infos[slot.arg]), names[slot.arg]) for slot in artifact.abi)
    code, symbol = backend.code(artifact), backend.symbol(artifact.name)
    name = named if isinstance(named, str) else f"{symbol}_{named}" if named else symbol
    facts = {"name": name, "symbol": symbol, "chip": chip, "flag": backend.target.flag, "grid": numbers(grid)}
    facts["type"] = type_of(symbol, lambda word: backend.symbol(word) != word)
    facts |= {"one_core": str(code.one_core).lower(), "workspace": str(code.workspace)}
    facts |= {"kind": f"for cores of kind {code.kind}", "magic": hex(MAGIC[code.kind])}
    facts["attribute"] = _CORES.get(code.kind, "ACL_DEV_ATTR_CUBE_CORE_NUM")
    torch = TorchVersion(name, fields, infos, compiled.guard, compiled.program.written)
    every = {**kernel.signature.defaults, **arguments}
    operator = OperatorVersion(torch, code, read_names(compiled.program.function), grid, formula, every)
    return Version(operator, facts, computed(kernel, grid, arguments))


def computed(kernel: Kernel, grid: tuple[int, ...], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments after a launch on the CPU."""
    copies = {name: x.copy() if isinstance(x, np.ndarray) else x for name, x in arguments.items()}
    with device("cpu"):
        kernel[grid](**copies)
    return copies


def numbers(grid: tuple[int, ...]) -> str:
    """The three sizes of a grid as C++ takes them."""
    return ", ".join(map(str, (*grid, 1, 1)[:3]))


def write_version(folder: Path, operator: Operator, version: Version) -> list[str]:
    """Write a version's text, launcher, tests and data."""
    name = version.name
    files = [write(folder, f"op_kernel/{name}.h", function_text(version.operator).encode())]
    direct = direct_text(version.operator, version.facts["symbol"])
    files += write_launcher(folder, version, direct, {"type": operator.type, "operator": operator.name})
    texts = {**version.facts, "type": operator.type, "operator": operator.name}
    calls = operator_test_texts(operator, version.operator)
    return files + filled(folder, (("aclnn.cpp.txt", "test/aclnn_$name.cpp"),), {**texts, **calls})


def write_backward(folder: Path, version: Version) -> list[str]:
    """Write a kernel of a backward, its launcher, test and data."""
    return write_launcher(folder, version, version.operator.code.text, {})


def write_launcher(folder: Path, version: Version, text: str, facts: Mapping[str, str]) -> list[str]:
    """Write a kernel that is launched without the operator: its text, launcher, test and data."""
    name = version.name
    files = [write(folder, f"launch/kernel/{name}.asc", text.encode())]
    for f in (f for f in version.torch.fields if f.slot.kind == "ptr"):
        place = f"test/data/{name}/{f.name}"
        files.append(write(folder, f"{place}.bin", f.value.tobytes()))
        if f.slot.arg in version.torch.written:
            files.append(write(folder, f"{place}.expected.bin", version.expected[f.slot.arg].tobytes()))
    texts = {**version.facts, **facts, **host_texts(version.torch.fields), **test_texts(version.torch)}
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


def described(version: Version) -> str:
    """A version's arguments for the page of the project."""
    rows = (
        f"- `{name}`: {x.dtype} {x.shape}" if isinstance(x, np.ndarray) else f"- `{name}` = {x!r}"
        for name, x in version.operator.arguments.items()
    )
    return "\n".join([f"`{version.name}`, grid {version.facts['grid']}:", "", *rows])
