"""The allocating form of an operator in the torch extension: inputs and numbers give new tensors.

It is what models call: `torch.ops.NAMESPACE.OPERATOR(x) -> y`. The version, the grid, and the types and
shapes of the outputs follow from the inputs as in the tiling function, also for symbolic sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from string import Template

from pypto.tools.project_fields import TEMPLATES, Field
from pypto.tools.project_formula import TORCH
from pypto.tools.project_operator import Operator, OperatorVersion, grid_of, numbers, output_shapes
from pypto.tools.project_torch import (
    TORCH_TYPES,
    guard_tests,
    indented,
    launched,
    on_npu,
    parameter,
    reasons,
    refusal_text,
    schema_number,
    tensor_fields,
    tensor_tests,
)


def is_offered(operator: Operator) -> bool:
    """Whether there is an input by which torch finds the device."""
    return bool(operator.inputs)


def call_schema(operator: Operator) -> str:
    """The schema; numbers at the end have the defaults of the prototype.

    Examples
    --------
    With an input, a number and an output: ``gelu(Tensor x, float alpha=1.0, *, str binaries="") -> Tensor``.
    """
    words = [f"Tensor {f.name}" for f in fields(operator, operator.inputs)]
    every = numbers(operator)
    defaults = [operator.defaults.get(f.slot.arg) for f in every]
    for at, f in enumerate(every):
        is_last = all(x is not None for x in defaults[at:])
        words.append(f"{schema_number(f)} {f.name}{f'={number(f, defaults[at])}' if is_last else ''}")
    results = ["Tensor"] * len(operator.outputs)
    given = results[0] if len(results) == 1 else f"({', '.join(results)})"
    return f'{operator.name}({", ".join(words)}, *, str binaries="") -> {given}'


def number(f: Field, value: int | float | bool | None) -> str:
    """A default as a schema has it."""
    assert value is not None
    return repr(float(value)) if f.slot.dtype.is_float else str(int(value))


def fields(operator: Operator, names: Sequence[str]) -> list[Field]:
    return [operator.fields[name] for name in names]


def call_parameters(operator: Operator) -> list[Field]:
    """Parameters of the allocating form, in order."""
    return [*fields(operator, operator.inputs), *numbers(operator)]


def results(operator: Operator) -> list[Field]:
    """Outputs that are no inputs as well."""
    return fields(operator, [name for name in operator.outputs if name not in operator.inputs])


def call_texts(operator: Operator, kernel: str, name: str, space: str) -> str:
    """The text of the allocating form, apart from its gradients."""
    text = Template((TEMPLATES / "torch_call.cpp.txt").read_text(encoding="utf-8"))
    facts = {"name": name, "operator": operator.name, "space": space}
    return text.substitute({**facts, **parts(operator, kernel)})


def parts(operator: Operator, kernel: str) -> dict[str, str]:
    """What the template of the allocating form takes."""
    every = call_parameters(operator)
    values = ", ".join(f.name for f in every)
    outputs = len(operator.outputs)
    tensors = ", ".join(["at::Tensor"] * outputs)
    refused = [f"refused_{v.torch.name}({values})" for v in operator.versions]
    return {
        "results": "at::Tensor" if outputs == 1 else f"std::tuple<{tensors}>",
        "packed": ", ".join(f"all[{n}]" for n in range(outputs)),
        "call_parameters": ", ".join(map(parameter, every)),
        "copied_parameters": ", ".join(parameter(f).replace("const at::Tensor& ", "at::Tensor ") for f in every),
        "grid_parameters": ", ".join(f"[[maybe_unused]] {parameter(f)}" for f in (*every, *results(operator))),
        "call_values": values,
        "call_functions": "\n\n".join(x for v in operator.versions for x in functions(operator, v, kernel)),
        "chosen": indented(choices(operator, values), 1),
        "call_reasons": reasons(refused, 16),
        "grids": indented(grids(operator), 2),
        "copies": indented(copies(operator), 1),
        "call_devices": indented(map(on_npu, fields(operator, operator.inputs)), 2),
        "cases": indented((line for n, v in enumerate(operator.versions) for line in case(operator, v, n, kernel)), 2),
    }


def choices(operator: Operator, values: str) -> Iterator[str]:
    """Statements that choose the version, as the tiling function does."""
    if len(operator.versions) > 1:
        for n, version in enumerate(operator.versions):
            sizes = (f"{operator.fields[x].name}.sym_sizes().equals({{{', '.join(map(str, version.shape(x)))}}})"
                     for x in operator.inputs)  # fmt: skip
            yield f"if (refused_{version.torch.name}({values}) == nullptr && {' && '.join(sizes)}) return {n};"
    for n, version in enumerate(operator.versions):
        yield f"if (refused_{version.torch.name}({values}) == nullptr) return {n};"


def functions(operator: Operator, version: OperatorVersion, kernel: str) -> Iterator[str]:
    """The functions of a version: why it does not take some inputs, and its grid."""
    tests: list[tuple[str, str]] = []
    names = {x: operator.fields[x].name for x in operator.inputs}
    for x, name in names.items():
        info = version.torch.infos[x]
        tests += tensor_tests(name, info)
        if not version.formula:
            tests += [(f"{name}.sym_size({d}) == {n}", f"it was compiled for {name}.size({d}) == {n}")
                      for d, n in enumerate(info.shape)]  # fmt: skip
    if version.formula:
        tests += guard_tests(names, version.torch.guard)
    parameters = ", ".join(f"[[maybe_unused]] {parameter(f)}" for f in call_parameters(operator))
    name = version.torch.name
    yield refusal_text(f"refused_{name}", parameters, tests, f"Why {name} cannot be called with these arguments.")
    grid = grid_of(operator, version, kernel, (*operator.inputs, *operator.outputs), TORCH)
    given = ", ".join(f"[[maybe_unused]] {parameter(f)}" for f in (*call_parameters(operator), *results(operator)))
    sizes = ", ".join(f"whole({size})" for size in grid)
    yield f"std::vector<int64_t> grid_{name}({given}) {{ return {{{sizes}}}; }}"


def grid_values(operator: Operator, cxx: Mapping[str, str] | None = None) -> str:
    """Arguments of a version's grid; `cxx` has those of outputs that have other names."""
    named = cxx or {}
    every = (*call_parameters(operator), *results(operator))
    return ", ".join(named.get(f.slot.arg, f.name) for f in every)


