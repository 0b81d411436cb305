"""The backward of an operator project: derived kernels, compiled for the launch of a version, and autograd in torch.

A version's backward is a schedule of launches (`AdjointKernel.schedule`) for the shapes, the grid and the whole numbers
that the version was compiled with. Its kernels are versions as the forward ones are: with a launcher, a test and data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any

import numpy as np

from pypto.errors.project import NoOperator
from pypto.gradients.kernel import AdjointKernel, adjoint
from pypto.jit import Kernel
from pypto.runtime.arena import ArrayRef, ScalarRef
from pypto.runtime.launches import LaunchList, LaunchStep
from pypto.tools.project_fields import TEMPLATES, Field, free_names
from pypto.tools.project_torch import (
    TORCH_TYPES,
    TorchVersion,
    indented,
    launched,
    number_value,
    parameter,
    reasons,
    refusal_text,
    tensor_tests,
)


@dataclass(frozen=True)
class Backward:
    """The backward of one version of a kernel.

    Attributes
    ----------
    forward : TorchVersion
        The version.
    grid : tuple of int
        Of its launch.
    arguments : dict
        Of its launch.
    wrt : tuple of str
        Arrays by which it is differentiated.
    stored : tuple of str
        Arrays whose gradients are read, as ``d_NAME``.
    launches : LaunchList
        What it runs.
    versions : tuple
        Its launches compiled, each as a `project.Version`.
    """

    forward: TorchVersion
    grid: tuple[int, ...]
    arguments: Mapping[str, Any]
    wrt: tuple[str, ...]
    stored: tuple[str, ...]
    launches: LaunchList
    versions: tuple[Any, ...]

    @property
    def read(self) -> frozenset[str]:
        """Forward arrays that it reads."""
        refs = (x for step in self.launches.steps for _, x in step.refs)
        return frozenset(x.key for x in refs if isinstance(x, ArrayRef) and x.key in self.forward.infos)


def backward_of(
    kernel: Kernel, wrt: Sequence[str], forward: TorchVersion, grid: tuple[int, ...], arguments: Mapping[str, Any],
    compiled: Callable[[Kernel, str, tuple[int, ...], Mapping[str, Any]], Any],
) -> Backward:  # fmt: skip
    """Derive the backward of a version, and compile its kernels.

    `compiled` compiles a kernel under a name for a grid and arguments, and runs it on the CPU.

    Raises
    ------
    NoOperator
        When a name in `wrt` is no array that the kernel reads only.
    NoGradient
        When the kernel cannot be differentiated.
    """
    back: AdjointKernel = adjoint(kernel, wrt)
    written = [name for name in back.wrt if name in forward.written]
    if written:
        way = "differentiate by arrays that it reads"
        raise NoOperator(kernel=forward.name, problem=f"`{written[0]}` is written, not read", way=way)
    launches, stored = back.schedule(grid, **arguments), back.stored(grid, **arguments)
    values = values_of(launches, stored, back.wrt, arguments)
    versions = []
    for number, step in enumerate(launches.steps):
        refs = dict(step.refs)
        given = {name: refs[name].seen(values) if name in refs else x for name, x in step.arguments.items()}
        version = compiled(step.kernel, f"{forward.name}_backward_{number}", step.grid, given)
        for name, x in refs.items():
            if isinstance(x, ArrayRef):
                values[x.key] = version.expected[name].reshape(values[x.key].shape)
        versions.append(version)
    return Backward(forward, grid, arguments, back.wrt, stored, launches, tuple(versions))


def values_of(
    launches: LaunchList, stored: Sequence[str], wrt: Sequence[str], arguments: Mapping[str, Any]
) -> dict[Any, Any]:
    """The arrays and numbers of a launch list in its test: arguments, gradients of what is stored, and zeros."""
    rng = np.random.default_rng(0)
    gradients = {f"d_{n}": rng.standard_normal(arguments[n].shape).astype(arguments[n].dtype) for n in stored}
    gradients |= {f"d_{n}": np.zeros_like(arguments[n]) for n in wrt}
    buffers = (slot.buffer for slot in launches.arena.slots)
    return {**arguments, **gradients, **{x.key: np.zeros(x.shape, x.dtype.numpy) for x in buffers}}


# --- texts ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BackwardNames:
    """Names of the backward in C++, and what its operator takes: forward arrays, numbers, gradients."""

    arguments: tuple[Field, ...]  # of the forward operator
    read: tuple[Field, ...]
    stored: tuple[Field, ...]
    numbers: tuple[Field, ...]
    cxx: Mapping[str, str]  # by argument, gradient or memory

    @staticmethod
    def of(backwards: Sequence[Backward]) -> BackwardNames:
        """The names of the backward of all versions.

        Raises
        ------
        NoOperator
            When versions store floats to different arrays.
        """
        first = backwards[0]
        if any(b.stored != first.stored for b in backwards):
            way = "let all versions store floats to the same arrays"
            raise NoOperator(kernel=first.forward.name, problem="versions have gradients of different arrays", way=way)
        inputs = first.forward.arguments
        read = frozenset().union(*(b.read for b in backwards))
        others = [f"d_{n}" for n in (*first.stored, *first.wrt)]
        others += [slot.buffer.key for b in backwards for slot in b.launches.arena.slots]
        chosen = {f.slot.arg: f.name for f in inputs}
        arrays = {f.slot.arg: f for f in inputs if f.slot.kind == "ptr"}
        names = free_names([*chosen.values(), *dict.fromkeys(others)], str)
        return BackwardNames(
            inputs,
            tuple(f for name, f in arrays.items() if name in read),
            tuple(arrays[name] for name in first.stored),
            tuple(f for f in inputs if f.slot.kind == "scalar"),
            {**{name: names[name] for name in dict.fromkeys(others)}, **chosen},
        )

    @property
    def tensors(self) -> list[str]:
        """Tensors of the operator, in order."""
        return [f.name for f in self.read] + [self.cxx[f"d_{f.slot.arg}"] for f in self.stored]

    @property
    def parameters(self) -> str:
        """Parameters of the operator."""
        return ", ".join([*(f"const at::Tensor& {name}" for name in self.tensors), *map(parameter, self.numbers)])

    @property
    def unused_parameters(self) -> str:
        """Parameters of a function that may leave some of them unused."""
        return ", ".join(f"[[maybe_unused]] {part}" for part in self.parameters.split(", "))

    @property
    def values(self) -> str:
        return ", ".join([*self.tensors, *(f.name for f in self.numbers)])


def backward_text(name: str, backwards: Sequence[Backward]) -> str:
    """The part of the extension that computes gradients; it is empty where no backward is asked for."""
    if not backwards:
        return ""
    text = Template((TEMPLATES / "torch_backward.cpp.txt").read_text(encoding="utf-8"))
    return text.substitute({"name": name, **gradient_texts(BackwardNames.of(backwards), backwards)})


def backward_headers(backwards: Sequence[Backward]) -> str:
    return "".join(f'#include "{version.name}.h"\n' for b in backwards for version in b.versions)


def gradient_texts(names: BackwardNames, backwards: Sequence[Backward]) -> dict[str, str]:
    """Texts of the template of gradients."""
    first, forward = backwards[0], [f.name for f in names.arguments]
    given = [f"no_gradients_{b.forward.name}({names.values}, grid)" for b in backwards]
    calls = (
        f"if ({test} == nullptr) return gradients_{b.forward.name}({names.values}, binaries);"
        for test, b in zip(given, backwards, strict=True)
    )
    return {
        "gradients": "\n\n".join(text for b in backwards for text in functions(names, b)),
        "parameters": names.parameters,
        "values": names.values,
        "calls": indented(calls, 1),
        "reasons": reasons(given, 16),
        "forward_parameters": ", ".join(map(parameter, names.arguments)),
        "forward_values": ", ".join(forward),
        "saved": ", ".join(f.name for f in names.read),
        "numbers": kept_numbers(names),
        "stored": ", ".join(f.name for f in names.stored),
        "given": given_back(names, range(len(names.stored))),
        "count": str(len(forward) + 2),
        "found": placed(names, first.wrt, forward),
    }


def kept_numbers(names: BackwardNames) -> str:
    return indented((f'context->saved_data["{f.name}"] = {f.name};' for f in names.numbers), 2)


def given_back(names: BackwardNames, gradients: Iterable[int]) -> str:
    """What a backward takes of a function's context: saved arrays, gradients of outputs at these places, numbers."""
    parts = [f"saved[{n}]" for n in range(len(names.read))] + [f"gradients[{n}]" for n in gradients]
    parts += [f'context->saved_data["{f.name}"].{"toDouble" if f.slot.dtype.is_float else "toInt"}()'
              for f in names.numbers]  # fmt: skip
    return ", ".join(parts)


