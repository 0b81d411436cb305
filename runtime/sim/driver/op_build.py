#!/usr/bin/env python3
"""`op_build` of the simulated device: from a library of operator definitions, the two-stage interface in C."""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys

HEADER = """// The interface of the operator {type}: ask for the size of its workspace, then run it.
#pragma once

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {{
#endif

__attribute__((visibility("default")))
aclnnStatus aclnn{type}GetWorkspaceSize({parameters}uint64_t* workspaceSize, aclOpExecutor** executor);
__attribute__((visibility("default")))
aclnnStatus aclnn{type}(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}}
#endif
"""
SOURCE = """#include "aclnn_{snake}.h"

#include "aclnn/aclnn_base.h"

aclnnStatus aclnn{type}GetWorkspaceSize({parameters}uint64_t* workspaceSize, aclOpExecutor** executor) {{
    const aclTensor* const ascsim_input_list[] = {{{inputs}nullptr}};
    const AscsimAttribute ascsim_attribute_list[] = {{{attributes}{{0, 0}}}};
    const aclTensor* const ascsim_output_list[] = {{{outputs}nullptr}};
    return ascsim_prepare("{type}", ascsim_input_list, {input_num}, ascsim_attribute_list, {attribute_num},
                          ascsim_output_list, {output_num}, workspaceSize, executor);
}}

aclnnStatus aclnn{type}(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {{
    return ascsim_execute(workspace, workspaceSize, executor, stream);
}}
"""
NUMBERS = {"int": "int64_t", "float": "double", "bool": "bool"}
VALUES = {"int": "{{{0}, 0}}", "float": "{{0, {0}}}", "bool": "{{{0}, 0}}"}


def snake(name: str) -> str:
    """The name of an operator's file and kernel: its type in lower case, with underscores where words begin."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def check(operator: dict) -> None:
    """Refuse a definition that the toolkit could not serve."""
    arrays = [*operator["inputs"], *operator["outputs"]]
    names = [x["name"] for x in (*arrays, *operator["attributes"])]
    for name in (operator["type"], *names):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"{name!r} is no name")
    if len(set(parameters(operator))) != len(parameters(operator)):
        raise ValueError(f"two parameters of {operator['type']} have one name")
    if not operator["outputs"] or not operator["tiling"] or not operator["units"]:
        raise ValueError(f"{operator['type']} needs outputs, a tiling function and a configuration of a chip")
    if len({len(x["types"]) for x in arrays}) != 1 or any(x["formats"] != len(x["types"]) for x in arrays):
        raise ValueError(f"all arrays of {operator['type']} need as many types and formats as there are combinations")


def parameters(operator: dict) -> list[str]:
    """Names of the interface's parameters: an output that is an input, too, is one of them."""
    inputs, outputs = [[x["name"] for x in operator[kind]] for kind in ("inputs", "outputs")]
    numbers = [x["name"] for x in operator["attributes"]]
    results = [name for name in outputs if name not in inputs]
    return [*(f"{name}Ref" if name in outputs else name for name in inputs), *numbers, *results]


def texts(operator: dict) -> dict[str, str]:
    """What the templates take."""
    inputs, outputs = [[x["name"] for x in operator[kind]] for kind in ("inputs", "outputs")]
    names = {name: f"{name}Ref" if name in outputs else name for name in inputs}
    typed = [f"const aclTensor* {name}" for name in names.values()]
    typed += [f"{NUMBERS[x['kind']]} {x['name']}" for x in operator["attributes"]]
    typed += [f"const aclTensor* {name}" for name in outputs if name not in inputs]
    return {
        "type": operator["type"],
        "snake": snake(operator["type"]),
        "parameters": "".join(f"{text}, " for text in typed),
        "inputs": "".join(f"{name}, " for name in names.values()),
        "outputs": "".join(f"{names.get(name, name)}, " for name in outputs),
        "attributes": "".join(VALUES[x["kind"]].format(x["name"]) + ", " for x in operator["attributes"]),
        "input_num": len(inputs),
        "attribute_num": len(operator["attributes"]),
        "output_num": len(outputs),
    }


def main(library: str, folder: str) -> int:
    root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    registry = ctypes.CDLL(os.path.join(root, "lib64", "libnnopbase.so"), ctypes.RTLD_GLOBAL)
    ctypes.CDLL(os.path.realpath(library), ctypes.RTLD_GLOBAL)
    registry.ascsim_operators.restype = ctypes.c_char_p
    try:
        for operator in json.loads(registry.ascsim_operators()):
            check(operator)
            values = texts(operator)
            for template, end in ((HEADER, "h"), (SOURCE, "cpp")):
                path = os.path.join(folder, f"aclnn_{values['snake']}.{end}")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(template.format(**values))
            with open(os.path.join(folder, f"{operator['type']}.units"), "w", encoding="utf-8") as file:
                file.write(";".join(operator["units"]))
    except (ValueError, KeyError) as error:
        print(f"op_build: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*[x for x in sys.argv[1:] if not x.startswith("--")][:2]))
