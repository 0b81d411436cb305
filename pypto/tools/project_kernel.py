"""The device side of an operator project: versions as functions, and the kernel that a tiling key chooses one for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pypto.errors import CompilerBug
from pypto.tools.project_fields import Field
from pypto.tools.project_operator import Operator, OperatorVersion, attribute

_HEAD: Final = re.compile(
    r'extern "C" __global__ (?P<kind>__\w+__(?:\(1, (?P<ratio>\d)\))?) __aicore__ void \w+\((?P<params>[^)]*)\) \{'
)
_PARAM: Final = re.compile(r"(?P<type>\w+) (?:/\* (?P<unused>\w+) \*/|(?P<name>\w+))")
_INCLUDE: Final = '#include "kernel_operator.h"\n'
_TASKS: Final = MappingProxyType({"vector": "KERNEL_TYPE_AIV_ONLY", "cube": "KERNEL_TYPE_AIC_ONLY"})


@dataclass(frozen=True)
class Parts:
    """The text of a version, taken apart: qualifier and parameters of its kernel, what is before and what behind."""

    kind: str
    ratio: str
    params: tuple[tuple[str, str], ...]  # types and names
    before: str
    head: str
    body: str


def parts_of(text: str) -> Parts:
    """Take a kernel's text apart.

    Raises
    ------
    CompilerBug
        When it has not one kernel as the code generator writes it.
    """
    flat = list(_HEAD.finditer(re.sub(r",\s+", ", ", text)))
    if len(flat) != 1 or not text.startswith(_INCLUDE):
        raise CompilerBug("a kernel's text has another head than the code generator writes")
    parts, start = flat[0], text.index('extern "C" __global__')
    params = tuple((p["type"], p["name"] or p["unused"]) for p in _PARAM.finditer(parts["params"]))
    before = text[len(_INCLUDE) : start].strip("\n")
    body = text[text.index(") {", start) + 3 :]
    return Parts(parts["kind"], parts["ratio"] or "", params, before, parts["params"], body)


def namespace(version: OperatorVersion) -> str:
    """The namespace of a version's function; its name alone is that of the kernel."""
    return f"{version.torch.name}_version"


def function_text(version: OperatorVersion) -> str:
    """A version as a function in a namespace, so that versions stand beside one another."""
    parts = parts_of(version.code.text)
    head = version.code.wrapped(f"__aicore__ inline void run({parts.head}) {{", opens=" run(")
    name = namespace(version)
    lines = ["#pragma once", "", _INCLUDE.rstrip(), "", f"namespace {name} {{", parts.before, "", *head]
    return "\n".join(lines) + parts.body + f"\n}}  // namespace {name}\n"


def direct_text(version: OperatorVersion, symbol: str) -> str:
    """The kernel of a launch without a tiling function: the version's function with the launch's arguments."""
    parts, name = parts_of(version.code.text), version.torch.name
    params = ", ".join(f"{kind} {text}" for kind, text in parts.params)
    head = version.code.wrapped(
        f'extern "C" __global__ {parts.kind} __aicore__ void {symbol}({params}) {{', opens=f" {symbol}("
    )
    call = version.code.wrapped(
        f"    {namespace(version)}::run({', '.join(text for _, text in parts.params)});", opens="run("
    )
    return "\n".join([f'#include "../../op_kernel/{name}.h"', "", *head, *call, "}", ""])


def kernel_facts(operator: Operator) -> dict[str, str]:
    """Texts of the kernel and of the record that the tiling function fills in."""
    inputs = [operator.fields[name].name for name in operator.inputs]
    outputs = [f"/* {operator.fields[n].name} */" if n in operator.inputs else operator.fields[n].name
               for n in operator.outputs]  # fmt: skip
    versions = operator.versions
    branches = [branch(version, number) for number, version in enumerate(versions, 1)]
    return {
        "headers": "\n".join(f'#include "{v.torch.name}.h"' for v in versions),
        "arrays": "".join(f"GM_ADDR {name}, " for name in (*inputs, *outputs)),
        "task": task(versions[0]),
        "branches": " else ".join(branches),
        "plan_fields": "\n".join(f"    {ctype} {name};" for name, ctype in plan_fields(operator).items()),
    }


def plan_fields(operator: Operator) -> dict[str, str]:
    """Fields of the record, with those of 64 bits first."""
    every = {f.name: plan_type(f) for v in operator.versions for f in v.torch.fields if f.slot.kind != "ptr"}
    return dict(sorted(every.items(), key=lambda item: item[1] == "float"))


def plan_type(f: Field) -> str:
    return "float" if f.slot.kind == "scalar" and attribute(f) == "Float" else "int64_t"


def task(version: OperatorVersion) -> str:
    """The kind of cores of a version."""
    kind = version.code.kind
    return _TASKS[kind] if kind in _TASKS else f"KERNEL_TYPE_MIX_AIC_1_{parts_of(version.code.text).ratio}"


def branch(version: OperatorVersion, key: int) -> str:
    """The call of a version under its tiling key."""
    call = version.code.wrapped(f"        {namespace(version)}::run({', '.join(arguments(version))});", opens="run(")
    lines = [f"if (TILING_KEY_IS({key})) {{", f"        KERNEL_TASK_TYPE({key}, {task(version)});", *call, "    }"]
    return "\n".join(lines)


def arguments(version: OperatorVersion) -> Iterator[str]:
    """What the kernel passes to a version: arrays, numbers of the plan, the grid, the workspace."""
    params = parts_of(version.code.text).params
    for f, (ctype, _) in zip(version.torch.fields, params, strict=False):
        if f.slot.kind == "ptr":
            yield f.name
        elif f.slot.kind != "scalar" or ctype in ("float", "int64_t"):
            yield f"plan.{f.name}"
        else:
            yield f"ToBfloat16(plan.{f.name})" if ctype == "bfloat16_t" else f"static_cast<{ctype}>(plan.{f.name})"
    yield from ("plan.grid_x", "plan.grid_y", "plan.grid_z")
    if len(params) > len(version.torch.fields) + 3:
        yield "GetUserWorkspace(workspace)" if version.code.workspace else "workspace"
