"""The operators of the torch extension: their definitions, and what autograd does in a call of each form.

Where no backward was asked for, an array that requires a gradient is an error and loses nothing silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from string import Template
from typing import Final

from pypto.errors.project import NoOperator
from pypto.tools.project_backward import (
    Backward,
    BackwardNames,
    backward_headers,
    backward_text,
    derived_tests,
    given_back,
    kept_numbers,
    placed,
)
from pypto.tools.project_call import call_parameters, call_schema, call_texts, grid_values, is_offered
from pypto.tools.project_fields import TEMPLATES
from pypto.tools.project_operator import Operator, OperatorVersion
from pypto.tools.project_torch import indented, parameter, reasons, refusal_text, schema, schema_number

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}", re.ASCII)
_TAKEN: Final = ("aten", "prim", "prims")


def extension_texts(
    operator: Operator, kernel: str, name: str, namespace: str, backwards: Sequence[Backward]
) -> dict[str, str]:
    """Texts of the operators.

    Parameters
    ----------
    operator : Operator
        Its arrays, numbers and versions.
    kernel, name : str
        The kernel's name in Python and in C++.
    namespace : str
        Of the allocating form.
    backwards : sequence of Backward
        One for each version, or none.
    """
    space, names = namespace_of(namespace, kernel, name), BackwardNames.of(backwards) if backwards else None
    texts = {"autograd": backward_text(name, backwards), "call": "", "call_with_gradients": ""}
    if is_offered(operator):
        texts["call"] = call_texts(operator, kernel, name, space)
        if names is not None:
            texts["autograd"] += called_text(operator, names, backwards)
        texts["call_with_gradients"] = call_with_gradients(operator, name, backwards)
    return {
        **texts,
        **page_texts(operator, name, space),
        "autograd_headers": backward_headers(backwards),
        "launch_checks": indented(launch_checks(operator, name, names, backwards), 2),
        "bumped": indented(map(changed, outputs_of(operator)), 1),
        "definitions": "\n".join(definitions(operator, name, space, names)),
    }


def namespace_of(requested: str, kernel: str, name: str) -> str:
    """The namespace of the allocating form; without a wish it is that of the launch in place.

    Raises
    ------
    NoOperator
        When it is no name, or one that torch has for something else.
    """
    space = requested or f"{name}_torch"
    if not _NAME.fullmatch(space) or space in _TAKEN:
        raise NoOperator(
            kernel=kernel,
            problem=f"{space!r} can be no namespace of operators of torch",
            way="choose letters, digits and underscores, as in `op_api`",
        )
    return space


def page_texts(operator: Operator, name: str, space: str) -> dict[str, str]:
    """What the page of the project says of the operators."""
    in_place, first = f"torch.ops.{name}_torch.launch", operator.versions[0]
    arrays, grid = ", ".join(f.name for f in first.torch.arguments), ", ".join(map(str, (*first.grid, 1, 1)[:3]))
    launch = f"{in_place}({arrays}, '', [{grid}])"
    if not is_offered(operator):
        why = "No array is an input, by which torch finds the device, so there is no form that gives new tensors."
        return {"operators": f"`{in_place}`", "offered": in_place, "example": launch, "torch_forms": f"{why}\n"}
    call = f"torch.ops.{space}.{operator.name}"
    example = f"{call}({', '.join(f.name for f in call_parameters(operator))})"
    forms = f"`{call}` gives new tensors. `{launch}` writes to tensors that are given. For kernels in another folder,\n"
    forms += "pass its name as `binaries`.\n"
    both = f"{call} and {in_place}"
    return {"operators": f"`{call}` and `{in_place}`", "offered": both, "example": example, "torch_forms": forms}


def definitions(operator: Operator, name: str, space: str, names: BackwardNames | None) -> Iterator[str]:
    """Statements that register the operators."""
    library = f"{name}_torch"
    launch = schema(operator.versions[0].torch)
    backward = ""
    if names is not None:
        words = [*(f"Tensor {x}" for x in names.tensors), *(f"{schema_number(f)} {f.name}" for f in names.numbers)]
        taken_words = ", ".join([*words, "str binaries, int[3] grid"])
        backward = f' library.def("backward({taken_words}) -> Tensor[]");'
    yield f'TORCH_LIBRARY({library}, library) {{ library.def("launch({launch}) -> ()");{backward} }}'
    yield implementation(library, "PrivateUse1", "launch", "launch")
    yield implementation(library, "Meta", "launch", "check")
    yield implementation(library, "Autograd", "launch", "launch_with_gradients")
    if names is not None:
        yield implementation(library, "PrivateUse1", "backward", "backward")
        yield implementation(library, "Meta", "backward", "backward_on_meta")
    if is_offered(operator):
        text = call_schema(operator).replace('"', '\\"')
        yield f'TORCH_LIBRARY_FRAGMENT({space}, library) {{ library.def("{text}"); }}'
        for key, function in (
            ("PrivateUse1", "computed_on_npu"), ("Meta", "computed_on_meta"), ("Autograd", "computed_with_gradients"),
        ):  # fmt: skip
            yield implementation(space, key, operator.name, function)


def implementation(space: str, key: str, operator: str, function: str) -> str:
    return f'TORCH_LIBRARY_IMPL({space}, {key}, library) {{ library.impl("{operator}", &{function}); }}'


# --- what autograd does -----------------------------------------------------------------------------------------------


def outputs_of(operator: Operator) -> list[str]:
    """Arrays that the launch in place writes, as C++ names, in the kernel's order."""
    written = frozenset().union(*(v.torch.written for v in operator.versions))
    return [f.name for f in operator.versions[0].torch.arguments if f.slot.arg in written]


