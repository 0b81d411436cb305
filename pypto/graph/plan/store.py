"""Plans in the disk cache: a second process traces a function and reads its plan.

The key is the traced graph, the layouts of its inputs, and everything that decides how groups are made and compiled.
An entry has the text of the plan's steps and the machine code of its kernels, each with the facts of the launch that
it was compiled for. An entry that is damaged, or does not fit the graph, is made anew.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pypto.errors import PyptoError
from pypto.graph.ir.node import Graph, Node
from pypto.graph.plan.plan import Plan, Versions
from pypto.graph.plan.plan_text import read_steps, steps_text
from pypto.graph.plan.stored_kernel import Facts, stored_version
from pypto.graph.schedule.layout import Layouts
from pypto.process import get_num_threads
from pypto.runtime.disk_cache.sources import package_files
from pypto.runtime.mode import MODE, PLAIN

if TYPE_CHECKING:
    from pypto.runtime.disk_cache.cache import CacheKey

Array = np.ndarray[Any, Any]
_FORMAT: Final = "3"
_UNFIT: Final = (PyptoError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)


def key_of_plan(graph: Graph, layouts: Layouts, precision: str, disabled: tuple[str, ...] = ()) -> CacheKey | None:
    """What a plan depends on; None where plans are not kept: on a device, in the interpreter, under checks."""
    from pypto.compile import session
    from pypto.options import KernelOptions
    from pypto.runtime.disk_cache.cache import CacheKey

    shared, options = session(), KernelOptions()
    if shared.settings.cache == "off" or not compiles_here() or not package_files():
        return None
    strides = repr([layouts.given[x] for x in graph.inputs])
    parts = ("graph", fingerprint(graph)), ("strides", strides), ("precision", precision), ("disabled", repr(disabled))
    machine = ("threads", str(get_num_threads())), *shared.backend(options).key_parts()
    head = ("format", f"plan {_FORMAT}"), ("sources", package_files())
    return CacheKey((*head, *parts, *machine, ("options", repr(options))))


def compiles_here() -> bool:
    """Whether kernels are compiled for this machine: not on a device, in the interpreter, or under checks."""
    from pypto.compile import session

    shared = session()
    if shared.settings.interpret or shared.settings.checked:
        return False
    return MODE.get() is PLAIN and shared.devices.default is None


def fingerprint(graph: Graph) -> str:
    """All of a graph, with the lines that stand in its kernels, as a hash.

    Of functions that run between kernels only which calls are of the same one counts: a plan holds those of the graph.
    """
    numbers = {node: n for n, node in enumerate(graph.live())}
    functions: dict[int, int] = {}
    digest = hashlib.sha256(repr((graph.name, graph.dims, [numbers[n] for n in graph.outputs])).encode())
    for node in graph.live():
        operands = [numbers[x] for x in node.inputs]
        attrs = node.attrs if not node.is_call else called(node, functions)
        digest.update(repr((node.op, operands, attrs, str(node.type), line_of(node))).encode())
    return digest.hexdigest()


def called(node: Node, functions: dict[int, int]) -> tuple[int, int]:
    """Which of a graph's functions a node is a result of, and which result it is."""
    return functions.setdefault(id(node.attr("function")), len(functions)), node.attr("result")


def line_of(node: Node) -> tuple[str, int]:
    """The file and the line that a kernel's text names."""
    place = node.place
    if place is None:
        return "", 0
    code = getattr(place, "code", None)
    file = str(getattr(place, "file", "")) if code is None else code.co_filename
    return os.path.basename(file), place.line  # called for every node


# --- storing -------------------------------------------------------------------------------------------------------


def store_plan(key: CacheKey, plan: Plan, versions: Versions) -> None:
    """Keep a plan whose kernels have been compiled."""
    from pypto.compile import session

    kernels, codes = [], []
    for kernel in plan.kernels:
        version = versions[kernel.kernel]
        codes.append(version.program.artifact.to_bytes())
        kernels.append({**Facts.of(kernel.name, version).plain(), "bytes": len(codes[-1])})
    head = json.dumps({"steps": steps_text(plan), "kernels": kernels}).encode()
    session().cache.put(key, len(head).to_bytes(8, "little") + head + b"".join(codes))


def load_plan(key: CacheKey, graph: Graph, fixed: dict[Node, Array]) -> Plan | None:
    """The plan that was kept for a graph, with its kernels ready to be launched; None where there is none that fits."""
    from pypto.compile import session

    data = session().cache.get(key)
    if data is None:
        return None
    try:
        return plan_of(data, graph, fixed)
    except _UNFIT:  # made by someone else: it is made anew, and replaced
        return None


def plan_of(data: bytes, graph: Graph, fixed: dict[Node, Array]) -> Plan:
    end = 8 + int.from_bytes(data[:8], "little")
    head = json.loads(data[8:end])
    plan = read_steps(head["steps"], graph)
    plan.fixed.update(fixed)
    check_shapes(plan)
    kernels = {kernel.name: kernel.kernel for kernel in plan.kernels}
    for row in head["kernels"]:
        code = data[end : end + row["bytes"]]
        end += row["bytes"]
        kernel = kernels[row["name"]]
        group, version = stored_version(kernel, Facts.from_plain(row), code)
        known = kernel.known.setdefault(group, [])
        if not any(v.guard == version.guard and v.noalias == version.noalias for v in known):
            known.append(version)
    if {row["name"] for row in head["kernels"]} != kernels.keys():
        raise ValueError("a kernel has no code")
    plan.is_compiled = True
    return plan


def check_shapes(plan: Plan) -> None:
    """Refuse arguments that are not the array of their node in another shape."""
    for step in plan.steps:
        for a in step.arguments:
            if math.prod(a.shape) != a.node.type.size:
                raise ValueError(f"{a.name} is no view of {a.node}")