def placed(names: BackwardNames, wrt: Sequence[str], parameters: Sequence[str]) -> str:
    """Statements that put gradients to the places of a function's parameters."""
    return indented((f"all[{parameters.index(names.cxx[x])}] = found[{n}];" for n, x in enumerate(wrt)), 2)


def functions(names: BackwardNames, b: Backward) -> Iterator[str]:
    """The functions of a version: why it has no backward for a launch, for a backward's arguments, and the backward."""
    arrays = [f for f in names.arguments if f.slot.kind == "ptr"]
    pairs = [(f.name, f) for f in arrays]
    forward = ", ".join(f"[[maybe_unused]] {parameter(f)}" for f in names.arguments)
    grid = ", ".join(map(str, (*b.grid, 1, 1)[:3]))
    is_grid = f"grid.equals({{{grid}}})", f"the grid is not {grid}"
    tests = [*derived_tests(names.numbers, b, pairs), is_grid]
    yield refusal_text(f"no_backward_{b.forward.name}", f"{forward}, at::IntArrayRef grid", tests)
    pairs = list(zip(names.tensors, (*names.read, *names.stored), strict=True))
    tests, unused = [*derived_tests(names.numbers, b, pairs), is_grid], names.unused_parameters
    yield refusal_text(f"no_gradients_{b.forward.name}", f"{unused}, at::IntArrayRef grid", tests)
    by_value = unused.replace("const at::Tensor& ", "at::Tensor ")
    head = f"std::vector<at::Tensor> gradients_{b.forward.name}({by_value}, const std::string* binaries) {{"
    yield "\n".join([head, indented(body(names, b), 1), "}"])


