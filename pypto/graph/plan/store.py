"""The disk cache of plans: a later process traces a function and loads its plan with compiled kernels.

The key is the traced graph, the layouts of its inputs, and every setting that changes groups or machine code. An entry
has the text of the plan's steps and the machine code of its kernels, each with the facts of the launch that it was
compiled for. A damaged entry, or one that does not fit the graph, is replaced.
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
from pypto.graph.schedule.group import Layouts
from pypto.process import get_num_threads
from pypto.runtime.disk_cache.sources import package_files
from pypto.runtime.mode import MODE, PLAIN

if TYPE_CHECKING:
    from pypto.runtime.disk_cache.cache import CacheKey

Array = np.ndarray[Any, Any]
_FORMAT: Final = "3"
_UNFIT: Final = (PyptoError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)


def key_of_plan(graph: Graph, layouts: Layouts, precision: str, disabled: tuple[str, ...] = ()) -> CacheKey | None:
    """Return the cache key of a plan, or None on a device, in the interpreter and under checks."""
    from pypto.compile import session
    from pypto.options import KernelOptions
    from pypto.runtime.disk_cache.cache import CacheKey

    shared, options = session(), KernelOptions()
    if not compiles_here() or not package_files():
        return None
    strides = repr([layouts.given[x] for x in graph.inputs])
    updates = repr([(graph.inputs.index(x), graph.outputs.index(new)) for x, new in layouts.updates.items()])
    arrays = ("graph", fingerprint(graph)), ("strides", strides), ("updates", updates)
    parts = *arrays, ("precision", precision), ("disabled", repr(disabled))
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
    """Hash a graph, with the line comments of its kernels.

    Functions that run between kernels count only by which calls share a function: a plan takes them from the graph.
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
    """Return the number of the function that a node is a result of, and the number of the result."""
    return functions.setdefault(id(node.attr("function")), len(functions)), node.attr("result")


def line_of(node: Node) -> tuple[str, int]:
    """Return the file and the line that a kernel's source names for a node."""
    place = node.place
    if place is None:
        return "", 0
    code = getattr(place, "code", None)
    file = str(getattr(place, "file", "")) if code is None else code.co_filename
    return os.path.basename(file), place.line  # called for every node


# --- storing -------------------------------------------------------------------------------------------------------


def store_plan(key: CacheKey, plan: Plan, versions: Versions) -> None:
    """Store a plan whose kernels are compiled."""
    from pypto.compile import session

    kernels, codes = [], []
    for kernel in plan.kernels:
        version = versions[kernel.kernel]
        codes.append(version.program.artifact.to_bytes())
        kernels.append({**Facts.of(kernel.name, version).plain(), "bytes": len(codes[-1])})
    head = json.dumps({"steps": steps_text(plan), "kernels": kernels}).encode()
    session().cache.put(key, len(head).to_bytes(8, "little") + head + b"".join(codes))


def load_plan(key: CacheKey, graph: Graph, fixed: dict[Node, Array]) -> Plan | None:
    """Load the stored plan of a graph with its compiled kernels, or return None if no entry fits."""
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
    """Refuse arguments whose shape is no reshape of their node's array."""
    for step in plan.steps:
        for a in step.arguments:
            if math.prod(a.shape) != a.node.type.size:
                raise ValueError(f"{a.name} is no view of {a.node}")
