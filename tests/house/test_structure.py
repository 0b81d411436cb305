"""No circles of imports, no large classes, and no more state that is set from other files than there is."""

from __future__ import annotations

import ast
from collections import Counter
from types import MappingProxyType

import pytest

from tests.house.structure import (
    Imports,
    back_edges,
    circles,
    class_sizes,
    imports,
    outside_stores,
    trees,
)

METHODS = 25
FIELDS = 15
Files = dict[str, ast.Module]
Found = dict[str, Imports]

# Imports for types of what imports a module when it is loaded, by the module that they name.
TYPES = MappingProxyType(
    {
        "pypto.backends.ascend.rules.emitter": "rules are written against the emitter that runs them",
        "pypto.backends.ascend.rules.lane_rules": "temporaries belong to the rule that runs",
        "pypto.backends.cpu.codegen.function": "techniques emit into the function that uses them",
        "pypto.backends.cpu.codegen.nest": "techniques emit into the nest that uses them",
        "pypto.backends.cpu.codegen.values": "the tiling of transposes asks how elements are computed",
        "pypto.backends.cpu.gemm.emitted_operands": "an epilogue stores what a product emitted",
        "pypto.backends.cpu.peepholes.lane_emitter": "peepholes emit through the emitter that calls them",
        "pypto.backends.cpu.gemm.ir": "an epilogue is part of a product, and emits one",
        "pypto.backends.cpu.gemm.macro_kernel": "variants of a product emit into its macro-kernel",
        "pypto.backends.llvm.lane_emitter": "conversions emit through the emitter that calls them",
        "pypto.graph.capture.reads": "what is read from outside is noted where the function asks for it",
        "pypto.backends.cpu.loopir.allocate": "Loop IR names the buffers that it was built with",
        "pypto.backends.cpu.loopir.use_sets": "Loop IR keeps the use sets that passes have asked for",
        "pypto.backends.cpu.loopir.build": "library ops are built into the schedule that loads them",
        "pypto.backends.cpu.loopir.fusion": "interchange asks the fuser that calls it",
        "pypto.compat.triton.kernels": "a compiled kernel names the kernel that it is of",
        "pypto.gradients.kernel": "a card shows the adjoint that it is of",
        "pypto.ir.types": "a type asks the launch for what the launch was asked",
        "pypto.jit.kernel": "versions and variants are of the kernel that asks for them",
        "pypto.ops.build": "rows build ops with the builder that reads rows",
        "pypto.profiler.rows": "a profile makes its rows, which belong to it",
        "pypto.tuning.autotune": "candidates are timed for the autotuner that asks",
    }
)
# Circles of modules that load each other inside of functions, by one of their modules.
LAZY = MappingProxyType(
    {
        "pypto": "the magic of notebooks is loaded where there is a notebook",
        "pypto.backends.ascend.backend": "explanations are loaded when one is asked for",
        "pypto.backends.ascend.toolchain.rtc": "the run-time compiler is one of the toolkit's compilers",
        "pypto.backends.ascend.vector.builder": "handlers of ops lower further ops",
        "pypto.backends.cpu.codegen.function": "library ops are loaded with the first kernel that needs them",
        "pypto.backends.cpu.instrument.hooks": "checks are loaded with the first checked kernel",
        "pypto.debug.explain": "cards are made where a notebook shows an explanation",
        "pypto.frontend.calls": "element accesses are loaded with the first kernel that has one",
        "pypto.graph.lazy.arrays": "a lazy array names its namespace, which makes lazy arrays",
        "pypto.ir.types": "a type asks the launch for what the launch was asked",
        "pypto.profiler.profile": "tables and timelines are made when they are asked for",
        "pypto.runtime.specialization": "versions warn, and are counted where one is added",
    }
)
# Classes beyond the walls, each with the reason for which it is one.
LARGE = MappingProxyType(
    {
        "pypto/backends/ascend/rules/emitter.py:VectorEmitter": "one method for each operation that rules may use",
        "pypto/backends/ascend/rules/scalars.py:ScalarEmitter": "one method for each operation that rules may use",
        "pypto/backends/ascend/target.py:AscendTarget": "one field for each fact about a chip",
        "pypto/backends/ascend/timing/core.py:CoreTime": "the state of a core: one field for each unit and counter",
        "pypto/backends/ascend/vector/builder.py:Lowering": "what handlers of all ops share",
        "pypto/backends/cpu/codegen/function.py:FunctionEmitter": "what all nests of a function share",
        "pypto/backends/cpu/codegen/memory.py:MemoryEmitter": "all kinds of loads and stores",
        "pypto/backends/cpu/codegen/nest.py:NestEmitter": "what all loops of a nest share",
        "pypto/backends/cpu/gemm/blocking.py:BlockingFacts": "one field for each figure that blocking rests on",
        "pypto/backends/cpu/gemm/ir.py:Gemm": "one field for each fact about a product",
        "pypto/backends/cpu/gemm/micro_kernel.py:MicroTile": "one field for each fact about a register tile",
        "pypto/backends/cpu/gemm/packing.py:PackEmitter": "all forms of packing",
        "pypto/backends/cpu/instrument/bounds.py:Checks": "one method for each kind of check",
        "pypto/backends/llvm/lane_emitter.py:LaneEmitter": "one method for each operation that rules may use",
        "pypto/compat/triton/kernels.py:JITFunction": "one attribute for each that programs read of Triton's class",
        "pypto/frontend/unparse.py:_Unparser": "one method for each kind of op",
        "pypto/graph/capture/reads.py:Reads": "one method for each kind of value that is read",
        "pypto/graph/codegen/writer.py:Writer": "the state of a kernel that is written",
        "pypto/graph/loops/expressions.py:Expressions": "one method for each kind of expression",
        "pypto/graph/ir/dims.py:Size": "one method for each operator of integers",
        "pypto/graph/tracing/tensor.py:Tensor": "one method for each operator and attribute of arrays",
        "pypto/jit/kernel.py:Kernel": "what users do with a kernel",
        "pypto/library/row.py:Operator": "one field for each fact about an operator",
        "pypto/ops/adjoint.py:Expression": "one method for each operator",
        "pypto/ops/emitter.py:Emitter": "one method for each operation that rules may use",
        "pypto/ops/row.py:OpRow": "one field for each fact about an op",
        "pypto/passes/adjoint/sweep.py:ReverseSweep": "one method for each kind of op",
        "pypto/profiler/rows.py:ProfileRow": "one field for each figure of a row",
        "pypto/tuning/autotune.py:Autotuner": "what users do with an autotuner",
        "pypto/tuning/search.py:Search": "the state of a search",
        "pypto/torch/operators/definition.py:OperatorDefinition": "one field for each fact that torch is told",
    }
)
# Attributes that a file sets and does not declare, by room: these may only fall.
OUTSIDE = {
    "arrays": 2, "backends": 131, "cli": 1, "compat": 2, "compile.py": 1, "debug": 6, "frontend": 14, "gradients": 1,
    "graph": 34, "ir": 4, "jit": 3, "language": 2, "notebook": 1, "passes": 2, "process.py": 1, "quant": 3,
    "runtime": 4, "tools": 1, "torch": 6, "tuning": 12,
}  # fmt: skip