def grids(operator: Operator) -> Iterator[str]:
    values = grid_values(operator)
    for n, version in enumerate(operator.versions):
        yield f"case {n}: return grid_{version.torch.name}({values});"


def copies(operator: Operator) -> Iterator[str]:
    """Inputs as the kernel takes them: contiguous, and a copy of what it writes."""
    for f in fields(operator, operator.inputs):
        how = "clone(at::MemoryFormat::Contiguous)" if f.slot.arg in operator.outputs else "contiguous()"
        yield f"{f.name} = {f.name}.{how};"


def case(operator: Operator, version: OperatorVersion, number: int, kernel: str) -> Iterator[str]:
    """The statements that run a version: memory for its outputs, and the launch."""
    yield f"case {number}: {{"
    options = f"{operator.fields[operator.inputs[0]].name}.options()"
    for name, shape in zip(operator.outputs, output_shapes(operator, version, kernel, TORCH), strict=True):
        if name not in operator.inputs:
            kind = version.torch.infos[name].dtype
            dtype = TORCH_TYPES.get(kind.mnemonic, f"UInt{kind.bits}")
            memory = f"at::empty_symint({{{', '.join(shape)}}}, {options}.dtype(at::k{dtype}))"
            yield f"    const at::Tensor {operator.fields[name].name} = {memory};"
    grid, given = f"grid_{version.torch.name}({grid_values(operator)})", ", ".join(tensor_fields(version.torch.fields))
    yield f"    if (binaries != nullptr) {launched(version.torch.name, '*binaries', given, grid)};"
    yield f"    return {{{', '.join(f.name for f in fields(operator, operator.outputs))}}};"
    yield "}"