def floats(operator: Operator, arrays: Sequence[str], wrt: Sequence[str]) -> list[str]:
    """Arrays of floats by which there is no gradient, as C++ names."""

    def is_float(version: OperatorVersion, name: str) -> bool:
        return bool(version.torch.infos[name].dtype.is_float)

    missing = (n for n in arrays if n not in wrt and any(is_float(v, n) for v in operator.versions))
    return sorted(operator.fields[n].name for n in missing)


def wrt_of(backwards: Sequence[Backward]) -> tuple[str, ...]:
    return backwards[0].wrt if backwards else ()


def launch_checks(
    operator: Operator, name: str, names: BackwardNames | None, backwards: Sequence[Backward]
) -> Iterator[str]:
    """Statements of the launch in place while autograd records."""
    written, wrt = outputs_of(operator), wrt_of(backwards)
    arrays = [f.slot.arg for f in operator.versions[0].arrays if f.name not in written]
    yield from map(no_history, written)
    yield from map(not_asked, floats(operator, arrays, wrt))
    if names is not None:
        values = ", ".join(f.name for f in names.arguments)
        tests = [f"no_backward_{b.forward.name}({values}, grid)" for b in backwards]
        stored = {f.name for f in names.stored}
        run = [f"Launch::apply({values}, binaries, grid.vec());"]
        run += [*map(changed, (x for x in written if x not in stored)), "return;"]
        yield from where_wanted(operator, name, wrt, tests, run)


def where_wanted(
    operator: Operator, name: str, wrt: Sequence[str], tests: Sequence[str], run: Sequence[str]
) -> Iterator[str]:
    """Statements for a call of which a gradient is wanted: the check that there is a backward for it, and the call."""
    wanted = " || ".join(f"{operator.fields[x].name}.requires_grad()" for x in wrt)
    yield f"if ({wanted}) {{"
    yield f"    TORCH_CHECK({' || '.join(f'{test} == nullptr' for test in tests)}, " + (
        f'"no backward of {name} takes these arguments:",'
    )
    yield f"{' ' * 16}{reasons(tests, 24)});"
    yield from (f"    {line}" for line in run)
    yield "}"


def call_with_gradients(operator: Operator, name: str, backwards: Sequence[Backward]) -> str:
    """The allocating form while autograd records."""
    every, wrt = call_parameters(operator), wrt_of(backwards)
    values = ", ".join(f.name for f in every)
    lines = list(map(not_asked, floats(operator, operator.inputs, wrt)))
    if backwards:
        tests = [f"uncalled_{b.forward.name}({values})" for b in backwards]
        lines += where_wanted(operator, name, wrt, tests, [f"return packed(Called::apply({values}, binaries));"])
    checks = ["if (at::GradMode::is_enabled()) {", *(f"    {line}" for line in lines), "}"] if lines else []
    head = f"Results computed_with_gradients({', '.join(map(parameter, every))}, const std::string& binaries) {{"
    return "\n".join(["\n", head, indented([*checks, f"return computed_below({values}, binaries);"], 1), "}"])


def called_text(operator: Operator, names: BackwardNames, backwards: Sequence[Backward]) -> str:
    """The function of autograd of the allocating form, and why it has no backward for some inputs."""
    every = call_parameters(operator)
    pairs = [(f.name, f) for f in every if f.slot.kind == "ptr"]
    parameters = ", ".join(f"[[maybe_unused]] {parameter(f)}" for f in every)
    uncalled = (
        refusal_text(f"uncalled_{b.forward.name}", parameters, derived_tests(names.numbers, b, pairs))
        for b in backwards
    )
    text = Template((TEMPLATES / "torch_call_backward.cpp.txt").read_text(encoding="utf-8"))
    forward = [f.name for f in every]
    results = {name: f"all[{n}]" for n, name in enumerate(operator.outputs)}
    count = len(operator.outputs)
    facts: Mapping[str, str] = {
        "uncalled": "\n\n".join(uncalled),
        "call_parameters": ", ".join(map(parameter, every)),
        "call_values": ", ".join(forward),
        "unpacked": "results" if count == 1 else ", ".join(f"std::get<{n}>(results)" for n in range(count)),
        "call_saved": ", ".join(results.get(f.slot.arg, f.name) for f in names.read),
        "numbers": kept_numbers(names),
        "grid_values": grid_values(operator, results),
        "call_given": given_back(names, (operator.outputs.index(f.slot.arg) for f in names.stored)),
        "call_count": str(len(forward) + 1),
        "call_found": placed(names, wrt_of(backwards), forward),
    }
    return text.substitute(facts)


def no_history(x: str) -> str:
    """The check that an output is no result of something that has a gradient, which would be lost."""
    says = f"{x} is written, so it must not require a gradient before: pass a new tensor"
    return f'TORCH_CHECK(!{x}.requires_grad(), "{says}");'


def not_asked(x: str) -> str:
    """The check that nobody waits for a gradient that was not asked for when the project was made."""
    return f'TORCH_CHECK(!{x}.requires_grad(), "the project has no gradient by {x}: name it in --adjoint");'


def changed(x: str) -> str:
    return f"if (!{x}.is_inference()) torch::autograd::impl::bump_version({x});"