@pytest.fixture(scope="module")
def files() -> Files:
    return trees("pypto")


@pytest.fixture(scope="module")
def imported(files: Files) -> Found:
    return imports(files)


def test_no_circle_when_modules_are_loaded(imported: Found) -> None:
    assert circles({name: found.runtime for name, found in imported.items()}) == []


def test_circles_inside_of_functions_are_listed(imported: Found) -> None:
    found = circles({name: found.runtime | found.inner for name, found in imported.items()})
    unknown = [circle for circle in found if not LAZY.keys() & set(circle)]
    assert unknown == []
    assert {name for circle in found for name in circle} >= LAZY.keys(), "a circle has gone: take it off the list"


def test_back_edges_for_types_are_listed(imported: Found) -> None:
    found = back_edges(imported)
    assert [(a, b) for a, b in found if b not in TYPES] == []
    assert {b for _, b in found} == TYPES.keys(), "a back edge has gone: take it off the list"


def test_large_classes_are_listed(files: Files) -> None:
    large = {size.name for size in class_sizes(files) if size.methods > METHODS or size.fields > FIELDS}
    assert large == LARGE.keys()


def test_state_that_is_set_from_other_files_only_gets_less(files: Files) -> None:
    found = outside_stores(files)
    rooms: Counter[str] = Counter()
    for file, count in found.items():
        rooms[file.split("/")[1]] += count
    assert rooms <= Counter(OUTSIDE), "\n".join(f"{count} {file}" for file, count in found.most_common())


def test_circles_and_back_edges_of_a_graph() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert circles({"a": {"b"}, "b": set()}) == []
    found = {"a": Imports(runtime={"b"}), "b": Imports(types={"a", "c"}), "c": Imports()}
    assert back_edges(found) == [("b", "a")]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("import pypto.b", "runtime"),
        ("from pypto import b", "runtime"),
        ("if TYPE_CHECKING:\n    from pypto.b import x", "types"),
        ("def f():\n    from pypto.b import x", "inner"),
        ("try:\n    import pypto.b\nexcept ImportError:\n    pass", "runtime"),
    ],
)
def test_kinds_of_imports(text: str, kind: str) -> None:
    found = imports({"pypto/a.py": ast.parse(text), "pypto/b.py": ast.parse("")})["pypto.a"]
    assert {name for name in ("runtime", "types", "inner") if "pypto.b" in getattr(found, name)} == {kind}


def test_attributes_that_are_set_from_outside() -> None:
    one = ast.parse("class A:\n    x: int\n    y: int\n\n    def f(self):\n        self.z = 1\n")
    other = ast.parse("def g(a, b):\n    a.x = 1\n    b.own = 2\n    with temporarily(a, y=1, z=2):\n        pass\n")
    assert outside_stores({"a.py": one, "b.py": other}) == {"b.py": 3}
    assert [(size.methods, size.fields) for size in class_sizes({"a.py": one})] == [(1, 3)]


def test_the_graph_compiler_decides_by_records_and_not_by_text(files: Files) -> None:
    """Only the parser of plans has regular expressions where plans and schedules are made."""
    rooms = ("pypto/graph/schedule/", "pypto/graph/plan/")
    reading = {file for file, tree in files.items() if file.startswith(rooms) for name in loaded(tree) if name == "re"}
    assert reading == {"pypto/graph/plan/plan_text.py"}


def loaded(tree: ast.AST) -> list[str]:
    """The modules that a file imports by name."""
    nodes = list(ast.walk(tree))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return [*names, *(node.module or "" for node in nodes if isinstance(node, ast.ImportFrom))]