def derived_tests(
    numbers: Sequence[Field], b: Backward, pairs: Sequence[tuple[str, Field]]
) -> Iterator[tuple[str, str]]:
    """That arguments are those for which the backward of a version was derived."""
    for x, f in pairs:
        info = b.forward.infos[f.slot.arg]
        shape = ", ".join(map(str, info.shape))
        yield from tensor_tests(x, info)
        yield f"{x}.sym_sizes().equals({{{shape}}})", f"{x} has not the sizes {shape}"
    for f in (f for f in numbers if not f.slot.dtype.is_float):
        number = int(b.arguments[f.slot.arg])
        yield f"{f.name} == {number}", f"{f.name} is not {number}"


def body(names: BackwardNames, b: Backward) -> Iterator[str]:
    """The statements of a backward: memory, launches, gradients."""
    like = names.tensors[0]
    for x in names.tensors:
        yield f"{x} = {x}.contiguous();"
    for n in b.wrt:
        info, how = b.forward.infos[n], "zeros" if f"d_{n}" in b.launches.zeroed else "empty"
        yield f"const at::Tensor {names.cxx[f'd_{n}']} = {allocation(how, info.shape, info.dtype, like)};"
    for slot in b.launches.arena.slots:
        buffer = slot.buffer
        yield f"const at::Tensor {names.cxx[buffer.key]} = {allocation('zeros', buffer.shape, buffer.dtype, like)};"
    for step, one in zip(b.launches.steps, b.versions, strict=True):
        version = one.torch.name
        fields = ", ".join(field_value(names, step, f) for f in one.torch.fields)
        grid = ", ".join(map(str, step.grid))
        yield f"if (binaries != nullptr) {launched(version, '*binaries', fields, f'{{{grid}}}')};"
    yield f"return {{{', '.join(names.cxx[f'd_{n}'] for n in b.wrt)}}};"


def allocation(how: str, shape: Sequence[int], dtype: Any, like: str) -> str:
    return f"at::{how}({{{', '.join(map(str, shape))}}}, {like}.options().dtype(at::k{TORCH_TYPES[dtype.mnemonic]}))"


def field_value(names: BackwardNames, step: LaunchStep, f: Field) -> str:
    """The value of a field of a launcher's record."""
    given = step.arguments[f.slot.arg]
    if f.slot.kind == "ptr":
        assert isinstance(given, ArrayRef)
        return f"{names.cxx[given.key]}.data_ptr()"
    if isinstance(given, ScalarRef):
        return number_value(f, names.cxx[given.key])
    return f.literal
