"""Tests of an operator project: they upload stored arrays, run a version, and compare with what the CPU computed."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from pypto.ir.types import DType
from pypto.tools.project_fields import Field, c_type
from pypto.tools.project_operator import Operator, OperatorVersion, types
from pypto.tools.project_torch import TorchVersion

_TOLERANCES: Final = MappingProxyType({"f64": 1e-12, "f32": 1e-4, "f16": 5e-3, "bf16": 4e-2})


def test_texts(version: TorchVersion) -> dict[str, str]:
    """Texts of the test of a launcher: arrays that it uploads, the launch, and what it compares."""
    pointers = [f for f in version.fields if f.slot.kind == "ptr"]
    return {**array_texts(version, pointers, " " * 8), "call": ", ".join(f.literal for f in version.fields)}


def array_texts(version: TorchVersion, pointers: Sequence[Field], margin: str) -> dict[str, str]:
    """Statements that upload, compare and free arrays."""
    compared = [f for f in pointers if f.slot.arg in version.written]
    return {
        "uploads": "\n".join(f'{margin}void* {f.name} = upload(read(folder + "{f.name}.bin"));' for f in pointers),
        "frees": "\n".join(f'{margin}check(aclrtFree({f.name}), "aclrtFree");' for f in pointers),
        "compares": "\n".join(comparison(f, version.infos[f.slot.arg].dtype, margin) for f in compared),
    }


def comparison(field: Field, dtype: DType, margin: str) -> str:
    """The comparison of one array with what is expected."""
    name, tolerance = field.name, _TOLERANCES.get(dtype.mnemonic, 0.0)
    return (
        f'{margin}const Bytes wanted_{name} = read(folder + "{name}.expected.bin");\n'
        f'{margin}wrong += differences<{c_type(dtype)}>("{name}", download({name}, wanted_{name}.size()), '
        f"wanted_{name}, {tolerance!r});"
    )


def operator_test_texts(operator: Operator, version: OperatorVersion) -> dict[str, str]:
    """Texts of the test that calls the operator: its tensors, and its two-stage call."""
    names = dict.fromkeys((*operator.inputs, *operator.outputs))
    arrays = {f.slot.arg: f for f in version.arrays}
    tensors = {name: f"tensors[{at}]" for at, name in enumerate(names)}
    tensor_texts = ",\n        ".join(tensor(version, arrays[name]) for name in names)
    numbers = {f.slot.arg: f for f in version.torch.arguments if f.slot.kind == "scalar"}
    results = (name for name in operator.outputs if name not in operator.inputs)
    call = [tensors[name] for name in operator.inputs]
    call += [literal(numbers[name]) for name in operator.numbers]
    call += [tensors[name] for name in results]
    texts = array_texts(version.torch, [arrays[name] for name in names], " " * 4)
    texts["frees"] = "    for (const aclTensor* one : tensors) aclDestroyTensor(one);\n" + texts["frees"]
    texts["tensors"] = f"    const std::vector<aclTensor*> tensors{{\n        {tensor_texts}}};"
    return {**texts, "call": ", ".join(call)}


def tensor(version: OperatorVersion, f: Field) -> str:
    """The tensor of an array that was uploaded."""
    kind = types(version, [f.slot.arg])[0].replace("ge::DT_", "ACL_")
    return f"tensor({{{', '.join(map(str, version.shape(f.slot.arg)))}}}, {kind}, {f.name})"


def literal(f: Field) -> str:
    """A number as an attribute's value."""
    return repr(float(f.value)) if f.is_half else f.literal
